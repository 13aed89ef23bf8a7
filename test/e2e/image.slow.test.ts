import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { readCpu } from '../../bench/cpu.ts';
import { readMemoryMb } from '../../bench/memory.ts';
import { deployedNodeOptions } from '../../scripts/tools.ts';
import { Containerd } from '../kit/containers.ts';
import { eventually } from '../kit/eventually.ts';
import { missingForContainers, withContainers } from '../kit/realNodes.ts';
import { createWorld, drained, type World } from '../kit/world.ts';
import { freePort } from '../../worker/http.ts';

const image = 'docker.io/library/node-maintenance:0.1.0';
let dir: string;
let archive: string;
let containerd: Containerd | undefined;
let world: World | undefined;
let printed: string;

beforeAll(async () => {
  if (missingForContainers !== undefined) return;
  dir = mkdtempSync(join(tmpdir(), 'nm-image-'));
  archive = join(dir, 'image.oci.tar');
  ({ stdout: printed } = await promisify(execFile)('npm', ['run', '-s', 'image', '--', '--output', archive]));
  containerd = await Containerd.start(join(dir, 'containerd'));
  await containerd.import(archive);
});

afterAll(async () => {
  await world?.close();
  await containerd?.stop();
  if (missingForContainers === undefined) rmSync(dir, { recursive: true, force: true });
});

const run = (...command: string[]) =>
  containerd?.output({ image, name: `program-${crypto.randomUUID()}`, command: ['node', ...command] });

withContainers('npm run image prints the sizes, and writes a bill of materials', async () => {
  expect(printed).toMatch(/^ {2}archive {2}\S+ \(\d+ MB\)\n {2}image {4}\d+ MB unpacked$/m);
  expect(statSync(archive).size).toBeLessThan(120_000_000);
  const unpacked = Number(/(\d+) MB unpacked/.exec(printed)?.[1]);
  expect(unpacked).toBeLessThanOrEqual(250);
  const sbom = JSON.parse(readFileSync(join(dir, 'image.cdx.json'), 'utf8')) as {
    bomFormat: string;
    components: { name: string; version: string }[];
  };
  expect(sbom.bomFormat).toBe('CycloneDX');
  const names = sbom.components.map(({ name }) => name);
  expect(names).toEqual(
    expect.arrayContaining(['node', 'libc6', '@temporalio/core-bridge', 'undici', 'pino']),
  );
  // They are needed to build the image only.
  expect(names).not.toEqual(expect.arrayContaining(['webpack']));
  expect(names).not.toEqual(expect.arrayContaining(['jest']));
});

withContainers('the image contains the other programs', async () => {
  expect(await run('/app/worker/codecServer.js', '--help')).toContain('codec-server');
  expect(await run('/app/worker/replay.js', '--help')).toContain('replay');
  expect(await run('/app/temporal-config/main.js', '--help')).toContain('temporal-config');
  expect(await run('/app/cli/main.js', '--help')).toContain('kubectl maintenance');
});

/** A container of the worker, as deploy/worker runs it. */
interface StartedWorker {
  pid: number;
  /** Time from the request for the container to the first 200 of /readyz. */
  startMs: number;
}

async function startWorker(name: string): Promise<StartedWorker> {
  if (containerd === undefined || world === undefined) throw new Error('containers cannot run here');
  const { sandbox } = world;
  const [health, metrics, webhook] = [await freePort(), await freePort(), await freePort()];
  const startedAt = performance.now();
  const pid = await containerd.start({
    image,
    name,
    folders: { '/config': join(dir, 'config') },
    env: {
      NODE_OPTIONS: deployedNodeOptions(),
      KUBECONFIG: '/config/worker',
      ADMISSION_KUBECONFIG: '/config/admission',
      TEMPORAL_ADDRESS: sandbox.temporalAddress,
      TEMPORAL_NAMESPACE: sandbox.temporalNamespace,
      HEALTH_PORT: String(health),
      METRICS_PORT: String(metrics),
      WEBHOOK_PORT: String(webhook),
    },
  });
  await eventually('the worker to be ready', async () => {
    const answer = await fetch(`http://127.0.0.1:${health}/readyz`).catch(() => undefined);
    expect({ status: answer?.status, log: logOf(name).slice(-2_000) }).toMatchObject({ status: 200 });
  });
  return { pid, startMs: performance.now() - startedAt };
}

const logOf = (name: string) => readFileSync(containerd?.logOf(name) ?? '', 'utf8');

withContainers('its worker drains a node as user 65532 without a writable file system', async () => {
  world = await createWorld({ nodes: 3 });
  const config = join(dir, 'config');
  mkdirSync(config);
  copyFileSync(world.sandbox.workerKubeconfig, join(config, 'worker'));
  copyFileSync(world.sandbox.admissionKubeconfig, join(config, 'admission'));
  await promisify(execFile)('chown', ['-R', '65532', config]);
  const { pid } = await startWorker('worker');
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  expect(/^Uid:\s+(.*)$/m.exec(status)?.[1]?.split('\t')).toEqual(['65532', '65532', '65532', '65532']);
  await world.placePods('node-1', 3);
  await world.apply('image', { nodes: ['node-1'], stage: 'Drain' });
  await world.eventually('image', 'the node to be drained', drained);
  expect(await world.podsOn('node-1')).toEqual([]);
  expect(logOf('worker')).not.toMatch(/EROFS|EACCES|MODULE_NOT_FOUND/);
  await containerd?.end('worker');
  // Only lines of Temporal's SDK may follow, which keeps them for a moment.
  expect(logOf('worker')).toMatch(/"msg":"Stopped"\}\s*(?:\{.*"sdkComponent":"worker".*\}\s*)*$/);
});

/** More than the worker has in docs/performance.md with some hundred nodes. */
const maxMemoryMb = 350;

withContainers('its worker is ready after less than four seconds of CPU time, and small', async () => {
  const starts: { cpuSeconds: number; memoryMb: number }[] = [];
  for (const name of ['first', 'second', 'third']) {
    const { pid, startMs } = await startWorker(name);
    const { worker: cpuSeconds = Infinity } = readCpu({ worker: pid });
    const memoryMb = readMemoryMb(pid, 'VmRSS') ?? Infinity;
    starts.push({ cpuSeconds, memoryMb });
    process.stderr.write(
      `Ready ${(startMs / 1_000).toFixed(1)} s after the start of the container, with ${cpuSeconds.toFixed(1)} s of CPU time and ${Math.round(memoryMb)} MB\n`,
    );
    await containerd?.end(name);
  }
  for (const { memoryMb } of starts) expect(memoryMb).toBeLessThan(maxMemoryMb);
  expect(Math.min(...starts.map(({ cpuSeconds }) => cpuSeconds))).toBeLessThan(4);
});
