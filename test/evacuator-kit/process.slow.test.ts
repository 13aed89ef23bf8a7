import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { parse, stringify } from 'yaml';
import type { KubeObject, Pod } from '../../api/core.ts';
import { EvacuationController } from '../../controllers/evacuation/evacuation.ts';
import { runEvacuator } from '../../evacuator-kit/index.ts';
import { EventRecorder } from '../../kube/events.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { type Kubectl, kubectlOf, succeeds } from '../api/kubectl.ts';
import { kubeconfigOf } from '../kit/account.ts';
import { silentLog, testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { projectWithPackage, typeErrors } from '../kit/package.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

// Runs the example of the README as a separate process with the permissions of its manifest.

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
});

afterEach(async () => {
  for (const child of children.splice(0)) await terminate(child);
});

afterAll(async () => {
  await stopController?.();
  if (kubectl) await kubectl(['delete', '--ignore-not-found', '--wait=false', '-f', manifest]);
  await c?.close();
  await rm(dir, { recursive: true, force: true });
  await releaseSandbox(sandbox);
});

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

interface Program {
  log(): string;
  /** Stops the process like a rollout. Resolves with the exit code. */
  stop(): Promise<number | null>;
}

async function startProgram(program: string, args: string[] = []): Promise<Program> {
  const env = {
    ...process.env,
    KUBECONFIG: await kubeconfigOf(sandbox, { namespace: account, name: account }, dir),
    NODE_OPTIONS: '',
  };
  const child = spawn(process.execPath, [...args, program], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  children.push(child);
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (chunk: Buffer) => {
      output += chunk.toString();
    });
  await eventually('the evacuator to start', () => expect(output).toContain('Evacuator started'));
  return { log: () => output, stop: () => terminate(child) };
}

/** Terminates the process gracefully. It releases its Lease, so that the next process need not wait. */
async function terminate(child: ChildProcess): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
  const exited = once(child, 'exit');
  child.kill();
  const [code] = await exited;
  return code as number | null;
}

/** Creates a pod and its data, which must be copied before it is evicted. */
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

/** Evacuates a pod with data. Returns the messages and finish times of its Evacuation. */
async function migratePod(): Promise<{ messages: string[]; finishTimes: string[] }> {
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
  await eventually('the pod to be gone', () =>
    expect(c.cluster.pods.get(`${namespace}/${pod.metadata.name}`)).toBeUndefined(),
  );
  end();
  const target = await c.admin.get(configMaps, { namespace, name: 'migrated-data' });
  expect(target?.data).toEqual(data);
  return { messages, finishTimes };
}

const progressed = expect.stringMatching(new RegExp(`^Migrated [1-9]\\d* of ${records} records$`));

describe('the example of the README', () => {
  test('copies the data of a pod before it is evicted, reports progress, and stops on SIGTERM', async () => {
    const program = await startProgram(example, ['--conditions=node-maintenance-source']);
    const { messages, finishTimes } = await migratePod();
    expect(messages).toContainEqual(progressed);
    expect(messages.findIndex((one) => one === `Migrated all ${records} records`)).toBeGreaterThan(0);
    expect(finishTimes.length).toBeGreaterThan(0);
    expect(await program.stop()).toBe(0);
    expect(program.log()).toContain('Evacuator stopped');
  });

  test('is replaced by the eviction API at the deadline when it always fails', async () => {
    const program = await startProgram(example, ['--conditions=node-maintenance-source']);
    const pod = await podWithData({ immutable: true });
    const evacuation = c.evacuation(pod);
    await c.applied({ ...evacuation, spec: { ...evacuation.spec, progressDeadlineSeconds: 15 } });
    await c.eventuallyGone(pod);
    expect(program.log()).toContain('Evacuation failed, trying again');
  });

  test('works with the steps of the README', async () => {
    const namespace = await c.namespaceNamed(c.named('try'));
    const [objects = '', permissions = '', request = ''] = await stepsOfReadme();
    await succeeds(kubectl(['apply', '-n', namespace, '-f', await fileWith('try.yaml', objects)]));
    await asReader(namespace, permissions);
    await startProgram(example, ['--conditions=node-maintenance-source']);
    await asReader(namespace, request);
    await eventually('the pod to be gone', async () =>
      expect(await c.admin.get(resources.pods, { namespace, name: 'db-0' })).toBeUndefined(),
    );
    const target = await c.admin.get(configMaps, { namespace, name: 'migrated-data' });
    expect(target?.data).toEqual({ 'user-1': 'ada', 'user-2': 'grace' });
  });

  test('acts in one replica at a time, and another one takes over when that one stops', async () => {
    const args = ['--conditions=node-maintenance-source'];
    const replicas = [await startProgram(example, args), await startProgram(example, args)];
    await migratePod();
    const acted = replicas.filter((replica) => replica.log().includes('Evacuation started'));
    expect(acted).toHaveLength(1);
    await acted[0]?.stop();
    await migratePod();
    expect(replicas.every((replica) => replica.log().includes('Evacuation completed'))).toBe(true);
  });

  test('runs from the npm package, with its types', async () => {
    const project = await projectWithPackage(dir);
    await copyFile(example, join(project, 'evacuator.ts'));
    expect(await typeErrors(project, 'evacuator.ts')).toEqual([]);
    await startProgram(join(project, 'evacuator.ts'));
    const { messages } = await migratePod();
    expect(messages).toContainEqual(progressed);
  });
});

/** Returns the YAML and shell blocks of the numbered steps. */
async function stepsOfReadme(): Promise<string[]> {
  const readme = await readFile(join(repository, 'evacuator-kit', 'README.md'), 'utf8');
  const blocks = readme.matchAll(/^ {3}```(?:yaml|sh)\n(.*?)^ {3}```$/gms);
  return [...blocks].map(([, block = '']) => block.replaceAll(/^ {3}/gm, ''));
}

async function fileWith(name: string, text: string): Promise<string> {
  await writeFile(join(dir, name), text);
  return join(dir, name);
}

/** Runs a script in a shell whose current namespace is this one. */
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

describe('an evacuator exits at start with a one-line error for', () => {
  const options = { evacuatorClass: 'test.example.com', evacuate: async () => undefined, log: silentLog };

  test('a class that is not a DNS subdomain', async () => {
    const bad = { ...options, kubeconfig: sandbox.kubeconfig, evacuatorClass: 'Not_a_class' };
    await expect(runEvacuator(bad)).rejects.toThrow('evacuatorClass "Not_a_class" is not a DNS subdomain');
  });

  test('no kubeconfig', async () => {
    await expect(runEvacuator({ ...options, kubeconfig: '/nowhere' })).rejects.toThrow(
      'kubeconfig /nowhere does not exist: set KUBECONFIG',
    );
  });

  test('missing permissions, with the rules to add', async () => {
    const kubeconfig = await kubeconfigOf(sandbox, { namespace: c.namespace, name: 'default' }, dir);
    const everywhere = runEvacuator({ ...options, kubeconfig });
    await expect(everywhere).rejects.toThrow(
      'to a ClusterRole the rule {apiGroups: ["evacuation.coordination.k8s.io"], resources: [evacuations/status], verbs: [patch]}',
    );
    await expect(everywhere).rejects.toThrow(
      `to a Role in namespace ${c.namespace} the rule {apiGroups: ["coordination.k8s.io"], resources: [leases], verbs: [get, list, watch, create, patch]}`,
    );
    await expect(runEvacuator({ ...options, kubeconfig, namespace: c.namespace })).rejects.toThrow(
      `to a Role in namespace ${c.namespace} the rule {apiGroups: [""], resources: [pods], verbs: [get, list, watch]}`,
    );
  });

  test('a cluster without the Evacuation API', async () => {
    const bare = await testSandbox({ install: false });
    try {
      await expect(runEvacuator({ ...options, kubeconfig: bare.kubeconfig })).rejects.toThrow(
        'this cluster has no Evacuation API: install node-maintenance',
      );
    } finally {
      await releaseSandbox(bare);
    }
  });
});
