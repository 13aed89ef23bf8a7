import type { Condition, Job, Node } from '../../api/core.ts';
import type { NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import type { ConditionFacts } from '../../domain/conditions.ts';
import { emptyStatus } from '../../domain/status.ts';
import { decideTurn, type TurnSight } from '../../domain/turn.ts';
import {
  turnAdvanced,
  turnCancelled,
  turnFailed,
  turnSucceeded,
  verdictOnAdvance,
  workAdvanced,
  workBegun,
  workSucceeded,
} from '../../domain/turnVerdict.ts';

const now = Date.parse('2026-11-21T12:00:00Z');
const before = (seconds: number) => new Date(now - seconds * 1_000).toISOString();

const ready: Node = { metadata: { name: 'n' }, spec: { unschedulable: true } };
const unready: Node = {
  metadata: { name: 'n' },
  spec: { taints: [{ key: 'node.kubernetes.io/not-ready', effect: 'NoSchedule' }] },
};
const gated: Node = {
  metadata: { name: 'n' },
  spec: { taints: [{ key: 'readiness.k8s.io/gates', effect: 'NoSchedule' }] },
};

const condition = (facts: ConditionFacts): Condition => ({ ...facts, lastTransitionTime: before(10) });
const is = (type: string, status: 'True' | 'False' = 'True') =>
  condition({ type, status, reason: type, message: '' });

const gatedBy = (message: string): Node => ({
  ...gated,
  status: {
    conditions: [
      condition({ type: 'readiness.k8s.io/GatesReady', status: 'False', reason: 'GatesNotReady', message }),
    ],
  },
});

/** A Job that began so many seconds ago. */
function job(began: number, ...conditions: Condition[]): Job {
  return {
    metadata: { name: 'work', uid: 'job', creationTimestamp: before(began) },
    spec: { activeDeadlineSeconds: 600, template: { spec: { terminationGracePeriodSeconds: 30 } } },
    status: { startTime: before(began), conditions },
  };
}

type Differs = Partial<Omit<TurnSight, 'maintenance'>> & {
  stage?: NodeMaintenanceStage;
  conditions?: Condition[];
  /** Seconds since Complete began; its finalizer is gone then. */
  givenBack?: number;
  finalizers?: string[];
};

const completion = 'nodemaintenance.k8s.io/maintenance-completion';

function step({ stage = 'Drain', conditions = [], givenBack, finalizers, ...differs }: Differs) {
  const stageStatuses =
    givenBack === undefined ? [] : [{ name: 'Complete' as const, startTimestamp: before(givenBack) }];
  const left = finalizers ?? (givenBack === undefined ? [completion] : []);
  return decideTurn({
    maintenance: {
      metadata: { name: 'turn', finalizers: left },
      spec: { stage, nodeSelector: { nodeSelectorTerms: [] } },
      status: { ...emptyStatus, conditions, stageStatuses },
    },
    node: ready,
    work: 'Job',
    isOutdated: false,
    job: undefined,
    policy: 'Finish',
    // Somebody has looked all the time.
    awaitedSince: now - 1_000_000,
    readyTimeoutSeconds: 60,
    now,
    ...differs,
  });
}

const drained = [is('Drained')];
const succeeded = job(100, is('Complete'));
const begun = [...drained, condition(workBegun('work'))];
const worked = [...drained, condition(workSucceeded('work'))];

describe('the turn of a node', () => {
  test.each<{ when: string; given: Differs; want: object }>([
    { when: 'waits while the node is drained', given: {}, want: { kind: 'Wait', message: 'it is drained' } },
    {
      when: 'starts its Job on the drained node',
      given: { conditions: drained },
      want: { kind: 'StartJob' },
    },
    {
      when: 'waits for a person without a Job',
      given: { conditions: drained, work: 'None' },
      want: { kind: 'Wait', message: 'it is drained; advance its turn when the work is done' },
    },
    {
      when: 'notes that its Job has begun',
      given: { conditions: drained, job: job(1) },
      want: { kind: 'NoteWork', facts: workBegun('work') },
    },
    {
      when: 'waits while its Job works, though a pod appears on the node meanwhile',
      given: { conditions: [is('Drained', 'False'), condition(workBegun('work'))], job: job(100) },
      want: { kind: 'Wait', message: 'Job work works' },
    },
    {
      when: 'waits while the pods of a Job that took too long end, for as long as the Job grants them',
      given: { conditions: begun, job: job(689) },
      want: { kind: 'Wait', message: 'Job work works' },
    },
    {
      when: 'notes that its Job has succeeded, before anything follows from it',
      given: { conditions: begun, job: succeeded },
      want: { kind: 'NoteWork', facts: workSucceeded('work') },
    },
    {
      when: 'gives the node back after its work',
      given: { conditions: worked, job: succeeded },
      want: { kind: 'Complete' },
    },
    {
      when: 'gives the node back after its work, though somebody has deleted the Job since',
      given: { conditions: worked, heardAt: now - 9_000 },
      want: { kind: 'Complete' },
    },
    {
      when: 'succeeds though somebody has deleted the Job since',
      given: { stage: 'Complete', givenBack: 10, conditions: worked },
      want: { kind: 'Succeed' },
    },
    {
      when: 'keeps the node cordoned while it has not come back',
      given: { conditions: worked, job: succeeded, node: unready },
      want: { kind: 'AwaitNode', message: 'it is not ready' },
    },
    {
      when: 'gives a node back whose readiness gates are closed: their pods come back only then',
      given: { conditions: worked, job: succeeded, node: gated },
      want: { kind: 'Complete' },
    },
    {
      when: 'waits until the node is given back',
      given: { stage: 'Complete', job: succeeded },
      want: { kind: 'Wait', message: 'it is given back' },
    },
    {
      when: 'waits for the readiness gates then',
      given: { stage: 'Complete', givenBack: 10, job: succeeded, node: gated },
      want: { kind: 'AwaitNode', message: 'its readiness gates are not open' },
    },
    {
      when: 'waits for them also when they are closed, and the taint is not seen yet',
      given: { stage: 'Complete', givenBack: 10, job: succeeded, isLeftOpen: true },
      want: { kind: 'AwaitNode', message: 'its readiness gates are not open' },
    },
    {
      when: 'succeeds when the node takes pods again',
      given: { stage: 'Complete', givenBack: 10, job: succeeded },
      want: { kind: 'Succeed' },
    },
    {
      when: 'succeeds when a person completes it that has no Job, once it was drained',
      given: { stage: 'Complete', givenBack: 10, work: 'None', conditions: drained },
      want: { kind: 'Succeed' },
    },
    {
      when: 'waits after its work until the kubelet has been heard again: Ready may be of before',
      given: { conditions: worked, job: succeeded, heardAt: now - 11_000 },
      want: { kind: 'AwaitNode', message: 'its kubelet has not been heard since its work' },
    },
    {
      when: 'gives the node back when the kubelet has been heard after its work',
      given: { conditions: worked, job: succeeded, heardAt: now - 9_000 },
      want: { kind: 'Complete' },
    },
    {
      when: 'whose Job goes on after an edit of the window is judged by this Job',
      given: { conditions: begun, job: job(100), work: 'None', isOutdated: true },
      want: { kind: 'Wait', message: 'Job work works' },
    },
    {
      when: 'begun for people waits for them after an edit of the window',
      given: { conditions: drained, work: 'None', isOutdated: true },
      want: { kind: 'Wait', message: 'it is drained; advance its turn when the work is done' },
    },
    {
      when: 'whose Job had not begun when the window was edited is cancelled, to be had anew',
      given: { conditions: drained, isOutdated: true },
      want: { kind: 'Cancel' },
    },
    {
      when: 'that somebody completes while its Job works ends the Job at once',
      given: { stage: 'Complete', job: job(10) },
      want: { kind: 'DeleteJob' },
    },
    {
      when: 'that was advanced while its Job did not end, ends the Job',
      given: { stage: 'Complete', job: job(1000), conditions: [condition(turnAdvanced)] },
      want: { kind: 'DeleteJob' },
    },
    {
      when: 'waits for a node that is not ready at first sight, however long its work is done: it may have been meanwhile',
      given: {
        conditions: worked,
        node: unready,
        job: job(9_999, { ...is('Complete'), lastTransitionTime: before(9_000) }),
        awaitedSince: undefined,
      },
      want: { kind: 'AwaitNode', message: 'it is not ready' },
    },
    {
      when: 'waits for gates that are closed at first sight, however long the node is given back',
      given: {
        stage: 'Complete',
        givenBack: 9_000,
        job: succeeded,
        node: gated,
        awaitedSince: now - 59_000,
      },
      want: { kind: 'AwaitNode', message: 'its readiness gates are not open' },
    },
    {
      when: 'is over when it has succeeded, whatever becomes of the node later',
      given: { stage: 'Complete', givenBack: 10, conditions: [condition(turnSucceeded)], node: unready },
      want: { kind: 'Over', at: now - 10_000 },
    },
    {
      when: 'that was advanced gives the node back when it is ready, whatever is left to do',
      given: { conditions: [condition(workAdvanced)], policy: 'Cancel', heardAt: now - 9_000 },
      want: { kind: 'Complete' },
    },
    {
      when: 'that was advanced keeps the node cordoned while it is not ready',
      given: { conditions: [condition(workAdvanced)], work: 'None', node: unready },
      want: { kind: 'AwaitNode', message: 'it is not ready' },
    },
    {
      when: 'that was advanced waits until the kubelet has been heard since: Ready may be of before a restart',
      given: { conditions: [condition(workAdvanced)], work: 'None', heardAt: now - 10_000 },
      want: { kind: 'AwaitNode', message: 'its kubelet has not been heard since it was advanced' },
    },
    {
      when: 'that was advanced waits for a Job that began at the same moment',
      given: { conditions: [condition(workAdvanced)], job: job(5), heardAt: now },
      want: { kind: 'Wait', message: 'Job work works' },
    },
    {
      when: 'that had failed when it was advanced gives the node back as it is: a person has dealt with it',
      given: { conditions: [condition(turnAdvanced)], node: unready },
      want: { kind: 'Complete' },
    },
    {
      when: 'that was advanced waits for the readiness gates as well',
      given: { stage: 'Complete', givenBack: 10, conditions: [condition(workAdvanced)], node: gated },
      want: { kind: 'AwaitNode', message: 'its readiness gates are not open' },
    },
    {
      when: 'that was advanced succeeds when the node takes pods again',
      given: { stage: 'Complete', givenBack: 10, conditions: [condition(workAdvanced)] },
      want: { kind: 'Succeed' },
    },
    {
      when: 'that had failed when it was advanced is over when the node is given back',
      given: { stage: 'Complete', conditions: [condition(turnAdvanced)] },
      want: { kind: 'Wait', message: 'it is given back' },
    },
    {
      when: 'of a node that is no more is cancelled',
      given: { node: undefined, conditions: drained, job: succeeded },
      want: { kind: 'Cancel' },
    },
    {
      when: 'of a node that was made anew is cancelled while no Job has begun',
      given: { node: undefined, isReplaced: true, conditions: drained },
      want: { kind: 'Cancel' },
    },
  ])('$when', ({ given, want }) => {
    expect(step(given)).toEqual(want);
  });
});

describe('the turn fails, and the node stays as it is,', () => {
  test.each<{ when: string; given: Differs; reason: string; message: RegExp }>([
    {
      when: 'when its node was made anew while its Job worked, which would be done for ever',
      given: { node: undefined, isReplaced: true, conditions: drained, job: succeeded },
      reason: 'NodeReplaced',
      message: /^the node was made anew while its Job worked/,
    },
    {
      when: 'when somebody deletes its Job: it does not begin anew by itself',
      given: { conditions: begun },
      reason: 'JobDeleted',
      message: /^its Job was deleted before it had succeeded/,
    },
    {
      when: 'when its Job fails',
      given: {
        conditions: begun,
        job: job(100, condition({ type: 'Failed', status: 'True', reason: 'DeadlineExceeded', message: '' })),
      },
      reason: 'JobFailed',
      message: /^Job work failed \(DeadlineExceeded\)/,
    },
    {
      when: 'when its Job never ends, though its pods had their time to do so',
      given: { conditions: begun, job: job(691) },
      reason: 'JobNeverEnded',
      message: /^Job work has not ended 690 s after it began/,
    },
    {
      when: 'when the node does not come back after its work',
      given: {
        conditions: worked,
        node: unready,
        job: job(100, { ...is('Complete'), lastTransitionTime: before(61) }),
      },
      reason: 'NodeNotReady',
      message: /^it is not ready 60 s after its work/,
    },
    {
      when: 'when the node does not come back while somebody looks',
      given: {
        conditions: worked,
        node: unready,
        job: job(9_999, { ...is('Complete'), lastTransitionTime: before(9_000) }),
        awaitedSince: now - 61_000,
      },
      reason: 'NodeNotReady',
      message: /^it is not ready 60 s after its work/,
    },
    {
      when: 'when its readiness gates do not open once it is given back',
      given: { stage: 'Complete', givenBack: 61, job: succeeded, node: gated },
      reason: 'NodeNotReady',
      message: /^its readiness gates are not open 60 s after it was given back/,
    },
    {
      when: 'with the gate and the pod that keep it from coming back',
      given: {
        stage: 'Complete',
        givenBack: 61,
        job: succeeded,
        node: gatedBy('gate network: pod is not ready'),
      },
      reason: 'NodeNotReady',
      message:
        /^its readiness gates are not open \(gate network: pod is not ready\) 60 s after it was given back/,
    },
    {
      when: 'when a person completes its maintenance before the Job has succeeded',
      given: { stage: 'Complete', givenBack: 10 },
      reason: 'EndedEarly',
      message: /^its NodeMaintenance was completed before its Job had succeeded/,
    },
    {
      when: 'when a person completes its maintenance before the node was drained',
      given: { stage: 'Complete', givenBack: 10, work: 'None' },
      reason: 'EndedEarly',
      message: /^its NodeMaintenance was completed before the node was drained/,
    },
    {
      when: 'when its kubelet is not heard after its work',
      given: {
        conditions: worked,
        heardAt: now - 62_000,
        job: job(100, { ...is('Complete'), lastTransitionTime: before(61) }),
      },
      reason: 'NodeNotReady',
      message: /^its kubelet has not been heard since its work 60 s after its work/,
    },
    {
      when: 'when it was advanced and its node does not come back',
      given: { conditions: [{ ...condition(workAdvanced), lastTransitionTime: before(61) }], node: unready },
      reason: 'NodeNotReady',
      message: /^it is not ready 60 s after it was advanced/,
    },
    {
      when: 'when a Job fails that began at the moment at which it was advanced',
      given: { conditions: [condition(workAdvanced)], job: job(100, is('Failed')) },
      reason: 'JobFailed',
      message: /^Job work failed/,
    },
    {
      when: 'when it was cancelled and the pods of its Job do not end, as on a node that is gone',
      given: {
        conditions: [...drained, condition(turnCancelled)],
        job: { ...job(200), metadata: { name: 'work', deletionTimestamp: before(91) } },
      },
      reason: 'JobNeverEnded',
      message: /^the pods of Job work have not ended 90 s after it was deleted/,
    },
  ])('$when', ({ given, reason, message }) => {
    expect(step(given)).toEqual({ kind: 'Fail', reason, message: expect.stringMatching(message) });
  });

  test('until somebody has dealt with it', () => {
    const conditions = [...drained, condition(turnFailed('JobFailed', 'why'))];
    const failure = { kind: 'Failed', reason: 'JobFailed', message: 'why' };
    for (const policy of ['Finish', 'Hold', 'Cancel'] as const)
      expect(step({ conditions, policy })).toEqual({ ...failure, isOver: false });
    expect(step({ conditions, stage: 'Complete', givenBack: 1 })).toEqual({ ...failure, isOver: true });
  });
});

describe('when the window ends', () => {
  test.each<{ when: string; given: Differs; want: object }>([
    {
      when: 'and holds, the drain rests',
      given: { policy: 'Hold' },
      want: { kind: 'Wait', message: 'its drain rests' },
    },
    {
      when: 'and holds, no Job begins',
      given: { policy: 'Hold', conditions: drained },
      want: { kind: 'Wait', message: 'its work rests' },
    },
    {
      when: 'and cancels, the drain is cancelled',
      given: { policy: 'Cancel' },
      want: { kind: 'Cancel' },
    },
    {
      when: 'and cancels, the Job too',
      given: { policy: 'Cancel', conditions: drained, job: job(10) },
      want: { kind: 'Cancel' },
    },
    {
      when: 'and cancels, a Job that has failed is not taken for one that was cancelled',
      given: { policy: 'Cancel', conditions: begun, job: job(100, is('Failed')) },
      want: expect.objectContaining({ kind: 'Fail', reason: 'JobFailed' }),
    },
    {
      when: 'and cancels, work that is done is done',
      given: { policy: 'Cancel', conditions: worked },
      want: { kind: 'Complete' },
    },
    {
      when: 'and cancels, what its Job has come to is noted first',
      given: { policy: 'Cancel', conditions: drained, job: succeeded },
      want: { kind: 'NoteWork', facts: workSucceeded('work') },
    },
  ])('$when', ({ given, want }) => {
    expect(step(given)).toEqual(want);
  });

  test('a cancelled turn ends its Job first, then gives the node back, and is forgotten', () => {
    const cancelled = [condition(turnCancelled)];
    const ending = { ...job(10), metadata: { name: 'work', deletionTimestamp: before(1) } };
    expect(step({ conditions: cancelled, job: job(10) })).toEqual({ kind: 'DeleteJob' });
    expect(step({ conditions: cancelled, job: ending })).toMatchObject({ kind: 'Wait' });
    expect(step({ conditions: cancelled })).toEqual({ kind: 'Complete' });
    expect(step({ conditions: cancelled, stage: 'Complete' })).toMatchObject({ kind: 'Wait' });
    expect(step({ conditions: cancelled, stage: 'Complete', givenBack: 1 })).toEqual({ kind: 'Forget' });
  });
});

describe('somebody says that nothing is left to do', () => {
  test.each<{ when: string; verdict: ConditionFacts[]; job?: Job; want: ConditionFacts }>([
    { when: 'of a turn under way', verdict: [], want: workAdvanced },
    { when: 'of one that was advanced, and waits for its node', verdict: [workAdvanced], want: workAdvanced },
    { when: 'of one that has failed', verdict: [turnFailed('JobFailed', 'why')], want: turnAdvanced },
    {
      when: 'of one whose Job has failed, while nobody has seen it',
      verdict: [],
      job: job(9, is('Failed')),
      want: turnAdvanced,
    },
    { when: 'of one that is over', verdict: [turnSucceeded], want: turnSucceeded },
  ])('$when', ({ verdict, job: its, want }) => {
    const status = { ...emptyStatus, conditions: verdict.map(condition) };
    expect(verdictOnAdvance({ status }, its)).toMatchObject(want);
  });
});
