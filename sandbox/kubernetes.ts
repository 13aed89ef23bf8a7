import { execFile } from 'node:child_process';
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { parse, stringify } from 'yaml';
import type { Condition, KubeObject, Lease } from '../api/core.ts';
import { NODE_MAINTENANCE } from '../api/names.ts';
import { type ApiServer, ask, get } from './apiserver.ts';
import { messageOf, SandboxError } from './errors.ts';
import { type Layout, type ServerCommand, writePrivate } from './layout.ts';
import type { Ports } from './ports.ts';
import type { Toolchain } from './toolchain.ts';
import { type Patience, until } from './until.ts';

/** The ServiceAccount that deploy/ gives its permissions to. */
export const workerIdentity = { namespace: 'node-maintenance', name: 'node-maintenance-worker' } as const;

type KubernetesServer = 'etcd' | 'kube-apiserver' | 'kube-controller-manager' | 'kube-scheduler' | 'kwok';

/** The servers of a control plane whose nodes kwok pretends to run. */
export async function kubernetesServers(
  layout: Layout,
  ports: Ports,
  toolchain: Toolchain,
): Promise<Record<KubernetesServer, ServerCommand>> {
  const [clients, peers] = [`http://127.0.0.1:${ports.etcd}`, `http://127.0.0.1:${ports.etcdPeer}`];
  return {
    etcd: {
      command: toolchain.etcd,
      port: ports.etcd,
      args: [
        `--data-dir=${layout.etcdData}`,
        `--listen-client-urls=${clients}`,
        `--advertise-client-urls=${clients}`,
        `--listen-peer-urls=${peers}`,
        `--initial-advertise-peer-urls=${peers}`,
        `--initial-cluster=default=${peers}`,
        // Five times the writes a second; a killed process loses nothing by it, only a power cut does.
        '--unsafe-no-fsync',
      ],
    },
    'kube-apiserver': {
      command: toolchain['kube-apiserver'],
      port: ports.apiserver,
      args: [...apiserverArguments(layout, ports), ...(await alphaApis(toolchain['kube-apiserver']))],
    },
    'kube-controller-manager': {
      command: toolchain['kube-controller-manager'],
      args: [
        ...clientArguments(layout),
        `--service-account-private-key-file=${layout.serviceAccountKey}`,
        `--root-ca-file=${certificateOf(layout)}`,
      ],
    },
    'kube-scheduler': { command: toolchain['kube-scheduler'], args: clientArguments(layout) },
    kwok: { command: toolchain.kwok, args: kwokArguments(layout) },
  };
}

function apiserverArguments(layout: Layout, ports: Ports): string[] {
  return [
    '--bind-address=127.0.0.1',
    // No endpoints for the `kubernetes` service, so that a machine with nothing but a loopback interface will do.
    '--advertise-address=127.0.0.1',
    '--endpoint-reconciler-type=none',
    `--secure-port=${ports.apiserver}`,
    `--cert-dir=${layout.certificates}`,
    `--etcd-servers=http://127.0.0.1:${ports.etcd}`,
    '--service-account-issuer=https://kubernetes.default.svc',
    `--service-account-key-file=${layout.serviceAccountKey}`,
    `--service-account-signing-key-file=${layout.serviceAccountKey}`,
    '--authorization-mode=RBAC',
    `--token-auth-file=${layout.tokens}`,
    '--service-cluster-ip-range=10.0.0.0/16',
    '--allow-privileged=true',
    // A benchmark measures the drain, not the default share of one of two cores.
    '--max-requests-inflight=2000',
    '--max-mutating-requests-inflight=1000',
  ];
}

/** Kubernetes' own eviction-request API and node conditions are alpha since 1.37 and unknown to older servers. */
async function alphaApis(apiserver: string): Promise<string[]> {
  const { stdout } = await run(apiserver, ['--version']);
  const [, major, minor] = /v(\d+)\.(\d+)/.exec(stdout) ?? [];
  if (Number(major) < 1 || Number(minor) < 37) return [];
  return [
    '--feature-gates=EvictionRequestAPI=true,NodeLifecycleConditions=true',
    '--runtime-config=lifecycle.k8s.io/v1alpha1=true',
  ];
}

function clientArguments(layout: Layout): string[] {
  return [
    `--kubeconfig=${layout.kubeconfig}`,
    '--leader-elect=false',
    '--kube-api-qps=500',
    '--kube-api-burst=1000',
    '--secure-port=0',
  ];
}

function kwokArguments(layout: Layout): string[] {
  const stages = fileURLToPath(new URL('./kwok/', import.meta.url));
  return [
    `--kubeconfig=${layout.kubeconfig}`,
    '--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake',
    '--node-lease-duration-seconds=40',
    // Outside the services' range.
    '--cidr=10.64.0.0/10',
    ...readdirSync(stages)
      .filter((file) => file.endsWith('.yaml'))
      .toSorted()
      .map((file) => `--config=${join(stages, file)}`),
  ];
}

const run = promisify(execFile);

/** Makes the keys and tokens of a sandbox, unless it has them already. */
export function writeCredentials(layout: Layout): void {
  if (!existsSync(layout.serviceAccountKey)) {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    writePrivate(layout.serviceAccountKey, privateKey.export({ type: 'sec1', format: 'pem' }).toString());
  }
  if (existsSync(layout.tokens)) return;
  const { namespace, name } = workerIdentity;
  const user = `system:serviceaccount:${namespace}:${name}`;
  const groups = ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'];
  const rows = [
    [randomToken(), 'sandbox-admin', 'sandbox-admin', '"system:masters"'],
    [randomToken(), user, user, `"${groups.join(',')}"`],
  ];
  writePrivate(layout.tokens, `${rows.map((row) => row.join(',')).join('\n')}\n`);
}

function randomToken(): string {
  return randomBytes(24).toString('hex');
}

/** The bearer tokens of `writeCredentials`: ours, and the worker's. */
function readTokens(layout: Layout): { admin: string; worker: string } {
  const [admin, worker] = readFileSync(layout.tokens, 'utf8')
    .split('\n')
    .map((row) => row.split(',')[0]);
  if (!admin || !worker)
    throw new SandboxError(`${layout.tokens} is damaged: delete ${layout.dir} and start anew`);
  return { admin, worker };
}

/** The apiserver writes it when it starts for the first time: signed by itself, so it is its own authority. */
function certificateOf(layout: Layout): string {
  return join(layout.certificates, 'apiserver.crt');
}

/** The sandbox's apiserver, asked as its administrator. */
export function apiServerOf(layout: Layout, ports: Ports): ApiServer {
  return {
    port: ports.apiserver,
    ca: readFileSync(certificateOf(layout), 'utf8'),
    token: readTokens(layout).admin,
  };
}

/** Writes the administrator's and the worker's kubeconfig. The apiserver has to have made its certificate. */
export function writeKubeconfigs(layout: Layout, ports: Ports): void {
  const ca = readFileSync(certificateOf(layout)).toString('base64');
  const tokens = readTokens(layout);
  const cluster = { server: `https://127.0.0.1:${ports.apiserver}`, 'certificate-authority-data': ca };
  writePrivate(layout.kubeconfig, kubeconfig(cluster, 'sandbox-admin', tokens.admin));
  writePrivate(layout.workerKubeconfig, kubeconfig(cluster, 'sandbox-worker', tokens.worker));
}

function kubeconfig(cluster: object, name: string, token: string): string {
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': name,
    clusters: [{ name: 'sandbox', cluster }],
    users: [{ name, user: { token } }],
    contexts: [{ name, context: { cluster: 'sandbox', user: name } }],
  });
}

/**
 * Creates kwok nodes; those that exist stay as they are. Returns when all are Ready, may be scheduled to, and kwok runs
 * their pods.
 */
export async function addNodes(
  server: ApiServer,
  names: readonly string[],
  labels: Readonly<Record<string, string>>,
  patience: Patience,
): Promise<void> {
  await Promise.all(names.map((name) => createNode(server, name, labels)));
  const waiting = new Set(names);
  // The pods of a node go on as soon as it is there, not when all are.
  const look = async () => {
    const come = await readyNodes(server, waiting);
    for (const name of come) waiting.delete(name);
    if (come.size > 0) await touchWaitingPods(server, ({ spec }) => come.has(spec.nodeName ?? ''));
    return waiting.size === 0 ? undefined : `${waiting.size} nodes are not Ready, such as ${[...waiting][0]}`;
  };
  const every = names.length > few ? lookAtManyEvery : undefined;
  await until('the nodes to be Ready', look, { ...patience, ...(every && { every }) });
}

const few = 20;
/** Lists of many nodes keep an apiserver from its work. Milliseconds. */
const lookAtManyEvery = 250;

async function createNode(
  server: ApiServer,
  name: string,
  labels: Readonly<Record<string, string>>,
): Promise<void> {
  const answer = await ask(server, 'POST', '/api/v1/nodes', fakeNode(name, labels));
  const exists = answer.status === 409;
  if (answer.status !== 201 && !exists) {
    throw new SandboxError(`Node ${name} was refused with ${answer.status}: ${answer.body.slice(0, 300)}`);
  }
}

function fakeNode(name: string, labels: Readonly<Record<string, string>>): object {
  const capacity = { cpu: '32', memory: '256Gi', pods: '500' };
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      name,
      annotations: { 'kwok.x-k8s.io/node': 'fake' },
      labels: {
        'kubernetes.io/hostname': name,
        'kubernetes.io/os': 'linux',
        'kubernetes.io/arch': 'amd64',
        type: 'kwok',
        ...labels,
      },
    },
    status: { capacity, allocatable: capacity },
  };
}

interface NodeSeen extends KubeObject {
  spec: { taints?: { key: string }[] };
  status: { conditions?: Condition[] };
}

/** Those of the nodes that are Ready and that kwok holds. */
async function readyNodes(server: ApiServer, names: ReadonlySet<string>): Promise<Set<string>> {
  const [nodes, leases] = await Promise.all([
    get<{ items: NodeSeen[] }>(server, '/api/v1/nodes'),
    get<{ items: Lease[] }>(server, nodeLeases),
  ]);
  const leased = new Set(leases.items.map(({ metadata }) => metadata.name));
  const ready = nodes.items.filter(isReady).map(({ metadata }) => metadata.name);
  return new Set(ready.filter((name) => leased.has(name) && names.has(name)));
}

function isReady(node: NodeSeen): boolean {
  const isTainted = node.spec.taints?.some(({ key }) => key === 'node.kubernetes.io/not-ready');
  return (
    !isTainted &&
    node.status.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true
  );
}

const nodeLeases = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';

/**
 * To be done before a kwok starts: each has an identity of its own and lets alone, for 40 s, a node whose Lease the one
 * before it holds. A kubelet's Lease names the node as its holder and stays.
 */
export async function dropKwokLeases(server: ApiServer): Promise<void> {
  const { items } = await get<{ items: Lease[] }>(server, nodeLeases);
  const held = items.filter(({ metadata, spec }) => spec.holderIdentity !== metadata.name);
  await Promise.all(held.map(({ metadata }) => ask(server, 'DELETE', `${nodeLeases}/${metadata.name}`)));
}

interface PodSeen extends KubeObject {
  spec: { nodeName?: string };
  status: { phase?: string };
}

const touchedAtOnce = 16;

/**
 * To be done when an apiserver is back, or nodes are new: kwok 0.8.0 tries no deletion again whose answer it did not get, and
 * passes over pods of a node until it has seen its own Lease of it; but it looks at a pod again that changes.
 */
export async function touchWaitingPods(
  server: ApiServer,
  concerns: (pod: PodSeen) => boolean = () => true,
): Promise<void> {
  const { items } = await get<{ items: PodSeen[] }>(server, '/api/v1/pods');
  const waiting = items.filter((pod) => waitsForItsNode(pod) && concerns(pod));
  for (let touched = 0; touched < waiting.length; touched += touchedAtOnce)
    await Promise.all(waiting.slice(touched, touched + touchedAtOnce).map((pod) => touch(server, pod)));
}

function waitsForItsNode({ metadata, spec, status }: PodSeen): boolean {
  const isStarting = spec.nodeName !== undefined && status.phase === 'Pending';
  return isStarting || metadata.deletionTimestamp !== undefined;
}

function touch(server: ApiServer, { metadata: { namespace, name, uid } }: KubeObject): Promise<unknown> {
  const annotations = { 'sandbox.nodemaintenance.k8s.io/touched': new Date().toISOString() };
  const path = `/api/v1/namespaces/${namespace}/pods/${name}?fieldManager=sandbox&force=true`;
  const metadata = { namespace, name, uid, annotations };
  return ask(server, 'PATCH', path, { apiVersion: 'v1', kind: 'Pod', metadata });
}

const defaultAccount = '/api/v1/namespaces/default/serviceaccounts/default';
const rootCertificate = '/api/v1/namespaces/default/configmaps/kube-root-ca.crt';

/**
 * To be done before a controller manager starts on data of an earlier run: its controllers make this object again, byte
 * for byte, and so show that they work.
 */
export async function dropControllersProof(server: ApiServer): Promise<void> {
  await ask(server, 'DELETE', rootCertificate);
}

/** Also waits for the ServiceAccount without which the namespace takes no pods. */
export async function untilControllersWork(server: ApiServer, patience: Patience): Promise<void> {
  const probe = async () => {
    const answers = await Promise.all(
      [defaultAccount, rootCertificate].map((path) => ask(server, 'GET', path)),
    );
    return answers.every(({ status }) => status === 200)
      ? undefined
      : 'its objects in namespace default are missing';
  };
  await until('the work of kube-controller-manager', probe, patience);
}

/** What `sandbox up` installs: CRDs, policies, permissions and the namespace of the worker. */
const deployment = fileURLToPath(new URL('../deploy', import.meta.url));

const definitions = join(deployment, 'crd');

/**
 * Applies the CRDs as soon as the apiserver takes them, before it is ready, in the way in which `install` does it again.
 * From its start on it looks every 5 s which schemas there are, and until it has seen ours it refuses what a
 * MutatingAdmissionPolicy matches.
 */
export async function define(layout: Layout, ports: Ports, patience: Patience): Promise<void> {
  const objects = readdirSync(definitions)
    .filter((file) => file.endsWith('.yaml') && file !== 'kustomization.yaml')
    .map((file) => parse(readFileSync(join(definitions, file), 'utf8')) as KubeObject);
  const probe = async () => {
    const answers = await Promise.all(objects.map((object) => applied(layout, ports, object)));
    return answers.find((answer) => answer !== undefined);
  };
  await until('the CustomResourceDefinitions to be applied', probe, patience);
}

async function applied(layout: Layout, ports: Ports, object: KubeObject): Promise<string | undefined> {
  const path = `${customResourceDefinitions}/${object.metadata.name}?fieldManager=kubectl&force=true`;
  try {
    const { status, body } = await ask(apiServerOf(layout, ports), 'PATCH', path, object);
    return status === 200 || status === 201 ? undefined : body.slice(0, 300);
  } catch (error) {
    return messageOf(error);
  }
}

const customResourceDefinitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';

/** Applies deploy/ and waits until its CRDs are served and its policy is in force. */
export async function install(layout: Layout, server: ApiServer, patience: Patience): Promise<void> {
  await until(`${deployment} to be applied`, () => apply(layout), patience);
  await until('the CustomResourceDefinitions to be Established', () => unestablished(server), patience);
  await until('the policy for drain plans to be in force', () => incompletePlan(server), patience);
}

/** Applies once; undefined when all was taken. An object whose CRD is in the same bundle has to wait for it. */
async function apply(layout: Layout): Promise<string | undefined> {
  const flags = ['--server-side', '--force-conflicts', '-k', deployment];
  const env = { KUBECONFIG: layout.kubeconfig, HOME: layout.dir, PATH: layout.bin };
  try {
    await run(join(layout.bin, 'kubectl'), ['apply', ...flags], { env });
    return undefined;
  } catch (error) {
    const complaint = String((error as { stderr?: string }).stderr ?? error).trim();
    if (/no matches for kind|ensure CRDs are installed first/.test(complaint)) return complaint;
    throw new SandboxError(
      `kubectl apply -k ${deployment} failed: ${complaint.split('\n').slice(-3).join(' | ')}`,
    );
  }
}

/** Tries what is applied first: the apiserver takes seconds to know the schema, and refuses it until then. */
async function incompletePlan(server: ApiServer): Promise<string | undefined> {
  const { apiVersion, kind, plural } = NODE_MAINTENANCE;
  const nodeSelector = { nodeSelectorTerms: [{}] };
  const object = { apiVersion, kind, metadata: { name: 'sandbox-probe' }, spec: { nodeSelector } };
  const { status, body } = await ask(server, 'POST', `/apis/${apiVersion}/${plural}?dryRun=All`, object);
  if (status !== 201) return `a NodeMaintenance is refused with ${status}: ${body.slice(0, 300)}`;
  const { spec } = JSON.parse(body) as { spec: { drainPlan?: unknown[] } };
  return spec.drainPlan === undefined ? 'a NodeMaintenance keeps an incomplete plan' : undefined;
}

async function unestablished(server: ApiServer): Promise<string | undefined> {
  const { items } = await get<{ items: (KubeObject & { status?: { conditions?: Condition[] } })[] }>(
    server,
    customResourceDefinitions,
  );
  const waiting = items.filter(
    ({ status }) =>
      !status?.conditions?.some((seen) => seen.type === 'Established' && seen.status === 'True'),
  );
  return waiting.length === 0
    ? undefined
    : `not Established: ${waiting.map(({ metadata }) => metadata.name).join(', ')}`;
}
