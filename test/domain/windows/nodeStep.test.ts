import fc from 'fast-check';
import type { Node } from '../../../api/core.ts';
import { isTrue } from '../../../domain/common/conditions.ts';
import { isJobRunning } from '../../../domain/common/job.ts';
import {
  advanceRequested,
  nodeAdvanced,
  nodeCancelled,
  nodeFailed,
  nodeSucceeded,
  workStarted,
  workSucceeded,
} from '../../../domain/windows/nodeResult.ts';
import { decideNodeStep } from '../../../domain/windows/nodeStep.ts';
import type { NodeStepInput } from '../../../domain/windows/nodeStepInput.ts';
import {
  anyHeartbeatMs,
  anyJob,
  anyMaintenance,
  before,
  condition,
  drained,
  gated,
  is,
  job,
  type MaintenanceDiffers,
  maintenanceOf,
  nowMs,
  ready,
  succeeded,
  terminating,
  unready,
} from '../../kit/windowNode.ts';

const gatedBy = (message: string): Node => ({
  ...gated,
  status: {
    conditions: [
      condition({ type: 'readiness.k8s.io/GatesReady', status: 'False', reason: 'GatesNotReady', message }),
    ],
  },
});

type Differs = Partial<Omit<NodeStepInput, 'maintenance' | 'node'>> &
  MaintenanceDiffers & {
    node?: Node | 'Absent' | 'Unselected' | 'Recreated';
    lastHeartbeatMs?: number;
    isMissingReadinessTaint?: boolean;
  };

function step(differs: Differs, maintenance = maintenanceOf(differs)) {
  const { node = ready, lastHeartbeatMs, isMissingReadinessTaint = false } = differs;
  const { stage: _stage, conditions: _conditions, uncordoned: _uncordoned, ...input } = differs;
  return decideNodeStep({
    work: 'Job',
    revision: 'Current',
    job: undefined,
    mayRunJobs: true,
    reboot: undefined,
    agent: 'NotRunning',
    leaseHolder: undefined,
    openedAtMs: nowMs - 3_600_000,
    policy: 'Finish',
    // A worker has observed the node all the time.
    waitingSince: nowMs - 1_000_000,
    readyTimeoutSeconds: 60,
    nowMs,
    ...input,
    maintenance,
    node:
      typeof node === 'string'
        ? { kind: node }
        : { kind: 'Present', node, lastHeartbeatMs, isMissingReadinessTaint },
  });
}

const noNetwork =
  'container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized';
const withoutNetwork = (message: string): Node => ({
  ...unready,
  status: { conditions: [condition({ type: 'Ready', status: 'False', reason: 'KubeletNotReady', message })] },
});
const started = [...drained, condition(workStarted('work'))];
const worked = [...drained, condition(workSucceeded('work'))];
const waitForUncordon = { kind: 'Wait', message: 'the node is being uncordoned' };
const waitForJob = { kind: 'Wait', message: 'Job work is running' };
const awaitReady = { kind: 'AwaitNode', message: 'not ready' };
const awaitGates = { kind: 'AwaitNode', message: 'readiness gates are not ready' };

test('a completed maintenance that was restored without its status is deleted, so that its node is maintained again', () => {
  const annotations = { 'nodemaintenance.k8s.io/completed': before(1_000) };
  const restored = {
    metadata: { name: 'maintenance', annotations },
    spec: { stage: 'Complete' as const, nodeSelector: { nodeSelectorTerms: [] } },
  };
  for (const work of ['None', 'Job'] as const)
    expect(step({ work }, restored)).toEqual({ kind: 'DeleteMaintenance' });
});

describe('a node whose Job the worker may not see', () => {
  const unseen = { kind: 'Wait', message: expect.stringContaining('apply deploy/window-jobs') };
  test.each<{ when: string; given: Differs; want: object }>([
    { when: 'waits when it is drained', given: { conditions: drained }, want: unseen },
    { when: 'stays cordoned after its work', given: { conditions: worked }, want: unseen },
    { when: 'stays cordoned when its Job is unknown', given: { conditions: started }, want: unseen },
    {
      when: 'stays cordoned when the window is cancelled',
      given: { conditions: [...started, condition(nodeCancelled)], policy: 'Cancel' },
      want: unseen,
    },
    {
      when: 'stays cordoned when it is advanced',
      given: { conditions: [...started, condition(advanceRequested)] },
      want: unseen,
    },
    {
      when: 'stays failed',
      given: { conditions: [...started, condition(nodeFailed('JobFailed', 'why'))] },
      want: { kind: 'Failed', reason: 'JobFailed', message: 'why', isUncordoned: false },
    },
    {
      when: 'succeeds when it is in service again',
      given: { stage: 'Complete', uncordoned: 10, conditions: worked },
      want: { kind: 'Succeed' },
    },
    {
      when: 'waits for a user if its work is none',
      given: { conditions: drained, work: 'None' },
      want: {
        kind: 'Wait',
        message:
          'the node is drained: when the work is finished, mark it as done (kubectl maintenance window advance)',
      },
    },
  ])('$when', ({ given, want }) => {
    expect(step({ ...given, mayRunJobs: false })).toEqual(want);
  });
});

describe('a node of a window', () => {
  test.each<{ when: string; given: Differs; want: object }>([
    {
      when: 'waits for its drain',
      given: {},
      want: { kind: 'Wait', message: 'the node is being drained' },
    },
    { when: 'starts its Job after the drain', given: { conditions: drained }, want: { kind: 'StartJob' } },
    {
      when: 'starts no Job while another client holds its Lease',
      given: { conditions: drained, leaseHolder: 'jane' },
      want: { kind: 'Wait', message: 'its maintenance Lease is held by jane' },
    },
    {
      when: 'waits for its Job although another client has acquired its Lease',
      given: { conditions: started, job: job(100), leaseHolder: 'jane' },
      want: waitForJob,
    },
    {
      when: 'is uncordoned although no network plugin runs, because that of a DaemonSet returns only then',
      given: { conditions: worked, job: succeeded, node: withoutNetwork(noNetwork) },
      want: { kind: 'Complete' },
    },
    {
      when: 'stays cordoned while more than the network plugin is missing',
      given: {
        conditions: worked,
        job: succeeded,
        node: withoutNetwork(`[${noNetwork}, PLEG is not healthy]`),
      },
      want: awaitReady,
    },
    {
      when: 'waits for a user after the drain if the window has no Job',
      given: { conditions: drained, work: 'None' },
      want: {
        kind: 'Wait',
        message:
          'the node is drained: when the work is finished, mark it as done (kubectl maintenance window advance)',
      },
    },
    {
      when: 'records that its Job has started',
      given: { conditions: drained, job: job(1) },
      want: { kind: 'RecordWork', facts: workStarted('work') },
    },
    {
      when: 'waits for its Job, even if a pod appears on the node in between',
      given: { conditions: [is('Drained', 'False'), condition(workStarted('work'))], job: job(100) },
      want: waitForJob,
    },
    {
      when: 'waits for the pods of a Job that exceeded its deadline, for their grace period',
      given: { conditions: started, job: job(689) },
      want: waitForJob,
    },
    {
      when: 'records the success of its Job before acting on it',
      given: { conditions: started, job: succeeded },
      want: { kind: 'RecordWork', facts: workSucceeded('work') },
    },
    {
      when: 'is uncordoned after its work',
      given: { conditions: worked, job: succeeded },
      want: { kind: 'Complete' },
    },
    {
      when: 'is uncordoned after its work even if the Job was deleted since',
      given: { conditions: worked, lastHeartbeatMs: nowMs - 9_000 },
      want: { kind: 'Complete' },
    },
    {
      when: 'succeeds even if the Job was deleted since',
      given: { stage: 'Complete', uncordoned: 10, conditions: worked },
      want: { kind: 'Succeed' },
    },
    {
      when: 'stays cordoned after its work while it is not ready',
      given: { conditions: worked, job: succeeded, node: unready },
      want: awaitReady,
    },
    {
      when: 'is uncordoned although its readiness gates are not ready, because their pods return only then',
      given: { conditions: worked, job: succeeded, node: gated },
      want: { kind: 'Complete' },
    },
    { when: 'waits for the uncordon', given: { stage: 'Complete', job: succeeded }, want: waitForUncordon },
    {
      when: 'waits for its readiness gates after the uncordon',
      given: { stage: 'Complete', uncordoned: 10, job: succeeded, node: gated },
      want: awaitGates,
    },
    {
      when: 'waits for its readiness gates even if its taint is still missing',
      given: { stage: 'Complete', uncordoned: 10, job: succeeded, isMissingReadinessTaint: true },
      want: awaitGates,
    },
    {
      when: 'succeeds when it is in service',
      given: { stage: 'Complete', uncordoned: 10, job: succeeded },
      want: { kind: 'Succeed' },
    },
    {
      when: 'without a Job succeeds when a user completes it after the drain',
      given: { stage: 'Complete', uncordoned: 10, work: 'None', conditions: drained },
      want: { kind: 'Succeed' },
    },
    {
      when: 'waits for a kubelet heartbeat after its work, because condition Ready may be outdated',
      given: { conditions: worked, job: succeeded, lastHeartbeatMs: nowMs - 11_000 },
      want: { kind: 'AwaitNode', message: 'no kubelet heartbeat since the work ended' },
    },
    {
      when: 'is uncordoned after a kubelet heartbeat',
      given: { conditions: worked, job: succeeded, lastHeartbeatMs: nowMs - 9_000 },
      want: { kind: 'Complete' },
    },
    {
      when: 'continues with its Job after the window was edited',
      given: { conditions: started, job: job(100), work: 'None', revision: 'Outdated' },
      want: waitForJob,
    },
    {
      when: 'without a Job waits for a user even after the window was edited',
      given: { conditions: drained, work: 'None', revision: 'Outdated' },
      want: {
        kind: 'Wait',
        message:
          'the node is drained: when the work is finished, mark it as done (kubectl maintenance window advance)',
      },
    },
    {
      when: 'whose Job has not started when the window is edited is cancelled, to start with the new revision',
      given: { conditions: drained, revision: 'Outdated' },
      want: { kind: 'Cancel' },
    },
    {
      when: 'that a user completes while its Job is running deletes the Job',
      given: { stage: 'Complete', job: job(10) },
      want: { kind: 'DeleteJob' },
    },
    {
      when: 'that was advanced and completed while its Job did not end deletes the Job',
      given: { stage: 'Complete', job: job(1000), conditions: [condition(nodeAdvanced)] },
      want: { kind: 'DeleteJob' },
    },
    {
      when: 'that failed and was advanced waits while a Job is still running',
      given: { job: job(1000), conditions: [condition(nodeAdvanced)] },
      want: waitForJob,
    },
    {
      when: 'is not failed on the first observation, however long ago its work ended: it may have been ready in between',
      given: {
        conditions: worked,
        node: unready,
        job: job(9_999, { ...is('Complete'), lastTransitionTime: before(9_000) }),
        waitingSince: undefined,
      },
      want: awaitReady,
    },
    {
      when: 'is not failed for its gates before it was observed long enough, however long ago it was uncordoned',
      given: {
        stage: 'Complete',
        uncordoned: 9_000,
        job: succeeded,
        node: gated,
        waitingSince: nowMs - 59_000,
      },
      want: awaitGates,
    },
    {
      when: 'stays succeeded, whatever happens to it later',
      given: { stage: 'Complete', uncordoned: 10, conditions: [condition(nodeSucceeded)], node: unready },
      want: { kind: 'Succeeded', at: nowMs - 10_000 },
    },
    {
      when: 'that succeeded in an earlier revision is maintained again',
      given: {
        stage: 'Complete',
        uncordoned: 10,
        conditions: [condition(nodeSucceeded)],
        revision: 'Outdated',
      },
      want: { kind: 'DeleteMaintenance' },
    },
    {
      when: 'that succeeded before its Node was recreated is maintained again',
      given: { stage: 'Complete', uncordoned: 10, conditions: [condition(nodeSucceeded)], node: 'Recreated' },
      want: { kind: 'DeleteMaintenance' },
    },
    {
      when: 'that was advanced is uncordoned when it is ready, whatever is left to do',
      given: { conditions: [condition(advanceRequested)], policy: 'Cancel', lastHeartbeatMs: nowMs - 9_000 },
      want: { kind: 'Complete' },
    },
    {
      when: 'that was advanced stays cordoned while it is not ready',
      given: { conditions: [condition(advanceRequested)], work: 'None', node: unready },
      want: awaitReady,
    },
    {
      when: 'that was advanced waits for a kubelet heartbeat, because a user may have restarted it just before',
      given: { conditions: [condition(advanceRequested)], work: 'None', lastHeartbeatMs: nowMs - 10_000 },
      want: { kind: 'AwaitNode', message: 'no kubelet heartbeat since it was advanced' },
    },
    {
      when: 'that was advanced waits for a Job that started at the same moment',
      given: { conditions: [condition(advanceRequested)], job: job(5), lastHeartbeatMs: nowMs },
      want: waitForJob,
    },
    {
      when: 'that had failed when it was advanced is uncordoned even if it is not ready: a user has resolved the failure',
      given: { conditions: [condition(nodeAdvanced)], node: unready },
      want: { kind: 'Complete' },
    },
    {
      when: 'that was advanced waits for its readiness gates as well',
      given: { stage: 'Complete', uncordoned: 10, conditions: [condition(advanceRequested)], node: gated },
      want: awaitGates,
    },
    {
      when: 'that was advanced succeeds when it is in service',
      given: { stage: 'Complete', uncordoned: 10, conditions: [condition(advanceRequested)] },
      want: { kind: 'Succeed' },
    },
    {
      when: 'that had failed when it was advanced waits for the uncordon',
      given: { stage: 'Complete', conditions: [condition(nodeAdvanced)] },
      want: waitForUncordon,
    },
    {
      when: 'is cancelled if its Node was deleted before its Job started',
      given: { node: 'Absent', conditions: drained },
      want: { kind: 'Cancel' },
    },
    {
      when: 'that was advanced is cancelled if its Node was deleted, whose work is done',
      given: { node: 'Absent', conditions: [condition(advanceRequested)], job: succeeded },
      want: { kind: 'Cancel' },
    },
    {
      when: 'is cancelled if its NodeMaintenance does not select it',
      given: { node: 'Unselected', conditions: drained, job: succeeded },
      want: { kind: 'Cancel' },
    },
    {
      when: 'that failed because its Node was replaced loses its Job, which would work on the new Node',
      given: { conditions: [condition(nodeFailed('NodeReplaced', ''))], job: job(100) },
      want: { kind: 'DeleteJob' },
    },
    {
      when: 'is cancelled if its Node was recreated before its Job started',
      given: { node: 'Recreated', conditions: drained },
      want: { kind: 'Cancel' },
    },
  ])('$when', ({ given, want }) => {
    expect(step(given)).toEqual(want);
  });
});

describe('a node fails and stays cordoned', () => {
  test.each<{ when: string; given: Differs; reason: string; message: RegExp }>([
    {
      when: 'when its Node was deleted after its Job had started, because another one may follow',
      given: { node: 'Absent', conditions: drained, job: succeeded },
      reason: 'NodeReplaced',
      message: /^the Node was deleted after its Job had started/,
    },
    {
      when: 'when its Node was recreated after its Job had started, which could repeat forever',
      given: { node: 'Recreated', conditions: drained, job: succeeded },
      reason: 'NodeReplaced',
      message: /^the Node was recreated after its Job had started/,
    },
    {
      when: 'when its Job is deleted: it is not created again',
      given: { conditions: started },
      reason: 'JobDeleted',
      message: /^its Job was deleted before it succeeded/,
    },
    {
      when: 'when its Job fails',
      given: {
        conditions: started,
        job: job(100, condition({ type: 'Failed', status: 'True', reason: 'DeadlineExceeded', message: '' })),
      },
      reason: 'JobFailed',
      message: /^Job work failed \(DeadlineExceeded\)/,
    },
    {
      when: 'when its Job does not end, even after the grace period of its pods',
      given: { conditions: started, job: job(691) },
      reason: 'JobTerminationTimeout',
      message: /^Job work did not end within 690 s/,
    },
    {
      when: 'when it is not ready in time after its work',
      given: {
        conditions: worked,
        node: unready,
        job: job(100, { ...is('Complete'), lastTransitionTime: before(61) }),
      },
      reason: 'NodeNotReady',
      message: /^not ready for more than 60 s after the work ended/,
    },
    {
      when: 'when it is not ready in time while a worker observes it',
      given: {
        conditions: worked,
        node: unready,
        job: job(9_999, { ...is('Complete'), lastTransitionTime: before(9_000) }),
        waitingSince: nowMs - 61_000,
      },
      reason: 'NodeNotReady',
      message: /^not ready for more than 60 s after the work ended/,
    },
    {
      when: 'when its readiness gates are not ready in time after the uncordon',
      given: { stage: 'Complete', uncordoned: 61, job: succeeded, node: gated },
      reason: 'NodeNotReady',
      message: /^readiness gates are not ready for more than 60 s after the uncordon/,
    },
    {
      when: 'with the gate and the pod that are the cause',
      given: {
        stage: 'Complete',
        uncordoned: 61,
        job: succeeded,
        node: gatedBy('gate network: pod is not ready'),
      },
      reason: 'NodeNotReady',
      message:
        /^readiness gates are not ready \(gate network: pod is not ready\) for more than 60 s after the uncordon/,
    },
    {
      when: 'when a user completes its maintenance before the Job has succeeded',
      given: { stage: 'Complete', uncordoned: 10 },
      reason: 'CompletedEarly',
      message: /^the NodeMaintenance was completed before its Job succeeded/,
    },
    {
      when: 'when a user completes its maintenance before the node is drained',
      given: { stage: 'Complete', uncordoned: 10, work: 'None' },
      reason: 'CompletedEarly',
      message: /^the NodeMaintenance was completed before the node was drained/,
    },
    {
      when: 'when its kubelet sends no heartbeat after its work',
      given: {
        conditions: worked,
        lastHeartbeatMs: nowMs - 62_000,
        job: job(100, { ...is('Complete'), lastTransitionTime: before(61) }),
      },
      reason: 'NodeNotReady',
      message: /^no kubelet heartbeat since the work ended for more than 60 s after the work ended/,
    },
    {
      when: 'when it was advanced and is not ready in time',
      given: {
        conditions: [{ ...condition(advanceRequested), lastTransitionTime: before(61) }],
        node: unready,
      },
      reason: 'NodeNotReady',
      message: /^not ready for more than 60 s after it was advanced/,
    },
    {
      when: 'when a Job fails that started at the moment at which it was advanced',
      given: { conditions: [condition(advanceRequested)], job: job(100, is('Failed')) },
      reason: 'JobFailed',
      message: /^Job work failed/,
    },
    {
      when: 'when it was cancelled and the pods of its Job do not terminate, as on a node that was deleted',
      given: { conditions: [...drained, condition(nodeCancelled)], job: terminating(200, 91) },
      reason: 'JobTerminationTimeout',
      message: /^the pods of Job work did not terminate within 90 s after it was deleted/,
    },
  ])('$when', ({ given, reason, message }) => {
    expect(step(given)).toEqual({ kind: 'Fail', reason, message: expect.stringMatching(message) });
  });

  test('until a user has resolved the failure', () => {
    const conditions = [...drained, condition(nodeFailed('JobFailed', 'why'))];
    const failure = { kind: 'Failed', reason: 'JobFailed', message: 'why' };
    for (const policy of ['Finish', 'Hold', 'Cancel'] as const)
      expect(step({ conditions, policy })).toEqual({ ...failure, isUncordoned: false });
    expect(step({ conditions, stage: 'Complete', uncordoned: 1 })).toEqual({
      ...failure,
      isUncordoned: true,
    });
  });
});

describe('when the window ends', () => {
  test.each<{ when: string; given: Differs; want: object }>([
    {
      when: 'policy Hold pauses the drain',
      given: { policy: 'Hold' },
      want: { kind: 'Wait', message: 'the drain is paused by the window' },
    },
    {
      when: 'policy Hold starts no Job',
      given: { policy: 'Hold', conditions: drained },
      want: { kind: 'Wait', message: 'the window has ended: its Job starts at the next opening' },
    },
    { when: 'policy Cancel cancels the drain', given: { policy: 'Cancel' }, want: { kind: 'Cancel' } },
    {
      when: 'policy Cancel cancels a running Job',
      given: { policy: 'Cancel', conditions: drained, job: job(10) },
      want: { kind: 'Cancel' },
    },
    {
      when: 'policy Cancel still reports a failed Job as a failure',
      given: { policy: 'Cancel', conditions: started, job: job(100, is('Failed')) },
      want: expect.objectContaining({ kind: 'Fail', reason: 'JobFailed' }),
    },
    {
      when: 'policy Cancel does not affect work that is done',
      given: { policy: 'Cancel', conditions: worked },
      want: { kind: 'Complete' },
    },
    {
      when: 'policy Cancel records the success of a Job first',
      given: { policy: 'Cancel', conditions: drained, job: succeeded },
      want: { kind: 'RecordWork', facts: workSucceeded('work') },
    },
  ])('$when', ({ given, want }) => {
    expect(step(given)).toEqual(want);
  });

  test('a cancelled node deletes its Job, is uncordoned, and then deletes its NodeMaintenance', () => {
    const cancelled = [condition(nodeCancelled)];
    expect(step({ conditions: cancelled, job: job(10) })).toEqual({ kind: 'DeleteJob' });
    expect(step({ conditions: cancelled, job: terminating(10, 1) })).toMatchObject({ kind: 'Wait' });
    expect(step({ conditions: cancelled })).toEqual({ kind: 'Complete' });
    expect(step({ conditions: cancelled, stage: 'Complete' })).toMatchObject({ kind: 'Wait' });
    expect(step({ conditions: cancelled, stage: 'Complete', uncordoned: 1 })).toEqual({
      kind: 'DeleteMaintenance',
    });
  });
});

describe('for every input', () => {
  const inputs = fc.record({
    ...anyMaintenance,
    node: fc.constantFrom<NonNullable<Differs['node']>>(ready, unready, gated, 'Absent', 'Recreated'),
    lastHeartbeatMs: anyHeartbeatMs,
    isMissingReadinessTaint: fc.boolean(),
    work: fc.constantFrom('None' as const, 'Job' as const),
    revision: fc.constantFrom('Current' as const, 'Outdated' as const),
    job: anyJob,
    waitingSince: fc.option(anyHeartbeatMs, { nil: undefined }),
    policy: fc.constantFrom('Finish' as const, 'Hold' as const, 'Cancel' as const),
  });
  type Input = typeof inputs extends fc.Arbitrary<infer I> ? I : never;
  const holds = (law: (given: Input, decided: ReturnType<typeof step>) => void) =>
    fc.assert(
      fc.property(inputs, (given) => law(given, step(given as Differs))),
      { numRuns: 2_000 },
    );

  test('a node is never uncordoned while its Job is running', () => {
    holds(({ job: its }, { kind }) => {
      if (isJobRunning(its)) expect(kind).not.toBe('Complete');
    });
  });

  test('a Job starts only on a drained node that has neither a Job nor a result', () => {
    holds(({ stage, conditions, job: its, node, policy }, { kind }) => {
      if (kind !== 'StartJob') return;
      expect({
        stage: stage === 'Complete',
        drained: isTrue(conditions, 'Drained'),
        its,
        node,
        policy,
      }).toEqual({
        stage: false,
        drained: true,
        its: undefined,
        node: expect.any(Object),
        policy: 'Finish',
      });
      expect(conditions.map(({ type }) => type)).toEqual(['Drained']);
    });
  });

  test('a recorded failure stays until a user resolves it', () => {
    holds(({ conditions, stage, job: its }, { kind }) => {
      const hasFailed = conditions.some(({ reason }) => reason === 'JobFailed');
      const isJobLeft = stage === 'Complete' && isJobRunning(its);
      if (hasFailed && !isJobLeft) expect(kind).toBe('Failed');
    });
  });

  test('a node succeeds only in service, and its record is deleted only after the uncordon', () => {
    holds(({ stage, uncordoned, node }, { kind }) => {
      if (kind === 'Succeed') expect([stage, node]).toEqual(['Complete', ready]);
      if (['Succeed', 'Succeeded', 'DeleteMaintenance'].includes(kind)) expect(uncordoned).toBeDefined();
    });
  });

  test('the same input gives the same step', () => {
    holds((given, decided) => expect(step(given as Differs)).toEqual(decided));
  });
});
