import { describe, expect, test } from '@jest/globals';
import type { DaemonSet } from '../../../api/core.ts';
import type { NodeMaintenance, NodeMaintenanceStage } from '../../../api/nodeMaintenance.ts';
import {
  isRollingOut,
  maxUnavailableOf,
  terminationMessage,
  gatingMaintenance,
} from '../../../domain/drain/daemonSet.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';
import { daemonPod, daemons, pods } from '../../kit/builders.ts';

const six = { metadata: { name: 'six', labels: { rack: 'r' } }, spec: {} };

interface Differs {
  name?: string;
  created?: string;
  stage?: NodeMaintenanceStage;
  deleted?: boolean;
  rack?: string;
  node?: string;
  targets?: typeof target;
  reason?: string;
}

const target = [pods(2_147_483_647), daemons(5000)];

/** Builds a maintenance that has published drain targets for node six, up to DaemonSet pods of priority 5000. */
function maintenance(differs: Differs = {}): NodeMaintenance {
  const { name = 'nm', created = '1', stage = 'Drain', deleted, rack = 'r', reason } = differs;
  const matchExpressions = [{ key: 'rack', operator: 'In' as const, values: [rack] }];
  return {
    metadata: { name, creationTimestamp: created, ...(deleted && { deletionTimestamp: 'now' }) },
    spec: {
      stage,
      nodeSelector: { nodeSelectorTerms: [{ matchExpressions }] },
      ...(reason !== undefined && { reason }),
    },
    status: {
      ...emptyStatus,
      nodeStatuses: [
        {
          nodeRef: { name: differs.node ?? 'six' },
          drainTargets: differs.targets ?? target,
          drainMessage: '',
          podsPendingEvacuation: 0,
          podsEvacuating: 0,
        },
      ],
    },
  };
}

describe('a DaemonSet pod keeps its scheduling gate', () => {
  const gateHolder = (priority: number, ...all: NodeMaintenance[]) =>
    gatingMaintenance(daemonPod({ priority }), six, all)?.metadata.name;

  test.each([
    { when: 'by a maintenance whose drain targets include it', given: {}, want: 'nm' },
    { when: 'but not when its priority is beyond them', given: {}, priority: 5001, want: undefined },
    { when: 'but not before DaemonSet pods are targeted', given: { targets: [pods(9)] }, want: undefined },
    { when: 'but not in stage Cordon', given: { stage: 'Cordon' as const }, want: undefined },
    { when: 'but not when it is complete', given: { stage: 'Complete' as const }, want: undefined },
    { when: 'but not when it is being deleted', given: { deleted: true }, want: undefined },
    { when: 'but not when it no longer selects the node', given: { rack: 'other' }, want: undefined },
    { when: 'but not when it targets another node', given: { node: 'seven' }, want: undefined },
  ])('$when', ({ given, priority = 5000, want }) => {
    expect(gateHolder(priority, maintenance(given))).toBe(want);
  });

  test('by the oldest of those that target it', () => {
    const all = [
      maintenance({ name: 'young', created: '3' }),
      maintenance({ name: 'b', created: '2' }),
      maintenance({ name: 'a', created: '2' }),
      maintenance({ name: 'old', created: '1', stage: 'Complete' }),
    ];
    expect(gateHolder(0, ...all)).toBe('a');
    expect(gateHolder(0, ...all.toReversed())).toBe('a');
  });
});

test.each([
  { when: 'its reason', given: { reason: 'OS upgrade' }, want: 'OS upgrade' },
  { when: 'its name when it has none', given: { name: 'rack-7' }, want: 'rack-7' },
  { when: 'its name when it is empty', given: { name: 'rack-7', reason: '' }, want: 'rack-7' },
])('the message of a termination names the maintenance by $when', ({ given, want }) => {
  expect(terminationMessage('critical-ds', maintenance(given))).toBe(
    `critical-ds is terminating the pod due to node maintenance (${want}).`,
  );
});

/** Builds a DaemonSet with three pods, of which one is updated. */
function daemonSet(
  updateStrategy: DaemonSet['spec']['updateStrategy'],
  counts: Partial<DaemonSet['status']> = {},
): DaemonSet {
  return {
    metadata: { name: 'agent', generation: 2 },
    spec: updateStrategy === undefined ? {} : { updateStrategy },
    status: {
      observedGeneration: 2,
      desiredNumberScheduled: 3,
      currentNumberScheduled: 3,
      updatedNumberScheduled: 1,
      ...counts,
    },
  };
}

test.each([
  { when: 'by default', strategy: undefined, want: true },
  {
    when: 'when no pod is updated yet',
    strategy: undefined,
    counts: { updatedNumberScheduled: 0 },
    want: true,
  },
  { when: 'not when all are', strategy: undefined, counts: { updatedNumberScheduled: 3 }, want: false },
  {
    when: 'not because one is missing',
    strategy: undefined,
    counts: { currentNumberScheduled: 1 },
    want: false,
  },
  {
    when: 'not before the controller has observed it',
    strategy: undefined,
    counts: { observedGeneration: 1 },
    want: false,
  },
  { when: 'not when its owner replaces pods', strategy: { type: 'OnDelete' as const }, want: false },
  { when: 'not when new pods come first', strategy: { rollingUpdate: { maxSurge: 1 } }, want: false },
  { when: 'not when a share of them does', strategy: { rollingUpdate: { maxSurge: '1%' } }, want: false },
  { when: 'without any surge', strategy: { rollingUpdate: { maxSurge: '0%' } }, want: true },
])('the pods of a DaemonSet are replaced one after the other: $when', ({ strategy, counts, want }) => {
  expect(isRollingOut(daemonSet(strategy, counts))).toBe(want);
});

test.each([
  { maxUnavailable: undefined, want: 1 },
  { maxUnavailable: 2, want: 2 },
  { maxUnavailable: 0, want: 1 },
  { maxUnavailable: '34%', want: 2 },
  { maxUnavailable: '100%', want: 3 },
])(
  'of three pods $want may be unavailable when maxUnavailable is $maxUnavailable',
  ({ maxUnavailable, want }) => {
    const rollingUpdate = maxUnavailable === undefined ? {} : { maxUnavailable };
    expect(maxUnavailableOf(daemonSet({ rollingUpdate }))).toBe(want);
  },
);
