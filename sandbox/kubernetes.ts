import { execFile } from 'node:child_process';
import { generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { parse, stringify } from 'yaml';
import type { Condition, KubeObject, Lease } from '../api/core.ts';
import { EVICTION_REQUEST, NODE_MAINTENANCE, SYSTEM_NAMESPACE } from '../api/names.ts';
import { readInstallation } from '../manifests/read.ts';
import { type InstallationOptions, renderManifests } from '../manifests/render.ts';
import { type ApiServer, ask, get } from './apiserver.ts';
import type { Toolchain } from './binaries.ts';
import { errorMessage, SandboxError } from './errors.ts';
import { type Layout, type ServerCommand, writePrivate } from './layout.ts';
import { type Addresses, loopback } from './ports.ts';
import { maxRealNodes, realNodeName } from './realNodes/network.ts';
import { until, type WaitOptions } from './until.ts';

/** The ServiceAccounts to which deploy/ grants its permissions. */
export const workerIdentity = { namespace: SYSTEM_NAMESPACE, name: 'node-maintenance-worker' } as const;
const admissionIdentity = { namespace: SYSTEM_NAMESPACE, name: 'node-maintenance-admission' } as const;

type KubernetesServer = 'etcd' | 'kube-apiserver' | 'kube-controller-manager' | 'kube-scheduler' | 'kwok';

/** Returns the servers of a control plane whose nodes kwok simulates. */
export async function kubernetesServers(
  layout: Layout,
  addresses: Addresses,
  toolchain: Toolchain,
  options: AuditOptions & { evictionRequest?: boolean | undefined; eventTtl?: string | undefined } = {},
): Promise<Record<KubernetesServer, ServerCommand>> {
  const { ports } = addresses;
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
        // Gives five times the writes per second. A killed process loses nothing; only a power failure does.
        '--unsafe-no-fsync',
      ],
    },
    'kube-apiserver': {
      command: toolchain['kube-apiserver'],
      port: ports.apiserver,
      args: [
        ...apiserverArguments(layout, addresses),
        ...(await alphaApis(toolchain['kube-apiserver'], options)),
        ...auditArguments(options),
        ...(options.eventTtl === undefined ? [] : [`--event-ttl=${options.eventTtl}`]),
      ],
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

function apiserverArguments(layout: Layout, { host, ports }: Addresses): string[] {
  return [
    `--bind-address=${host}`,
    `--advertise-address=${host}`,
    ...(host === loopback ? loopbackArguments : realNodeArguments),
    `--secure-port=${ports.apiserver}`,
    `--cert-dir=${layout.certificates}`,
    `--etcd-servers=http://127.0.0.1:${ports.etcd}`,
    '--service-account-issuer=https://kubernetes.default.svc',
    `--service-account-key-file=${layout.serviceAccountKey}`,
    `--service-account-signing-key-file=${layout.serviceAccountKey}`,
    `--token-auth-file=${layout.tokens}`,
    `--admission-control-config-file=${layout.admission}`,
    '--service-cluster-ip-range=10.0.0.0/16',
    '--allow-privileged=true',
    // A benchmark measures the drain, not the default limits of requests in flight.
    '--max-requests-inflight=2000',
    '--max-mutating-requests-inflight=1000',
  ];
}

/** No endpoints for the `kubernetes` Service, which would refuse those of a loopback interface. */
const loopbackArguments = ['--endpoint-reconciler-type=none', '--authorization-mode=RBAC'];

const realNodeArguments = [
  '--authorization-mode=Node,RBAC',
  '--enable-admission-plugins=NodeRestriction',
  // There is no DNS for the names of nodes.
  '--kubelet-preferred-address-types=InternalIP',
  // Webhooks are called at the addresses of their pods: this host has no kube-proxy.
  '--enable-aggregator-routing=true',
];

/**
 * Enables the eviction-request API and the node conditions of Kubernetes, which are alpha since 1.37 and unknown before. With `evictionRequest` also
 * groups of pods, which an EvictionRequest must refuse.
 */
async function alphaApis(
  apiserver: string,
  { evictionRequest = false }: { evictionRequest?: boolean | undefined },
): Promise<string[]> {
  const { stdout } = await run(apiserver, ['--version']);
  const [, major, minor] = /v(\d+)\.(\d+)/.exec(stdout) ?? [];
  if (Number(major) < 1 || Number(minor) < 37) return [];
  return [
    `--feature-gates=${[...gates, ...(evictionRequest ? ['GenericWorkload'] : [])].map((gate) => `${gate}=true`).join(',')}`,
    '--runtime-config=lifecycle.k8s.io/v1alpha1=true',
  ];
}

const gates = ['EvictionRequestAPI', 'NodeLifecycleConditions'];

/** The directory of the audit logs, without which there are none, and their policy. */
interface AuditOptions {
  auditLogs?: string | undefined;
  auditPolicy?: string | undefined;
}

/** Several apiservers may write to the directory, so each log has a name of its own. */
function auditArguments({ auditLogs, auditPolicy }: AuditOptions): string[] {
  if (auditLogs === undefined) return [];
  const policy = auditPolicy ?? fileURLToPath(new URL('./audit-policy.yaml', import.meta.url));
  return [
    `--audit-policy-file=${policy}`,
    `--audit-log-path=${join(auditLogs, `${randomUUID()}.log`)}`,
    // One file: readers know its name, and how far they have read.
    '--audit-log-maxsize=100000',
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
    // Does not overlap the range of Services.
    '--cidr=10.64.0.0/10',
    ...readdirSync(stages)
      .filter((file) => file.endsWith('.yaml'))
      .toSorted()
      .map((file) => `--config=${join(stages, file)}`),
  ];
}

const run = promisify(execFile);

/** Creates the keys and tokens of a sandbox that has none yet. */
export function writeCredentials(layout: Layout): void {
  if (!existsSync(layout.serviceAccountKey)) {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    writePrivate(layout.serviceAccountKey, privateKey.export({ type: 'sec1', format: 'pem' }).toString());
  }
  if (existsSync(layout.tokens) && readFileSync(layout.tokens, 'utf8').includes(kubeProxyUser)) return;
  const nodes = Array.from({ length: maxRealNodes }, (_, index) => nodeUser(realNodeName(index)));
  const rows = [
    [randomToken(), 'sandbox-admin', 'sandbox-admin', '"system:masters"'],
    tokenOf(workerIdentity),
    tokenOf(admissionIdentity),
    [randomToken(), kubeProxyUser, kubeProxyUser],
    ...nodes.map((user) => [randomToken(), user, user, '"system:nodes"']),
  ];
  writePrivate(layout.tokens, `${rows.map((row) => row.join(',')).join('\n')}\n`);
}

const kubeProxyUser = 'system:kube-proxy';

function nodeUser(name: string): string {
  return `system:node:${name}`;
}

/** Returns a row of the token file with the user name and the groups of a ServiceAccount. */
function tokenOf(identity: ServiceAccount): string[] {
  const { namespace } = identity;
  const user = userOf(identity);
  const groups = ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'];
  return [randomToken(), user, user, `"${groups.join(',')}"`];
}

interface ServiceAccount {
  namespace: string;
  name: string;
}

function userOf({ namespace, name }: ServiceAccount): string {
  return `system:serviceaccount:${namespace}:${name}`;
}

function randomToken(): string {
  return randomBytes(24).toString('hex');
}

/** Reads the bearer token of a user from the file of `writeCredentials`. */
function tokenFor(layout: Layout, user: string): string {
  const rows = readFileSync(layout.tokens, 'utf8').split('\n');
  const [token] = rows.map((row) => row.split(',')).find(([, name]) => name === user) ?? [];
  if (!token)
    throw new SandboxError(`${layout.tokens} is damaged: delete ${layout.dir} and start the sandbox again`);
  return token;
}

/** Returns the file of the apiserver's self-signed certificate, which it writes at its first start. */
function certificateOf(layout: Layout): string {
  return join(layout.certificates, 'apiserver.crt');
}

/** Returns the access of the administrator to the sandbox's apiserver. */
export function apiServerOf(layout: Layout, { host, ports }: Addresses): ApiServer {
  return {
    host,
    port: ports.apiserver,
    ca: readFileSync(certificateOf(layout), 'utf8'),
    token: tokenFor(layout, 'sandbox-admin'),
  };
}

/** Writes the kubeconfigs of the administrator, the worker and the admission server. The apiserver must have written its certificate. */
export function writeKubeconfigs(layout: Layout, addresses: Addresses): void {
  const cluster = clusterOf(layout, addresses);
  const write = (file: string, name: string, user: string) =>
    writePrivate(file, kubeconfig(cluster, name, tokenFor(layout, user)));
  write(layout.kubeconfig, 'sandbox-admin', 'sandbox-admin');
  write(layout.workerKubeconfig, 'sandbox-worker', userOf(workerIdentity));
  write(layout.admissionKubeconfig, 'sandbox-admission', userOf(admissionIdentity));
}

/** Returns the kubeconfigs of a real node. */
export function nodeKubeconfigs(
  layout: Layout,
  addresses: Addresses,
  name: string,
): { kubelet: string; kubeProxy: string } {
  const cluster = clusterOf(layout, addresses);
  return {
    kubelet: kubeconfig(cluster, name, tokenFor(layout, nodeUser(name))),
    kubeProxy: kubeconfig(cluster, 'kube-proxy', tokenFor(layout, kubeProxyUser)),
  };
}

/** Returns the kubeconfig of a user with a token of its own. */
export function kubeconfigWith(
  layout: Layout,
  addresses: Addresses,
  { name, token }: { name: string; token: string },
): string {
  return kubeconfig(clusterOf(layout, addresses), name, token);
}

function clusterOf(layout: Layout, { host, ports }: Addresses): object {
  const ca = readFileSync(certificateOf(layout)).toString('base64');
  return { server: `https://${host}:${ports.apiserver}`, 'certificate-authority-data': ca };
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

/** Properties of kwok nodes in addition to the usual labels. */
interface NodeOptions {
  labels?: Readonly<Record<string, string>>;
  taints?: readonly object[];
}

/** Keeps pods that do not tolerate it from simulated nodes, where they would not run. */
export const fakeNodeTaint = { key: 'kwok.x-k8s.io/node', value: 'fake', effect: 'NoSchedule' } as const;

/** Creates those kwok nodes that do not exist. Returns when all are Ready and schedulable and kwok runs their pods. */
export async function addNodes(
  server: ApiServer,
  names: readonly string[],
  { labels = {}, taints = [] }: NodeOptions,
  wait: WaitOptions,
): Promise<void> {
  await Promise.all(names.map((name) => createNode(server, name, { labels, taints })));
  const waiting = new Set(names);
  const notReady = async () => {
    const ready = await readyNodes(server, waiting);
    for (const name of ready.keys()) waiting.delete(name);
    // Lets the pods of each node start at once, before the other nodes are Ready.
    if (ready.size > 0) await touchWaitingPods(server, ({ spec }) => ready.has(spec.nodeName ?? ''));
    return waiting.size === 0 ? undefined : `${waiting.size} nodes are not Ready, such as ${[...waiting][0]}`;
  };
  const intervalMs = names.length > manyNodes ? manyNodesIntervalMs : undefined;
  await until('the nodes to be Ready', notReady, { ...wait, ...(intervalMs && { intervalMs }) });
}

const manyNodes = 20;
/** Lists of many nodes are expensive for the apiserver. */
const manyNodesIntervalMs = 250;

async function createNode(server: ApiServer, name: string, options: Required<NodeOptions>): Promise<void> {
  const answer = await ask(server, 'POST', '/api/v1/nodes', fakeNode(name, options));
  const exists = answer.status === 409;
  if (answer.status !== 201 && !exists) {
    throw new SandboxError(`Node ${name} was refused with ${answer.status}: ${answer.body.slice(0, 300)}`);
  }
}

function fakeNode(name: string, { labels, taints }: Required<NodeOptions>): object {
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
    ...(taints.length > 0 && { spec: { taints } }),
    status: { capacity, allocatable: capacity },
  };
}

/** A probe for `until`: returns undefined when a real node is Ready since its last boot. */
export async function nodeReadiness(
  server: ApiServer,
  name: string,
  bootId: string | undefined,
): Promise<string | undefined> {
  const ready = await readyNodes(server, new Set([name]));
  const registered = ready.get(name)?.status.nodeInfo?.bootID;
  return registered !== undefined && registered === bootId ? undefined : `Node ${name} is not Ready`;
}

interface ListedNode extends KubeObject {
  spec: { taints?: { key: string }[] };
  status: { conditions?: Condition[]; nodeInfo?: { bootID: string } };
}

/**
 * Returns those of the nodes that are Ready and whose Lease exists, by their names. The garbage collector is about to delete the Lease of an earlier node of
 * the same name, and the node would not be Ready until kwok creates another one.
 */
async function readyNodes(server: ApiServer, names: ReadonlySet<string>): Promise<Map<string, ListedNode>> {
  const [nodes, leases] = await Promise.all([
    get<{ items: ListedNode[] }>(server, '/api/v1/nodes'),
    get<{ items: Lease[] }>(server, nodeLeases),
  ]);
  const owners = new Set(
    leases.items.flatMap(({ metadata }) => metadata.ownerReferences ?? []).map(({ uid }) => uid),
  );
  const ready = nodes.items.filter((node) => names.has(node.metadata.name) && isReady(node));
  return new Map(
    ready
      .filter(({ metadata }) => owners.has(metadata.uid ?? ''))
      .map((node) => [node.metadata.name, node] as const),
  );
}

function isReady(node: ListedNode): boolean {
  const isTainted = node.spec.taints?.some(({ key }) => key === 'node.kubernetes.io/not-ready');
  return (
    !isTainted &&
    node.status.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true
  );
}

const nodeLeases = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';

/**
 * Deletes the node Leases of a previous kwok. Each kwok has its own identity and ignores for 40 s a node whose Lease another
 * one holds, so this precedes its start. The Lease of a kubelet names the node as its holder and is kept.
 */
export async function deleteKwokLeases(server: ApiServer): Promise<void> {
  const { items } = await get<{ items: Lease[] }>(server, nodeLeases);
  const held = items.filter(({ metadata, spec }) => spec.holderIdentity !== metadata.name);
  await Promise.all(held.map(({ metadata }) => ask(server, 'DELETE', `${nodeLeases}/${metadata.name}`)));
}

interface ListedPod extends KubeObject {
  spec: { nodeName?: string };
  status: { phase?: string };
}

const maxTouchesInFlight = 16;

/**
 * Changes an annotation of pods that are starting or terminating, so that kwok processes them again. Needed after an outage of
 * the apiserver and for new nodes: kwok 0.8.0 does not retry a deletion whose answer it did not receive, and skips the pods of
 * a node until it has observed its own Lease for it.
 */
export async function touchWaitingPods(
  server: ApiServer,
  isSelected: (pod: ListedPod) => boolean = () => true,
): Promise<void> {
  const { items } = await get<{ items: ListedPod[] }>(server, '/api/v1/pods');
  const waiting = items.filter((pod) => isWaiting(pod) && isSelected(pod));
  for (let touched = 0; touched < waiting.length; touched += maxTouchesInFlight)
    await Promise.all(waiting.slice(touched, touched + maxTouchesInFlight).map((pod) => touch(server, pod)));
}

function isWaiting({ metadata, spec, status }: ListedPod): boolean {
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
 * Deletes the ConfigMap `kube-root-ca.crt` of an earlier run before kube-controller-manager starts: its controllers create it
 * again with the same content, which shows that they work.
 */
export async function deleteRootCertificate(server: ApiServer): Promise<void> {
  await ask(server, 'DELETE', rootCertificate);
}

/** Waits for objects that kube-controller-manager creates, such as the ServiceAccount that pods of the namespace need. */
export async function untilControllersWork(server: ApiServer, wait: WaitOptions): Promise<void> {
  const probe = async () => {
    const answers = await Promise.all(
      [defaultAccount, rootCertificate].map((path) => ask(server, 'GET', path)),
    );
    return answers.every(({ status }) => status === 200)
      ? undefined
      : 'its objects in namespace default are missing';
  };
  await until('the controllers of kube-controller-manager to work', probe, wait);
}

/** The manifests that `sandbox up` installs: CRDs, policies, permissions and the namespace of the worker. */
const deployment = fileURLToPath(new URL('../deploy', import.meta.url));

/** Lets clients of Temporal maintain all nodes: nobody else has access to the Temporal of a sandbox. */
const temporalUser = join(deployment, 'temporal-user');

/** Lets windows run Jobs: the nodes of a sandbox are simulated. */
const definitions = join(deployment, 'crd');

/**
 * Applies the CRDs as soon as the apiserver accepts them, which is before it is ready; `install` applies them again in the
 * same way. The apiserver reads the schemas every 5 s, and until it has read ours it rejects objects that a
 * MutatingAdmissionPolicy matches, so an early start saves time.
 */
export async function applyDefinitions(
  layout: Layout,
  addresses: Addresses,
  wait: WaitOptions,
): Promise<void> {
  const objects = readdirSync(definitions)
    .filter((file) => file.endsWith('.yaml') && file !== 'kustomization.yaml')
    .map((file) => parse(readFileSync(join(definitions, file), 'utf8')) as KubeObject);
  const probe = async () => {
    const answers = await Promise.all(objects.map((object) => applyDefinition(layout, addresses, object)));
    return answers.find((answer) => answer !== undefined);
  };
  await until('the CustomResourceDefinitions to be applied', probe, wait);
}

async function applyDefinition(
  layout: Layout,
  addresses: Addresses,
  object: KubeObject,
): Promise<string | undefined> {
  const path = `${customResourceDefinitions}/${object.metadata.name}?fieldManager=kubectl&force=true`;
  try {
    const { status, body } = await ask(apiServerOf(layout, addresses), 'PATCH', path, object);
    return status === 200 || status === 201 ? undefined : body.slice(0, 300);
  } catch (error) {
    return errorMessage(error);
  }
}

const customResourceDefinitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';

/** Applies deploy/ with what is optional there, and waits until its CRDs are served and its policy is in effect. */
export async function install(
  layout: Layout,
  server: ApiServer,
  { mutatingPolicies, evictionRequests }: InstallChoice,
  wait: WaitOptions,
): Promise<void> {
  const file = await writeManifests(layout, { mutatingPolicies, evictionRequests });
  await until('deploy/ to be applied', () => apply(layout, ['-f', file]), wait);
  await until(`${temporalUser} to be applied`, () => apply(layout, ['-k', temporalUser]), wait);
  await until('the CustomResourceDefinitions to be Established', () => unestablished(server), wait);
  // Without the policies, nobody can create a NodeMaintenance until an admission server runs.
  if (mutatingPolicies)
    await until('the policy for drain plans to be in effect', () => incompletePlan(server), wait);
}

/** Reports whether the apiserver serves MutatingAdmissionPolicies, which it does since Kubernetes 1.36. */
export async function servesMutatingPolicies(server: ApiServer): Promise<boolean> {
  const { status } = await ask(
    server,
    'GET',
    '/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies',
  );
  return status === 200;
}

/** Options with which deploy/ is installed. */
type InstallChoice = Required<Pick<InstallationOptions, 'mutatingPolicies' | 'evictionRequests'>>;

/** Throws SandboxError unless the apiserver serves EvictionRequests. */
export async function requireEvictionRequests(server: ApiServer): Promise<void> {
  const { apiVersion, plural } = EVICTION_REQUEST;
  const { status } = await ask(server, 'GET', `/apis/${apiVersion}/${plural}?limit=1`);
  if (status !== 200)
    throw new SandboxError(
      'This version of Kubernetes has no EvictionRequests: --eviction-request needs 1.37 or later',
    );
}

/** Writes the manifests for admission servers that run outside the cluster, on any port of this host. */
async function writeManifests(layout: Layout, choice: InstallChoice): Promise<string> {
  const options: InstallationOptions = {
    ...choice,
    webhookHosts: ['127.0.0.1'],
    windowJobs: { kind: 'Enabled', podSecurity: 'baseline' },
  };
  const manifests = renderManifests(await readInstallation(options), options);
  const file = join(layout.dir, 'manifests.yaml');
  writePrivate(file, manifests.map((manifest) => stringify(manifest)).join('---\n'));
  return file;
}

/** Applies manifests once. Returns undefined when the apiserver accepted everything: an object may have to wait for its CRD. */
async function apply(layout: Layout, source: readonly string[]): Promise<string | undefined> {
  const flags = ['--server-side', '--force-conflicts', ...source];
  const env = { KUBECONFIG: layout.kubeconfig, HOME: layout.dir, PATH: layout.bin };
  try {
    await run(join(layout.bin, 'kubectl'), ['apply', ...flags], { env });
    return undefined;
  } catch (error) {
    const output = String((error as { stderr?: string }).stderr ?? error).trim();
    if (/no matches for kind|ensure CRDs are installed first/.test(output)) return output;
    throw new SandboxError(
      `kubectl apply ${source.join(' ')} failed: ${output.split('\n').slice(-3).join(' | ')}`,
    );
  }
}

/** Creates a NodeMaintenance as a dry run: the apiserver rejects it for seconds, until it has read the schema. */
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
      !status?.conditions?.some(({ type, status: value }) => type === 'Established' && value === 'True'),
  );
  return waiting.length === 0
    ? undefined
    : `not Established: ${waiting.map(({ metadata }) => metadata.name).join(', ')}`;
}
