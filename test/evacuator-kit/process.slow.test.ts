import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
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
import { freePort } from '../../worker/http.ts';
import { eventually } from '../kit/eventually.ts';
import { npm, type Project, projectWith, typeErrors } from '../kit/package.ts';
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
  page(path: string): Promise<{ status: number; body: string }>;
}

async function startProgram(program: string, args: string[] = []): Promise<Program> {
  const [health, metrics] = [await freePort(), await freePort()];
  const env = {
    ...process.env,
    HEALTH_PORT: String(health),
    METRICS_PORT: String(metrics),
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
  return {
    log: () => output,
    stop: () => terminate(child),
    page: async (path) => {
      const response = await fetch(`http://127.0.0.1:${path === '/metrics' ? metrics : health}${path}`);
      return { status: response.status, body: await response.text() };
    },
  };
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
    const logging = (message: string) => replicas.filter((replica) => replica.log().includes(message));
    await migratePod();
    await eventually('the evacuation to be logged', () =>
      expect(logging('Evacuation completed')).toHaveLength(1),
    );
    const [acted, ...others] = logging('Evacuation started');
    expect(others).toEqual([]);
    await acted?.stop();
    await migratePod();
    await eventually('the other one to log its evacuation', () =>
      expect(logging('Evacuation completed')).toEqual(replicas),
    );
  });

  test('says whether it is ready, and counts its calls', async () => {
    const replicas = await Promise.all(
      [1, 2].map(() => startProgram(example, ['--conditions=node-maintenance-source'])),
    );
    for (const { page } of replicas) {
      expect(await page('/healthz')).toEqual({ status: 200, body: 'ok\n' });
      await eventually('it to be ready', async () =>
        expect(await page('/readyz')).toEqual({ status: 200, body: 'ok\n' }),
      );
    }
    await migratePod();
    const pages = await Promise.all(replicas.map(({ page }) => page('/metrics')));
    const [leader, ...others] = pages
      .map(({ body }) => body)
      .toSorted((one, other) => valueOf(other, 'evacuator_leader') - valueOf(one, 'evacuator_leader'));
    expect(valueOf(leader, 'evacuator_leader')).toBe(1);
    expect(valueOf(leader, 'evacuator_calls_total{outcome="Completed"}')).toBe(1);
    expect(valueOf(leader, 'evacuator_calls_in_progress')).toBe(0);
    expect(leader).toMatch(
      /^evacuator_kubernetes_requests_total\{verb="patch",resource="evacuations[^}]*code="200"\} [1-9]/m,
    );
    expect(leader).toContain('process_cpu_seconds_total');
    expect(others.map((body) => valueOf(body, 'evacuator_leader'))).toEqual([0]);
  });
});

/** Returns the value of a sample in the text format of Prometheus. */
function valueOf(text: string | undefined, sample: string): number {
  const line = text?.split('\n').find((one) => one.startsWith(`${sample} `));
  return Number(line?.slice(sample.length));
}

describe('the package, installed from the registry in an empty project,', () => {
  let project: Project;
  beforeAll(async () => {
    project = await projectWith(dir, 'api', 'evacuator-kit');
    await copyFile(example, join(project.dir, 'evacuator.ts'));
  });

  test('installs at most 95 packages', () => {
    expect(project.installed).toBeLessThanOrEqual(95);
  });

  test('has types without errors, among them those of the pod', async () => {
    // The declarations of the Kubernetes client need it.
    await npm(project.dir, 'install', '--save-dev', '--prefer-offline', '@types/ws');
    expect(await typeErrors(project.dir, 'evacuator.ts')).toBe('');
    const program = `
import type { V1Pod } from '@kubernetes/client-node';
import { runEvacuator } from '@node-maintenance/evacuator-kit';
const age = ({ metadata }: V1Pod): number => Date.now() - (metadata?.creationTimestamp?.getTime() ?? 0);
export const running = runEvacuator({
  evacuatorClass: 'age.example.com',
  evacuate: async (pod) => \`\${pod.metadata.name} on \${pod.spec.nodeName} is \${age(pod)} ms old\`,
});
`;
    await writeFile(join(project.dir, 'types.ts'), program);
    expect(await typeErrors(project.dir, 'types.ts')).toBe('');
  });

  test('runs by the instructions of its Dockerfile', async () => {
    const image = join(dir, 'image');
    await mkdir(image);
    const [, ...command] = await followDockerfile(project.dir, image);
    const program = await startProgram(join(image, command[0] ?? ''));
    const { messages } = await migratePod();
    expect(messages).toContainEqual(progressed);
    await eventually('the evacuation to be logged', () =>
      expect(program.log()).toContain('Evacuation completed'),
    );
  });

  test('gives the function a pod whose times are Dates', async () => {
    const program = `
import { runEvacuator } from '@node-maintenance/evacuator-kit';
await runEvacuator({
  evacuatorClass: 'migrate.example.com',
  evacuate: async ({ metadata, spec, status }) => {
    const times = [metadata.creationTimestamp, status?.startTime].map((time) => time instanceof Date);
    return \`\${spec.nodeName} \${spec.containers.length} \${times.join()}\`;
  },
});
`;
    await writeFile(join(project.dir, 'pod.ts'), program);
    await startProgram(join(project.dir, 'pod.ts'));
    const node = await c.nodeNamed('n');
    const pod = await c.podOn(node, { annotations: { [annotation]: '5000/migrator' } });
    const messages: string[] = [];
    const end = c.cluster.evacuations.subscribe(({ object: { spec, status } }) => {
      if (spec.podRef.uid === pod.metadata.uid) messages.push(status?.message ?? '');
    });
    await c.applied(c.evacuation(pod));
    await c.eventuallyGone(pod);
    end();
    expect(messages).toContain(`${node} 1 true,true`);
  });
});

/** Copies and installs into a folder what the Dockerfile says. Returns the command of the image. */
async function followDockerfile(from: string, image: string): Promise<string[]> {
  const text = await readFile(join(repository, 'evacuator-kit', 'Dockerfile'), 'utf8');
  const instructions = [...text.matchAll(/^([A-Z]+) (.*)$/gm)].map(([, name, value = '']) => ({
    name,
    value,
  }));
  for (const { name, value } of instructions) {
    const files = value.split(' ').slice(0, -1);
    if (name === 'COPY') for (const file of files) await copyFile(join(from, file), join(image, file));
    if (name === 'RUN') await run('sh', ['-c', value], { cwd: image });
  }
  return JSON.parse(instructions.find(({ name }) => name === 'CMD')?.value ?? '[]') as string[];
}

test('the Deployment of the sample is admitted to its namespace, whose pods are restricted', async () => {
  await succeeds(kubectl(['apply', '-f', join(repository, 'evacuator-kit', 'deployment.yaml')]));
  const namespace = account;
  await eventually('its pods to be created', async () => {
    const { items } = await c.admin.list(resources.pods, { namespace, labelSelector: 'app=my-evacuator' });
    expect(items).toHaveLength(2);
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
