import {
  EVACUATION,
  INSTIGATOR_FINALIZER,
  MAINTENANCE_WINDOW,
  NODE_DISRUPTION_BUDGET,
  NODE_DISRUPTION_BUDGET_NAME,
  NODE_LEASE_NAMESPACE,
  NODE_MAINTENANCE,
  NODE_READINESS,
  NODE_READINESS_POLICY,
  RELEASED_ANNOTATION,
  REQUESTER_ANNOTATION,
  SYSTEM_NAMESPACE,
  TEMPORAL_USER,
  WINDOW_LABEL,
  WindowOverrideAnnotation,
  WindowRequestAnnotation,
  WORK_NAMESPACE,
} from '../../api/names.ts';

/**
 * Permissions of users with the roles of deploy/, from which docs/reference/rbac.md is generated. test/e2e/rbac.slow.test.ts sends each cell as
 * `kubectl --as` does, in a cluster with the nodes and namespaces that are named here.
 */

/** `node-1` and `node-2` are the nodes that some accounts may delete; `node-3` is another one. */
export const ownNodes = ['node-1', 'node-2'] as const;
export const otherNode = 'node-3';
/** The namespace of the tenant, and one of another tenant. */
export const [ownNamespace, otherNamespace] = ['team-a', 'team-b'];
/** The pods of each namespace. A PodDisruptionBudget forbids the eviction of the last two; the last one has an Evacuation. */
export const [pod, protectedPod, evacuatedPod] = ['batch', 'db', 'web'];
export const podBudget = 'budget';

/** A role of deploy/, a built-in one, or rules. Without a namespace it is granted for the cluster. */
export interface Grant {
  role?: { kind: 'ClusterRole' | 'Role'; name: string };
  rules?: { apiGroups: string[]; resources: string[]; verbs: string[]; resourceNames?: string[] }[];
  namespace?: string;
}

interface Account {
  user: string;
  /** Description of its rights in Markdown. */
  has: string;
  grants: Grant[];
}

const clusterRole = (name: string, namespace?: string): Grant => ({
  role: { kind: 'ClusterRole', name },
  ...(namespace !== undefined && { namespace }),
});
const role = (name: string, namespace: string): Grant => ({ role: { kind: 'Role', name }, namespace });
const mayDeleteOwnNodes: Grant = {
  rules: [{ apiGroups: [''], resources: ['nodes'], verbs: ['delete'], resourceNames: [...ownNodes] }],
};
const nodesText = `verb \`delete\` on ${ownNodes.map((name) => `\`${name}\``).join(' and ')}`;

export const accounts = {
  outsider: { user: 'outsider', has: 'nothing', grants: [] },
  viewer: {
    user: 'viewer',
    has: 'ClusterRole `node-maintenance-view`',
    grants: [clusterRole('node-maintenance-view')],
  },
  supporter: {
    user: 'supporter',
    has: 'ClusterRole `node-maintenance-doctor`',
    grants: [clusterRole('node-maintenance-doctor')],
  },
  tenant: {
    user: 'tenant',
    has: `the built-in ClusterRole \`edit\` in namespace \`${ownNamespace}\`, which includes \`node-maintenance-edit\``,
    grants: [clusterRole('edit', ownNamespace)],
  },
  operator: {
    user: 'operator',
    has: `ClusterRole \`node-maintenance-operator\`, and ${nodesText}`,
    grants: [clusterRole('node-maintenance-operator'), mayDeleteOwnNodes],
  },
  leaseAdmin: {
    user: 'lease-admin',
    has: 'what operator has, and Role `node-maintenance-lease-administrator`',
    grants: [
      clusterRole('node-maintenance-operator'),
      mayDeleteOwnNodes,
      role('node-maintenance-lease-administrator', NODE_LEASE_NAMESPACE),
    ],
  },
  scheduler: {
    user: 'scheduler',
    has: `ClusterRole \`node-maintenance-scheduler\`, and ${nodesText}`,
    grants: [clusterRole('node-maintenance-scheduler'), mayDeleteOwnNodes],
  },
  jobAuthor: {
    user: 'job-author',
    has: 'what scheduler has, and Role `node-maintenance-job-author`',
    grants: [
      clusterRole('node-maintenance-scheduler'),
      mayDeleteOwnNodes,
      role('node-maintenance-job-author', WORK_NAMESPACE),
    ],
  },
  evacuator: {
    user: 'evacuator',
    has: 'ClusterRole `node-maintenance-evacuator`',
    grants: [clusterRole('node-maintenance-evacuator')],
  },
  gateWriter: {
    user: 'gate-writer',
    has: 'ClusterRole `node-maintenance-gate-writer`',
    grants: [clusterRole('node-maintenance-gate-writer')],
  },
  temporal: {
    user: TEMPORAL_USER,
    has: '`deploy/temporal-user`, which is not installed by default',
    grants: [],
  },
} as const satisfies Record<string, Account>;

export type AccountName = keyof typeof accounts;

/** A request to the apiserver, as kubectl sends it. */
export interface Action {
  verb: 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete';
  group: string;
  version: string;
  resource: string;
  subresource?: string;
  namespace?: string;
  name?: string;
  /** The object to create, or the fields to change. */
  object?: object;
}

/** Consequences of allowed requests that are not obvious from the request. The test verifies each. */
export const consequences = {
  cordons: 'The node is cordoned; in stage Complete it is schedulable again.',
  skipsOthers:
    'A node that begins to match and that they may not delete is not cordoned: the status names it as skipped.',
  recordsThem: 'The annotation contains their own name, not the forged one.',
  evictsPod: 'The pod is evicted.',
  respectsBudget: 'The pod stays as long as its PodDisruptionBudget does not allow an eviction.',
  gatesOwnNodes: 'Only nodes that they may delete get the gates: the status of the policy names the others.',
} as const;

export type Consequence = keyof typeof consequences;

export interface Row {
  what: string;
  /** All of them are allowed, or none. */
  actions: Action[];
  allowed: AccountName[];
  consequence?: Consequence;
}

export interface Section {
  title: string;
  rows: Row[];
}

interface Kind {
  group: string;
  version: string;
  plural: string;
  kind?: string;
}

const resourceOf = ({ group, version, plural }: Kind) => ({ group, version, resource: plural });
const core = (resource: string) => ({ group: '', version: 'v1', resource });
const maintenances = resourceOf(NODE_MAINTENANCE);
const windows = resourceOf(MAINTENANCE_WINDOW);
const budgets = resourceOf(NODE_DISRUPTION_BUDGET);
const evacuations = resourceOf(EVACUATION);
const lifecycle = (resource: string) => ({ group: 'lifecycle.k8s.io', version: 'v1alpha1', resource });
const readinesses = resourceOf(NODE_READINESS);
const policies = resourceOf(NODE_READINESS_POLICY);
const leases = { group: 'coordination.k8s.io', version: 'v1', resource: 'leases' };
const jobs = { group: 'batch', version: 'v1', resource: 'jobs' };
const podBudgets = { group: 'policy', version: 'v1', resource: 'poddisruptionbudgets' };
const admission = (resource: string) => ({ group: 'admissionregistration.k8s.io', version: 'v1', resource });
const webhooks = admission('validatingwebhookconfigurations');
const definitions = { group: 'apiextensions.k8s.io', version: 'v1', resource: 'customresourcedefinitions' };

/** Objects that exist: `mine` is of the operator or the scheduler, `others` and `paused` of an administrator, for the other node. */
export const [mine, others, paused] = ['mine', 'others', 'paused'];
/** The name of an object that does not exist: permission is asked before. */
export const absent = 'absent';
/** Is replaced by the UID of a pod. */
export const uidOf = (namespace: string, name: string): string => `<UID of ${namespace}/${name}>`;
const evacuationOf = (namespace: string, name: string): string => `${uidOf(namespace, name)}-${name}`;

export const selecting = (...names: string[]) => ({
  nodeSelectorTerms: names.map((name) => ({
    matchFields: [{ key: 'metadata.name', operator: 'In', values: [name] }],
  })),
});
const everyNode = {
  nodeSelectorTerms: [{ matchExpressions: [{ key: 'kubernetes.io/os', operator: 'Exists' }] }],
};
/** A label that a node gets later. */
export const laterLabel = 'joins-later';
const later = { nodeSelectorTerms: [{ matchExpressions: [{ key: laterLabel, operator: 'Exists' }] }] };

export const maintenanceOf = (name: string, nodeSelector: object, spec: object = {}, metadata = {}) => ({
  apiVersion: NODE_MAINTENANCE.apiVersion,
  kind: NODE_MAINTENANCE.kind,
  metadata: { name, ...metadata },
  spec: { stage: 'Idle', nodeSelector, ...spec },
});

/** Opens in many years. */
const schedule = { timeZone: 'UTC', duration: '1h', calendar: [{ time: '02:00', years: [2099] }] };
const job = { type: 'Job', job: { template: { spec: { containers: [{ name: 'patch', image: 'none' }] } } } };

export const windowOf = (
  name: string,
  nodeSelector: object,
  spec: object = {},
  annotations: Readonly<Record<string, string>> = {},
) => ({
  apiVersion: MAINTENANCE_WINDOW.apiVersion,
  kind: MAINTENANCE_WINDOW.kind,
  metadata: { name, annotations },
  spec: { schedule, nodeSelector, ...spec },
});

export const evacuationObject = (namespace: string, name: string) => ({
  apiVersion: EVACUATION.apiVersion,
  kind: EVACUATION.kind,
  metadata: { name: evacuationOf(namespace, name), namespace, finalizers: [INSTIGATOR_FINALIZER] },
  spec: { podRef: { name, uid: uidOf(namespace, name) }, progressDeadlineSeconds: 1800 },
});

const gates = (name: string) => [
  { name, namespace: ownNamespace, selector: { matchLabels: { 'no-pod-has': name } } },
];

export const readinessOf = (name: string) => ({
  apiVersion: NODE_READINESS.apiVersion,
  kind: NODE_READINESS.kind,
  metadata: { name },
  spec: { readinessGates: gates('cloud') },
});

export const policyOf = (name: string, nodeSelector: object) => ({
  apiVersion: NODE_READINESS_POLICY.apiVersion,
  kind: NODE_READINESS_POLICY.kind,
  metadata: { name },
  spec: { nodeSelector, readinessGates: gates(name) },
});

const leaseOf = (name: string, namespace: string) => ({
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  metadata: { name, namespace },
  spec: { holderIdentity: 'someone' },
});

export const jobOf = (name: string) => ({
  apiVersion: 'batch/v1',
  kind: 'Job',
  metadata: { name, namespace: WORK_NAMESPACE },
  spec: { suspend: true, template: { spec: { ...job.job.template.spec, restartPolicy: 'Never' } } },
});

export const budgetObject = {
  apiVersion: NODE_DISRUPTION_BUDGET.apiVersion,
  kind: NODE_DISRUPTION_BUDGET.kind,
  metadata: { name: NODE_DISRUPTION_BUDGET_NAME },
  spec: { maxUnavailable: 1 },
};

const volume = 'data';
const volumeSpec = { accessModes: ['ReadWriteOnce'], storageClassName: '' };
const storage = '1Gi';

/** A PersistentVolume, and a claim in the namespace of the other tenant. */
export const volumeObjects = [
  {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name: volume },
    spec: { ...volumeSpec, capacity: { storage }, csi: { driver: 'csi.example.com', volumeHandle: volume } },
  },
  {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: volume, namespace: otherNamespace },
    spec: { ...volumeSpec, resources: { requests: { storage } } },
  },
];

type Target = Pick<Action, 'group' | 'version' | 'resource' | 'subresource' | 'namespace'>;
const create = (target: Target, object: object): Action => ({ verb: 'create', ...target, object });
const patch = (target: Target, name: string, object: object): Action => ({
  verb: 'patch',
  ...target,
  name,
  object,
});
/** The same change by both verbs: `kubectl patch` and `kubectl replace`. */
const change = (target: Target, name: string, object: object): Action[] => [
  patch(target, name, object),
  { ...patch(target, name, object), verb: 'update' },
];
const remove = (target: Target, name: string): Action => ({ verb: 'delete', ...target, name });
const read = (target: Target, name: string): Action[] => [
  { verb: 'get', ...target, name },
  { verb: 'list', ...target },
  { verb: 'watch', ...target },
];
const within = (target: Target, namespace: string): Target => ({ ...target, namespace });
const status = (target: Target): Target => ({ ...target, subresource: 'status' });
const labelled = (key: string, value: string) => ({ metadata: { labels: { [key]: value } } });
const annotated = (key: string, value: string | null) => ({ metadata: { annotations: { [key]: value } } });

/** The value does not matter to the apiserver; the worker compares it with the run id of the opening. */
const opening = 'run-id';
const requestsTo = (window: string): Action[] =>
  Object.values(WindowRequestAnnotation).flatMap((key) => change(windows, window, annotated(key, opening)));

const deletes = { after: '2h', onDeadline: 'Delete' };

const operators: AccountName[] = ['operator', 'leaseAdmin'];
const schedulers: AccountName[] = ['scheduler', 'jobAuthor'];
const forged = JSON.stringify({ username: 'jane', groups: ['system:masters'] });
const [ownNode] = ownNodes;

export const sections: Section[] = [
  {
    title: 'Maintenances',
    rows: [
      {
        what: 'read NodeMaintenances',
        actions: read(maintenances, mine),
        allowed: ['viewer', ...operators, ...schedulers],
      },
      {
        what: 'create one for a node of theirs',
        actions: [create(maintenances, maintenanceOf('new', selecting(ownNode), { stage: 'Drain' }))],
        allowed: operators,
        consequence: 'cordons',
      },
      {
        what: 'create one for a node of theirs whose drain deadline deletes pods (verb `delete` on `pods` in all namespaces)',
        actions: [create(maintenances, maintenanceOf('new', selecting(ownNode), { drainDeadline: deletes }))],
        allowed: [],
      },
      {
        what: 'create one for another node',
        actions: [create(maintenances, maintenanceOf('new', selecting(otherNode)))],
        allowed: [],
      },
      {
        what: 'create one for a node of theirs and another node',
        actions: [create(maintenances, maintenanceOf('new', selecting(ownNode, otherNode)))],
        allowed: [],
      },
      {
        what: 'create one for all nodes',
        actions: [create(maintenances, maintenanceOf('new', everyNode, { stage: 'Drain' }))],
        allowed: [],
      },
      {
        what: 'create one that matches no node yet',
        actions: [create(maintenances, maintenanceOf('new', later, { stage: 'Cordon' }))],
        allowed: operators,
        consequence: 'skipsOthers',
      },
      {
        what: 'advance their own',
        actions: change(maintenances, mine, { spec: { stage: 'Drain' } }),
        allowed: operators,
      },
      {
        what: 'cancel their own',
        actions: change(maintenances, mine, { spec: { stage: 'Complete' } }),
        allowed: operators,
      },
      {
        what: 'add another node to their own',
        actions: change(maintenances, mine, { spec: { nodeSelector: selecting(ownNode, otherNode) } }),
        allowed: [],
      },
      { what: 'delete their own', actions: [remove(maintenances, mine)], allowed: operators },
      {
        what: 'advance that of another user for another node',
        actions: change(maintenances, others, { spec: { stage: 'Drain' } }),
        allowed: [],
      },
      {
        what: 'cancel that of another user for another node',
        actions: change(maintenances, others, { spec: { stage: 'Complete' } }),
        allowed: [],
      },
      {
        what: 'take it over, by selecting a node of theirs',
        actions: change(maintenances, others, { spec: { nodeSelector: selecting(ownNode) } }),
        allowed: [],
      },
      {
        what: 'delete that of another user for another node',
        actions: [remove(maintenances, others)],
        allowed: [],
      },
      {
        what: 'write a status',
        actions: change(status(maintenances), mine, { status: { drainPosition: 9 } }),
        allowed: [],
      },
      {
        what: 'create one in the name of another user',
        actions: [
          create(
            maintenances,
            maintenanceOf('new', selecting(ownNode), {}, annotated(REQUESTER_ANNOTATION, forged).metadata),
          ),
        ],
        allowed: operators,
        consequence: 'recordsThem',
      },
      {
        what: 'change the recorded requester',
        actions: [
          ...change(maintenances, mine, annotated(REQUESTER_ANNOTATION, forged)),
          patch(maintenances, others, annotated(REQUESTER_ANNOTATION, forged)),
        ],
        allowed: [],
      },
      {
        what: 'claim that it belongs to a window',
        actions: change(maintenances, mine, labelled(WINDOW_LABEL, others)),
        allowed: [],
      },
    ],
  },
  {
    title: 'Nodes',
    rows: [
      {
        what: 'read Nodes',
        actions: read(core('nodes'), ownNode),
        allowed: ['viewer', ...operators, 'gateWriter'],
      },
      {
        what: 'read namespace kube-system, whose UID identifies the cluster in Temporal',
        actions: [{ verb: 'get', ...core('namespaces'), name: 'kube-system' }],
        allowed: ['viewer', ...operators, ...schedulers],
      },
      {
        what: 'get a PersistentVolume and a PersistentVolumeClaim of another namespace, from which `plan` knows the nodes on which pods fit',
        actions: [
          { verb: 'get', ...core('persistentvolumes'), name: volume },
          { verb: 'get', ...core('persistentvolumeclaims'), namespace: otherNamespace, name: volume },
        ],
        allowed: ['viewer', ...operators],
      },
      {
        what: 'list PersistentVolumes and the PersistentVolumeClaims of another namespace',
        actions: [
          { verb: 'list', ...core('persistentvolumes') },
          { verb: 'list', ...core('persistentvolumeclaims'), namespace: otherNamespace },
        ],
        allowed: [],
      },
      {
        what: 'cordon a node without a maintenance',
        actions: [patch(core('nodes'), ownNode, { spec: { unschedulable: true } })],
        allowed: [],
      },
      {
        what: 'delete a node of theirs',
        actions: [remove(core('nodes'), ownNode)],
        allowed: [...operators, ...schedulers, 'temporal'],
      },
      { what: 'delete another node', actions: [remove(core('nodes'), otherNode)], allowed: ['temporal'] },
      {
        what: 'read maintenance Leases',
        actions: read(within(leases, NODE_LEASE_NAMESPACE), otherNode),
        allowed: ['viewer', ...operators],
      },
      {
        what: 'hold a node by its maintenance Lease',
        actions: [
          create(within(leases, NODE_LEASE_NAMESPACE), leaseOf('new', NODE_LEASE_NAMESPACE)),
          patch(within(leases, NODE_LEASE_NAMESPACE), otherNode, { spec: { holderIdentity: 'me' } }),
        ],
        allowed: ['leaseAdmin'],
      },
      {
        what: 'delete a maintenance Lease',
        actions: [remove(within(leases, NODE_LEASE_NAMESPACE), otherNode)],
        allowed: [],
      },
    ],
  },
  {
    title: 'Windows',
    rows: [
      {
        what: 'read MaintenanceWindows and NodeDisruptionBudgets',
        actions: [...read(windows, mine), ...read(budgets, NODE_DISRUPTION_BUDGET_NAME)],
        allowed: ['viewer', ...operators, ...schedulers],
      },
      {
        what: 'create one for nodes of theirs, by name',
        actions: [create(windows, windowOf('new', selecting(...ownNodes)))],
        allowed: schedulers,
      },
      {
        what: 'create one for another node',
        actions: [create(windows, windowOf('new', selecting(otherNode)))],
        allowed: [],
      },
      {
        what: 'create one for all nodes',
        actions: [create(windows, windowOf('new', everyNode))],
        allowed: [],
      },
      {
        what: 'create one that runs a Job on nodes of theirs',
        actions: [create(windows, windowOf('new', selecting(...ownNodes), { work: job }))],
        allowed: ['jobAuthor'],
      },
      {
        what: 'change their own',
        actions: change(windows, mine, { spec: { schedule: { duration: '2h' } } }),
        allowed: schedulers,
      },
      {
        what: 'let their own run a Job',
        actions: change(windows, mine, { spec: { work: job } }),
        allowed: ['jobAuthor'],
      },
      {
        what: 'change one for another node, or resume it',
        actions: [
          ...change(windows, others, { spec: { schedule: { duration: '2h' } } }),
          patch(windows, paused, { spec: { suspend: false } }),
          patch(windows, paused, annotated(WindowOverrideAnnotation.Paused, null)),
          patch(windows, paused, annotated(WindowOverrideAnnotation.SkippedDates, null)),
        ],
        allowed: [],
      },
      {
        what: 'suspend or pause any, and skip openings',
        actions: [
          ...change(windows, others, { spec: { suspend: true } }),
          ...change(windows, others, annotated(WindowOverrideAnnotation.Paused, 'reason')),
          ...change(windows, others, annotated(WindowOverrideAnnotation.SkippedDates, '2027-01-02')),
        ],
        allowed: schedulers,
      },
      {
        what: 'approve, resume or cancel their own that is open',
        actions: requestsTo(mine),
        allowed: schedulers,
      },
      {
        what: 'approve, resume or cancel one for another node',
        actions: requestsTo(others),
        allowed: [],
      },
      {
        what: 'delete any',
        actions: [remove(windows, mine), remove(windows, others)],
        allowed: schedulers,
      },
      {
        what: 'write a status',
        actions: [patch(status(windows), mine, { status: { observedGeneration: 9 } })],
        allowed: [],
      },
      {
        what: 'create and change NodeDisruptionBudgets',
        actions: [
          create(budgets, budgetObject),
          ...change(budgets, NODE_DISRUPTION_BUDGET_NAME, { spec: { maxUnavailable: 2 } }),
          remove(budgets, NODE_DISRUPTION_BUDGET_NAME),
        ],
        allowed: schedulers,
      },
      {
        what: 'read a Job of a window',
        actions: [{ verb: 'get', ...within(jobs, WORK_NAMESPACE), name: mine }],
        allowed: [...operators, 'jobAuthor'],
      },
      {
        what: 'list Jobs of windows, and create a Job beside them',
        actions: [
          { verb: 'list', ...within(jobs, WORK_NAMESPACE) },
          { verb: 'watch', ...within(jobs, WORK_NAMESPACE) },
          create(within(jobs, WORK_NAMESPACE), jobOf('new')),
        ],
        allowed: ['jobAuthor'],
      },
    ],
  },
  {
    title: 'Evacuations',
    rows: [
      {
        what: 'read Pods and PodDisruptionBudgets of the own namespace',
        actions: [
          ...read(within(core('pods'), ownNamespace), pod),
          ...read(within(podBudgets, ownNamespace), podBudget),
        ],
        allowed: ['viewer', 'tenant', ...operators],
      },
      {
        what: 'read Evacuations of the own namespace',
        actions: read(within(evacuations, ownNamespace), evacuationOf(ownNamespace, evacuatedPod)),
        allowed: ['viewer', 'tenant', ...operators, 'evacuator'],
      },
      {
        what: 'read Evacuations of another namespace',
        actions: read(within(evacuations, otherNamespace), evacuationOf(otherNamespace, evacuatedPod)),
        allowed: ['viewer', ...operators, 'evacuator'],
      },
      {
        what: 'read EvictionRequests and Evictions (`lifecycle.k8s.io`) of the own namespace',
        actions: ['evictionrequests', 'evictions'].flatMap((resource) =>
          read(within(lifecycle(resource), ownNamespace), absent),
        ),
        allowed: ['viewer', 'tenant', ...operators],
      },
      {
        what: 'read EvictionRequests and Evictions of another namespace',
        actions: ['evictionrequests', 'evictions'].flatMap((resource) =>
          read(within(lifecycle(resource), otherNamespace), absent),
        ),
        allowed: ['viewer', ...operators],
      },
      {
        what: 'request one for a pod of the own namespace',
        actions: [create(within(evacuations, ownNamespace), evacuationObject(ownNamespace, pod))],
        allowed: ['tenant'],
        consequence: 'evictsPod',
      },
      {
        what: 'request one for a pod that a budget protects',
        actions: [create(within(evacuations, ownNamespace), evacuationObject(ownNamespace, protectedPod))],
        allowed: ['tenant'],
        consequence: 'respectsBudget',
      },
      {
        what: 'request one for a pod of another namespace',
        actions: [create(within(evacuations, otherNamespace), evacuationObject(otherNamespace, pod))],
        allowed: [],
      },
      {
        what: 'change one, or cancel it, in the own namespace',
        actions: [
          ...change(
            within(evacuations, ownNamespace),
            evacuationOf(ownNamespace, evacuatedPod),
            labelled('a', 'b'),
          ),
          remove(within(evacuations, ownNamespace), evacuationOf(ownNamespace, evacuatedPod)),
        ],
        allowed: ['tenant'],
      },
      {
        what: 'change one, or cancel it, in another namespace',
        actions: [
          ...change(
            within(evacuations, otherNamespace),
            evacuationOf(otherNamespace, evacuatedPod),
            labelled('a', 'b'),
          ),
          remove(within(evacuations, otherNamespace), evacuationOf(otherNamespace, evacuatedPod)),
        ],
        allowed: [],
      },
      {
        what: 'report progress, also in another namespace',
        actions: [ownNamespace, otherNamespace].flatMap((namespace): Action[] => {
          const [target, name] = [
            status(within(evacuations, namespace)),
            evacuationOf(namespace, evacuatedPod),
          ];
          return [
            { verb: 'get', ...target, name },
            ...change(target, name, { status: { message: 'moving' } }),
          ];
        }),
        allowed: ['evacuator'],
      },
      {
        what: 'evict a pod of the own namespace',
        actions: [eviction(ownNamespace)],
        allowed: ['tenant'],
      },
      { what: 'evict a pod of another namespace', actions: [eviction(otherNamespace)], allowed: [] },
      {
        what: 'choose an evacuator for a pod of the own namespace',
        actions: change(within(core('pods'), ownNamespace), pod, chosenEvacuator()),
        allowed: ['tenant'],
      },
      {
        what: 'choose an evacuator for a pod of another namespace',
        actions: change(within(core('pods'), otherNamespace), pod, chosenEvacuator()),
        allowed: [],
      },
      {
        what: 'mark a pod as released by the worker',
        actions: change(within(core('pods'), ownNamespace), pod, annotated(RELEASED_ANNOTATION, 'web-1')),
        allowed: [],
      },
    ],
  },
  {
    title: 'Readiness gates',
    rows: [
      {
        what: 'read NodeReadinesses',
        actions: read(readinesses, otherNode),
        allowed: ['viewer', ...operators, 'gateWriter'],
      },
      {
        what: 'read NodeReadinessPolicies',
        actions: read(policies, others),
        allowed: ['viewer', ...operators],
      },
      {
        what: 'close a node of theirs with a gate',
        actions: [create(readinesses, readinessOf(ownNode))],
        allowed: [...operators, 'gateWriter'],
      },
      {
        what: 'close another node with a gate',
        actions: change(readinesses, otherNode, {
          spec: { readinessGates: [...gates('cloud'), ...gates('new')] },
        }),
        allowed: ['gateWriter'],
      },
      {
        what: 'remove the gate of another user from a node of theirs',
        actions: change(readinesses, ownNodes[1], { spec: { readinessGates: [] } }),
        allowed: [...operators, 'gateWriter'],
      },
      {
        what: 'remove the gate of another user from another node',
        actions: change(readinesses, otherNode, { spec: { readinessGates: [] } }),
        allowed: ['gateWriter'],
      },
      {
        what: 'delete the NodeReadiness of a node of theirs',
        actions: [remove(readinesses, ownNodes[1])],
        allowed: operators,
      },
      {
        what: 'delete the NodeReadiness of another node',
        actions: [remove(readinesses, otherNode)],
        allowed: [],
      },
      {
        what: 'create a policy for nodes of theirs',
        actions: [create(policies, policyOf('new', selecting(...ownNodes)))],
        allowed: operators,
      },
      {
        what: 'create a policy for all nodes',
        actions: [create(policies, policyOf('new', everyNode))],
        allowed: operators,
        consequence: 'gatesOwnNodes',
      },
      {
        what: 'change their own policy, or delete it',
        actions: [...change(policies, mine, { spec: { readinessGates: [] } }), remove(policies, mine)],
        allowed: ['operator'],
      },
      {
        what: 'change the policy of another user, or delete it',
        actions: [...change(policies, others, { spec: { readinessGates: [] } }), remove(policies, others)],
        allowed: [],
      },
      {
        what: 'write a status',
        actions: [patch(status(readinesses), otherNode, { status: { observedGeneration: 9 } })],
        allowed: [],
      },
    ],
  },
  {
    title: 'The installation',
    rows: [
      {
        what: 'read Events about maintenances, windows and nodes (`kubectl maintenance history` shows them)',
        actions: [{ verb: 'list', ...within(core('events'), 'default') }],
        allowed: ['viewer', ...operators],
      },
      {
        what: 'read Events about pods of the own namespace',
        actions: [{ verb: 'list', ...within(core('events'), ownNamespace) }],
        allowed: ['viewer', 'tenant', ...operators],
      },
      {
        what: 'read the Leases of workers',
        actions: [{ verb: 'list', ...within(leases, SYSTEM_NAMESPACE) }],
        allowed: ['viewer', ...operators],
      },
      {
        what: 'stop workers by their Lease',
        actions: [
          create(within(leases, SYSTEM_NAMESPACE), leaseOf('new', SYSTEM_NAMESPACE)),
          remove(within(leases, SYSTEM_NAMESPACE), 'node-maintenance-controllers'),
        ],
        allowed: [],
      },
      {
        what: 'read Secrets of the worker',
        actions: [{ verb: 'list', ...within(core('secrets'), SYSTEM_NAMESPACE) }],
        allowed: [],
      },
      {
        what: 'read the log of a worker',
        actions: [
          { verb: 'get', ...within(core('pods'), SYSTEM_NAMESPACE), name: 'worker', subresource: 'log' },
        ],
        allowed: [],
      },
      {
        what: 'read the CRDs, policies and webhooks that are installed (`kubectl maintenance doctor` compares them)',
        actions: [
          { verb: 'get', ...definitions, name: `${NODE_MAINTENANCE.plural}.${NODE_MAINTENANCE.group}` },
          ...['mutating', 'validating'].flatMap((type): Action[] => [
            { verb: 'get', ...admission(`${type}webhookconfigurations`), name: NODE_MAINTENANCE.group },
            ...['policies', 'policybindings'].map(
              (kind): Action => ({
                verb: 'get',
                ...admission(`${type}admission${kind}`),
                name: `requester.${NODE_MAINTENANCE.group}`,
              }),
            ),
          ]),
        ],
        allowed: ['supporter'],
      },
      {
        what: 'redirect the webhooks',
        actions: [patch(webhooks, NODE_MAINTENANCE.group, { webhooks: [] })],
        allowed: [],
      },
    ],
  },
];

function eviction(namespace: string): Action {
  const target = { ...within(core('pods'), namespace), subresource: 'eviction', name: pod };
  const deleteOptions = { dryRun: ['All'] };
  const object = {
    apiVersion: 'policy/v1',
    kind: 'Eviction',
    metadata: { name: pod, namespace },
    deleteOptions,
  };
  return { verb: 'create', ...target, object };
}

function chosenEvacuator(): object {
  return annotated('evacuation.coordination.k8s.io/priority_mover.example.com', '10000/controller');
}
