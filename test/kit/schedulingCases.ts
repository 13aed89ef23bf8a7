import type { KubeObject, Node, Taint } from '../../api/core.ts';
import type { RawPod } from '../../kube/resources.ts';

/** A pod of a case: fields of its metadata and spec, on a node or not. */
interface CasePod {
  readonly node?: string;
  readonly labels?: Record<string, string>;
  readonly spec?: object;
}

interface CaseNode {
  readonly labels?: Record<string, string>;
  readonly allocatable?: Record<string, string>;
  readonly taints?: Taint[];
  readonly unschedulable?: boolean;
}

/** A decision of the scheduler about one pod. Only these nodes have the label `case` of the case, which every pod of it selects. */
export interface SchedulingCase {
  readonly when: string;
  readonly nodes: Readonly<Record<string, CaseNode>>;
  readonly existing?: readonly CasePod[];
  readonly pod: CasePod;
  /** Names of the nodes that fit. */
  readonly fits: readonly string[];
  /** If no node fits: reasons of the scheduler for the nodes of the case. */
  readonly because?: string;
  readonly volumes?: readonly CaseVolume[];
}

interface CaseVolume {
  readonly claim: string;
  readonly labels?: Record<string, string>;
  /** The zone that its node affinity requires. */
  readonly zone?: string;
}

const zone = (name: string) => ({ 'topology.kubernetes.io/zone': name });
const cpu = (quantity: string, restartPolicy?: string) => ({
  name: `c${quantity}`.toLowerCase().replace('.', '-'),
  image: 'none',
  resources: { requests: { cpu: quantity } },
  ...(restartPolicy !== undefined && { restartPolicy }),
});
const requesting = (requests: Record<string, string>) => ({
  containers: [{ name: 'main', image: 'none', resources: { requests, limits: requests } }],
});
const port = (hostPort: number, differs: { protocol?: string; hostIP?: string } = {}) => ({
  containers: [{ name: 'main', image: 'none', ports: [{ containerPort: hostPort, hostPort, ...differs }] }],
});
const web = { app: 'web' };
const term = (topologyKey: string, matchLabels: Record<string, string>) => ({
  topologyKey,
  labelSelector: { matchLabels },
});
const repels = (topologyKey: string, matchLabels: Record<string, string>) => ({
  affinity: {
    podAntiAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: [term(topologyKey, matchLabels)],
    },
  },
});
const attracts = (topologyKey: string, ...terms: Record<string, string>[]) => ({
  affinity: {
    podAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: terms.map((labels) => term(topologyKey, labels)),
    },
  },
});
const zoneKey = 'topology.kubernetes.io/zone';
const hostKey = 'kubernetes.io/hostname';
const spread = (differs: object = {}) => ({
  topologySpreadConstraints: [
    {
      maxSkew: 1,
      topologyKey: zoneKey,
      whenUnsatisfiable: 'DoNotSchedule',
      labelSelector: { matchLabels: web },
      ...differs,
    },
  ],
});
const claiming = (claimName: string) => ({
  volumes: [{ name: 'data', persistentVolumeClaim: { claimName } }],
});
const dedicated: Taint = { key: 'dedicated', value: 'db', effect: 'NoSchedule' };
const twoZones = { a: { labels: zone('a') }, b: { labels: zone('b') } };

/** The documented rules of the default scheduler, one or more cases each. */
export const schedulingCases: readonly SchedulingCase[] = [
  {
    when: 'NodeUnschedulable: a cordoned node receives nothing',
    nodes: { open: {}, cordoned: { unschedulable: true } },
    pod: {},
    fits: ['open'],
  },
  {
    when: 'NodeUnschedulable: a pod tolerates cordoned nodes',
    nodes: { open: {}, cordoned: { unschedulable: true } },
    pod: { spec: { tolerations: [{ key: 'node.kubernetes.io/unschedulable', operator: 'Exists' }] } },
    fits: ['cordoned', 'open'],
  },
  {
    when: 'NodeUnschedulable: every node is cordoned',
    nodes: { one: { unschedulable: true }, two: { unschedulable: true } },
    pod: {},
    fits: [],
    because: '2 node(s) were unschedulable',
  },
  {
    when: 'TaintToleration: an untolerated taint keeps a pod away, and a preference does not',
    nodes: {
      tainted: { taints: [dedicated] },
      preferred: { taints: [{ ...dedicated, effect: 'PreferNoSchedule' }] },
    },
    pod: {},
    fits: ['preferred'],
  },
  {
    when: 'TaintToleration: a toleration admits the pod',
    nodes: { tainted: { taints: [dedicated] } },
    pod: { spec: { tolerations: [{ key: 'dedicated', operator: 'Equal', value: 'db' }] } },
    fits: ['tainted'],
  },
  {
    when: 'NodeAffinity: terms are ORed, and compared together with the node selector',
    nodes: {
      a: { labels: { disk: 'ssd', ...zone('a') } },
      b: { labels: zone('b') },
      c: { labels: zone('c') },
    },
    pod: {
      spec: {
        affinity: {
          nodeAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: {
              nodeSelectorTerms: [
                { matchExpressions: [{ key: 'disk', operator: 'Exists' }] },
                { matchExpressions: [{ key: zoneKey, operator: 'In', values: ['c'] }] },
              ],
            },
          },
        },
      },
    },
    fits: ['a', 'c'],
  },
  {
    when: 'NodePorts: a host port is used once per node',
    nodes: { used: {}, free: {} },
    existing: [{ node: 'used', spec: port(8080) }],
    pod: { spec: port(8080) },
    fits: ['free'],
  },
  {
    when: 'NodePorts: the port of another protocol does not conflict',
    nodes: { used: {} },
    existing: [{ node: 'used', spec: port(8080, { protocol: 'UDP' }) }],
    pod: { spec: port(8080) },
    fits: ['used'],
  },
  {
    when: 'NodePorts: the port of another address does not conflict',
    nodes: { used: {} },
    existing: [{ node: 'used', spec: port(8080, { hostIP: '127.0.0.1' }) }],
    pod: { spec: port(8080, { hostIP: '127.0.0.2' }) },
    fits: ['used'],
  },
  {
    when: 'NodePorts: the port of one address conflicts with that of all',
    nodes: { used: {}, free: {} },
    existing: [{ node: 'used', spec: port(8080, { hostIP: '127.0.0.1' }) }],
    pod: { spec: port(8080) },
    fits: ['free'],
  },
  {
    when: 'NodePorts: the port of all addresses conflicts with that of one',
    nodes: { used: {}, free: {} },
    existing: [{ node: 'used', spec: port(8080) }],
    pod: { spec: port(8080, { hostIP: '127.0.0.1' }) },
    fits: ['free'],
  },
  {
    when: 'NodePorts: another port does not conflict',
    nodes: { used: {} },
    existing: [{ node: 'used', spec: port(8080) }],
    pod: { spec: port(8081) },
    fits: ['used'],
  },
  {
    when: 'NodeResourcesFit: what the pods on a node request is not free',
    nodes: { full: { allocatable: { cpu: '2' } }, free: { allocatable: { cpu: '2' } } },
    existing: [{ node: 'full', spec: requesting({ cpu: '1500m' }) }],
    pod: { spec: requesting({ cpu: '0.6' }) },
    fits: ['free'],
  },
  {
    when: 'NodeResourcesFit: each missing resource is a reason',
    nodes: {
      small: { allocatable: { cpu: '1', memory: '1Gi' } },
      smaller: { allocatable: { cpu: '1', memory: '4Gi' } },
    },
    pod: { spec: requesting({ cpu: '2', memory: '2Gi' }) },
    fits: [],
    because: '1 Insufficient memory, 2 Insufficient cpu',
  },
  {
    when: 'NodeResourcesFit: exactly what is left fits',
    nodes: { node: { allocatable: { cpu: '2' } } },
    existing: [{ node: 'node', spec: requesting({ cpu: '1500m' }) }],
    pod: { spec: requesting({ cpu: '500m' }) },
    fits: ['node'],
  },
  {
    when: 'NodeResourcesFit: an init container may need more than the containers',
    nodes: { small: { allocatable: { cpu: '2' } }, large: { allocatable: { cpu: '4' } } },
    pod: { spec: { initContainers: [cpu('3')], containers: [cpu('1')] } },
    fits: ['large'],
  },
  {
    when: 'NodeResourcesFit: a sidecar runs beside the containers and later init containers',
    nodes: { small: { allocatable: { cpu: '2500m' } }, large: { allocatable: { cpu: '3' } } },
    pod: { spec: { initContainers: [cpu('2', 'Always')], containers: [cpu('1')] } },
    fits: ['large'],
  },
  {
    when: 'NodeResourcesFit: extended resources',
    nodes: { plain: {}, gpu: { allocatable: { 'example.com/gpu': '2' } } },
    existing: [{ node: 'gpu', spec: requesting({ 'example.com/gpu': '1' }) }],
    pod: { spec: requesting({ 'example.com/gpu': '1' }) },
    fits: ['gpu'],
  },
  {
    when: 'NodeResourcesFit: a node has room for a number of pods',
    nodes: { full: { allocatable: { pods: '1' } } },
    existing: [{ node: 'full' }],
    pod: {},
    fits: [],
    because: '1 Too many pods',
  },
  {
    when: 'VolumeBinding: a local volume stays in its zone',
    nodes: twoZones,
    pod: { spec: claiming('in-b') },
    volumes: [{ claim: 'in-b', zone: 'b' }],
    fits: ['b'],
  },
  {
    when: 'VolumeZone: the label of a volume names its zones',
    nodes: { ...twoZones, c: { labels: zone('c') } },
    pod: { spec: claiming('in-a-or-c') },
    volumes: [{ claim: 'in-a-or-c', labels: { [zoneKey]: 'a__c' } }],
    fits: ['a', 'c'],
  },
  {
    when: 'VolumeZone: a node without labels of zones and regions has any volume',
    nodes: { ...twoZones, none: {} },
    pod: { spec: claiming('in-a') },
    volumes: [{ claim: 'in-a', labels: { [zoneKey]: 'a' } }],
    fits: ['a', 'none'],
  },
  {
    when: 'PodTopologySpread: the skew stays within its maximum',
    nodes: twoZones,
    existing: [{ node: 'a', labels: web }],
    pod: { labels: web, spec: spread() },
    fits: ['b'],
  },
  {
    when: 'PodTopologySpread: a cordoned zone counts as empty',
    nodes: { a: { labels: zone('a') }, b: { labels: zone('b'), unschedulable: true } },
    existing: [{ node: 'a', labels: web }],
    pod: { labels: web, spec: spread() },
    fits: [],
    because: "1 node(s) didn't match pod topology spread constraints, 1 node(s) were unschedulable",
  },
  {
    when: 'PodTopologySpread: a cordoned zone does not count if taints are honoured',
    nodes: {
      a: { labels: zone('a') },
      b: {
        labels: zone('b'),
        unschedulable: true,
        taints: [{ key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' }],
      },
    },
    existing: [{ node: 'a', labels: web }],
    pod: { labels: web, spec: spread({ nodeTaintsPolicy: 'Honor' }) },
    fits: ['a'],
  },
  {
    when: 'PodTopologySpread: with fewer domains than minDomains the minimum is 0',
    nodes: twoZones,
    existing: [
      { node: 'a', labels: web },
      { node: 'b', labels: web },
    ],
    pod: { labels: web, spec: spread({ minDomains: 3 }) },
    fits: [],
    because: "2 node(s) didn't match pod topology spread constraints",
  },
  {
    when: 'PodTopologySpread: a node needs the topology key',
    nodes: { a: { labels: zone('a') }, none: {} },
    pod: { labels: web, spec: spread() },
    fits: ['a'],
  },
  {
    when: 'InterPodAffinity: replicas on different nodes',
    nodes: { taken: {}, free: {} },
    existing: [{ node: 'taken', labels: web }],
    pod: { labels: web, spec: repels(hostKey, web) },
    fits: ['free'],
  },
  {
    when: 'InterPodAffinity: replicas in different zones, of which none is left',
    nodes: { ...twoZones, a2: { labels: zone('a') } },
    existing: [
      { node: 'a', labels: web },
      { node: 'b', labels: web },
    ],
    pod: { labels: web, spec: repels(zoneKey, web) },
    fits: [],
    because: "3 node(s) didn't match pod anti-affinity rules",
  },
  {
    when: 'InterPodAffinity: the anti-affinity of a pod on the node',
    nodes: { guarded: {}, free: {} },
    existing: [{ node: 'guarded', labels: { app: 'db' }, spec: repels(hostKey, web) }],
    pod: { labels: web },
    fits: ['free'],
  },
  {
    when: 'InterPodAffinity: a pod follows another one into its zone',
    nodes: { ...twoZones, b2: { labels: zone('b') } },
    existing: [{ node: 'b', labels: { app: 'db' } }],
    pod: { labels: web, spec: attracts(zoneKey, { app: 'db' }) },
    fits: ['b', 'b2'],
  },
  {
    when: 'InterPodAffinity: a pod is followed only if it matches all terms',
    nodes: twoZones,
    existing: [
      { node: 'a', labels: { app: 'db' } },
      { node: 'b', labels: { app: 'db', role: 'primary' } },
    ],
    pod: { labels: web, spec: attracts(zoneKey, { app: 'db' }, { role: 'primary' }) },
    fits: ['b'],
  },
  {
    when: 'InterPodAffinity: nothing to follow',
    nodes: twoZones,
    pod: { labels: web, spec: attracts(zoneKey, { app: 'db' }) },
    fits: [],
    because: "2 node(s) didn't match pod affinity rules",
  },
  {
    when: 'InterPodAffinity: the first pod of a group that follows itself fits anywhere',
    nodes: twoZones,
    pod: { labels: web, spec: attracts(zoneKey, web) },
    fits: ['a', 'b'],
  },
];

/** The objects of a case, with names that begin with its own. */
export interface CaseObjects {
  readonly nodes: Node[];
  readonly existing: RawPod[];
  readonly pod: RawPod;
  readonly claims: KubeObject[];
  readonly volumes: KubeObject[];
  readonly namespace: string;
}

/** Returns the objects; `id` is a DNS label that no other case has. */
export function caseObjects(one: SchedulingCase, id: string): CaseObjects {
  const nameOf = (node: string) => `${id}-${node}`;
  const nodes = Object.entries(one.nodes).map(([name, node]) => nodeOf(nameOf(name), id, node));
  const existing = (one.existing ?? []).map((pod, index) => podOf(`existing-${index}`, pod, id));
  const volumes = (one.volumes ?? []).map((volume) => volumeOf(volume, id));
  const claims = (one.volumes ?? []).map(({ claim }) => claimOf(claim, id));
  return { nodes, existing, pod: podOf('pod', one.pod, id), claims, volumes, namespace: id };
}

/** Nodes that do not belong to the case, which its pods do not select. */
const caseLabel = 'case';

function nodeOf(name: string, id: string, { labels, allocatable, taints, unschedulable }: CaseNode): Node {
  const whole = { cpu: '32', memory: '64Gi', pods: '110', ...allocatable };
  return {
    metadata: {
      name,
      annotations: { 'kwok.x-k8s.io/node': 'fake' },
      labels: { [hostKey]: name, type: 'kwok', [caseLabel]: id, ...labels },
    },
    spec: { ...(taints && { taints }), ...(unschedulable && { unschedulable }) },
    status: { capacity: whole, allocatable: whole } as Node['status'] & object,
  };
}

function podOf(name: string, { node, labels = {}, spec = {} }: CasePod, id: string): RawPod {
  return {
    metadata: { name, namespace: id, labels },
    spec: {
      containers: [{ name: 'main', image: 'none' }],
      nodeSelector: { [caseLabel]: id },
      ...(node !== undefined && { nodeName: `${id}-${node}` }),
      ...spec,
    },
  };
}

const storage = { storageClassName: '', accessModes: ['ReadWriteOnce'] };

function volumeOf({ claim, labels, zone: required }: CaseVolume, id: string): KubeObject {
  const matchExpressions = [{ key: zoneKey, operator: 'In', values: [required] }];
  return {
    metadata: { name: `${id}-${claim}`, ...(labels && { labels }) },
    spec: {
      ...storage,
      capacity: { storage: '1Gi' },
      hostPath: { path: '/tmp' },
      claimRef: { namespace: id, name: claim },
      ...(required && { nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions }] } } }),
    },
  } as KubeObject;
}

function claimOf(claim: string, id: string): KubeObject {
  return {
    metadata: { name: claim, namespace: id },
    spec: { ...storage, volumeName: `${id}-${claim}`, resources: { requests: { storage: '1Gi' } } },
  } as KubeObject;
}
