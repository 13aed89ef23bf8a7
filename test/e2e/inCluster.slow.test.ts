import { execFile } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { parse, stringify } from 'yaml';
import type { Lease, Node, Pod } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import { AGENT_LEASE_NAMESPACE, EVACUATION_NODE_LABEL } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { isTrue } from '../../domain/common/conditions.ts';
import type { ProcessSummary } from '../../domain/leases/processSummary.ts';
import { readInstallation } from '../../manifests/read.ts';
import { renderManifests } from '../../manifests/render.ts';
import { fakeNodeTaint } from '../../sandbox/kubernetes.ts';
import { pauseImage } from '../../sandbox/realNodes/node.ts';
import type { RealNode } from '../../sandbox/realNodes/realNode.ts';
import { type Sandbox, startSandbox } from '../../sandbox/sandbox.ts';
import { type Kubectl, kubectlOf, succeeds } from '../api/kubectl.ts';
import { eventually } from '../kit/eventually.ts';
import { chart, ensureHelm, Helm } from '../kit/helm.ts';
import { missingForContainers, withContainers } from '../kit/realNodes.ts';
import { runOptions } from '../kit/sandbox.ts';

let dir: string;
let sandbox: Sandbox;
let kubectl: Kubectl;
let helm: Helm;

beforeAll(async () => {
  if (missingForContainers !== undefined) return;
  dir = await mkdtemp(join(tmpdir(), 'nm-cluster-'));
  const archive = join(dir, 'image.oci.tar');
  const [path] = await Promise.all([
    ensureHelm(),
    promisify(execFile)('npm', ['run', '-s', 'image', '--', '--output', archive]),
  ]);
  sandbox = await startSandbox({
    ...runOptions(),
    dir: join(dir, 'sandbox'),
    nodes: 2,
    realNodes: 2,
    install: false,
  });
  await sandbox.importImage(archive);
  kubectl = kubectlOf(sandbox);
  helm = new Helm(path, dir, sandbox.env);
}, 1_800_000);

afterAll(async () => {
  if (missingForContainers !== undefined) return;
  await sandbox?.discard();
  await rm(dir, { recursive: true, force: true });
});

const get = async <T>(...args: string[]): Promise<T> =>
  JSON.parse(await succeeds(kubectl(['get', '-o', 'json', ...args]))) as T;

const podsOn = async (node: string, namespace: string) =>
  (await get<{ items: Pod[] }>('pods', '-n', namespace, '--field-selector', `spec.nodeName=${node}`)).items;

const maintenanceNamed = (name: string) => get<NodeMaintenance>('nodemaintenance', name);

/** A maintenance of one node, as a user writes it. */
const maintenance = (name: string, node: string, stage: string) => ({
  apiVersion: 'nodemaintenance.k8s.io/v1alpha1',
  kind: 'NodeMaintenance',
  metadata: { name },
  spec: {
    stage,
    nodeSelector: {
      nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: [node] }] }],
    },
  },
});

const apply = (object: object, ...args: string[]) =>
  succeeds(kubectl(['apply', '--server-side', ...args, '-f', '-'], object));

const drained = (name: string) =>
  eventually(`${name} to be drained`, async () => {
    const { status } = await maintenanceNamed(name);
    expect({ drained: isTrue(status?.conditions, 'Drained'), status }).toMatchObject({ drained: true });
  });

const rolledOut = (namespace: string) =>
  succeeds(
    kubectl([
      'rollout',
      'status',
      '-n',
      namespace,
      '--timeout=4m',
      'deployment/node-maintenance-admission',
      'deployment/node-maintenance-worker',
    ]),
  );

/** An ordinary Deployment, whose pods run on the nodes with a label. */
function workload(name: string, nodeType: string, replicas: number): object {
  const labels = { app: name };
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name, namespace: 'default' },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          nodeSelector: { type: nodeType },
          tolerations: [fakeNodeTaint].map(({ key, value, effect }) => ({ key, value, effect })),
          terminationGracePeriodSeconds: 1,
          containers: [{ name: 'main', image: pauseImage, imagePullPolicy: 'IfNotPresent' }],
        },
      },
    },
  };
}

/** An overlay of a folder of deploy/, for this namespace and this Temporal. */
async function overlay(folder: string, namespace: string, differs: object = {}): Promise<string> {
  const path = await mkdtemp(join(dir, 'overlay-'));
  const base = relative(path, fileURLToPath(new URL(`../../deploy/${folder}`, import.meta.url)));
  const address = {
    name: 'node-maintenance-worker',
    behavior: 'merge',
    literals: [`TEMPORAL_ADDRESS=${sandbox.temporalAddress}`],
  };
  await mkdir(path, { recursive: true });
  await writeFile(
    join(path, 'kustomization.yaml'),
    stringify({
      namespace,
      resources: [base],
      ...(folder === 'worker' && { configMapGenerator: [address] }),
      ...differs,
    }),
  );
  return path;
}

const namespace = 'berlin';

/** Prints how long something takes for a user. */
async function timed(what: string, work: () => Promise<unknown>): Promise<void> {
  const startedAt = performance.now();
  await work();
  process.stderr.write(`${what} took ${((performance.now() - startedAt) / 1_000).toFixed(1)} s\n`);
}

withContainers(
  'it is installed in a namespace of the user by kubectl, and its pods become ready',
  async () => {
    const manifests = renderManifests(await readInstallation({}), { namespace });
    const list = { apiVersion: 'v1', kind: 'List', items: manifests };
    await timed('The installation by kubectl', async () => {
      // The first attempt creates the CRDs.
      await eventually('deploy/ to be applied', () => apply(list, '--force-conflicts'));
      for (const folder of ['admission-server', 'worker'])
        await succeeds(kubectl(['apply', '-k', await overlay(folder, namespace)]));
      await rolledOut(namespace);
    });
    const nodes = (await get<{ items: Pod[] }>('pods', '-n', namespace)).items.map(
      ({ spec }) => spec.nodeName,
    );
    expect(new Set(nodes)).toEqual(new Set(['real-1', 'real-2']));
  },
);

withContainers('the apiserver asks its webhooks by their Service', async () => {
  await eventually('the registration', async () => {
    const { webhooks } = await get<{ webhooks: { clientConfig: { caBundle?: string; service?: object } }[] }>(
      'validatingwebhookconfiguration',
      'nodemaintenance.k8s.io',
    );
    expect(webhooks.every(({ clientConfig }) => clientConfig.caBundle && clientConfig.service)).toBe(true);
  });
  await succeeds(
    kubectl([
      'create',
      'clusterrolebinding',
      'jane',
      '--clusterrole=node-maintenance-operator',
      '--user=jane',
    ]),
  );
  const answer = await kubectl(
    ['create', '--as=jane', '-f', '-'],
    maintenance('forbidden', 'node-1', 'Idle'),
  );
  expect(answer).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('user "jane" may not delete node "node-1"'),
  });
});

withContainers('it drains a simulated node', async () => {
  await apply(workload('web', 'kwok', 4));
  await eventually('the pods', async () => expect(await podsOn('node-1', 'default')).not.toEqual([]));
  await apply(maintenance('simulated', 'node-1', 'Drain'));
  await drained('simulated');
  expect(await podsOn('node-1', 'default')).toEqual([]);
  await apply(maintenance('simulated', 'node-1', 'Complete'));
});

/** Returns the worker that leads the control loops, and its node. */
async function leader(): Promise<{ holder: string; node: string }> {
  const workers = ['maintenance', 'workers', '--namespace', namespace, '-o', 'json'];
  const { items } = JSON.parse(await succeeds(kubectl(workers))) as { items: ProcessSummary[] };
  const found = items.find(({ leader: isLeader }) => isLeader);
  const pods = await get<{ items: Pod[] }>('pods', '-n', namespace);
  const node = pods.items.find(({ metadata }) => metadata.name === found?.host)?.spec.nodeName;
  expect({ found, node }).toMatchObject({ found: { leader: true }, node: expect.any(String) });
  return { holder: found?.holder ?? '', node: node ?? '' };
}

withContainers('it drains the real node that its leader runs on, and moves itself away last', async () => {
  await apply(workload('db', 'real', 4));
  await succeeds(kubectl(['rollout', 'status', 'deployment/db', '-n', 'default', '--timeout=2m']));
  const { holder, node } = await leader();
  const own = await podsOn(node, namespace);
  expect(own.length).toBeGreaterThan(0);
  expect(await podsOn(node, 'default')).not.toEqual([]);
  await apply(maintenance('own', node, 'Drain'));
  const violations: object[] = [];
  let passes = 0;
  // As long as ordinary pods are on the node, ours are, too, and its worker leads. These are read last: they do not come back.
  await eventually('the own pods to leave', async () => {
    const lease = await get<Lease>('lease', 'node-maintenance-controllers', '-n', namespace);
    const ours = await podsOn(node, namespace);
    const ordinary = await podsOn(node, 'default');
    const leaving = ours.filter(({ metadata }) => metadata.deletionTimestamp !== undefined);
    const observed = { holder: lease.spec.holderIdentity, ours: ours.length, leaving: leaving.length };
    if (ordinary.length > 0) {
      passes += 1;
      const expected = { holder, ours: own.length, leaving: 0 };
      if (JSON.stringify(observed) !== JSON.stringify(expected)) violations.push(observed);
    }
    expect(ours).toEqual([]);
  });
  expect({ violations, passes: passes > 0 }).toEqual({ violations: [], passes: true });
  await drained('own');
  await rolledOut(namespace);
  await eventually('a worker on the other node to lead', async () => {
    const next = await leader();
    expect({ holder: next.holder === holder, node: next.node === node }).toEqual({
      holder: false,
      node: false,
    });
  });
  await apply(maintenance('own', node, 'Complete'));
  await eventually('the node to be back in service', async () => {
    const { spec } = await get<Node>('node', node);
    expect(spec.unschedulable ?? false).toBe(false);
  });
});

/** Where the folder of the static pods is on a node of the sandbox, in place of /etc/kubernetes. */
const kubernetesFolder = ({ manifests }: RealNode) => dirname(manifests);
const hostPath = (name: string, path: string) => ({ name, hostPath: { path, type: 'Directory' } });

/** Puts a manifest into the folder of the kubelet, which must not read a part of it. */
async function placeStaticPod(node: RealNode, name: string, manifest: object): Promise<void> {
  const next = join(kubernetesFolder(node), `${name}.next`);
  await writeFile(next, stringify(manifest));
  await rename(next, join(node.manifests, `${name}.yaml`));
}

/** Installs the agent of this node, and of no other one, by deploy/agent-daemonset. */
async function runAgentByDaemonSet(node: RealNode): Promise<void> {
  const spec = {
    nodeSelector: { 'kubernetes.io/hostname': node.name },
    volumes: [hostPath('kubernetes', kubernetesFolder(node))],
  };
  const patch = {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { name: 'node-maintenance-agent' },
    spec: { template: { spec } },
  };
  const folder = await overlay('agent-daemonset', namespace, { patches: [{ patch: stringify(patch) }] });
  await succeeds(kubectl(['apply', '--server-side', '-k', folder]));
}

/** Installs the agent of this node by the manifest of deploy/agent/static-pod, and the kubeconfig that it reads. */
async function runAgentByStaticPod(node: RealNode): Promise<void> {
  const program = fileURLToPath(new URL('../../cli/main.ts', import.meta.url));
  const args = [program, 'agent', 'kubeconfig', node.name, '--namespace', namespace];
  const env = { ...process.env, ...sandbox.env, NODE_OPTIONS: '' };
  const { stdout } = await promisify(execFile)(process.execPath, args, { env });
  const token = join(kubernetesFolder(node), 'node-maintenance-agent');
  await mkdir(token);
  await writeFile(join(token, 'kubeconfig'), stdout, { mode: 0o600 });
  const url = new URL('../../deploy/agent/static-pod/node-maintenance-agent.yaml', import.meta.url);
  const pod = parse(await readFile(url, 'utf8')) as {
    metadata: object;
    spec: { volumes: { name: string }[] };
  };
  const moved = [hostPath('kubernetes', kubernetesFolder(node)), hostPath('kubeconfig', token)];
  const volumes = pod.spec.volumes.map((volume) => moved.find(({ name }) => name === volume.name) ?? volume);
  const metadata = { ...pod.metadata, namespace };
  await placeStaticPod(node, 'agent', { ...pod, metadata, spec: { ...pod.spec, volumes } });
}

/** Returns what changes when another pod of the agent runs, or another process in it. */
async function runningAgent({ name }: RealNode): Promise<object> {
  const pods = await podsOn(name, namespace);
  const ofAgent = pods.filter(
    ({ metadata }) => metadata.labels?.['app.kubernetes.io/name'] === 'node-maintenance-agent',
  );
  expect(ofAgent.map(({ status }) => status.phase)).toEqual(['Running']);
  const lease = await get<Lease>('lease', name, '-n', AGENT_LEASE_NAMESPACE);
  expect(lease.spec.holderIdentity).toMatch(new RegExp(`^${name}_`));
  return { pod: ofAgent[0]?.metadata.uid, holder: lease.spec.holderIdentity };
}

const mirrorPod = ['pod', 'web-real-1', '-n', 'default'] as const;

const eventuallyWebRuns = () =>
  eventually('the static pod to run', async () =>
    expect((await get<Pod>(...mirrorPod)).status.phase).toBe('Running'),
  );

const setFinalizers = (finalizers: string[]) =>
  succeeds(
    kubectl(['patch', ...mirrorPod, '--type=merge', '-p', JSON.stringify({ metadata: { finalizers } })]),
  );

withContainers(
  'node agents run as a static pod, and as a DaemonSet that the drain of its node does not stop',
  async () => {
    const [node, other] = [sandbox.realNode('real-1'), sandbox.realNode('real-2')];
    await runAgentByDaemonSet(node);
    await runAgentByStaticPod(other);
    const containers = [{ name: 'main', image: pauseImage, imagePullPolicy: 'IfNotPresent' }];
    const spec = { terminationGracePeriodSeconds: 1, containers };
    await placeStaticPod(node, 'web', {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'web', namespace: 'default' },
      spec,
    });
    const agents = () => Promise.all([runningAgent(node), runningAgent(other)]);
    const before = await eventually('both agents to run', agents);
    await eventuallyWebRuns();

    // The mirror pod remains until the agent has seen the end of the processes of the host.
    await setFinalizers(['test.example/observed']);
    await apply(maintenance('agents', node.name, 'Drain'));
    await eventually('the agent to report the end', async () => {
      const label = `${EVACUATION_NODE_LABEL}=${node.name}`;
      const { items } = await get<{ items: Evacuation[] }>('evacuations', '-n', 'default', '-l', label);
      const reports = items.map((one) => [one.spec.podRef.name, one.status?.activeEvacuatorCompleted]);
      expect(reports).toEqual([['web-real-1', true]]);
    });
    const held = join(kubernetesFolder(node), 'held-manifests', 'web.yaml');
    expect(existsSync(held)).toBe(true);
    expect(readdirSync(node.manifests)).toEqual([]);
    await setFinalizers([]);
    await drained('agents');

    await apply(maintenance('agents', node.name, 'Complete'));
    await eventually('the manifest to be back', () =>
      expect([existsSync(held), readdirSync(node.manifests)]).toEqual([false, ['web.yaml']]),
    );
    await eventuallyWebRuns();
    expect(await agents()).toEqual(before);
    for (const { manifests } of [node, other])
      for (const file of readdirSync(manifests)) await rm(join(manifests, file));
  },
);

const release = ['--namespace', 'hamburg'];

withContainers('it is installed by Helm in another namespace, and drains a node', async () => {
  await succeeds(kubectl(['delete', 'nodemaintenance', '--all', '--wait=true', '--timeout=2m']));
  const manifests = renderManifests(await readInstallation({}), { namespace });
  // The CRDs remain; Helm refuses objects that it did not create.
  const others = manifests.filter(({ kind }) => kind !== 'CustomResourceDefinition');
  await succeeds(
    kubectl(['delete', '--wait=true', '-f', '-'], { apiVersion: 'v1', kind: 'List', items: others }),
  );
  const values = `crds.install=false,temporal.address=${sandbox.temporalAddress}`;
  const wait = ['--wait', '--timeout', '4m'];
  await timed('The installation by Helm', () =>
    helm.output('install', 'nm', chart, ...release, '--create-namespace', ...wait, '--set', values),
  );
  expect(await helm.output('test', 'nm', ...release)).toContain('Phase:          Succeeded');
  await apply(maintenance('helm', 'node-2', 'Drain'));
  await drained('helm');
  expect(await podsOn('node-2', 'default')).toEqual([]);
});

/** Returns everything in the cluster that belongs to an installation. */
async function installed(): Promise<string[]> {
  const kinds = (await succeeds(kubectl(['api-resources', '--verbs=list', '-o', 'name']))).trim().split('\n');
  const label = ['-l', 'app.kubernetes.io/part-of=node-maintenance'];
  const found = await succeeds(kubectl(['get', kinds.join(','), '--all-namespaces', ...label, '-o', 'name']));
  return found.split('\n').filter((name) => name !== '');
}

withContainers('in the middle of a drain it is uninstalled, with what Helm has installed', async () => {
  // Of the pods of node-1 none may leave.
  const selector = { matchLabels: { app: 'web' } };
  const metadata = { name: 'web', namespace: 'default' };
  await apply({
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata,
    spec: { minAvailable: 4, selector },
  });
  await succeeds(kubectl(['rollout', 'status', 'deployment/web', '-n', 'default', '--timeout=2m']));
  await eventually('pods on node-1', async () => expect(await podsOn('node-1', 'default')).not.toEqual([]));
  await apply(maintenance('open', 'node-1', 'Drain'));
  await eventually('the drain to wait for its pods', async () => {
    const { status } = await maintenanceNamed('open');
    expect(status?.podsEvacuating ?? 0).toBeGreaterThan(0);
  });
  expect(await installed()).not.toEqual([]);
  await timed('The uninstallation', async () => {
    const { code, stdout, stderr } = await kubectl([
      'maintenance',
      'uninstall',
      '--yes',
      '--crds',
      '--helm-objects',
    ]);
    expect({ code, stdout, stderr }).toMatchObject({ code: 0 });
  });
  await eventually('nothing to be left', async () => expect(await installed()).toEqual([]));
  const { items } = await get<{ items: Node[] }>('nodes');
  for (const { metadata: of, spec, status } of items) {
    expect([of.name, spec.unschedulable ?? false]).toEqual([of.name, false]);
    expect(JSON.stringify([of.annotations, spec.taints, status?.conditions])).not.toContain(
      'nodemaintenance.k8s.io',
    );
  }
  // Its own record of the release is all that is left.
  await helm.output('uninstall', 'nm', ...release, '--wait');
  expect((await helm.output('list', '--all', ...release, '--short')).trim()).toBe('');
});
