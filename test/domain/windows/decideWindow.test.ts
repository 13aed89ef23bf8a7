import fc from 'fast-check';
import type { Condition, Node } from '../../../api/core.ts';
import type { MaintenanceWindow } from '../../../api/maintenanceWindow.ts';
import { MAINTENANCE_FINALIZER, WindowAnnotation } from '../../../api/names.ts';
import { workflowIdOf } from '../../kit/temporalNames.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { revisionOf } from '../../../domain/common/revision.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';
import {
  decideWindow,
  isResumed,
  nextWindowStep,
  type PlannedStep,
  type WindowDecisionInput,
  waitingSinceOf,
} from '../../../domain/windows/decideWindow.ts';
import { nodeCancelled, nodeFailed, nodeSucceeded } from '../../../domain/windows/nodeResult.ts';
import type { NodeStep } from '../../../domain/windows/nodeFacts.ts';
import { closingProblem, decidePhase, type WindowPhase } from '../../../domain/windows/openWindow.ts';
import { decideNodeStep } from '../../../domain/windows/nodeStep.ts';
import { nodeStepInput } from '../../../domain/windows/nodeStepInput.ts';
import { newWindowMaintenance, windowMaintenanceOf } from '../../../domain/windows/windowMaintenance.ts';

const nowMs = Date.parse('2026-11-21T12:00:00Z');
const before = '2026-11-21T08:00:00Z';
const end = '2026-11-21T16:00:00Z';

const windowWith = (
  differs: { spec?: Partial<MaintenanceWindow['spec']>; deletionTimestamp?: string } = {},
): MaintenanceWindow =>
  ({
    metadata: {
      name: 'w',
      ...(differs.deletionTimestamp && { deletionTimestamp: differs.deletionTimestamp }),
    },
    spec: {
      nodeSelector: { nodeSelectorTerms: [] },
      template: {},
      work: { type: 'None' },
      approval: 'None',
      onWindowEnd: 'FinishCurrent',
      rollout: {
        maxUnavailable: 2,
        order: { by: 'Name' },
        soakSeconds: 0,
        maxFailures: 1,
        readyTimeoutSeconds: 60,
      },
      ...differs.spec,
    },
  }) as unknown as MaintenanceWindow;

const node = (name: string): Node => ({ metadata: { name, uid: `uid-${name}` }, spec: {} });

const paused: Condition = {
  type: 'Paused',
  status: 'True',
  reason: 'Paused',
  message: '',
  lastTransitionTime: end,
};

/** The step of a node, whose drain may be paused by the window or by a user. */
function planned(name: string, step: NodeStep, pausedBy?: 'window' | 'user'): PlannedStep {
  const created = newWindowMaintenance(windowWith(), { name, uid: `uid-${name}` });
  const annotations = {
    ...created.metadata.annotations,
    ...(pausedBy === 'window' && { [WindowAnnotation.PausedByWindow]: 'true' }),
  };
  const maintenance: NodeMaintenance = {
    ...created,
    metadata: { ...created.metadata, uid: `maintenance-${name}`, annotations },
    status: { ...emptyStatus, conditions: pausedBy === undefined ? [] : [paused] },
  };
  const windowMaintenance = windowMaintenanceOf(maintenance);
  if (windowMaintenance === undefined) throw new Error('it belongs to the window');
  return { windowMaintenance, step };
}

const waiting: NodeStep = { kind: 'Wait', message: 'the node is being drained' };
const failure: NodeStep = { kind: 'Failed', reason: 'JobFailed', message: 'why', isUncordoned: false };
const success: NodeStep = { kind: 'Succeeded', at: nowMs - 3_600_000 };
const open: WindowPhase = { policy: 'Finish', isEnding: false };

/** The limit of a budget of the whole cluster, and of another one of some of its nodes. */
const limitOf = (allowed: number, ofSome = allowed) => [
  { name: 'cluster', allowed, nodes: new Set(['n1', 'n2', 'n3', 'n4', 'n5', 'other']) },
  { name: 'some', allowed: ofSome, nodes: new Set(['n2', 'n3', 'other']) },
];

function inputOf(differs: Partial<WindowDecisionInput> = {}): WindowDecisionInput {
  return {
    window: windowWith(),
    phase: open,
    requests: { approved: false, approvedNodes: [], paused: false },
    nodes: ['n1', 'n2', 'n3'].map(node),
    steps: [],
    budget: { reservations: [], limits: limitOf(10), outOfService: new Map() },
    areJobsMissing: false,
    notRebootable: new Map(),
    rejected: new Map(),
    rejectedBefore: new Set(),
    nowMs,
    ...differs,
  };
}

const maintenanceName = (name: string) => newWindowMaintenance(windowWith(), { name, uid: '' }).metadata.name;

describe('the phase of a window', () => {
  const requests = { cancelled: false, ended: false, end };
  const policyAtEnd = (onWindowEnd: MaintenanceWindow['spec']['onWindowEnd']) =>
    windowWith({ spec: { onWindowEnd } });
  const deleted = (onWindowEnd: MaintenanceWindow['spec']['onWindowEnd']) =>
    windowWith({ spec: { onWindowEnd }, deletionTimestamp: end });

  test.each<{ when: string; given: [MaintenanceWindow, object?, number?]; want: WindowPhase }>([
    { when: 'before its end', given: [policyAtEnd('CancelCurrent')], want: open },
    {
      when: 'after its end, by the clock of the apiserver',
      given: [policyAtEnd('HoldCurrent'), {}, Date.parse(end)],
      want: { policy: 'Hold', isEnding: true },
    },
    {
      when: 'after its end, by the timer of the workflow',
      given: [policyAtEnd('FinishCurrent'), { ended: true }],
      want: { policy: 'Finish', isEnding: true },
    },
    {
      when: 'after it was cancelled',
      given: [policyAtEnd('HoldCurrent'), { cancelled: true }],
      want: { policy: 'Cancel', isEnding: true },
    },
    {
      when: 'while it is deleted, which leaves no window that could continue',
      given: [deleted('HoldCurrent')],
      want: { policy: 'Finish', isEnding: true },
    },
    {
      when: 'while it is deleted and cancels nodes at its end',
      given: [deleted('CancelCurrent')],
      want: { policy: 'Cancel', isEnding: true },
    },
  ])('$when', ({ given: [window, differs = {}, at = nowMs], want }) => {
    expect(decidePhase(window, { ...requests, ...differs }, at)).toEqual(want);
  });
});

describe('an open window', () => {
  test('starts nodes, and reports the state of all nodes', () => {
    const steps = [planned('n1', success), planned('n2', waiting)];
    const { rollout, state, progress, canClose } = decideWindow(inputOf({ steps }));
    expect(rollout).toEqual({ kind: 'Start', nodes: ['n3'] });
    expect(state).toEqual({
      revision: revisionOf(windowWith().spec),
      nodes: 3,
      done: 1,
      inProgress: [{ node: 'n2', maintenance: maintenanceName('n2') }],
      failed: [],
      remaining: 1,
    });
    expect(progress).toMatchObject({ summary: '1/3', inProgress: 1, failures: [] });
    expect(canClose).toBe(false);
  });

  test('reports failures, and why it starts no node', () => {
    const { state, progress } = decideWindow(inputOf({ steps: [planned('n2', failure)] }));
    expect(state).toMatchObject({ failed: [{ node: 'n2' }], waiting: { reason: 'TooManyFailures' } });
    expect(progress.failures).toEqual([{ node: 'n2', reason: 'JobFailed', message: 'why' }]);
  });

  // The Node was deleted by its work: no other one takes its place.
  test('starts no other node in the pass that finds a failure, and does not close before it is recorded', () => {
    const found: NodeStep = { kind: 'Fail', reason: 'NodeReplaced', message: 'why' };
    const input = { nodes: ['n2', 'n3'].map(node), steps: [planned('n1', found)] };
    const { rollout, state, canClose } = decideWindow(inputOf(input));
    expect(rollout).toMatchObject({ kind: 'Wait', reason: 'TooManyFailures' });
    expect([state.failed, state.inProgress, canClose]).toMatchObject([[{ node: 'n1' }], [], false]);
    const phase: WindowPhase = { policy: 'Finish', isEnding: true };
    expect(decideWindow(inputOf({ ...input, phase })).canClose).toBe(false);
  });

  test('counts a reserved node as in progress, even before its NodeMaintenance is observed', () => {
    const reservations = [
      { node: 'n1', window: 'w', since: end },
      { node: 'n2', window: 'another', since: end },
    ];
    const budget = { reservations, limits: limitOf(10), outOfService: new Map([['n2', 'reserved']]) };
    const { state, rollout } = decideWindow(inputOf({ budget, window: windowWith() }));
    expect(state.inProgress).toEqual([{ node: 'n1', maintenance: maintenanceName('n1') }]);
    expect(rollout).toMatchObject({ kind: 'Wait', reason: 'MaxUnavailable' });
  });

  test('keeps the place of a node that is back in service but has not succeeded yet', () => {
    const steps = [planned('n1', { kind: 'Succeed' }), planned('n2', { kind: 'Succeed' })];
    expect(decideWindow(inputOf({ steps })).rollout).toMatchObject({
      kind: 'Wait',
      reason: 'MaxUnavailable',
    });
  });

  test('maintains a node again whose NodeMaintenance is deleted', () => {
    const steps = [planned('n1', { kind: 'DeleteMaintenance' })];
    expect(decideWindow(inputOf({ steps })).state).toMatchObject({ inProgress: [], remaining: 3 });
  });

  test('resumes drains that an earlier window paused, and not those that a user paused', () => {
    const steps = [planned('n1', waiting, 'window'), planned('n2', waiting, 'user'), planned('n3', waiting)];
    const { pause, resume } = decideWindow(inputOf({ steps }));
    expect([pause, resume.map((one) => one.node)]).toEqual([[], ['n1']]);
    const resumed = planned('n1', waiting, 'window');
    resumed.windowMaintenance.maintenance.status = { ...emptyStatus };
    expect([isResumed(open, resumed), ...steps.map((one) => isResumed(open, one))]).toEqual([
      true,
      false,
      false,
      false,
    ]);
  });

  test('can close when every node has succeeded', () => {
    const steps = ['n1', 'n2', 'n3'].map((name) => planned(name, success));
    expect(decideWindow(inputOf({ steps }))).toMatchObject({ rollout: { kind: 'Done' }, canClose: true });
  });
});

describe('a window that has ended', () => {
  const phase = (policy: WindowPhase['policy']): WindowPhase => ({ policy, isEnding: true });

  test('with Hold pauses every drain, and can close when all of them are paused', () => {
    const steps = [planned('n1', waiting), planned('n2', waiting, 'user'), planned('n3', failure)];
    const first = decideWindow(inputOf({ steps, phase: phase('Hold') }));
    expect([first.pause.map((one) => one.node), first.canClose]).toEqual([['n1'], false]);
    const [, ...others] = steps;
    const held = [planned('n1', waiting, 'window'), ...others];
    expect(decideWindow(inputOf({ steps: held, phase: phase('Hold') }))).toMatchObject({
      pause: [],
      canClose: true,
    });
  });

  test('with Finish or Cancel can close when no node is in progress', () => {
    for (const policy of ['Finish', 'Cancel'] as const) {
      const overWith = (steps: PlannedStep[]) =>
        decideWindow(inputOf({ steps, phase: phase(policy) })).canClose;
      expect([overWith([planned('n1', waiting)]), overWith([planned('n1', failure)])]).toEqual([false, true]);
    }
  });

  test('is not over while it has a reservation whose NodeMaintenance is not observed yet', () => {
    const reservations = [{ node: 'n1', window: 'w', since: end }];
    const budget = { reservations, limits: limitOf(10), outOfService: new Map<string, string>() };
    for (const policy of ['Hold', 'Finish', 'Cancel'] as const)
      expect(decideWindow(inputOf({ budget, phase: phase(policy) })).canClose).toBe(false);
  });
});

describe('the next step of the workflow', () => {
  const holding = () =>
    decideWindow(inputOf({ steps: [planned('n1', waiting)], phase: { policy: 'Hold', isEnding: true } }));
  const workflowId = workflowIdOf(maintenanceName('n1'));

  test('sends a signal once, and again if it may have been lost', () => {
    const signal = { kind: 'Signal', pause: [workflowId], resume: [] };
    expect(nextWindowStep(holding(), { sentSignals: [], retrySignals: false, workflowIdOf })).toMatchObject(
      signal,
    );
    const sentSignals = [{ workflowId, signal: 'pause' }] as const;
    expect(nextWindowStep(holding(), { sentSignals, retrySignals: false, workflowIdOf }).kind).toBe(
      'Progressed',
    );
    expect(nextWindowStep(holding(), { sentSignals, retrySignals: true, workflowIdOf })).toMatchObject(
      signal,
    );
    const earlier = [{ workflowId, signal: 'resume' }] as const;
    expect(
      nextWindowStep(holding(), { sentSignals: earlier, retrySignals: false, workflowIdOf }),
    ).toMatchObject(signal);
  });

  test('closes a window that can close', () => {
    const decision = decideWindow(inputOf({ nodes: [] }));
    expect(nextWindowStep(decision, { sentSignals: [], retrySignals: true, workflowIdOf }).kind).toBe('Over');
  });
});

test('a window remembers since when it waits for a node, and forgets a node that it does not wait for any more', () => {
  const steps = [planned('n1', { kind: 'AwaitNode', message: 'not ready' }), planned('n2', waiting)];
  expect(waitingSinceOf(steps, {}, nowMs)).toEqual({ 'maintenance-n1': nowMs });
  expect(waitingSinceOf(steps, { 'maintenance-n1': 1, 'maintenance-n2': 2 }, nowMs)).toEqual({
    'maintenance-n1': 1,
  });
});

describe('for every input', () => {
  const names = ['n1', 'n2', 'n3', 'n4', 'n5'];
  const stepKinds: NodeStep[] = [
    waiting,
    failure,
    success,
    { kind: 'AwaitNode', message: 'not ready' },
    { kind: 'StartJob' },
    { kind: 'DeleteMaintenance' },
    { kind: 'Cancel' },
    { kind: 'Succeed' },
  ];
  const inputs = fc
    .record({
      steps: fc.array(
        fc.tuple(
          fc.constantFrom(...names, 'unselected'),
          fc.constantFrom(...stepKinds),
          fc.constantFrom(undefined, 'window' as const, 'user' as const),
        ),
        { maxLength: 6 },
      ),
      reserved: fc.subarray(names),
      out: fc.subarray([...names, 'other']),
      allowed: fc.nat(6),
      allowedOfSome: fc.nat(3),
      maxUnavailable: fc.integer({ min: 1, max: 5 }),
      maxFailures: fc.integer({ min: 1, max: 3 }),
      onWindowEnd: fc.constantFrom(
        'FinishCurrent' as const,
        'HoldCurrent' as const,
        'CancelCurrent' as const,
      ),
      ended: fc.boolean(),
      cancelled: fc.boolean(),
      paused: fc.boolean(),
      rejected: fc.subarray(names),
    })
    .map(({ steps, reserved, out, maxUnavailable, maxFailures, onWindowEnd, ...given }) => {
      const rollout = { ...windowWith().spec.rollout, maxUnavailable, maxFailures };
      const window = windowWith({ spec: { rollout, onWindowEnd } });
      return inputOf({
        window,
        phase: decidePhase(window, { ...given, end }, nowMs),
        requests: { approved: false, approvedNodes: [], paused: given.paused },
        nodes: names.map(node),
        steps: steps.map(([name, step, pausedBy]) => planned(name, step, pausedBy)),
        budget: {
          reservations: reserved.map((name) => ({ node: name, window: 'w', since: end })),
          limits: limitOf(given.allowed, given.allowedOfSome),
          outOfService: new Map(out.map((name) => [name, 'cordoned'])),
        },
        rejected: new Map(given.rejected.map((name) => [name, 'no'])),
      });
    });
  const holds = (law: (input: WindowDecisionInput) => void) =>
    fc.assert(fc.property(inputs, law), { numRuns: 500 });
  const startedBy = (input: WindowDecisionInput) => {
    const { rollout } = decideWindow(input);
    return rollout.kind === 'Start' ? rollout.nodes : [];
  };

  test('the nodes that start never exceed the limits of the window and of the budgets', () => {
    holds((input) => {
      const starting = startedBy(input);
      if (starting.length === 0) return;
      const { budget, window } = input;
      const out = new Set([...budget.outOfService.keys(), ...starting]);
      for (const { nodes, allowed } of budget.limits)
        if (starting.some((name) => nodes.has(name)))
          expect([...out].filter((name) => nodes.has(name)).length).toBeLessThanOrEqual(allowed);
      const busy = decideWindow(input).state.inProgress.map((one) => one.node);
      const selected = new Set([...out, ...busy].filter((name) => names.includes(name)));
      expect(selected.size).toBeLessThanOrEqual(Number(window.spec.rollout.maxUnavailable));
    });
  });

  test('a node that is reserved, in progress or failed is never started, and none is after the end', () => {
    holds((input) => {
      const starting = startedBy(input);
      const { state } = decideWindow(input);
      const taken = [...state.inProgress, ...state.failed].map((one) => one.node);
      expect(starting.filter((name) => taken.includes(name))).toEqual([]);
      if (input.phase.isEnding || input.requests.paused) expect(starting).toEqual([]);
    });
  });

  test('a window can close only if nothing is left to pause, to resume or to observe', () => {
    holds((input) => {
      const { canClose, pause, resume, state } = decideWindow(input);
      if (!canClose) return;
      expect([pause, resume]).toEqual([[], []]);
      if (input.phase.policy !== 'Hold') expect(state.inProgress).toEqual([]);
    });
  });

  test('an open window that can close may be closed with the progress that it publishes', () => {
    holds((input) => {
      const { canClose, progress } = decideWindow(input);
      if (!canClose || input.phase.isEnding || input.phase.policy === 'Hold') return;
      const active = { workflowId: 'w', runId: 'r', nodes: [], start: before, end };
      const status = { conditions: [], observedGeneration: 1, active, progress };
      expect(closingProblem({ ...input.window, status }, nowMs)).toBeUndefined();
    });
  });

  test('the decision does not depend on the order of the input', () => {
    holds((input) => {
      const { rollout, state, progress, canClose } = decideWindow(input);
      const reversed = decideWindow({
        ...input,
        nodes: input.nodes.toReversed(),
        steps: input.steps.toReversed(),
        budget: {
          ...input.budget,
          reservations: input.budget.reservations.toReversed(),
          outOfService: new Map([...input.budget.outOfService].toReversed()),
        },
      });
      expect(reversed).toMatchObject({ rollout, state, progress, canClose });
    });
  });

  test('a node that fails is not started again, whatever happens to its Node', () => {
    const results = [nodeFailed('JobFailed', 'why'), nodeCancelled, nodeSucceeded];
    const nodes = fc.constantFrom(undefined, node('n1'), {
      ...node('n1'),
      metadata: { name: 'n1', uid: 'new' },
    });
    fc.assert(
      fc.property(nodes, fc.constantFrom(...results), fc.boolean(), (currentNode, result, isUncordoned) => {
        const { windowMaintenance } = planned('n1', waiting);
        const stageStatuses = isUncordoned ? [{ name: 'Complete' as const, startTimestamp: end }] : [];
        const { metadata, spec } = windowMaintenance.maintenance;
        windowMaintenance.maintenance = {
          metadata: { ...metadata, finalizers: isUncordoned ? [] : [MAINTENANCE_FINALIZER] },
          spec: { ...spec, stage: isUncordoned ? 'Complete' : 'Drain' },
          status: { ...emptyStatus, stageStatuses, conditions: [{ ...result, lastTransitionTime: end }] },
        };
        const revision = revisionOf(windowWith().spec);
        const context = {
          revision,
          policy: 'Finish',
          mayRunJobs: true,
          reboot: undefined,
          readyTimeoutSeconds: 60,
          openedAtMs: nowMs,
          nowMs,
        } as const;
        const step = decideNodeStep(
          nodeStepInput({ windowMaintenance, node: currentNode, job: undefined }, context),
        );
        const starting = startedBy(inputOf({ steps: [{ windowMaintenance, step }] }));
        if (result.reason === 'JobFailed') expect(starting).not.toContain('n1');
        if (!isUncordoned) expect(starting).not.toContain('n1');
      }),
    );
  });
});
