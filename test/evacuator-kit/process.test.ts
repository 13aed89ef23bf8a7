import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { parse, stringify } from 'yaml';
import type { KubeObject, Pod } from '../../api/core.ts';
import { EvacuationController } from '../../controllers/evacuation.ts';
import { runEvacuator } from '../../evacuator-kit/index.ts';
import { EventRecorder } from '../../kube/events.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { type Kubectl, kubectlOf, succeeds } from '../api/kubectl.ts';
import { silentLog, testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

// The example of the README, with the rights of its manifest, as a program of its own.

const repository = fileURLToPath(new URL('../..', import.meta.url));
const example = join(repository, 'evacuator-kit', 'example.ts');
const manifest = join(repository, 'evacuator-kit', 'rbac.yaml');
const account = 'my-evacuator';
const annotation = 'evacuation.coordination.k8s.io/priority_migrate.example.com';
const records = 600;
const data = Object.fromEntries(Array.from({ length: records }, (_, index) => [`key-${index}`, 'value']));

const configMaps: Resource<KubeObject & { data?: Record<string, string>; immutable?: boolean }> = {
  group: '',
  version: 'v1',
  plural: 'configmaps',
  kind: 'ConfigMap',
  namespaced: true,
};

const run = promisify(execFile);

let sandbox: Sandbox;
let c: TestCluster;
let kubectl: Kubectl;
let dir: string;
let stopController: () => Promise<void>;
const children: ChildProcess[] = [];

beforeAll(async () => {
  sandbox = await testSandbox();
  kubectl = kubectlOf(sandbox);
  c = await testCluster(sandbox, { prefix: 'author' });
  dir = await mkdtemp(join(tmpdir(), 'nm-author-'));
  await succeeds(kubectl(['apply', '-f', manifest]));
  stopController = startController();
}, 120_000);

afterEach(async () => {
  for (const child of children.splice(0)) await ended(child);
});

afterAll(async () => {
  await stopController?.();
  if (kubectl) await kubectl(['delete', '--ignore-not-found', '--wait=false', '-f', manifest]);
  await c?.close();
  await rm(dir, { recursive: true, force: true });
  await releaseSandbox(sandbox);
}, 60_000);

function startController(): () => Promise<void> {
  const running = new AbortController();
  const events = new EventRecorder({ kube: c.cluster.kube, component: 'test', log: silentLog });
  const controller = new EvacuationController({ cluster: c.cluster, events, log: silentLog });
  const finished = controller.run(running.signal);
  return async () => {
    running.abort();
    await finished;
  };
}

/** A kubeconfig for a ServiceAccount, as a pod of it would have. */
async function kubeconfigOf(namespace: string, name: string): Promise<string> {
  const token = (await succeeds(kubectl(['create', 'token', name, '-n', namespace]))).trim();
  const config = parse(await readFile(sandbox.kubeconfig, 'utf8')) as {
    users: { user: object }[];
    contexts: { context: { namespace?: string } }[];
  };
  for (const entry of config.users) entry.user = { token };
  for (const { context } of config.contexts) context.namespace = namespace;
  const path = join(dir, `${namespace}-${name}.kubeconfig`);
  await writeFile(path, stringify(config));
  return path;
}

interface Program {
  log(): string;
  /** As a rollout would; resolves with the exit code. */
  stop(): Promise<number | null>;
}

async function started(program: string, args: string[] = []): Promise<Program> {
  const env = { ...process.env, KUBECONFIG: await kubeconfigOf(account, account), NODE_OPTIONS: '' };
  const child = spawn(process.execPath, [...args, program], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  children.push(child);
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (chunk: Buffer) => {
      output += chunk.toString();
    });
  await eventually('the evacuator to start', () => expect(output).toContain('Evacuator started'));
  return { log: () => output, stop: () => ended(child) };
}

/** As it gives its Lease back, the next one need not wait for it. */
async function ended(child: ChildProcess): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
  const exited = once(child, 'exit');
  child.kill();
  const [code] = await exited;
  return code as number | null;
}

/** A pod with data that are to be elsewhere before it goes. */
async function podWithData(target: { immutable?: boolean } = {}): Promise<Pod> {
  const namespace = await c.namespaceNamed(c.named('data'));
  const pod = await c.podOn(await c.nodeNamed('n'), {
    namespace,
    annotations: { [annotation]: '5000/migrator' },
  });
  await c.admin.create(configMaps, { metadata: { name: `${pod.metadata.name}-data`, namespace }, data });
  await c.admin.create(configMaps, { metadata: { name: 'migrated-data', namespace }, ...target });
  return pod;
}

/** One that is asked to leave. Resolves with what its Evacuation said. */
async function migrated(): Promise<{ messages: string[]; finishTimes: string[] }> {
  const pod = await podWithData();
  const { namespace } = pod.metadata;
  const messages: string[] = [];
  const finishTimes: string[] = [];
  const end = c.cluster.evacuations.subscribe(({ object: { spec, status } }) => {
    if (spec.podRef.uid !== pod.metadata.uid || status === undefined) return;
    if (messages.at(-1) !== status.message) messages.push(status.message);
    if (status.expectedEvacuationFinishTime) finishTimes.push(status.expectedEvacuationFinishTime);
  });
  await c.applied(c.evacuation(pod));
  await eventually(
    'the pod to be gone',
    () => expect(c.cluster.pods.get(`${namespace}/${pod.metadata.name}`)).toBeUndefined(),
    { within: 50_000 },
  );
  end();
  const target = await c.admin.get(configMaps, { namespace, name: 'migrated-data' });
  expect(target?.data).toEqual(data);
  return { messages, finishTimes };
}

const progressed = expect.stringMatching(new RegExp(`^Migrated [1-9]\\d* of ${records} records$`));

describe('the example of the README', () => {
  test('moves the data of a pod before it is evicted, with progress for all to see, and stops when it is told', async () => {
    const program = await started(example, ['--conditions=node-maintenance-source']);
    const { messages, finishTimes } = await migrated();
    expect(messages).toContainEqual(progressed);
    expect(messages.findIndex((one) => one === `Migrated all ${records} records`)).toBeGreaterThan(0);
    expect(finishTimes.length).toBeGreaterThan(0);
    expect(await program.stop()).toBe(0);
    expect(program.log()).toContain('Evacuator stopped');
  });

  test('loses its turn at the deadline when it always fails', async () => {
    const program = await started(example, ['--conditions=node-maintenance-source']);
    const pod = await podWithData({ immutable: true });
    const evacuation = c.evacuation(pod);
    await c.applied({ ...evacuation, spec: { ...evacuation.spec, progressDeadlineSeconds: 5 } });
    await c.eventuallyGone(pod);
    expect(program.log()).toContain('Evacuation failed, trying again');
  });

  test('is tried as the README says', async () => {
    const namespace = await c.namespaceNamed(c.named('try'));
    const [objects = '', rights = '', request = ''] = await stepsOfReadme();
    await succeeds(kubectl(['apply', '-n', namespace, '-f', await fileWith('try.yaml', objects)]));
    await asReader(namespace, rights);
    await started(example, ['--conditions=node-maintenance-source']);
    await asReader(namespace, request);
    await eventually('the pod to be gone', async () =>
      expect(await c.admin.get(resources.pods, { namespace, name: 'db-0' })).toBeUndefined(),
    );
    const target = await c.admin.get(configMaps, { namespace, name: 'migrated-data' });
    expect(target?.data).toEqual({ 'user-1': 'ada', 'user-2': 'grace' });
  });

  test('acts in one of its replicas at a time, and another goes on when that one is told to stop', async () => {
    const args = ['--conditions=node-maintenance-source'];
    const replicas = [await started(example, args), await started(example, args)];
    await migrated();
    const acted = replicas.filter((replica) => replica.log().includes('Evacuation begun'));
    expect(acted).toHaveLength(1);
    await acted[0]?.stop();
    await migrated();
    expect(replicas.every((replica) => replica.log().includes('Evacuation completed'))).toBe(true);
  });

  test('runs from the package that npm makes, with its types', async () => {
    const project = join(dir, 'project');
    await installed(project);
    await copyFile(example, join(project, 'evacuator.ts'));
    await writeFile(join(project, 'package.json'), '{ "type": "module" }');
    expect(await typeErrors(project)).toEqual([]);
    await started(join(project, 'evacuator.ts'));
    const { messages } = await migrated();
    expect(messages).toContainEqual(progressed);
  }, 120_000);
});

/** What its section "Try it" has in blocks of YAML and shell. */
async function stepsOfReadme(): Promise<string[]> {
  const readme = await readFile(join(repository, 'evacuator-kit', 'README.md'), 'utf8');
  const blocks = readme.matchAll(/^ {3}```(?:yaml|sh)\n(.*?)^ {3}```$/gms);
  return [...blocks].map(([, block = '']) => block.replaceAll(/^ {3}/gm, ''));
}

async function fileWith(name: string, text: string): Promise<string> {
  await writeFile(join(dir, name), text);
  return join(dir, name);
}

/** In a shell whose current namespace is this one. */
async function asReader(namespace: string, script: string): Promise<void> {
  const config = parse(await readFile(sandbox.kubeconfig, 'utf8')) as {
    contexts: { context: { namespace?: string } }[];
  };
  for (const { context } of config.contexts) context.namespace = namespace;
  const KUBECONFIG = await fileWith('reader.kubeconfig', stringify(config));
  const PATH = `${sandbox.bin}:${process.env['PATH']}`;
  await run('bash', ['-e', '-o', 'pipefail', '-c', script], {
    cwd: repository,
    env: { ...sandbox.env, PATH, KUBECONFIG, HOME: dir },
  });
}

/** As `npm install <tarball>` does; what the package depends on is linked. */
async function installed(project: string): Promise<void> {
  const modules = join(project, 'node_modules');
  await mkdir(join(modules, 'node-maintenance'), { recursive: true });
  await run('npm', ['pack', '--pack-destination', dir], { cwd: repository });
  const tarball = join(dir, 'node-maintenance-0.1.0.tgz');
  await run('tar', ['-xzf', tarball, '-C', join(modules, 'node-maintenance'), '--strip-components=1']);
  for (const name of ['@kubernetes', '@types', 'undici', 'zod'])
    await symlink(join(repository, 'node_modules', name), join(modules, name), 'dir');
}

/** Of the program and of the package; those of other packages are theirs. */
async function typeErrors(project: string): Promise<string[]> {
  const options = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2024', '--types', 'node'];
  const tsc = join(repository, 'node_modules', '.bin', 'tsc');
  const { stdout } = await run(tsc, [...options, 'evacuator.ts'], { cwd: project }).catch(
    (error: { stdout: string }) => error,
  );
  return stdout
    .split('\n')
    .filter((line) => line.startsWith('evacuator.ts') || line.includes('node_modules/node-maintenance/'));
}

describe('an evacuator says in one line what keeps it from starting', () => {
  const options = { evacuatorClass: 'test.example.com', evacuate: async () => undefined, log: silentLog };

  test('a class that is no DNS subdomain', async () => {
    const bad = { ...options, kubeconfig: sandbox.kubeconfig, evacuatorClass: 'Not_a_class' };
    await expect(runEvacuator(bad)).rejects.toThrow('evacuatorClass "Not_a_class" is no DNS subdomain');
  });

  test('no kubeconfig', async () => {
    await expect(runEvacuator({ ...options, kubeconfig: '/nowhere' })).rejects.toThrow(
      'kubeconfig /nowhere does not exist: set KUBECONFIG',
    );
  });

  test('missing rights, with the rules to add', async () => {
    const kubeconfig = await kubeconfigOf(c.namespace, 'default');
    const everywhere = runEvacuator({ ...options, kubeconfig });
    await expect(everywhere).rejects.toThrow(
      'to a ClusterRole the rule {apiGroups: ["evacuation.coordination.k8s.io"], resources: [evacuations/status], verbs: [patch]}',
    );
    await expect(everywhere).rejects.toThrow(
      `to a Role in namespace ${c.namespace} the rule {apiGroups: ["coordination.k8s.io"], resources: [leases], verbs: [get, create, patch]}`,
    );
    await expect(runEvacuator({ ...options, kubeconfig, namespace: c.namespace })).rejects.toThrow(
      `to a Role in namespace ${c.namespace} the rule {apiGroups: [""], resources: [pods], verbs: [get, list, watch]}`,
    );
  });

  test('a cluster without Evacuations', async () => {
    const bare = await testSandbox({ install: false });
    try {
      await expect(runEvacuator({ ...options, kubeconfig: bare.kubeconfig })).rejects.toThrow(
        'this cluster has no Evacuations: install node-maintenance',
      );
    } finally {
      await releaseSandbox(bare);
    }
  }, 120_000);
});
