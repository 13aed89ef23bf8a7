import { AUTOSCALER_ANNOTATIONS } from '../../api/names.ts';
import type { Node, PodDisruptionBudget, Taint, Toleration } from '../../api/core.ts';
import type { RawDaemonSet, RawPod } from '../../kube/resources.ts';
import {
  trimPodDisruptionBudget,
  trimDaemonSet,
  trimNode,
  trimPod,
  trimNodeReadiness,
  withoutManagedFields,
} from '../../kube/transform.ts';

const metadata = {
  name: 'web',
  namespace: 'shop',
  uid: 'u1',
  resourceVersion: '7',
  generation: 3,
  creationTimestamp: '2026-01-01T00:00:00Z',
  labels: { app: 'web' },
  annotations: {
    'kubernetes.io/config.mirror': 'abc',
    'evacuation.coordination.k8s.io/priority_fast.example': '100/controller',
    'kubectl.kubernetes.io/last-applied-configuration': 'long',
  },
  finalizers: ['test.example/hold'],
  ownerReferences: [{ apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'web', uid: 'r1', controller: true }],
  managedFields: [{ manager: 'kubectl' }],
};
const { generation, managedFields, annotations, ...common } = metadata;
const kept = {
  ...common,
  annotations: {
    'kubernetes.io/config.mirror': 'abc',
    'evacuation.coordination.k8s.io/priority_fast.example': '100/controller',
  },
};

test('a trimmed pod keeps the fields that decisions read', () => {
  const raw = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata,
    spec: { nodeName: 'n1', priority: 5, containers: [{ name: 'main' }] },
    status: { phase: 'Running', podIP: '10.0.0.1', conditions: [{ type: 'Ready', status: 'True' }] },
  } as RawPod;
  expect(trimPod(raw)).toEqual({
    metadata: kept,
    spec: { nodeName: 'n1', priority: 5 },
    status: { phase: 'Running', ready: true },
  });
});

test('a trimmed pod keeps a non-default grace period, its scheduling gates, and its target node', () => {
  const matchFields = [{ key: 'metadata.name', operator: 'In', values: ['six'] }];
  const nodeAffinity = {
    requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchFields }] },
  };
  const spec = { schedulingGates: [{ name: 'example.com/gate' }], affinity: { nodeAffinity } };
  const specOf = (differs: object) => trimPod({ metadata, spec: { ...spec, ...differs } } as RawPod).spec;
  const gated = { schedulingGates: ['example.com/gate'], madeForNode: 'six' };
  expect(specOf({ terminationGracePeriodSeconds: 60 })).toEqual({
    ...gated,
    terminationGracePeriodSeconds: 60,
  });
  expect(specOf({ terminationGracePeriodSeconds: 30 })).toEqual(gated);
  expect(specOf({ schedulingGates: undefined })).toEqual({});
});

const tolerations: Toleration[] = [
  { key: 'readiness.k8s.io/gates', operator: 'Exists', effect: 'NoSchedule' },
  { key: 'node.kubernetes.io/disk-pressure', operator: 'Exists', effect: 'NoSchedule' },
  { operator: 'Exists', effect: 'NoExecute' },
];

test('a trimmed pod keeps the tolerations of the readiness taint', () => {
  const raw = { metadata, spec: { tolerations } } as RawPod;
  expect(trimPod(raw).spec).toEqual({ tolerations: [tolerations[0]] });
  const all = { operator: 'Exists' };
  expect(trimPod({ ...raw, spec: { tolerations: [all] } } as RawPod).spec).toEqual({ tolerations: [all] });
});

test('a trimmed pod keeps the ServiceAccount of the node agent, and the consent to stop it', () => {
  const consent = { 'nodemaintenance.k8s.io/evacuate-control-plane': 'true' };
  const raw = { metadata: { ...metadata, annotations: consent }, spec: { serviceAccountName: 'default' } };
  expect(trimPod(raw as RawPod)).toMatchObject({ metadata: { annotations: consent }, spec: {} });
  expect(trimPod(raw as RawPod).spec).toEqual({});
  const spec = { serviceAccountName: 'node-maintenance-agent' };
  expect(trimPod({ ...raw, spec } as RawPod).spec).toEqual(spec);
});

test('a trimmed DaemonSet keeps its update strategy, its status and its pod template', () => {
  const counts = { desiredNumberScheduled: 3, currentNumberScheduled: 2 };
  const updateStrategy = { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: '10%' } };
  const raw = {
    metadata,
    spec: { updateStrategy, template: { metadata: { labels: { app: 'cni' } }, spec: { tolerations } } },
    status: { ...counts, observedGeneration: 3, updatedNumberScheduled: 1, numberReady: 1 },
  } as RawDaemonSet;
  expect(trimDaemonSet(raw)).toEqual({
    metadata: { ...kept, generation },
    spec: { updateStrategy, template: { labels: { app: 'cni' }, tolerations: [tolerations[0]] } },
    status: { ...counts, observedGeneration: 3, updatedNumberScheduled: 1 },
  });
});

test.each([
  { when: 'its Ready condition is False', status: { conditions: [{ type: 'Ready', status: 'False' }] } },
  {
    when: 'it has other conditions only',
    status: { conditions: [{ type: 'PodScheduled', status: 'True' }] },
  },
  { when: 'it has no status yet', status: undefined },
])('a pod is not ready when $when', ({ status }) => {
  const raw = { metadata: { name: 'web' }, spec: {}, ...(status && { status }) } as RawPod;
  expect(trimPod(raw).status.ready).toBe(false);
});

test('a trimmed node keeps its labels, taints, spec.unschedulable, and the annotations against autoscalers', () => {
  const taints: Taint[] = [{ key: 'a', effect: 'NoSchedule' }];
  const protection = Object.fromEntries(AUTOSCALER_ANNOTATIONS.map((key) => [key, 'true']));
  const spec = { unschedulable: true, taints, podCIDR: '10.0.0.0/24' };
  const raw = { metadata: { ...metadata, annotations: { ...annotations, ...protection } }, spec } as Node;
  expect(trimNode(raw)).toEqual({
    metadata: { ...kept, annotations: { ...kept.annotations, ...protection } },
    spec: { unschedulable: true, taints },
  });
});

test('a trimmed node keeps its boot ID, and the Ready condition without its heartbeat', () => {
  const ready = {
    type: 'Ready',
    status: 'True',
    reason: 'KubeletReady',
    message: '',
    lastTransitionTime: 't',
  };
  const conditions = [
    { ...ready, lastHeartbeatTime: 'h' },
    { ...ready, type: 'DiskPressure' },
  ];
  const statusOf = (bootID: string) =>
    trimNode({ metadata, spec: {}, status: { conditions, nodeInfo: { bootID, osImage: 'x' } } } as Node)
      .status;
  expect(statusOf('a')).toEqual({ conditions: [ready], nodeInfo: { bootID: 'a' } });
  expect(statusOf('')).toEqual({ conditions: [ready] });
});

test('a Ready pod has another hash after each start of a container', () => {
  const ready = [{ type: 'Ready', status: 'True' }];
  const hashOf = (containerStatuses: object[], uid = 'u', conditions = ready) =>
    trimPod({ metadata: { name: 'cni', uid }, spec: {}, status: { conditions, containerStatuses } } as RawPod)
      .status.containers;
  const started = (startedAt: string) => ({ state: { running: { startedAt } } });
  const first = hashOf([{ containerID: 'containerd://1' }]);
  expect(first).toMatch(/^[0-9a-f]{8}$/);
  expect(hashOf([{ containerID: 'containerd://1' }])).toBe(first);
  const others = [
    hashOf([{ containerID: 'containerd://2' }]),
    hashOf([{ containerID: 'containerd://1' }], 'another'),
    hashOf([{ containerID: 'containerd://1' }, { containerID: 'containerd://3' }]),
    hashOf([started('2026-01-01T00:00:00Z')]),
    hashOf([started('2026-01-01T00:00:01Z')]),
  ];
  expect(new Set([first, ...others]).size).toBe(6);
  expect(hashOf([])).toBeUndefined();
  expect(hashOf([{ containerID: 'containerd://1' }], 'u', [])).toBeUndefined();
});

test('a trimmed NodeReadiness keeps the owners of its gates', () => {
  const gatesOf = (...names: string[]) =>
    Object.fromEntries(names.map((name) => [`k:{"name":"${name}"}`, { '.': {}, 'f:name': {} }]));
  const entry = (manager: string, fields: object, subresource?: string) => ({
    manager,
    operation: 'Apply',
    fieldsV1: { 'f:spec': { 'f:readinessGates': fields } },
    ...(subresource && { subresource }),
  });
  const raw = {
    metadata: {
      name: 'n1',
      managedFields: [
        entry('node-readiness-policy/a', gatesOf('cni', 'csi')),
        entry('kubectl', { '.': {}, ...gatesOf('csi') }),
        { ...entry('kubectl', { 'k:{"name":"csi"}': { 'f:selector': {} } }), operation: 'Update' },
        { manager: 'node-maintenance', fieldsV1: { 'f:spec': {} } },
        { manager: 'status', subresource: 'status', fieldsV1: { 'f:status': {} } },
      ],
    },
    spec: { readinessGates: [] },
  };
  expect(trimNodeReadiness(raw)).toEqual({
    metadata: { name: 'n1' },
    spec: { readinessGates: [] },
    gateOwners: new Map([
      ['cni', new Map([['node-readiness-policy/a', ['name']]])],
      [
        'csi',
        new Map([
          ['node-readiness-policy/a', ['name']],
          ['kubectl', ['name', 'selector']],
        ]),
      ],
    ]),
  });
});

test.each([
  { gate: '__proto__', manager: 'deletionTimestamp' },
  { gate: 'constructor', manager: 'example' },
  { gate: 'cni', manager: 'toString' },
])(
  'a gate $gate of the manager $manager, which users choose, is a name like any other',
  ({ gate, manager }) => {
    const builtIns = () => [Object, Object.prototype].flatMap((one) => Object.getOwnPropertyNames(one));
    const before = builtIns();
    const gates = { [`k:${JSON.stringify({ name: gate })}`]: { 'f:namespace': {} } };
    const entry = { manager, fieldsV1: { 'f:spec': { 'f:readinessGates': gates } } };
    const raw = { metadata: { name: 'n1', managedFields: [entry] }, spec: { readinessGates: [] } };
    expect(trimNodeReadiness(raw).gateOwners).toEqual(new Map([[gate, new Map([[manager, ['namespace']]])]]));
    expect(builtIns()).toEqual(before);
  },
);

test('a trimmed PodDisruptionBudget keeps its spec, its counts and their generation', () => {
  const spec = { minAvailable: 2, selector: { matchLabels: { app: 'web' } } };
  const status = {
    observedGeneration: 3,
    disruptionsAllowed: 0,
    currentHealthy: 2,
    desiredHealthy: 2,
    expectedPods: 2,
  };
  const raw = { metadata, spec, status: { ...status, conditions: [] } } as PodDisruptionBudget;
  expect(trimPodDisruptionBudget(raw)).toEqual({ metadata: { ...kept, generation }, spec, status });
});

test('other objects only lose their managedFields', () => {
  const { managedFields: _, ...rest } = metadata;
  expect(withoutManagedFields({ metadata: { ...metadata }, spec: { a: 1 } })).toEqual({
    metadata: rest,
    spec: { a: 1 },
  });
});
