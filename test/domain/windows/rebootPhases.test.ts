import fc from 'fast-check';
import type { Condition, Node } from '../../../api/core.ts';
import type { RebootWork } from '../../../api/maintenanceWindow.ts';
import { RebootAnnotation, WindowAnnotation } from '../../../api/names.ts';
import type { NodeMaintenanceStage } from '../../../api/nodeMaintenance.ts';
import { type ConditionFacts, isTrue } from '../../../domain/common/conditions.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';
import {
  advanceRequested,
  nodeAdvanced,
  nodeCancelled,
  nodeFailed,
  nodeSucceeded,
  rebootDone,
  rebootNotRequired,
  rebootRequested,
} from '../../../domain/windows/nodeResult.ts';
import { decideNodeStep } from '../../../domain/windows/nodeStep.ts';
import type { NodeStepInput } from '../../../domain/windows/nodeStepInput.ts';

const nowMs = Date.parse('2026-11-21T12:00:00Z');
const before = (seconds: number) => new Date(nowMs - seconds * 1_000).toISOString();
const [ended, newBoot] = ['boot-1', 'boot-2'];

const { Required, Requested, Started } = RebootAnnotation;

interface NodeDiffers {
  bootID?: string;
  required?: boolean;
  requested?: string;
  started?: string;
  isReady?: boolean;
  /** The status of the condition Drained of the Node, and when it became that. */
  isDrained?: boolean;
  drainedSecondsAgo?: number;
}

function nodeWith({
  bootID = ended,
  required = true,
  requested,
  started,
  isReady = true,
  isDrained = true,
  drainedSecondsAgo = 10_000,
}: NodeDiffers): Node {
  return {
    metadata: {
      name: 'n',
      annotations: {
        ...(required && { [Required]: 'kernel' }),
        ...(requested !== undefined && { [Requested]: requested }),
        ...(started !== undefined && { [Started]: started }),
      },
    },
    spec: {
      unschedulable: true,
      ...(!isReady && { taints: [{ key: 'node.kubernetes.io/not-ready', effect: 'NoSchedule' }] }),
    },
    status: {
      conditions: [
        {
          type: 'Drained',
          status: isDrained ? 'True' : 'False',
          reason: 'AdminRequested',
          message: 'NodeMaintenance rack-7 (Drain)',
          lastTransitionTime: before(drainedSecondsAgo),
        },
      ],
      ...(bootID !== '' && { nodeInfo: { bootID } }),
    },
  };
}

const condition = (facts: ConditionFacts, secondsAgo = 10): Condition => ({
  ...facts,
  lastTransitionTime: before(secondsAgo),
});
const drained = condition({ type: 'Drained', status: 'True', reason: 'Drained', message: '' });
const isRequested = condition(rebootRequested);
const isOver = (facts: ConditionFacts) => condition(facts);

type Differs = Partial<Omit<NodeStepInput, 'maintenance' | 'node' | 'reboot'>> & {
  node?: NodeDiffers | 'Absent' | 'Recreated';
  lastHeartbeatMs?: number;
  stage?: NodeMaintenanceStage;
  conditions?: Condition[];
  isUncordoned?: boolean;
  /** The boot ID that the maintenance has recorded. */
  recorded?: string;
  reboot?: Partial<RebootWork>;
};

const finalizer = 'nodemaintenance.k8s.io/maintenance-completion';

function step(differs: Differs) {
  const { node = {}, lastHeartbeatMs, stage = 'Drain', conditions = [drained], reboot, ...others } = differs;
  const { isUncordoned = false, recorded = ended, ...input } = others;
  const stageStatuses = isUncordoned ? [{ name: 'Complete' as const, startTimestamp: before(10) }] : [];
  return decideNodeStep({
    work: 'Reboot',
    revision: 'Current',
    job: undefined,
    mayRunJobs: false,
    agent: 'Able',
    leaseHolder: undefined,
    policy: 'Finish',
    // A worker has observed the node all the time.
    waitingSince: nowMs - 1_000_000,
    readyTimeoutSeconds: 60,
    openedAtMs: nowMs - 3_600_000,
    nowMs,
    ...input,
    reboot: { policy: 'IfRequired', timeoutSeconds: 600, ...reboot },
    maintenance: {
      metadata: {
        name: 'maintenance',
        finalizers: isUncordoned ? [] : [finalizer],
        annotations: { [WindowAnnotation.BootId]: recorded },
      },
      spec: { stage, nodeSelector: { nodeSelectorTerms: [] } },
      status: { ...emptyStatus, conditions, stageStatuses },
    },
    node:
      typeof node === 'string'
        ? { kind: node }
        : { kind: 'Present', node: nodeWith(node), lastHeartbeatMs, isMissingReadinessTaint: false },
  });
}

const record = (facts: ConditionFacts) => ({ kind: 'RecordWork', facts });
const awaiting = (message: string) => ({ kind: 'AwaitNode', message });
const failing = (reason: string) => ({ kind: 'Fail', reason, message: expect.any(String) });
const rebooting = awaiting('the node is rebooting');
const asked = awaiting('the reboot of the node is requested');
const withdrawing = { kind: 'Wait', message: 'the request to reboot the node is being withdrawn' };
const heldByJane = { kind: 'Wait', message: 'its maintenance Lease is held by jane' };
const undrained = {
  kind: 'Wait',
  message: 'the node, which is to be rebooted, is not drained: NodeMaintenance rack-7 (Drain)',
};
const bothWritten = { requested: ended, started: ended };

describe('a node that is to be rebooted', () => {
  test.each<{ when: string; given: Differs; want: object }>([
    {
      when: 'waits for the drain',
      given: { conditions: [] },
      want: { kind: 'Wait', message: 'the node is being drained' },
    },
    { when: 'records the request before it is written', given: {}, want: record(rebootRequested) },
    {
      when: 'is asked when that is recorded',
      given: { conditions: [drained, isRequested] },
      want: { kind: 'RequestReboot' },
    },
    {
      when: 'is not asked while another maintenance drains it',
      given: { conditions: [drained, isRequested], node: { isDrained: false } },
      want: undrained,
    },
    {
      when: 'has no time limit while another maintenance drains it',
      given: {
        conditions: [drained, condition(rebootRequested, 700)],
        node: { requested: ended, isDrained: false },
      },
      want: undrained,
    },
    {
      when: 'has its time from when it is drained by all of them',
      given: {
        conditions: [drained, condition(rebootRequested, 700)],
        node: { requested: ended, drainedSecondsAgo: 100 },
      },
      want: asked,
    },
    {
      when: 'is rebooting, although another maintenance has selected it since',
      given: { conditions: [drained, isRequested], node: { ...bothWritten, isDrained: false } },
      want: rebooting,
    },
    { when: 'waits while another client holds its Lease', given: { leaseHolder: 'jane' }, want: heldByJane },
    {
      when: 'is not asked while another client holds its Lease',
      given: { conditions: [drained, isRequested], leaseHolder: 'jane' },
      want: heldByJane,
    },
    {
      when: 'has been asked when another client acquires its Lease, and waits for its agent or the withdrawal',
      given: { conditions: [drained, isRequested], node: { requested: ended }, leaseHolder: 'jane' },
      want: asked,
    },
    {
      when: 'is asked again if a user has removed the request',
      given: { conditions: [drained, isRequested], node: { requested: 'boot-0' } },
      want: { kind: 'RequestReboot' },
    },
    {
      when: 'is asked after an outage of all workers, however long ago that was recorded',
      given: { conditions: [drained, condition(rebootRequested, 9_000)] },
      want: { kind: 'RequestReboot' },
    },
    {
      when: 'waits for its agent',
      given: { conditions: [drained, isRequested], node: { requested: ended } },
      want: asked,
    },
    {
      when: 'waits for its agent, whether or not the need disappears',
      given: { conditions: [drained, isRequested], node: { requested: ended, required: false } },
      want: asked,
    },
    {
      when: 'waits while it reboots',
      given: { conditions: [drained, isRequested], node: { ...bothWritten, isReady: false } },
      want: rebooting,
    },
    {
      when: 'is done with another boot ID',
      given: {
        conditions: [drained, isRequested],
        node: { ...bothWritten, bootID: newBoot, isReady: false },
      },
      want: { kind: 'FinishReboot' },
    },
    {
      when: 'is done with another boot ID, even if time is over',
      given: {
        conditions: [drained, condition(rebootRequested, 9_000)],
        node: { ...bothWritten, bootID: newBoot },
      },
      want: { kind: 'FinishReboot' },
    },
    {
      when: 'is done if it has rebooted for another reason, before it was drained',
      given: { conditions: [], node: { bootID: newBoot } },
      want: { kind: 'FinishReboot' },
    },
    {
      when: 'does not wait for more while the kubelet reports no boot ID',
      given: { conditions: [drained, isRequested], node: { ...bothWritten, bootID: '' } },
      want: rebooting,
    },
    {
      when: 'stays cordoned until it is ready',
      given: { conditions: [drained, isOver(rebootDone)], node: { bootID: newBoot, isReady: false } },
      want: awaiting('not ready'),
    },
    {
      when: 'stays cordoned until its kubelet has sent a heartbeat',
      given: {
        conditions: [drained, isOver(rebootDone)],
        node: { bootID: newBoot },
        lastHeartbeatMs: nowMs - 11_000,
      },
      want: awaiting('no kubelet heartbeat since the work ended'),
    },
    {
      when: 'is uncordoned when it is ready',
      given: {
        conditions: [drained, isOver(rebootDone)],
        node: { bootID: newBoot },
        lastHeartbeatMs: nowMs - 9_000,
      },
      want: { kind: 'Complete' },
    },
    {
      when: 'succeeds when it is in service',
      given: {
        stage: 'Complete',
        isUncordoned: true,
        conditions: [isOver(rebootDone)],
        node: { bootID: newBoot },
      },
      want: { kind: 'Succeed' },
    },
    {
      when: 'is left as it is if it needs no reboot any more',
      given: { conditions: [], node: { required: false } },
      want: record(rebootNotRequired),
    },
    {
      when: 'is uncordoned if it needed no reboot any more',
      given: { conditions: [isOver(rebootNotRequired)], node: { required: false } },
      want: { kind: 'Complete' },
    },
    {
      when: 'is rebooted without a need if the policy is Always',
      given: { node: { required: false }, reboot: { policy: 'Always' } },
      want: record(rebootRequested),
    },
    {
      when: 'starts with the new revision if the window was edited before the request',
      given: { revision: 'Outdated' },
      want: { kind: 'Cancel' },
    },
    {
      when: 'is rebooted as before if the window was edited after the request',
      given: { revision: 'Outdated', conditions: [drained, isRequested], node: { requested: ended } },
      want: asked,
    },
  ])('$when', ({ given, want }) => {
    expect(step(given)).toEqual(want);
  });
});

describe('a node whose agent', () => {
  const late = [drained, condition(rebootRequested, 601)];
  test.each<{ when: string; given: Differs; want: object }>([
    {
      when: 'does not run is not asked',
      given: { agent: 'NotRunning' },
      want: awaiting('its node agent does not run'),
    },
    {
      when: 'does not run for too long fails',
      given: { agent: 'NotRunning', conditions: [{ ...drained, lastTransitionTime: before(61) }] },
      want: failing('AgentNotRunning'),
    },
    {
      when: 'has no reboot command is not asked',
      given: { agent: 'NoRebootCommand' },
      want: awaiting('its node agent has no reboot command'),
    },
    {
      when: 'has no reboot command for too long fails',
      given: { agent: 'NoRebootCommand', conditions: [{ ...drained, lastTransitionTime: before(61) }] },
      want: {
        kind: 'Fail',
        reason: 'AgentNotRunning',
        message: expect.stringContaining('set its --reboot-command (REBOOT_COMMAND)'),
      },
    },
    {
      when: 'does not run is not failed on the first observation',
      given: {
        agent: 'NotRunning',
        conditions: [{ ...drained, lastTransitionTime: before(9_000) }],
        waitingSince: undefined,
      },
      want: awaiting('its node agent does not run'),
    },
    {
      when: 'stopped after the request is waited for: it may be rebooting',
      given: { agent: 'NotRunning', conditions: [drained, isRequested], node: bothWritten },
      want: rebooting,
    },
    {
      when: 'does not begin in time fails',
      given: { conditions: late, node: { requested: ended } },
      want: failing('RebootTimeout'),
    },
    {
      when: 'does not finish in time fails',
      given: { conditions: late, node: bothWritten },
      want: failing('RebootTimeout'),
    },
    {
      when: 'was waited for by no worker gets the whole time',
      given: { conditions: late, node: bothWritten, waitingSince: nowMs - 1_000 },
      want: rebooting,
    },
    {
      when: 'ended a boot ID that was unknown fails with a remedy',
      given: { recorded: '' },
      want: failing('BootIdUnknown'),
    },
  ])('$when', ({ given, want }) => {
    expect(step(given)).toEqual(want);
  });
});

describe('a reboot that', () => {
  const cancelled = [drained, isRequested, isOver(nodeCancelled)];
  const advanced = [drained, isRequested, isOver(advanceRequested)];
  test.each<{ when: string; given: Differs; want: object }>([
    {
      when: 'was not requested is cancelled with the window',
      given: { policy: 'Cancel' },
      want: { kind: 'Cancel' },
    },
    {
      when: 'was only requested is cancelled with the window',
      given: { policy: 'Cancel', conditions: [drained, isRequested], node: { requested: ended } },
      want: { kind: 'Cancel' },
    },
    {
      when: 'has started is not cancelled',
      given: { policy: 'Cancel', conditions: [drained, isRequested], node: bothWritten },
      want: rebooting,
    },
    {
      when: 'is done is not cancelled',
      given: { policy: 'Cancel', conditions: [drained, isRequested], node: { bootID: newBoot } },
      want: { kind: 'FinishReboot' },
    },
    {
      when: 'was cancelled keeps the node cordoned until the request is withdrawn',
      given: { conditions: cancelled, node: { requested: ended } },
      want: withdrawing,
    },
    {
      when: 'was cancelled too late keeps the node cordoned until it has started again',
      given: { conditions: cancelled, node: bothWritten },
      want: rebooting,
    },
    {
      when: 'was cancelled too late and does not end fails',
      given: {
        conditions: [drained, condition(rebootRequested, 601), isOver(nodeCancelled)],
        node: bothWritten,
      },
      want: failing('RebootTimeout'),
    },
    {
      when: 'was cancelled and withdrawn ends',
      given: { conditions: cancelled },
      want: { kind: 'Complete' },
    },
    {
      when: 'was cancelled and has happened ends',
      given: { conditions: cancelled, node: { ...bothWritten, bootID: newBoot } },
      want: { kind: 'Complete' },
    },
    {
      when: 'was cancelled and is over is repeated later',
      given: { conditions: cancelled, stage: 'Complete', isUncordoned: true },
      want: { kind: 'DeleteMaintenance' },
    },
    {
      when: 'a user marks as done is withdrawn first',
      given: { conditions: advanced, node: { requested: ended } },
      want: withdrawing,
    },
    {
      when: 'a user marks as done too late is waited for',
      given: { conditions: advanced, node: bothWritten },
      want: rebooting,
    },
    {
      when: 'a user marks as done uncordons the node when it is ready',
      given: { conditions: advanced, lastHeartbeatMs: nowMs - 9_000 },
      want: { kind: 'Complete' },
    },
    {
      when: 'a user has performed and marked as done fulfils the need',
      given: {
        conditions: advanced,
        stage: 'Complete',
        isUncordoned: true,
        node: { bootID: newBoot },
      },
      want: { kind: 'FinishReboot' },
    },
    {
      when: 'had failed before a user marked it as done is withdrawn first',
      given: { conditions: [drained, isRequested, isOver(nodeAdvanced)], node: bothWritten },
      want: withdrawing,
    },
    {
      when: 'had failed, and has happened before a user marked it as done, fulfils the need',
      given: {
        conditions: [drained, isRequested, isOver(nodeAdvanced)],
        stage: 'Complete',
        isUncordoned: true,
        node: { bootID: newBoot },
      },
      want: { kind: 'FinishReboot' },
    },
    {
      when: 'had failed stays failed, even if it happens later',
      given: {
        conditions: [drained, isRequested, isOver(nodeFailed('RebootTimeout', 'why'))],
        node: { bootID: newBoot },
      },
      want: { kind: 'Failed', reason: 'RebootTimeout', message: 'why', isUncordoned: false },
    },
    {
      when: 'was not requested before the window ended is held',
      given: { policy: 'Hold' },
      want: { kind: 'Wait', message: 'the window has ended: it is rebooted at the next opening' },
    },
    {
      when: 'was requested before the window ended continues',
      given: { policy: 'Hold', conditions: [drained, isRequested], node: { requested: ended } },
      want: asked,
    },
    {
      when: 'a user skips by completing the maintenance fails',
      given: { stage: 'Complete', isUncordoned: true, conditions: [drained, isRequested] },
      want: failing('CompletedEarly'),
    },
    {
      when: 'happened before a user completed the maintenance succeeds',
      given: {
        stage: 'Complete',
        isUncordoned: true,
        conditions: [drained, isRequested],
        node: { bootID: newBoot },
      },
      want: { kind: 'FinishReboot' },
    },
    {
      when: 'lost its Node fails, instead of rebooting each new Node',
      given: { node: 'Absent', conditions: [drained, isRequested] },
      want: failing('NodeReplaced'),
    },
    {
      when: 'lost its Node before the request starts over with the new one',
      given: { node: 'Recreated' },
      want: { kind: 'Cancel' },
    },
    {
      when: 'makes its Node be recreated fails, instead of rebooting each new Node',
      given: { node: 'Recreated', conditions: [drained, isRequested] },
      want: failing('NodeReplaced'),
    },
  ])('$when', ({ given, want }) => {
    expect(step(given)).toEqual(want);
  });
});

describe('a node that was rebooted', () => {
  const succeeded = (secondsAgo: number): Differs => ({
    stage: 'Complete',
    isUncordoned: true,
    conditions: [condition(nodeSucceeded, secondsAgo), isOver(rebootDone)],
  });
  test.each<{ when: string; given: Differs; want: object }>([
    {
      when: 'is done while it needs nothing',
      given: { ...succeeded(9_000), node: { required: false } },
      want: { kind: 'Succeeded', at: nowMs - 9_000_000 },
    },
    {
      when: 'in an earlier opening is maintained again if it needs another reboot',
      given: succeeded(9_000),
      want: { kind: 'DeleteMaintenance' },
    },
    {
      when: 'in this opening waits for the next one: a sentinel may survive reboots',
      given: succeeded(60),
      want: { kind: 'Succeeded', at: nowMs - 60_000 },
    },
    {
      when: 'is maintained again by every policy',
      given: { ...succeeded(9_000), reboot: { policy: 'Always' } },
      want: { kind: 'DeleteMaintenance' },
    },
    {
      when: 'does not start over for the annotation of windows that run a Job',
      given: { ...succeeded(9_000), work: 'Job', mayRunJobs: true },
      want: { kind: 'Succeeded', at: nowMs - 9_000_000 },
    },
  ])('$when', ({ given, want }) => {
    expect(step(given)).toEqual(want);
  });
});

describe('for every node to reboot', () => {
  const results = [
    nodeSucceeded,
    nodeAdvanced,
    advanceRequested,
    nodeCancelled,
    nodeFailed('RebootTimeout', 'x'),
  ];
  const inputs = fc.record({
    stage: fc.constantFrom<NodeMaintenanceStage>('Idle', 'Cordon', 'Drain', 'Complete'),
    isUncordoned: fc.boolean(),
    conditions: fc
      .tuple(
        fc.option(fc.constantFrom(...results)),
        fc.option(fc.constantFrom(rebootRequested, rebootDone, rebootNotRequired)),
        fc.boolean(),
      )
      .map(([result, work, isDrained]) => [
        ...(result ? [condition(result)] : []),
        ...(work ? [condition(work)] : []),
        ...(isDrained ? [drained] : []),
      ]),
    node: fc.oneof(
      fc.constantFrom('Absent' as const, 'Recreated' as const),
      fc.record({
        bootID: fc.constantFrom('', ended, newBoot),
        required: fc.boolean(),
        requested: fc.constantFrom('boot-0', ended, newBoot),
        started: fc.constantFrom('boot-0', ended, newBoot),
        isReady: fc.boolean(),
      }),
    ),
    recorded: fc.constantFrom('', ended),
    agent: fc.constantFrom('Able' as const, 'NoRebootCommand' as const, 'NotRunning' as const),
    revision: fc.constantFrom('Current' as const, 'Outdated' as const),
    policy: fc.constantFrom('Finish' as const, 'Hold' as const, 'Cancel' as const),
    waitingSince: fc.option(fc.integer({ min: nowMs - 1_000_000, max: nowMs }), { nil: undefined }),
  });
  type Input = typeof inputs extends fc.Arbitrary<infer I> ? I : never;
  const holds = (law: (given: Input, decided: ReturnType<typeof step>) => void) =>
    fc.assert(
      fc.property(inputs, (given) => law(given, step(given))),
      { numRuns: 5_000 },
    );

  test('a node whose agent may act on a request is never uncordoned', () => {
    holds(({ node, recorded }, { kind }) => {
      const { bootID, requested } = typeof node === 'string' ? { bootID: newBoot, requested: '' } : node;
      if (recorded === ended && bootID !== newBoot && requested === ended) expect(kind).not.toBe('Complete');
    });
  });

  test('a reboot is requested only of a node that was drained in an open window, of an agent that ran', () => {
    holds((given, decided) => {
      const { conditions, agent, node, policy, recorded, stage } = given;
      // Another user has requested it: the agent may already act on that.
      if (typeof node !== 'string' && node.requested === recorded) return;
      if (decided.kind === 'RequestReboot')
        expect(conditions.some(({ reason }) => reason === rebootRequested.reason)).toBe(true);
      if (decided.kind !== 'RecordWork' || decided.facts !== rebootRequested) return;
      expect({ drained: isTrue(conditions, 'Drained'), agent, policy }).toEqual({
        drained: true,
        agent: 'Able',
        policy: 'Finish',
      });
      expect(stage).not.toBe('Complete');
    });
  });

  test('a reboot counts as done only with another boot ID', () => {
    holds(({ node, recorded }, { kind }) => {
      if (kind === 'FinishReboot') expect([node, recorded]).toMatchObject([{ bootID: newBoot }, ended]);
    });
  });

  test('no step is a Job', () => {
    holds((_given, { kind }) => {
      expect(['StartJob', 'DeleteJob']).not.toContain(kind);
    });
  });
});
