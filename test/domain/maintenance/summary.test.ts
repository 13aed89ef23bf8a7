import { describe, expect, test } from '@jest/globals';
import type { Evacuation } from '../../../api/evacuation.ts';
import type { NodeMaintenance, NodeMaintenanceStage } from '../../../api/nodeMaintenance.ts';
import type { NodeReadiness } from '../../../api/nodeReadiness.ts';
import { decideWait } from '../../../domain/maintenance/waitGoal.ts';
import { type MaintenanceSummaryInput, summaryOf } from '../../../domain/maintenance/summary.ts';
import type { NodeServiceInput } from '../../../domain/maintenance/backInService.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';
import { mirrorPod, pod, pods as upTo } from '../../kit/builders.ts';

const startTime = '2026-01-01T12:00:00Z';
const now = new Date('2026-01-01T12:01:00Z');
const finalizer = 'nodemaintenance.k8s.io/maintenance-completion';
const condition = (type: string, status: 'True' | 'False', reason = 'Because') => ({
  type,
  status,
  reason,
  message: `${reason}.`,
  lastTransitionTime: startTime,
});

const notProgressing = condition('Progressing', 'False', 'TemporalUnavailable');

interface Overrides {
  stage?: NodeMaintenanceStage;
  started?: NodeMaintenanceStage[];
  conditions?: ReturnType<typeof condition>[];
  finalizers?: readonly string[];
  left?: number;
  peak?: number;
  unschedulableBefore?: boolean;
  hasCordonRecord?: boolean;
}

function maintenance(differs: Overrides = {}): NodeMaintenance {
  const { stage = 'Drain', started = [stage], conditions = [], finalizers = [finalizer] } = differs;
  const { left = 2, peak = 5, unschedulableBefore = false, hasCordonRecord = true } = differs;
  const record = {
    nodeRef: { name: 'one' },
    drainTargets: [upTo(1_000)],
    drainMessage: 'Evacuating',
    podsPendingEvacuation: left,
    podsEvacuating: 0,
    podsPeak: peak,
    ...(hasCordonRecord && { unschedulableBefore }),
  };
  return {
    metadata: { name: 'rack-7', uid: 'rack-7', finalizers: [...finalizers] },
    spec: {
      stage,
      reason: 'firmware',
      nodeSelector: { nodeSelectorTerms: [{ matchExpressions: [{ key: 'rack', operator: 'Exists' }] }] },
    },
    status: {
      ...emptyStatus,
      stageStatuses: started.map((name) => ({ name, startTimestamp: startTime })),
      nodeStatuses: [record],
      conditions,
      drainTier: { number: 1, total: 3 },
    },
  };
}

const gate = {
  name: 'network',
  namespace: 'default',
  selector: { matchLabels: { app: 'cni' } },
  blocksReadiness: true,
};
const gated = { metadata: { name: 'one' }, spec: { readinessGates: [gate] } } as NodeReadiness;

function node(
  differs: Partial<NodeServiceInput> & { cordoned?: boolean; ready?: boolean } = {},
): NodeServiceInput {
  const { cordoned = false, ready = true, ...rest } = differs;
  const conditions = [condition('Ready', ready ? 'True' : 'False', ready ? 'KubeletReady' : 'KubeletDown')];
  return {
    node: {
      metadata: { name: 'one', uid: 'one', labels: { rack: '7' } },
      spec: { unschedulable: cordoned },
      status: { conditions },
    },
    pods: [],
    readiness: undefined,
    isTainted: false,
    ...rest,
  };
}

function inputOf(
  of: NodeMaintenance,
  differs: Partial<MaintenanceSummaryInput> = {},
): MaintenanceSummaryInput {
  return {
    maintenance: of,
    maintenances: [of],
    policies: [],
    nodes: [node()],
    evacuations: new Map(),
    now,
    ...differs,
  };
}

const evacuationWith = (status: Partial<NonNullable<Evacuation['status']>>) =>
  ({ metadata: { name: 'e' }, spec: {}, status }) as Evacuation;

describe('the summary of a maintenance', () => {
  test('has the tier, the pod counts, and an estimate from the average rate', () => {
    expect(summaryOf(inputOf(maintenance()))).toMatchObject({
      stage: 'Drain',
      stageSince: startTime,
      reason: 'firmware',
      tier: { number: 1, total: 3, pods: 'Default pods with priority up to 1000000000' },
      podsToEvacuate: 2,
      podsEvacuated: 3,
      estimate: { seconds: 40, basis: 'AverageRate', rate: { pods: 3, ms: 60_000 } },
      nodes: [{ node: 'one', tier: 'Default pods with priority up to 1000', message: 'Evacuating' }],
    });
  });

  test('has the evacuator of a pod, the blocker of another, and the static pods', () => {
    const moving = pod({ name: 'moving', uid: 'moving' });
    const stuck = pod({ name: 'stuck', uid: 'stuck' });
    const evacuations = new Map([
      ['moving', evacuationWith({ activeEvacuatorClass: 'data.example.com', message: 'copied 40 %' })],
      ['stuck', evacuationWith({ conditions: [condition('Blocked', 'True', 'EvictionRejected')] })],
    ]);
    const nodes = [node({ pods: [stuck, moving, mirrorPod({ name: 'static' })] })];
    expect(summaryOf(inputOf(maintenance(), { nodes, evacuations }))).toMatchObject({
      podsBlocked: 1,
      nodes: [
        {
          leaving: [
            { pod: 'default/moving', evacuator: 'data.example.com', message: 'copied 40 %' },
            { pod: 'default/stuck', blocker: { reason: 'EvictionRejected' } },
          ],
          staticPods: ['default/static'],
        },
      ],
      estimate: { basis: 'Blocked' },
    });
  });

  test('has pods that terminate, with or without an Evacuation, and none of the static ones', () => {
    const deleted = { deletionTimestamp: '2026-01-01T13:00:00Z', deletionGracePeriodSeconds: 3600 };
    const of = [
      pod({ name: 'late', ...deleted, finalizers: ['x/y'] }),
      mirrorPod({ name: 'static', ...deleted }),
      pod(),
    ];
    const [only] = summaryOf(inputOf(maintenance(), { nodes: [node({ pods: of })] })).nodes;
    expect(only?.leaving).toEqual([
      {
        pod: 'default/late',
        terminating: 'its grace period of 3600 s ends at 2026-01-01T13:00:00Z; finalizer x/y',
      },
    ]);
  });

  test.each([
    {
      agentVersion: undefined,
      stay: ['default/etcd', 'default/proxy'],
      why: 'no node agent reports from node',
    },
    {
      agentVersion: '1.2.3',
      agentCapabilities: ['static-pods'],
      stay: ['default/etcd'],
      why: 'without consent',
    },
    {
      agentVersion: '1.2.3',
      agentCapabilities: ['reboot'],
      stay: ['default/etcd', 'default/proxy'],
      why: 'cannot stop static pods',
    },
  ])(
    'says which static pods stay with agent $agentVersion, $agentCapabilities',
    ({ stay, why, ...agent }) => {
      const { agentVersion } = agent;
      const of = maintenance();
      const record = of.status?.nodeStatuses[0];
      if (record !== undefined && agentVersion !== undefined) Object.assign(record, agent);
      const etcd = mirrorPod({ name: 'etcd', labels: { component: 'etcd' } });
      const nodes = [node({ pods: [mirrorPod({ name: 'proxy' }), etcd] })];
      const summary = summaryOf(inputOf(of, { nodes }));
      expect(summary.staticPodsRemain).toContain(why);
      expect(summary.nodes).toMatchObject([{ staticPods: stay, ...(agentVersion && { agentVersion }) }]);
    },
  );

  test('counts pods with an Evacuation before the status does', () => {
    const evacuations = new Map([['moving', evacuationWith({})]]);
    const nodes = [node({ pods: [pod({ uid: 'moving' }), pod()] })];
    const of = maintenance({ left: 0, peak: 0 });
    expect(summaryOf(inputOf(of, { nodes, evacuations }))).toMatchObject({
      podsToEvacuate: 1,
      podsEvacuated: 0,
    });
  });

  const expected = (time: string) =>
    new Map([
      [
        'moving',
        evacuationWith({ activeEvacuatorClass: 'data.example.com', expectedEvacuationFinishTime: time }),
      ],
    ]);
  const moving = [node({ pods: [pod({ uid: 'moving' })] })];

  test.each<{
    when: string;
    of: NodeMaintenance;
    differs?: Partial<MaintenanceSummaryInput>;
    estimate: object | undefined;
  }>([
    {
      when: 'it is paused',
      of: maintenance({ conditions: [condition('Paused', 'True')] }),
      estimate: { basis: 'Paused' },
    },
    {
      when: 'nodes wait for Leases that others hold, although pods of other nodes leave',
      of: maintenance({ conditions: [condition('NodeLeasesHeld', 'False', 'Waiting')] }),
      differs: { drainRate: { pods: 4, ms: 10_000 } },
      estimate: { basis: 'WaitingForNodeLease' },
    },
    {
      when: 'the nodes no longer wait for Leases',
      of: maintenance({ conditions: [condition('NodeLeasesHeld', 'True', 'Held')] }),
      estimate: { seconds: 40, basis: 'AverageRate' },
    },
    {
      when: 'no pod has left for a minute',
      of: maintenance(),
      differs: { drainRate: { pods: 0, ms: 60_000 } },
      estimate: { basis: 'Stalled' },
    },
    {
      when: 'no pod has left for 10 seconds',
      of: maintenance(),
      differs: { drainRate: { pods: 0, ms: 10_000 } },
      estimate: { seconds: 40, basis: 'AverageRate' },
    },
    { when: 'no pod has left', of: maintenance({ left: 5 }), estimate: { basis: 'NoPodHasLeft' } },
    { when: 'no pod is left', of: maintenance({ left: 0 }), estimate: undefined },
    {
      when: 'pods have left recently',
      of: maintenance(),
      differs: { drainRate: { pods: 4, ms: 10_000 } },
      estimate: { seconds: 5, basis: 'RecentRate', rate: { pods: 4, ms: 10_000 } },
    },
    {
      when: 'an evacuator expects to need longer',
      of: maintenance(),
      differs: { nodes: moving, evacuations: expected('2026-01-01T12:05:00Z') },
      estimate: { seconds: 240, basis: 'Evacuator', evacuator: 'data.example.com' },
    },
    {
      when: 'the expected time of an evacuator has passed',
      of: maintenance(),
      differs: { nodes: moving, evacuations: expected(startTime) },
      estimate: { seconds: 40, basis: 'AverageRate' },
    },
    {
      when: 'no pod has left for a minute, and an evacuator expects to need longer',
      of: maintenance(),
      differs: {
        drainRate: { pods: 0, ms: 60_000 },
        nodes: moving,
        evacuations: expected('2026-01-01T12:01:01Z'),
      },
      estimate: { seconds: 1, basis: 'Evacuator' },
    },
    {
      when: 'no pod has left for a minute, and an evacuator expected to have finished now',
      of: maintenance(),
      differs: {
        drainRate: { pods: 0, ms: 60_000 },
        nodes: moving,
        evacuations: expected('2026-01-01T12:01:00Z'),
      },
      estimate: { basis: 'Stalled' },
    },
  ])('has an estimate when $when', ({ of, differs, estimate }) => {
    const { estimate: actual } = summaryOf(inputOf(of, differs));
    if (estimate === undefined) expect(actual).toBeUndefined();
    else expect(actual).toMatchObject(estimate);
  });
});

test('a pod with an EvictionRequest is leaving, with its responder, and with the budget that the worker reports', () => {
  const one = pod({ name: 'web', namespace: 'default', uid: 'u' });
  const target = { pod: { name: 'web', uid: 'u' } };
  const request = {
    metadata: { name: 'r', creationTimestamp: startTime },
    spec: { target, requester: 'node-maintenance.dev/nodemaintenance', intent: 'Eviction' },
  } as const;
  const responder = {
    name: 'imperative-eviction.k8s.io/evictor',
    message: 'waiting',
    heartbeatTime: startTime,
  };
  const eviction = {
    metadata: { name: 'e' },
    spec: { target },
    status: {
      targetResponders: [{ name: responder.name, priority: 100, state: 'Active' as const }],
      responders: [responder],
    },
  };
  const of = maintenance();
  const blocked = {
    namespace: 'default',
    name: 'web',
    node: 'one',
    reason: 'DisruptionBudget',
    message: 'No.',
  };
  const status = { ...of.status, blockedPods: [blocked] } as NonNullable<NodeMaintenance['status']>;
  const summary = summaryOf(
    inputOf(
      { ...of, status },
      { nodes: [node({ pods: [one] })], requests: new Map([['u', { request, eviction }]]) },
    ),
  );
  expect(summary.nodes[0]?.leaving).toEqual([
    {
      pod: 'default/web',
      evacuator: 'imperative-eviction.k8s.io/evictor',
      message: 'waiting',
      blocker: blocked,
    },
  ]);
  const withdrawn = { ...request, spec: { ...request.spec, intent: 'Withdrawn' as const } };
  const requests = new Map([['u', { request: withdrawn, eviction }]]);
  expect(summaryOf(inputOf(of, { nodes: [node({ pods: [one] })], requests })).nodes[0]?.leaving).toEqual([]);
});

describe('the summary says why a maintenance does not progress', () => {
  const fromObject = { reason: 'TemporalUnavailable', message: 'TemporalUnavailable.', since: startTime };
  const noWorker = { reason: 'NoWorker', since: now.toISOString() };
  test.each<{ when: string; of?: Overrides; leaderlessSince?: Date; want: object | undefined }>([
    { when: 'not if it does', want: undefined },
    { when: 'as its condition does', of: { conditions: [notProgressing] }, want: fromObject },
    {
      when: 'if no worker runs, whatever its condition says',
      of: { conditions: [notProgressing] },
      leaderlessSince: now,
      want: noWorker,
    },
    {
      when: 'while it uncordons its nodes',
      of: { stage: 'Complete', conditions: [notProgressing] },
      want: fromObject,
    },
    {
      when: 'not after it has completed',
      of: { stage: 'Complete', finalizers: [], conditions: [notProgressing] },
      leaderlessSince: now,
      want: undefined,
    },
  ])('$when', ({ of, leaderlessSince, want }) => {
    const { notProgressing: actual } = summaryOf(inputOf(maintenance(of), { leaderlessSince }));
    if (want === undefined) expect(actual).toBeUndefined();
    else expect(actual).toMatchObject(want);
  });
});

test('a drain that nobody serves says what follows, until it is drained', () => {
  const unserved = condition('EvictionRequestsServed', 'False', 'NoController');
  expect(summaryOf(inputOf(maintenance({ conditions: [unserved] }))).unserved).toBe('NoController.');
  const drained = [unserved, condition('Drained', 'True')];
  expect(summaryOf(inputOf(maintenance({ conditions: drained })))).not.toHaveProperty('unserved');
});

test('what does not fit on other nodes is shown while the maintenance drains', () => {
  const conditions = [condition('CapacityAvailable', 'False', 'PodsDoNotFit')];
  const capacityIn = (stage: NodeMaintenanceStage) =>
    summaryOf(inputOf(maintenance({ stage, conditions }))).capacity;
  expect(capacityIn('Drain')).toBe('PodsDoNotFit.');
  expect(capacityIn('Complete')).toBeUndefined();
});

test('the number of pods left is missing before Drain has started', () => {
  const cordoned = summaryOf(inputOf(maintenance({ stage: 'Cordon', left: 0, peak: 0 })));
  expect(cordoned).not.toHaveProperty('podsToEvacuate');
  expect(cordoned.nodes[0]).not.toHaveProperty('podsToEvacuate');
  expect(summaryOf(inputOf(maintenance({ started: ['Cordon'] })))).not.toHaveProperty('podsToEvacuate');
});

describe('the summary of a completed maintenance', () => {
  const paused = condition('Paused', 'True');
  const complete = (differs: Overrides = {}) =>
    maintenance({ stage: 'Complete', finalizers: [], conditions: [paused], ...differs });

  test.each([
    {
      when: 'is in service',
      of: complete(),
      cordoned: false,
      want: { inService: true, outOfServiceReasons: [] },
    },
    {
      when: 'was cordoned before',
      of: complete({ unschedulableBefore: true }),
      cordoned: true,
      want: { inService: false, outOfServiceReasons: [], notUncordoned: 'CordonedBefore' },
    },
    {
      when: 'was never cordoned by the maintenance',
      of: complete({ hasCordonRecord: false }),
      cordoned: true,
      want: { inService: false, outOfServiceReasons: [], notUncordoned: 'NeverCordoned' },
    },
  ])('has a node that $when', ({ of, cordoned, want }) => {
    const summary = summaryOf(inputOf(of, { nodes: [node({ cordoned })] }));
    expect(summary).toMatchObject({ paused: false, nodes: [want] });
    expect('notUncordoned' in (summary.nodes[0] ?? {})).toBe('notUncordoned' in want);
  });

  test('has a node that another client has cordoned since it was returned', () => {
    const own = node({ cordoned: true });
    const fieldsV1 = { 'f:spec': { 'f:unschedulable': {} } };
    const metadata = { ...own.node.metadata, managedFields: [{ manager: 'kubectl-cordon', fieldsV1 }] };
    const nodes = [{ ...own, node: { ...own.node, metadata } }];
    expect(summaryOf(inputOf(complete({ unschedulableBefore: false }), { nodes }))).toMatchObject({
      nodes: [{ inService: false, outOfServiceReasons: [], notUncordoned: 'CordonedByAnother' }],
    });
  });
});

describe('waiting for a stage', () => {
  const completed = { stage: 'Complete', finalizers: [] } as const;
  const cni = (ready: boolean) =>
    pod({ name: 'cni', labels: { app: 'cni' }, phase: ready ? 'Running' : 'Pending', ready });

  const serving = node({ readiness: gated, pods: [cni(true)] });
  const rebooted: NodeServiceInput = {
    ...serving,
    node: { ...serving.node, status: { ...serving.node.status, nodeInfo: { bootID: 'b' } } },
    pods: serving.pods.map((one) => ({ ...one, status: { ...one.status, containers: '1' } })),
    readiness: {
      ...gated,
      status: { bootID: 'a', containers: ['1'], conditions: [] },
    } as unknown as NodeReadiness,
  };

  test.each<{
    when: string;
    goal: NodeMaintenanceStage;
    of?: Overrides;
    nodes?: NodeServiceInput[];
    isDeleted?: boolean;
    differs?: Partial<MaintenanceSummaryInput>;
    want: object;
  }>([
    {
      when: 'no worker has started the stage',
      goal: 'Drain',
      of: { started: [] },
      want: { kind: 'Waiting', on: [expect.stringContaining('a worker to start the stage')] },
    },
    {
      when: 'pods of a tier are left',
      goal: 'Drain',
      want: { kind: 'Waiting', on: ['Default pods with priority up to 1000000000 to leave'] },
    },
    {
      when: 'only static pods are left',
      goal: 'Drain',
      of: { conditions: [condition('Drained', 'True', 'StaticPodsRemain')] },
      want: { kind: 'Reached', notes: ['StaticPodsRemain.'] },
    },
    {
      when: 'the deadline has passed while volumes were attached',
      goal: 'Drain',
      of: { conditions: [condition('Drained', 'True', 'VolumesRemain')] },
      want: { kind: 'Reached', notes: ['VolumesRemain.'] },
    },
    {
      when: 'volumes are attached',
      goal: 'Drain',
      of: { conditions: [condition('Drained', 'False', 'VolumesAttached')] },
      want: { kind: 'Waiting', on: expect.arrayContaining(['VolumesAttached.']) },
    },
    {
      when: 'a user advanced it',
      goal: 'Drain',
      of: { stage: 'Complete' },
      want: { kind: 'Missed', because: 'it was advanced to stage Complete' },
    },
    {
      when: 'a user deleted it',
      goal: 'Drain',
      isDeleted: true,
      want: { kind: 'Missed', because: 'it was deleted' },
    },
    {
      when: 'a node is not cordoned yet',
      goal: 'Cordon',
      of: { stage: 'Cordon' },
      want: { kind: 'Waiting', on: ['nodes to be cordoned: one'] },
    },
    {
      when: 'a node was cordoned before, and another holder has its Lease',
      goal: 'Cordon',
      of: {
        stage: 'Cordon',
        hasCordonRecord: false,
        conditions: [condition('NodeLeasesHeld', 'False', 'Waiting')],
      },
      nodes: [node({ cordoned: true })],
      want: { kind: 'Waiting', on: ['nodes to be cordoned: one', 'maintenance Leases: Waiting.'] },
    },
    {
      when: 'its requester may not maintain a node',
      goal: 'Cordon',
      of: {
        stage: 'Cordon',
        hasCordonRecord: false,
        conditions: [condition('NodesAuthorized', 'False', 'NotAuthorized')],
      },
      want: { kind: 'Waiting', on: ['nodes to be cordoned: one', 'permissions: NotAuthorized.'] },
    },
    {
      when: 'all nodes are cordoned for it',
      goal: 'Cordon',
      of: { stage: 'Cordon' },
      nodes: [node({ cordoned: true })],
      want: { kind: 'Reached', notes: [] },
    },
    {
      when: 'no pod is left, and it is not drained yet',
      goal: 'Drain',
      of: { left: 0 },
      want: { kind: 'Waiting', on: ['the worker to report that no pod is left'] },
    },
    { when: 'it is in Idle', goal: 'Idle', of: { stage: 'Idle' }, want: { kind: 'Reached' } },
    {
      when: 'the finalizer is still there',
      goal: 'Complete',
      of: { stage: 'Complete' },
      want: { kind: 'Waiting', on: ['the nodes to be uncordoned'] },
    },
    {
      when: 'the node is not Ready',
      goal: 'Complete',
      of: completed,
      nodes: [node({ ready: false })],
      want: { kind: 'Waiting', on: ['node one: not Ready: KubeletDown.'] },
    },
    {
      when: 'the pod of a gate is not ready',
      goal: 'Complete',
      of: completed,
      nodes: [node({ readiness: gated, isTainted: true, pods: [cni(false)] })],
      want: { kind: 'Waiting', on: ['node one: gate network: pod is not ready: default/cni (Pending)'] },
    },
    {
      when: 'the pod of a gate is missing, and the taint is not added yet',
      goal: 'Complete',
      of: completed,
      nodes: [node({ readiness: gated })],
      want: {
        kind: 'Waiting',
        on: ['node one: gate network: no pod on the node in namespace default has app=cni'],
      },
    },
    {
      when: 'the node has rebooted, and its kubelet has not reported the pod of a gate',
      goal: 'Complete',
      of: completed,
      nodes: [rebooted],
      want: {
        kind: 'Waiting',
        on: ['node one: gate network: pod is not ready: default/cni (not reported since the reboot)'],
      },
    },
    {
      when: 'the gates are ready and the taint is still there',
      goal: 'Complete',
      of: completed,
      nodes: [node({ readiness: gated, isTainted: true, pods: [cni(true)] })],
      want: {
        kind: 'Waiting',
        on: ['node one: gates are ready, and the readiness taint is not removed yet'],
      },
    },
    {
      when: 'the node is in service',
      goal: 'Complete',
      of: completed,
      nodes: [node({ readiness: gated, pods: [cni(true)] })],
      want: { kind: 'Reached', notes: [] },
    },
    {
      when: 'the object is gone and its node is in service',
      goal: 'Complete',
      isDeleted: true,
      want: { kind: 'Reached', notes: [] },
    },
    {
      when: 'the node was cordoned before',
      goal: 'Complete',
      of: { ...completed, unschedulableBefore: true },
      nodes: [node({ cordoned: true })],
      want: { kind: 'Reached', notes: ['Still cordoned, as before the maintenance: one.'] },
    },
    {
      when: 'the Lease of the node was never acquired',
      goal: 'Complete',
      of: { ...completed, hasCordonRecord: false },
      nodes: [node({ cordoned: true, ready: false })],
      want: { kind: 'Reached', notes: ['Skipped, never cordoned by the maintenance: one.'] },
    },
    {
      when: 'a user has cordoned it since',
      goal: 'Complete',
      of: completed,
      nodes: [node({ cordoned: true })],
      want: { kind: 'Waiting', on: ['node one: cordoned'] },
    },
    {
      when: 'Temporal is unavailable before the stage has started',
      goal: 'Drain',
      of: { started: [], conditions: [notProgressing] },
      want: { kind: 'Waiting', on: ['its workflow to progress: TemporalUnavailable.'] },
    },
    {
      when: 'Temporal becomes unavailable while pods are left',
      goal: 'Drain',
      of: { conditions: [notProgressing] },
      want: {
        kind: 'Waiting',
        on: [
          'its workflow to progress: TemporalUnavailable.',
          'Default pods with priority up to 1000000000 to leave',
        ],
      },
    },
    {
      when: 'Temporal is unavailable while the nodes are uncordoned',
      goal: 'Complete',
      of: { stage: 'Complete', conditions: [notProgressing] },
      want: {
        kind: 'Waiting',
        on: ['its workflow to progress: TemporalUnavailable.', 'the nodes to be uncordoned'],
      },
    },
    {
      when: 'no worker runs, whatever the object says',
      goal: 'Drain',
      of: { conditions: [notProgressing] },
      differs: { leaderlessSince: now },
      want: {
        kind: 'Waiting',
        on: [
          expect.stringContaining('its workflow to progress: no worker runs the controllers'),
          'Default pods with priority up to 1000000000 to leave',
        ],
      },
    },
    {
      when: 'it is drained, whether Temporal is available or not',
      goal: 'Drain',
      of: { conditions: [notProgressing, condition('Drained', 'True')] },
      want: { kind: 'Reached', notes: [] },
    },
  ])('$goal: $when', ({ goal, of, nodes = [node()], isDeleted = false, differs = {}, want }) => {
    const input = inputOf(maintenance(of), { nodes, ...differs });
    expect(decideWait(goal, { ...input, isDeleted })).toMatchObject(want);
  });

  test('Complete: a node of the maintenance does not exist', () => {
    const input = inputOf(maintenance(completed), { missing: ['two'] });
    expect(decideWait('Complete', { ...input, isDeleted: false })).toEqual({
      kind: 'Waiting',
      on: ['node two: it does not exist'],
    });
  });

  test('Complete: another maintenance still holds the node', () => {
    const own = maintenance(completed);
    const other = { ...maintenance(), metadata: { name: 'other', uid: 'other' } };
    const input = inputOf(own, { maintenances: [own, other], nodes: [node({ cordoned: true })] });
    expect(decideWait('Complete', { ...input, isDeleted: false })).toEqual({
      kind: 'Waiting',
      on: ['node one: cordoned, also for other'],
    });
  });
});
