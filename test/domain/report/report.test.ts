import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { type MaintenanceRecord } from '../../../domain/report/maintenanceFacts.ts';
import { maintenanceReport } from '../../../domain/report/maintenanceReport.ts';
import type { RecordedRun, RecordedStep } from '../../../domain/report/recorded.ts';
import type { Report } from '../../../domain/report/report.ts';
import { type WindowRecord, windowReport } from '../../../domain/report/windowReport.ts';
import type { WindowMaintenance } from '../../../domain/windows/windowMaintenance.ts';
import { anyText } from '../../kit/anyText.ts';

const start = Date.parse('2026-01-01T12:00:00Z');
const at = (seconds: number) => start + seconds * 1_000;
const time = (seconds: number) => new Date(at(seconds)).toISOString();

const result = (seconds: number, activity: string, value: unknown, ...values: unknown[]): RecordedStep => ({
  kind: 'Result',
  atMs: at(seconds),
  activity,
  values,
  result: value,
});
const runOf = (steps: RecordedStep[], uid = 'u', from = 0): RecordedRun => ({
  workflowId: 'node-maintenance-rack-7',
  startedAtMs: at(from),
  closedAtMs: at(from + 100),
  steps: [result(from, 'admit', { uid, nodes: ['node-1'] }), ...steps],
});

const snapshot = (seconds: number, differs: object = {}) => ({
  at: time(seconds),
  stage: 'Drain',
  podsToEvacuate: 0,
  podsEvacuated: 0,
  podsBlocked: 0,
  rows: [{ node: 'node-1', podsToEvacuate: 0, podsEvacuated: 0, message: '' }],
  more: 0,
  moreDone: 0,
  causes: [],
  moreCauses: 0,
  ...differs,
});
const cause = {
  message: 'PodDisruptionBudget shop/db can never allow a disruption.',
  requiresIntervention: true,
  pods: ['shop/db-0 (node-1)'],
  morePods: 2,
};
const budget = {
  metadata: { name: 'db', namespace: 'shop' },
  spec: { minAvailable: 3 },
  status: { disruptionsAllowed: 0, currentHealthy: 3, desiredHealthy: 3, expectedPods: 3 },
};

/** A drain of two tiers, blocked for a minute in the second one. */
const drainSteps: RecordedStep[] = [
  result(0, 'startStage', { nodes: ['node-1'], details: snapshot(0, { rows: [] }) }, {}, 'Drain'),
  result(10, 'drain', {
    kind: 'TierDrained',
    position: 3,
    nodes: ['node-1'],
    drained: { number: 1, total: 2, pods: 'Default pods with priority up to 1000' },
    details: snapshot(10, {
      podsToEvacuate: 3,
      podsEvacuated: 4,
      drainTier: { number: 2, total: 2 },
      tier: 'Default pods',
    }),
  }),
  {
    kind: 'Signal',
    atMs: at(20),
    name: 'refreshDetails',
    values: [
      {
        uid: 'u',
        details: snapshot(20, { podsToEvacuate: 3, podsEvacuated: 4, podsBlocked: 3, causes: [cause] }),
      },
    ],
  },
  { kind: 'Retry', atMs: at(30), activity: 'drain' },
  result(80, 'drain', {
    kind: 'Drained',
    nodes: ['node-1'],
    details: snapshot(80, { podsEvacuated: 7, drainTier: { number: 2, total: 2 }, tier: 'Static pods' }),
  }),
  result(90, 'startStage', { nodes: ['node-1'] }, {}, 'Complete'),
  result(95, 'finish', undefined, {}),
];

const record = (differs: Partial<MaintenanceRecord> = {}): MaintenanceRecord => ({
  name: 'rack-7',
  nowMs: at(500),
  runs: [runOf(drainSteps)],
  maintenance: undefined,
  events: [],
  leaving: [],
  podEvents: [],
  budgets: [budget],
  actions: [],
  unread: [],
  ...differs,
});

const timelineOf = ({ timelines }: Report, title: string) => timelines.find((one) => one.title === title);
const seconds = ({ fromMs, toMs }: { fromMs: number; toMs: number }) =>
  [fromMs, toMs].map((ms) => (ms - start) / 1_000);
const figure = ({ figures }: Report, name: string) => figures.find(({ label }) => label === name)?.value;

describe('the report of a maintenance', () => {
  test('says from the history alone when stages and tiers began and ended, what blocked pods, and for how long', () => {
    const report = maintenanceReport(record());
    expect(report).toMatchObject({ state: 'over, and deleted', moreCauses: 0 });
    expect(seconds(report.span)).toEqual([0, 95]);
    expect(
      timelineOf(report, 'Stages')?.rows.map(({ name, bars }) => [name, ...bars.flatMap(seconds)]),
    ).toEqual([
      ['Drain', 0, 90],
      ['Complete', 90, 95],
    ]);
    expect(timelineOf(report, 'Stages')?.moments).toEqual([{ atMs: at(80), label: 'drained' }]);
    expect(
      timelineOf(report, 'Tiers of the drain plan')?.rows.map(({ name, bars }) => [
        name,
        bars[0]?.label,
        ...bars.flatMap(seconds),
      ]),
    ).toEqual([
      ['tier 1 of 2', 'Default pods with priority up to 1000', 0, 10],
      ['tier 2 of 2', 'Default pods', 10, 80],
    ]);
    expect(report.causes).toEqual([
      expect.objectContaining({
        text: cause.message,
        subjects: cause.pods,
        moreSubjects: 0,
        totalMs: 60_000,
      }),
    ]);
    expect(report.causes[0]?.spans.map(seconds)).toEqual([[20, 80]]);
    expect(report.budgets).toEqual([
      {
        name: 'shop/db',
        limit: 'minAvailable 3',
        state: '3 of 3 pods healthy, 3 required: 0 may be disrupted',
        heldMs: 60_000,
      },
    ]);
    expect(figure(report, 'pods evacuated')).toEqual({ kind: 'Count', count: 7 });
    expect(figure(report, 'pods were blocked')).toEqual({ kind: 'Duration', ms: 60_000 });
    expect(figure(report, 'activities retried')).toEqual({ kind: 'Count', count: 1 });
    expect(report.counts[0]?.series[0]?.samples.map(({ count }) => count)).toEqual([3, 3, 0]);
  });

  test('shows a pod with an Evacuation, a blocked one and one with Events, each on its own line', () => {
    const evacuation = {
      metadata: { name: 'e', creationTimestamp: time(5) },
      spec: { podRef: { name: 'web', uid: 'p' }, progressDeadlineSeconds: 1 },
      status: {
        activeEvacuatorCompleted: false,
        failedEvictionCounter: 0,
        message: '',
        conditions: [
          {
            type: 'Blocked',
            status: 'True' as const,
            reason: 'X',
            message: '',
            lastTransitionTime: time(30),
          },
        ],
      },
    };
    const pod = { metadata: { name: 'web', namespace: 'shop', uid: 'p' }, spec: {}, status: {} };
    const leaving = [{ pod, evacuation }] as unknown as MaintenanceRecord['leaving'];
    const moved = { pod: 'shop/cache', firstMs: at(40), lastMs: at(40) };
    const podEvents = [
      { ...moved, reason: 'EvacuatorActivated' },
      { ...moved, reason: 'Evicted', lastMs: at(50) },
    ];
    const rows = timelineOf(maintenanceReport(record({ leaving, podEvents })), 'Pods')?.rows ?? [];
    expect(
      rows.map(({ name, bars, marks }) => [
        name,
        bars.map(({ kind }) => kind),
        marks.map(({ label }) => label),
      ]),
    ).toEqual([
      ['shop/web', ['Leaving', 'Blocked'], []],
      ['shop/db-0', ['Blocked'], []],
      ['shop/cache', ['Leaving'], ['EvacuatorActivated', 'Evicted']],
    ]);
    expect(rows[0]?.bars.map(seconds)).toEqual([
      [5, 80],
      [30, 80],
    ]);
  });

  describe('shows a pod that leaves by an EvictionRequest', () => {
    const pod = { metadata: { name: 'web', namespace: 'shop', uid: 'p' }, spec: {}, status: {} };
    const request = {
      metadata: { name: 'r', namespace: 'shop', uid: 'r', creationTimestamp: time(5) },
      spec: {
        target: { pod: { name: 'web', uid: 'p' } },
        requester: 'node-maintenance.dev/nodemaintenance',
        intent: 'Eviction',
      },
    };
    const target = (name: string, state: string) => ({ name, priority: 100, state });
    const condition = (type: string, reason: string) => ({
      type,
      status: 'True',
      reason,
      message: 'No responder has evicted the pod.',
      lastTransitionTime: time(40),
    });

    function barsOf(status: object | undefined) {
      const eviction = status && { metadata: { name: 'e', namespace: 'shop' }, spec: request.spec, status };
      const requested = { request, eviction };
      const leaving = [{ pod, requested }] as unknown as MaintenanceRecord['leaving'];
      const rows = timelineOf(maintenanceReport(record({ leaving })), 'Pods')?.rows ?? [];
      const bars = rows.find(({ name }) => name === 'shop/web')?.bars ?? [];
      return bars.map((bar) => [bar.kind, ...seconds(bar), bar.label]);
    }

    test('with who responded, what each has reported, and when the next one followed', () => {
      const bars = barsOf({
        targetResponders: [
          target('example.com/slow', 'Interrupted'),
          target('example.com/migrate', 'Completed'),
          target('imperative-eviction.k8s.io/evictor', 'Active'),
          target('example.com/later', 'Inactive'),
        ],
        responders: [
          { name: 'example.com/slow', startTime: time(6) },
          {
            name: 'example.com/migrate',
            startTime: time(10),
            heartbeatTime: time(12),
            completionTime: time(20),
            message: 'Copied\n3 GiB',
          },
          {
            name: 'imperative-eviction.k8s.io/evictor',
            startTime: time(21),
            heartbeatTime: time(30),
            message: 'PodDisruptionBudget web allows no disruption.',
          },
          { name: 'example.com/later' },
        ],
      });
      expect(bars).toEqual([
        ['Leaving', 5, 80, undefined],
        ['Failed', 6, 10, 'example.com/slow'],
        ['Leaving', 10, 20, expect.stringMatching(/^example.com\/migrate: Copied.*3 GiB$/)],
        [
          'Leaving',
          21,
          80,
          'imperative-eviction.k8s.io/evictor: PodDisruptionBudget web allows no disruption.',
        ],
      ]);
    });

    test('with a responder that does not report', () => {
      const bars = barsOf({
        targetResponders: [target('example.com/migrate', 'Active')],
        responders: [{ name: 'example.com/migrate', startTime: time(6) }],
      });
      expect(bars[1]).toEqual([
        'Blocked',
        6,
        80,
        expect.stringContaining('Responder example.com/migrate does not respond'),
      ]);
    });

    test('with a wait for a controller', () => {
      expect(barsOf(undefined)).toEqual([
        ['Leaving', 5, 80, undefined],
        ['Blocked', 5, 80, 'No controller has answered the request.'],
      ]);
    });

    test('with a failure', () => {
      expect(barsOf({ conditions: [condition('Failed', 'NoFurtherResponder')] })).toEqual([
        ['Leaving', 5, 80, undefined],
        ['Failed', 40, 80, 'No responder has evicted the pod.'],
      ]);
    });
  });

  test('shows when it was paused: until it was resumed, or until now', () => {
    const changed = (from: number, paused: boolean) =>
      result(from, 'drain', { kind: 'PauseChanged', paused });
    const steps = [changed(20, true), changed(30, false), changed(50, true)];
    const { closedAtMs: _none, ...running } = runOf([drainSteps[0] as RecordedStep, ...steps]);
    const rows = timelineOf(maintenanceReport(record({ runs: [running] })), 'Stages')?.rows ?? [];
    expect(rows.map(({ name, bars }) => [name, ...bars.map(seconds)])).toEqual([
      ['Drain', [0, 500]],
      ['paused', [20, 30], [50, 500]],
    ]);
  });

  test('without Temporal is made from the object and its Events', () => {
    const maintenance = {
      metadata: {
        name: 'rack-7',
        uid: 'u',
        creationTimestamp: time(0),
        finalizers: ['nodemaintenance.k8s.io/maintenance-completion'],
      },
      spec: { stage: 'Drain', reason: 'disk' },
      status: {
        stageStatuses: [{ name: 'Drain', startTimestamp: time(2) }],
        nodeStatuses: [],
        conditions: [],
        drainTier: { number: 1, total: 2 },
        nodes: 3,
        podsBlocked: 1,
        blockedPods: [
          { namespace: 'shop', name: 'db-0', node: 'node-1', reason: 'DisruptionBudget', message: 'No.' },
        ],
      },
    } as unknown as NodeMaintenance;
    const events = [
      { reason: 'DisruptionBudget', message: 'Pod shop/db-0 cannot leave.', firstMs: at(5), lastMs: at(9) },
    ];
    const report = maintenanceReport(
      record({ runs: undefined, maintenance, events, unread: ['no history'] }),
    );
    expect(report).toMatchObject({ reason: 'disk', state: 'Drain, 1 pod blocked' });
    expect(timelineOf(report, 'Tiers of the drain plan')?.rows.map(({ name }) => name)).toEqual([
      'tier 1 of 2',
    ]);
    expect(report.causes.map(({ text }) => text)).toEqual(['No.']);
    expect(report.unknown[0]).toBe('no history');
    const ended = maintenanceReport(record({ runs: undefined, events }));
    expect(ended.causes).toEqual([]);
  });

  test('shows the drain deadline and the steps before it, as far as they fall into the drain', () => {
    const drainDeadline = {
      time: time(70),
      steps: [
        { time: time(40), action: 'Notify', doneAt: time(41) },
        { time: time(70), action: 'Delete', doneAt: time(200) },
      ],
    };
    const maintenance = {
      metadata: { name: 'rack-7', uid: 'u', creationTimestamp: time(0) },
      spec: { stage: 'Drain' },
      status: { stageStatuses: [], nodeStatuses: [], conditions: [], drainDeadline },
    } as unknown as NodeMaintenance;
    const timeline = timelineOf(maintenanceReport(record({ maintenance })), 'Tiers of the drain plan');
    expect(timeline?.moments).toEqual([{ atMs: at(70), label: 'drain deadline' }]);
    expect(timeline?.rows.at(-1)).toEqual({
      name: 'Escalation',
      bars: [],
      marks: [{ atMs: at(41), label: 'Notify' }],
    });
  });

  test('is about the newest object of the name, or about the one that exists', () => {
    const older = runOf([result(1, 'startStage', {}, {}, 'Cordon')], 'old', 0);
    const newer = runOf([result(301, 'startStage', {}, {}, 'Cordon')], 'new', 300);
    const report = maintenanceReport(record({ runs: [newer, older] }));
    expect(seconds(report.span)[0]).toBe(300);
    expect(report.unknown).toContain('1 run of earlier maintenances of the same name is not shown.');
  });
});

const windowState = (differs: object) => ({
  revision: 'r',
  nodes: 2,
  done: 0,
  inProgress: [],
  failed: [],
  remaining: 2,
  ...differs,
});
const windowRun: RecordedRun = {
  workflowId: 'maintenance-window-os-patch-2026-01-01T12:00:00Z',
  startedAtMs: at(0),
  closedAtMs: at(100),
  steps: [
    result(0, 'openWindow', { uid: 'w', start: time(0), end: time(60) }),
    result(1, 'rollOut', {
      kind: 'Progressed',
      state: windowState({ waiting: { reason: 'ApprovalNeeded', message: 'Waiting for approval.' } }),
    }),
    result(11, 'rollOut', {
      kind: 'Progressed',
      state: windowState({ remaining: 1, inProgress: [{ node: 'node-1', maintenance: 'm-1' }] }),
    }),
    result(70, 'rollOut', { kind: 'Over', state: windowState({ done: 1, remaining: 1 }) }),
    result(71, 'closeWindow', undefined),
  ],
};
const windowRecord = (differs: Partial<WindowRecord> = {}): WindowRecord => ({
  name: 'os-patch',
  nowMs: at(500),
  runs: [windowRun],
  window: undefined,
  maintenances: [],
  budgets: [],
  actions: [],
  unread: [],
  ...differs,
});

describe('the report of a window', () => {
  test('says from the history when each node was in progress, and why no other one started', () => {
    const report = windowReport(windowRecord());
    expect(report.timelines[0]?.rows.map(({ name, bars }) => [name, ...bars.flatMap(seconds)])).toEqual([
      ['Window', 0, 60],
      ['node-1', 11, 70],
    ]);
    expect(report.timelines[0]?.moments).toEqual([{ atMs: at(60), label: 'end of the window' }]);
    expect(report.causes).toEqual([
      expect.objectContaining({
        text: 'Waiting for approval.',
        subjects: ['ApprovalNeeded'],
        totalMs: 10_000,
      }),
    ]);
    expect(figure(report, 'done')).toEqual({ kind: 'Count', count: 1 });
  });

  test('says from the objects of its nodes when each was drained, worked on and returned', () => {
    const maintenance = {
      metadata: {
        name: 'm-1',
        creationTimestamp: time(11),
        annotations: { 'nodemaintenance.k8s.io/completed': time(50) },
      },
      spec: { stage: 'Complete' },
      status: {
        stageStatuses: [{ name: 'Complete', startTimestamp: time(40) }],
        conditions: [
          { type: 'Drained', status: 'True', lastTransitionTime: time(20), reason: 'R', message: '' },
        ],
        nodeStatuses: [],
      },
    };
    const one = { node: 'node-1', maintenance } as unknown as WindowMaintenance;
    const report = windowReport(windowRecord({ maintenances: [one] }));
    expect(report.timelines[0]?.rows[1]?.bars.map(({ kind, ...span }) => [kind, ...seconds(span)])).toEqual([
      ['Leaving', 11, 20],
      ['Drained', 20, 40],
      ['Returning', 40, 50],
    ]);
  });

  describe('says of the window', () => {
    const active = { workflowId: 'w', runId: 'r', start: time(0), end: time(60), nodes: [] };
    const progress = { revision: 'r', nodes: 2, done: 1 };
    const done = ': 1 of 2 nodes done in its newest revision';
    const scheduled = { type: 'Scheduled', status: 'True', reason: 'Scheduled', message: '' };
    const invalid = { type: 'Valid', status: 'False', reason: 'Invalid', message: 'No.' };
    test.each<{ state: string; status: object | undefined; runs?: RecordedRun[]; seconds?: number }>([
      { state: 'deleted', status: undefined },
      { state: 'open', status: { active }, seconds: 30 },
      { state: `open${done}`, status: { active, progress }, seconds: 30 },
      { state: `ended, nodes in progress${done}`, status: { active, progress }, seconds: 60 },
      { state: `closed${done}`, status: { progress } },
      { state: 'not opened yet', status: { conditions: [scheduled] }, runs: [] },
      { state: 'not scheduled', status: { conditions: [invalid] }, runs: [] },
    ])('$state', ({ state, status, runs = [windowRun], seconds: now = 500 }) => {
      const window = status && {
        metadata: { name: 'os-patch', uid: 'w', creationTimestamp: time(-100) },
        spec: { template: {}, schedule: { timeZone: 'UTC' }, rollout: { maxUnavailable: 1 } },
        status: { conditions: [], ...status },
      };
      const given = { runs, nowMs: at(now), window: window as unknown as WindowRecord['window'] };
      expect(windowReport(windowRecord(given)).state).toBe(state);
    });
  });

  test('is about its newest opening', () => {
    const next = {
      ...windowRun,
      workflowId: 'maintenance-window-os-patch-2026-01-08T12:00:00Z',
      startedAtMs: at(80),
    };
    const report = windowReport(windowRecord({ runs: [windowRun, next] }));
    expect(report.unknown).toContain('1 earlier opening is not shown: this is the newest one.');
  });
});

// Any client of the Temporal namespace may have written any value of a history.
const anything = fc.oneof(
  fc.jsonValue(),
  fc.record({
    kind: fc.constantFrom('TierDrained', 'Drained', 'PauseChanged', 'Progressed', 'Over', 'Gone'),
    uid: fc.constantFrom('u', 'v'),
    start: fc.constantFrom(time(0), time(9), 'never'),
    end: fc.constantFrom(time(5), time(-9), 'never'),
    nodes: fc.oneof(fc.jsonValue(), fc.array(fc.string())),
    paused: fc.boolean(),
    drained: fc.oneof(fc.jsonValue(), fc.record({ number: fc.nat(), total: fc.nat(), pods: anyText() })),
    details: fc.oneof(
      fc.jsonValue(),
      fc
        .record({ podsToEvacuate: fc.nat(), podsBlocked: fc.nat() })
        .map((counts) => snapshot(1, { ...counts, causes: [cause] })),
    ),
    state: fc.oneof(
      fc.jsonValue(),
      anyText().map((node) => windowState({ inProgress: [{ node, maintenance: node }] })),
    ),
  }),
);
const atMs = fc.integer({ min: at(-50), max: at(600) });
const activity = fc.constantFrom(
  'admit',
  'startStage',
  'drain',
  'keepDrained',
  'finish',
  'openWindow',
  'rollOut',
  'closeWindow',
);
const values = fc.array(fc.oneof(anything, fc.constantFrom('Cordon', 'Drain', 'Complete')), { maxLength: 3 });
const step: fc.Arbitrary<RecordedStep> = fc.oneof(
  fc.record({ kind: fc.constant('Input' as const), atMs, values }),
  fc.record({ kind: fc.constant('Signal' as const), atMs, name: fc.string(), values }),
  fc.record({ kind: fc.constant('Retry' as const), atMs, activity }),
  fc.record({ kind: fc.constant('Result' as const), atMs, activity, values, result: anything }),
);
const runs = fc.array(
  fc.record({
    workflowId: fc.constantFrom('a', 'b'),
    startedAtMs: atMs,
    closedAtMs: fc.option(atMs, { nil: undefined }),
    steps: fc.array(step, { maxLength: 12 }),
  }),
  { maxLength: 4 },
);
const actions = fc.array(
  fc.record({
    time: fc.oneof(fc.string(), fc.constantFrom(time(3), time(4))),
    who: fc.option(anyText(), { nil: undefined }),
    what: anyText({ maxLength: 2_000 }),
    source: fc.constantFrom('Temporal' as const, 'Kubernetes' as const),
  }),
  { maxLength: 5 },
);

function textsOf(given: unknown): string[] {
  if (typeof given === 'string') return [given];
  if (typeof given !== 'object' || given === null) return [];
  return Object.values(given).flatMap(textsOf);
}

function expectSound(report: Report): void {
  expect(report.span.fromMs).toBeLessThanOrEqual(report.span.toMs);
  for (const { span, rows } of report.timelines) {
    expect(rows.length).toBeLessThanOrEqual(61);
    for (const { fromMs, toMs } of rows.flatMap(({ bars }) => bars)) {
      expect(span.fromMs).toBeLessThanOrEqual(fromMs);
      expect(fromMs).toBeLessThanOrEqual(toMs);
      expect(toMs).toBeLessThanOrEqual(span.toMs);
    }
  }
  for (const one of report.causes)
    expect(one.totalMs).toBeLessThanOrEqual(report.causeSpan.toMs - report.causeSpan.fromMs);
  expect(report.actions.length).toBeLessThanOrEqual(300);
  for (const text of textsOf(report)) {
    expect(text.length).toBeLessThanOrEqual(700);
    expect(text).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u);
  }
  expect(JSON.parse(JSON.stringify(report))).toEqual(report);
}

describe('for any history', () => {
  test('the report of a maintenance has ordered spans and bounded, printable texts', () => {
    fc.assert(
      fc.property(runs, actions, (one, rows) =>
        expectSound(maintenanceReport(record({ runs: one, actions: rows }))),
      ),
    );
  });

  test('the report of a window has ordered spans and bounded, printable texts', () => {
    fc.assert(
      fc.property(runs, actions, (one, rows) =>
        expectSound(windowReport(windowRecord({ runs: one, actions: rows }))),
      ),
    );
  });
});
