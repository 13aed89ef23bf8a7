import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { type Kubectl, kubectlOf, succeeds } from '../api/kubectl.ts';
import { ExecutedDocument, testParts } from '../kit/executedDocument.ts';
import { type Listing, partsOf } from '../kit/transcript.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, type World } from '../kit/world.ts';

const guides = ['kubectl-drain', 'kured', 'system-upgrade-controller', 'node-maintenance-operator'].map(
  (peer) => {
    const path = `docs/how-to/migrate-from-${peer}.md`;
    const text = readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
    return { peer, path, text, parts: partsOf(text) };
  },
);

let world: World;
let worker: WorkerProcess;
let kubectl: Kubectl;

beforeAll(async () => {
  // The guides change what is installed.
  world = await createWorld({ nodes: 6, ownServers: true });
  worker = startWorker(world.sandbox);
  await worker.ready();
  kubectl = kubectlOf(world.sandbox);
  await succeeds(kubectl(['label', 'node', 'node-1', 'node-2', 'rack=7']));
  const others = ['node-3', 'node-4', 'node-5', 'node-6'];
  await succeeds(kubectl(['cordon', ...others]));
  for (const object of web()) await succeeds(kubectl(['apply', '-f', '-'], object));
  await succeeds(kubectl(['rollout', 'status', 'deployment', 'web', '--namespace', 'default']));
  await succeeds(kubectl(['uncordon', ...others]));
});

afterAll(async () => {
  await worker?.kill();
  await world?.close();
});

/** An application whose pods may be lost one at a time. */
function web(): object[] {
  const labels = { app: 'web' };
  const metadata = { name: 'web', namespace: 'default' };
  const template = {
    metadata: { labels },
    spec: { containers: [{ name: 'main', image: 'none' }] },
  };
  return [
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata,
      spec: { replicas: 4, selector: { matchLabels: labels }, template },
    },
    {
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      metadata,
      spec: { selector: { matchLabels: labels }, maxUnavailable: 1 },
    },
  ];
}

/** The CRD of node-maintenance-operator, by the names that matter. */
const nodeMaintenancesOfMedik8s = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'nodemaintenances.nodemaintenance.medik8s.io' },
  spec: {
    group: 'nodemaintenance.medik8s.io',
    scope: 'Cluster',
    names: {
      kind: 'NodeMaintenance',
      plural: 'nodemaintenances',
      singular: 'nodemaintenance',
      shortNames: ['nm'],
    },
    versions: [
      {
        name: 'v1beta1',
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
      },
    ],
  },
};

describe.each(guides)('each step of $path does what it shows:', ({ peer, text, parts }) => {
  let guide: ExecutedDocument;

  beforeAll(async () => {
    guide = await ExecutedDocument.in(world, peer);
    // Its commands are those of a checkout.
    await symlink(fileURLToPath(new URL('../../deploy', import.meta.url)), join(guide.directory, 'deploy'));
    // Its short name is the same: in the other guides it would be ambiguous.
    if (peer === 'node-maintenance-operator')
      await succeeds(kubectl(['apply', '-f', '-'], nodeMaintenancesOfMedik8s));
  });

  testParts(parts, () => guide);

  test('every object of this project is applied', () => {
    const blocks = [...text.matchAll(/^```yaml\n# (\S+)/gm)].map(([, name = '']) => name);
    expect(text.match(/^```yaml$/gm) ?? []).toHaveLength(blocks.length);
    const names = blocks.filter((name) => name !== 'before');
    for (const name of names) expect(text).toContain(`$ kubectl apply -f ${name}\n`);
    expect(names.length).toBeGreaterThan(0);
  });
});

describe('the script that reboots a node', () => {
  let dir: string;
  let script: string;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'nm-reboot-'));
    await mkdir(join(dir, 'bin'));
    await mkdir(join(dir, 'state'));
    for (const [name, content] of [
      ['nsenter', 'echo "$@" >>"$DIR/reboots"'],
      ['sleep', ':'],
      ['sync', ':'],
    ] as const) {
      await writeFile(join(dir, 'bin', name), `#!/bin/sh\n${content}\n`);
      await chmod(join(dir, 'bin', name), 0o755);
    }
    const listings = guides.flatMap(({ parts }) => parts).filter((part) => 'listing' in part);
    const { text } = listings
      .map(({ listing }) => listing)
      .find(({ name }) => name === 'reboots.yaml') as Listing;
    const { spec } = parse(text) as {
      spec: {
        work: { job: { template: { spec: { containers: [{ command: [string, string, string] }] } } } };
      };
    };
    script = spec.work.job.template.spec.containers[0].command[2]
      .replaceAll('/state', join(dir, 'state'))
      .replaceAll('/proc/sys/kernel/random/boot_id', join(dir, 'boot'));
  });

  afterAll(() => rm(dir, { recursive: true, force: true }));

  /** Runs the container of a pod on a node that was started as `boot`, and returns its exit code. */
  async function run(pod: string, boot: string): Promise<number> {
    await writeFile(join(dir, 'boot'), `${boot}\n`);
    const env = { PATH: `${join(dir, 'bin')}:${process.env['PATH']}`, POD_UID: pod, DIR: dir };
    return promisify(execFile)('sh', ['-euc', script], { env }).then(
      () => 0,
      ({ code }: { code: number }) => code,
    );
  }

  const reboots = async () =>
    (await readFile(join(dir, 'reboots'), 'utf8').catch(() => '')).split('\n').filter((line) => line !== '');

  test('reboots, and succeeds in the same pod after the reboot', async () => {
    expect(await run('a', 'first')).toBe(1);
    expect(await reboots()).toEqual(['--target 1 --mount -- systemctl reboot']);
    expect(await run('a', 'second')).toBe(0);
    expect(await reboots()).toHaveLength(1);
  });

  test('reboots again in a container that was restarted without a reboot, and in another pod', async () => {
    expect(await run('b', 'second')).toBe(1);
    expect(await run('b', 'second')).toBe(1);
    expect(await run('c', 'third')).toBe(1);
    expect(await reboots()).toHaveLength(4);
    expect(await run('c', 'fourth')).toBe(0);
  });
});
