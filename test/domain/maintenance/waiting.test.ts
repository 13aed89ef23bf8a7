import { describe, expect, test } from '@jest/globals';
import type { Condition } from '../../../api/core.ts';
import { MAINTENANCE_FINALIZER } from '../../../api/names.ts';
import type { NodeMaintenance, NodeMaintenanceStage } from '../../../api/nodeMaintenance.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';
import { waitingReasonOf } from '../../../domain/maintenance/waiting.ts';

const since = '2026-01-01T00:00:00Z';

function condition(type: string, status: Condition['status'], reason: string): Condition {
  return { type, status, reason, message: '', lastTransitionTime: since };
}

interface Differs {
  stage: NodeMaintenanceStage;
  conditions?: Condition[];
  podsBlocked?: number;
  /** Whether Complete has finished. */
  completed?: boolean;
  observedGeneration?: number;
}

function maintenance({ stage, conditions = [], podsBlocked = 0, ...differs }: Differs): NodeMaintenance {
  const { completed = false, observedGeneration = 2 } = differs;
  const finalizers = completed ? [] : [MAINTENANCE_FINALIZER];
  return {
    metadata: { name: 'm', uid: 'u', generation: 2, finalizers },
    spec: { stage, nodeSelector: { nodeSelectorTerms: [] } },
    status: {
      ...emptyStatus,
      observedGeneration,
      conditions,
      podsBlocked,
      stageStatuses: [{ name: stage, startTimestamp: since }],
    },
  } as NodeMaintenance;
}

const drained = (reason: string) => condition('Drained', 'False', reason);
const allGone = condition('Drained', 'True', 'AllPodsTerminated');
const temporalUnavailable = condition('Progressing', 'False', 'TemporalUnavailable');
const withoutLease = condition('NodeLeasesHeld', 'False', 'Waiting');

describe('what a maintenance waits for', () => {
  test.each<Differs & { when: string; want: string | undefined }>([
    { when: 'it is idle', stage: 'Idle', observedGeneration: 0, want: undefined },
    {
      when: 'Temporal is unavailable before a run has seen it',
      stage: 'Cordon',
      observedGeneration: 1,
      conditions: [temporalUnavailable],
      want: 'TemporalUnavailable',
    },
    {
      when: 'Temporal is unavailable and a pod was blocked before',
      stage: 'Drain',
      conditions: [temporalUnavailable, drained('Blocked')],
      want: 'TemporalUnavailable',
    },
    {
      when: 'Temporal was unavailable',
      stage: 'Drain',
      conditions: [condition('Progressing', 'True', 'TemporalAvailable')],
      want: 'Draining',
    },
    { when: 'no run has seen it', stage: 'Cordon', observedGeneration: 1, want: 'NotObserved' },
    { when: 'its nodes are cordoned', stage: 'Cordon', want: undefined },
    {
      when: 'another client holds a node',
      stage: 'Cordon',
      conditions: [withoutLease],
      want: 'WaitingForNodeLease',
    },
    {
      when: 'the user may not maintain a node',
      stage: 'Cordon',
      conditions: [condition('NodesAuthorized', 'False', 'NotAuthorized')],
      want: 'NotAuthorized',
    },
    { when: 'the drain has just started', stage: 'Drain', want: 'Draining' },
    { when: 'pods leave', stage: 'Drain', conditions: [drained('Draining')], want: 'Draining' },
    {
      when: 'budgets are used up',
      stage: 'Drain',
      conditions: [drained('Draining')],
      podsBlocked: 3,
      want: 'DisruptionBudget',
    },
    {
      when: 'a pod needs intervention',
      stage: 'Drain',
      conditions: [drained('Blocked')],
      podsBlocked: 3,
      want: 'Blocked',
    },
    {
      when: 'no node matches',
      stage: 'Drain',
      conditions: [drained('NoNodeMatches')],
      want: 'NoNodeMatches',
    },
    {
      when: 'a drain waits for a Lease',
      stage: 'Drain',
      conditions: [drained('WaitingForNodeLease')],
      want: 'WaitingForNodeLease',
    },
    {
      when: 'a drain is not authorized',
      stage: 'Drain',
      conditions: [drained('NotAuthorized')],
      want: 'NotAuthorized',
    },
    {
      when: 'a Job works on a node for another maintenance',
      stage: 'Drain',
      conditions: [drained('WorkInProgress')],
      want: 'WorkInProgress',
    },
    {
      when: 'volumes are attached',
      stage: 'Drain',
      conditions: [drained('VolumesAttached')],
      want: 'VolumesAttached',
    },
    {
      when: 'its nodes were drained for an earlier selector',
      stage: 'Drain',
      conditions: [{ ...allGone, observedGeneration: 1 }],
      want: 'Draining',
    },
    {
      when: 'a blocked drain is paused',
      stage: 'Drain',
      conditions: [drained('Blocked'), condition('Paused', 'True', 'PauseRequested')],
      want: 'Paused',
    },
    { when: 'its nodes are drained', stage: 'Drain', conditions: [allGone], want: undefined },
    { when: 'nodes are uncordoned', stage: 'Complete', conditions: [allGone], want: 'Completing' },
    {
      when: 'a paused maintenance is completed',
      stage: 'Complete',
      conditions: [condition('Paused', 'True', 'PauseRequested')],
      want: 'Completing',
    },
    {
      when: 'the uncordon waits',
      stage: 'Complete',
      conditions: [withoutLease],
      want: 'WaitingForNodeLease',
    },
    { when: 'it is complete', stage: 'Complete', completed: true, observedGeneration: 1, want: undefined },
  ])('$when: $want', ({ want, ...differs }) => {
    expect(waitingReasonOf(maintenance(differs))).toBe(want);
  });

  test('a maintenance that no worker has seen is not observed', () => {
    const { status: _, ...unseen } = maintenance({ stage: 'Drain' });
    expect(waitingReasonOf(unseen)).toBe('NotObserved');
  });
});
