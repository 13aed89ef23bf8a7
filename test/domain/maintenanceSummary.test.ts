import { describe, expect, test } from '@jest/globals';
import type { Evacuation } from '../../api/evacuation.ts';
import type { NodeMaintenance, NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import type { NodeReadiness } from '../../api/nodeReadiness.ts';
import { awaited } from '../../domain/awaiting.ts';
import { type MaintenanceSight, summaryOf } from '../../domain/maintenanceSummary.ts';
import type { NodeSight } from '../../domain/nodeService.ts';
import { emptyStatus } from '../../domain/status.ts';
import { mirrorPod, pod, pods as upTo } from '../kit/builders.ts';

const began = '2026-01-01T12:00:00Z';
const now = new Date('2026-01-01T12:01:00Z');
const finalizer = 'nodemaintenance.k8s.io/maintenance-completion';
const condition = (type: string, status: 'True' | 'False', reason = 'Because') => ({
  type,
  status,
  reason,
  message: `${reason}.`,
  lastTransitionTime: began,
});

interface Differs {
  stage?: NodeMaintenanceStage;
  begun?: NodeMaintenanceStage[];
  conditions?: ReturnType<typeof condition>[];
  finalizers?: readonly string[];
  left?: number;
  peak?: number;
  unschedulableBefore?: boolean;
  isTouched?: boolean;
}

function maintenance(differs: Differs = {}): NodeMaintenance {
  const { stage = 'Drain', begun = [stage], conditions = [], finalizers = [finalizer] } = differs;
  const { left = 2, peak = 5, unschedulableBefore = false, isTouched = true } = differs;
  const record = {
    nodeRef: { name: 'one' },
    drainTargets: [upTo(1_000)],
    drainMessage: 'Evacuating',
    podsPendingEvacuation: left,
    podsEvacuating: 0,
    podsPeak: peak,
    ...(isTouched && { unschedulableBefore }),
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
      stageStatuses: begun.map((name) => ({ name, startTimestamp: began })),
      nodeStatuses: [record],
      conditions,
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

function node(differs: Partial<NodeSight> & { cordoned?: boolean; ready?: boolean } = {}): NodeSight {
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

function sight(of: NodeMaintenance, differs: Partial<MaintenanceSight> = {}): MaintenanceSight {
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
  test('says the tier, how many pods have left of how many, and for how long the rest may take at this pace', () => {
    expect(summaryOf(sight(maintenance()))).toMatchObject({
      stage: 'Drain',
      stageSince: began,
      reason: 'firmware',
      tier: { entry: 1, of: 12, pods: 'Default pods up to 1000000000' },
      podsLeft: 2,
      podsEvacuated: 3,
      estimate: { seconds: 40, basis: 'PaceSoFar', pace: { pods: 3, ms: 60_000 } },
      nodes: [{ node: 'one', tier: 'Default pods up to 1000', message: 'Evacuating' }],
    });
  });

  test('names who evacuates a pod, what blocks another, and static pods', () => {
    const moving = pod({ name: 'moving', uid: 'moving' });
    const stuck = pod({ name: 'stuck', uid: 'stuck' });
    const evacuations = new Map([
      ['moving', evacuationWith({ activeEvacuatorClass: 'data.example.com', message: 'copied 40 %' })],
      ['stuck', evacuationWith({ conditions: [condition('Blocked', 'True', 'EvictionRefused')] })],
    ]);
    const nodes = [node({ pods: [stuck, moving, mirrorPod({ name: 'static' })] })];
    expect(summaryOf(sight(maintenance(), { nodes, evacuations }))).toMatchObject({
      podsBlocked: 1,
      nodes: [
        {
          leaving: [
            { pod: 'default/moving', evacuator: 'data.example.com', message: 'copied 40 %' },
            { pod: 'default/stuck', blocker: { reason: 'EvictionRefused' } },
          ],
          staticPods: ['default/static'],
        },
      ],
      estimate: { basis: 'Blocked' },
    });
  });

  test('counts pods that are evacuated before the status says so', () => {
    const evacuations = new Map([['moving', evacuationWith({})]]);
    const nodes = [node({ pods: [pod({ uid: 'moving' }), pod()] })];
    const of = maintenance({ left: 0, peak: 0 });
    expect(summaryOf(sight(of, { nodes, evacuations }))).toMatchObject({ podsLeft: 1, podsEvacuated: 0 });
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
    differs?: Partial<MaintenanceSight>;
    estimate: object | undefined;
  }>([
    {
      when: 'it is paused',
      of: maintenance({ conditions: [condition('Paused', 'True')] }),
      estimate: { basis: 'Paused' },
    },
    {
      when: 'no pod was seen to leave for a minute',
      of: maintenance(),
      differs: { pace: { pods: 0, ms: 60_000 } },
      estimate: { basis: 'NoPodLeftOfLate' },
    },
    {
      when: 'no pod was seen to leave for a moment',
      of: maintenance(),
      differs: { pace: { pods: 0, ms: 10_000 } },
      estimate: { seconds: 40, basis: 'PaceSoFar' },
    },
    { when: 'no pod has left', of: maintenance({ left: 5 }), estimate: { basis: 'NoPodHasLeft' } },
    { when: 'no pod is left', of: maintenance({ left: 0 }), estimate: undefined },
    {
      when: 'pods were seen to leave of late',
      of: maintenance(),
      differs: { pace: { pods: 4, ms: 10_000 } },
      estimate: { seconds: 5, basis: 'RecentPace', pace: { pods: 4, ms: 10_000 } },
    },
    {
      when: 'an evacuator expects to need longer',
      of: maintenance(),
      differs: { nodes: moving, evacuations: expected('2026-01-01T12:05:00Z') },
      estimate: { seconds: 240, basis: 'Evacuator', evacuator: 'data.example.com' },
    },
    {
      when: 'an evacuator has expected to be ready by now',
      of: maintenance(),
      differs: { nodes: moving, evacuations: expected(began) },
      estimate: { seconds: 40, basis: 'PaceSoFar' },
    },
  ])('estimates by what it knows when $when', ({ of, differs, estimate }) => {
    const seen = summaryOf(sight(of, differs)).estimate;
    if (estimate === undefined) expect(seen).toBeUndefined();
    else expect(seen).toMatchObject(estimate);
  });
});

test('nobody knows how many pods are left before Drain has begun', () => {
  const cordoned = summaryOf(sight(maintenance({ stage: 'Cordon', left: 0, peak: 0 })));
  expect(cordoned).not.toHaveProperty('podsLeft');
  expect(cordoned.nodes[0]).not.toHaveProperty('podsLeft');
  expect(summaryOf(sight(maintenance({ begun: ['Cordon'] })))).not.toHaveProperty('podsLeft');
});

describe('the summary of a maintenance that is complete', () => {
  const paused = condition('Paused', 'True');
  const complete = (differs: Differs = {}) =>
    maintenance({ stage: 'Complete', finalizers: [], conditions: [paused], ...differs });

  test.each([
    { when: 'is back', of: complete(), cordoned: false, says: { takesPods: true, obstacles: [] } },
    {
      when: 'was cordoned before',
      of: complete({ unschedulableBefore: true }),
      cordoned: true,
      says: { takesPods: false, obstacles: [], left: 'CordonedBefore' },
    },
    {
      when: 'was waited for and never had',
      of: complete({ isTouched: false }),
      cordoned: true,
      says: { takesPods: false, obstacles: [], left: 'NeverTouched' },
    },
  ])('says whether a node takes pods that $when', ({ of, cordoned, says }) => {
    const summary = summaryOf(sight(of, { nodes: [node({ cordoned })] }));
    expect(summary).toMatchObject({ paused: false, nodes: [says] });
    expect('left' in (summary.nodes[0] ?? {})).toBe('left' in says);
  });
});

describe('waiting for a stage', () => {
  const over = { stage: 'Complete', finalizers: [] } as const;
  const cni = (ready: boolean) =>
    pod({ name: 'cni', labels: { app: 'cni' }, phase: ready ? 'Running' : 'Pending', ready });

  test.each<{
    when: string;
    goal: NodeMaintenanceStage;
    of?: Differs;
    nodes?: NodeSight[];
    isGone?: boolean;
    standing: object;
  }>([
    {
      when: 'nobody has taken it up',
      goal: 'Drain',
      of: { begun: [] },
      standing: { kind: 'Waiting', on: [expect.stringContaining('a worker to take it up')] },
    },
    {
      when: 'pods of a tier are left',
      goal: 'Drain',
      standing: { kind: 'Waiting', on: ['Default pods up to 1000000000 to leave'] },
    },
    {
      when: 'it is drained but for static pods',
      goal: 'Drain',
      of: { conditions: [condition('Drained', 'True', 'StaticPodsRemain')] },
      standing: { kind: 'Reached', notes: ['StaticPodsRemain.'] },
    },
    {
      when: 'somebody moved it on',
      goal: 'Drain',
      of: { stage: 'Complete' },
      standing: { kind: 'Missed', because: 'it was moved on to stage Complete' },
    },
    {
      when: 'somebody deleted it',
      goal: 'Drain',
      isGone: true,
      standing: { kind: 'Missed', because: 'it was deleted' },
    },
    {
      when: 'a node is not cordoned yet',
      goal: 'Cordon',
      of: { stage: 'Cordon' },
      standing: { kind: 'Waiting', on: ['nodes to be cordoned: one'] },
    },
    {
      when: 'a node was cordoned already, and somebody else has its Lease',
      goal: 'Cordon',
      of: {
        stage: 'Cordon',
        isTouched: false,
        conditions: [condition('NodeLeasesHeld', 'False', 'Waiting')],
      },
      nodes: [node({ cordoned: true })],
      standing: { kind: 'Waiting', on: ['nodes to be cordoned: one', 'maintenance Leases: Waiting.'] },
    },
    {
      when: 'all nodes are cordoned for it',
      goal: 'Cordon',
      of: { stage: 'Cordon' },
      nodes: [node({ cordoned: true })],
      standing: { kind: 'Reached', notes: [] },
    },
    {
      when: 'no pod is left, and it is not drained yet',
      goal: 'Drain',
      of: { left: 0 },
      standing: { kind: 'Waiting', on: ['the worker to find that no pod is left'] },
    },
    { when: 'it is in Idle', goal: 'Idle', of: { stage: 'Idle' }, standing: { kind: 'Reached' } },
    {
      when: 'the finalizer is still there',
      goal: 'Complete',
      of: { stage: 'Complete' },
      standing: { kind: 'Waiting', on: ['the nodes to be given back'] },
    },
    {
      when: 'the node does not run',
      goal: 'Complete',
      of: over,
      nodes: [node({ ready: false })],
      standing: { kind: 'Waiting', on: ['node one: not Ready: KubeletDown.'] },
    },
    {
      when: 'the pod of a gate is not ready',
      goal: 'Complete',
      of: over,
      nodes: [node({ readiness: gated, isTainted: true, pods: [cni(false)] })],
      standing: { kind: 'Waiting', on: ['node one: gate network: pod is not ready: default/cni (Pending)'] },
    },
    {
      when: 'the pod of a gate is missing, and nobody has put the taint on yet',
      goal: 'Complete',
      of: over,
      nodes: [node({ readiness: gated })],
      standing: {
        kind: 'Waiting',
        on: ['node one: gate network: no pod on the node in namespace default has app=cni'],
      },
    },
    {
      when: 'the gates are open and the taint is still there',
      goal: 'Complete',
      of: over,
      nodes: [node({ readiness: gated, isTainted: true, pods: [cni(true)] })],
      standing: { kind: 'Waiting', on: ['node one: gates are open, and their taint is still there'] },
    },
    {
      when: 'the node is back',
      goal: 'Complete',
      of: over,
      nodes: [node({ readiness: gated, pods: [cni(true)] })],
      standing: { kind: 'Reached', notes: [] },
    },
    {
      when: 'the object is gone and its node is back',
      goal: 'Complete',
      isGone: true,
      standing: { kind: 'Reached', notes: [] },
    },
    {
      when: 'somebody else had cordoned the node before',
      goal: 'Complete',
      of: { ...over, unschedulableBefore: true },
      nodes: [node({ cordoned: true })],
      standing: { kind: 'Reached', notes: ['Left cordoned, as before the maintenance: one.'] },
    },
    {
      when: "the node was somebody else's, and stays as it is",
      goal: 'Complete',
      of: { ...over, isTouched: false },
      nodes: [node({ cordoned: true, ready: false })],
      standing: { kind: 'Reached', notes: ['Left alone, never touched by the maintenance: one.'] },
    },
    {
      when: 'somebody has cordoned it since',
      goal: 'Complete',
      of: over,
      nodes: [node({ cordoned: true })],
      standing: { kind: 'Waiting', on: ['node one: cordoned'] },
    },
  ])('$goal: $when', ({ goal, of, nodes = [node()], isGone = false, standing }) => {
    expect(awaited(goal, { ...sight(maintenance(of), { nodes }), isGone })).toMatchObject(standing);
  });

  test('Complete: a node of the maintenance does not exist', () => {
    const seen = sight(maintenance(over), { missing: ['two'] });
    expect(awaited('Complete', { ...seen, isGone: false })).toEqual({
      kind: 'Waiting',
      on: ['node two: it does not exist'],
    });
  });

  test('Complete: another maintenance still holds the node', () => {
    const own = maintenance(over);
    const other = { ...maintenance(), metadata: { name: 'other', uid: 'other' } };
    const seen = sight(own, { maintenances: [own, other], nodes: [node({ cordoned: true })] });
    expect(awaited('Complete', { ...seen, isGone: false })).toEqual({
      kind: 'Waiting',
      on: ['node one: cordoned, also for other'],
    });
  });
});
