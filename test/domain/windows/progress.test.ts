import fc from 'fast-check';
import type { Condition, Node } from '../../../api/core.ts';
import type { MaintenanceWindow } from '../../../api/maintenanceWindow.ts';
import { RebootAnnotation } from '../../../api/names.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import type { WindowMaintenance } from '../../../domain/windows/windowMaintenance.ts';
import { revisionOf } from '../../../domain/common/revision.ts';
import type { ConditionFacts } from '../../../domain/common/conditions.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';
import {
  nodeAdvanced,
  nodeCancelled,
  nodeFailed,
  nodeSucceeded,
  advanceRequested,
} from '../../../domain/windows/nodeResult.ts';
import { outcomesByNode } from '../../../domain/windows/nodeOutcome.ts';
import { progressOf, progressWhileClosed } from '../../../domain/windows/progress.ts';
import { anyOutcomes, windowNodes } from '../../kit/windowOutcomes.ts';

const selector = {
  nodeSelectorTerms: [{ matchExpressions: [{ key: 'rack', operator: 'In' as const, values: ['a'] }] }],
};
const spec = {
  nodeSelector: selector,
  work: { type: 'None' },
  template: {},
} as unknown as MaintenanceWindow['spec'];
const revision = revisionOf(spec);

const node = (name: string, rack = 'a'): Node => ({
  metadata: { name, uid: `uid of ${name}`, labels: { rack } },
  spec: {},
});

interface Differs {
  result?: ConditionFacts;
  isCompleted?: boolean;
  revision?: string;
  uid?: string;
}

function maintenanceOf(name: string, differs: Differs = {}): WindowMaintenance {
  const { result, isCompleted = false, uid = `uid of ${name}` } = differs;
  const conditions: Condition[] = result ? [{ ...result, lastTransitionTime: '2026-11-21T12:00:00Z' }] : [];
  const stageStatuses = isCompleted
    ? [{ name: 'Complete' as const, startTimestamp: '2026-11-21T12:00:00Z' }]
    : [];
  const matchFields = [{ key: 'metadata.name', operator: 'In' as const, values: [name] }];
  const stage = isCompleted ? 'Complete' : 'Drain';
  const nodeSelector = { nodeSelectorTerms: [{ matchFields }] };
  const maintenance = {
    metadata: { name: `maintenance-of-${name}` },
    spec: { stage, nodeSelector } as NodeMaintenance['spec'],
    status: { ...emptyStatus, conditions, stageStatuses },
  };
  return { window: 'patch', revision: differs.revision ?? revision, node: name, nodeUid: uid, maintenance };
}

const nodes = [node('n1'), node('n2'), node('n3'), node('other', 'b')];
const progress = (...maintenances: WindowMaintenance[]) =>
  progressWhileClosed({ spec }, { nodes, maintenances });

describe('the progress of a closed window', () => {
  test('counts the selected nodes, and the nodes that have succeeded in its revision', () => {
    expect(progress(maintenanceOf('n1', { result: nodeSucceeded, isCompleted: true }))).toEqual({
      revision,
      summary: '1/3',
      nodes: 3,
      done: 1,
      inProgress: 0,
      failed: 0,
      remaining: 2,
      failures: [],
    });
  });

  test.each<{ what: string; of: WindowMaintenance; want: object }>([
    {
      what: 'a failed node',
      of: maintenanceOf('n1', { result: nodeFailed('JobFailed', 'why') }),
      want: { failed: 1, remaining: 2, failures: [{ node: 'n1', reason: 'JobFailed', message: 'why' }] },
    },
    {
      what: 'a node that failed in an earlier revision: the failure is not resolved',
      of: maintenanceOf('n1', { result: nodeFailed('JobFailed', 'why'), revision: 'old' }),
      want: { failed: 1, remaining: 2 },
    },
    {
      what: 'a failed node that is not selected any more',
      of: maintenanceOf('other', { result: nodeFailed('JobFailed', 'why') }),
      want: { nodes: 3, failed: 1, remaining: 3 },
    },
    { what: 'a node in progress', of: maintenanceOf('n1'), want: { inProgress: 1, remaining: 2 } },
    {
      what: 'an advanced node that is not ready yet',
      of: maintenanceOf('n1', { result: advanceRequested, isCompleted: true }),
      want: { inProgress: 1, remaining: 2 },
    },
    {
      what: 'an advanced node that had failed, before it is uncordoned',
      of: maintenanceOf('n1', { result: nodeAdvanced }),
      want: { inProgress: 1, failed: 0, failures: [] },
    },
    {
      what: 'an advanced node that had failed, after it is uncordoned',
      of: maintenanceOf('n1', { result: nodeAdvanced, isCompleted: true }),
      want: { done: 1, failed: 0, remaining: 2 },
    },
    {
      what: 'a cancelled node: it is maintained again',
      of: maintenanceOf('n1', { result: nodeCancelled, isCompleted: true }),
      want: { done: 0, inProgress: 0, remaining: 3 },
    },
    {
      what: 'a node that succeeded in an earlier revision: it is maintained again',
      of: maintenanceOf('n1', { result: nodeSucceeded, isCompleted: true, revision: 'old' }),
      want: { done: 0, remaining: 3 },
    },
    {
      what: 'a node that was recreated after it succeeded: it is maintained again',
      of: maintenanceOf('n1', { result: nodeSucceeded, isCompleted: true, uid: 'previous' }),
      want: { done: 0, remaining: 3 },
    },
  ])('with $what', ({ of, want }) => {
    expect(progress(of)).toMatchObject(want);
  });

  test('limits the number and the length of failures', () => {
    const failed = Array.from({ length: 30 }, (_, i) =>
      maintenanceOf(`gone-${i}`, { result: nodeFailed('JobFailed', 'x'.repeat(2_000)) }),
    );
    const { failures, failed: count } = progress(...failed);
    expect(count).toBe(30);
    expect(failures).toHaveLength(20);
    expect(failures[0]?.message).toHaveLength(1_000);
  });
});

describe('the progress of a closed window that reboots nodes', () => {
  const needs = (name: string): Node => {
    const { metadata, ...rest } = node(name);
    const annotations = { [RebootAnnotation.Required]: 'kernel' };
    return { ...rest, metadata: { ...metadata, annotations } };
  };
  const rebooted = (reboot: object, observed: Node[], ...maintenances: WindowMaintenance[]) => {
    const window = { spec: { ...spec, work: { type: 'Reboot', reboot } } } as unknown as MaintenanceWindow;
    const current = maintenances.map((one) => ({ ...one, revision: revisionOf(window.spec) }));
    return progressWhileClosed(window, { nodes: observed, maintenances: current });
  };
  const succeeded = maintenanceOf('n1', { result: nodeSucceeded, isCompleted: true });

  test.each<{ what: string; reboot: object; nodes: Node[]; of?: WindowMaintenance; want: object }>([
    {
      what: 'counts only nodes that need one',
      reboot: {},
      nodes: [needs('n1'), node('n2'), needs('n3')],
      want: {
        summary: '0/2',
        nodes: 3,
        remaining: 2,
        notRequired: 1,
        rebootRequired: { nodes: 2, names: ['n1', 'n3'] },
      },
    },
    {
      what: 'shows a window without anything to do',
      reboot: {},
      nodes: [node('n1'), node('n2')],
      want: { summary: '0/0', remaining: 0, notRequired: 2, rebootRequired: { nodes: 0, names: [] } },
    },
    {
      what: 'counts a node that was rebooted',
      reboot: {},
      nodes: [node('n1'), needs('n2')],
      of: succeeded,
      want: { summary: '1/2', done: 1, remaining: 1, notRequired: 0, rebootRequired: { nodes: 1 } },
    },
    {
      what: 'does not count a node that needs another one',
      reboot: {},
      nodes: [needs('n1')],
      of: succeeded,
      want: { summary: '0/1', done: 0, remaining: 1, rebootRequired: { names: ['n1'] } },
    },
    {
      what: 'does not show a node in progress as waiting',
      reboot: {},
      nodes: [needs('n1'), node('n2')],
      of: maintenanceOf('n1'),
      want: { inProgress: 1, remaining: 0, notRequired: 1, rebootRequired: { nodes: 0, names: [] } },
    },
    {
      what: 'counts every node if the policy is Always',
      reboot: { policy: 'Always' },
      nodes: [needs('n1'), node('n2')],
      want: { summary: '0/2', remaining: 2, rebootRequired: { nodes: 1, names: ['n1'] } },
    },
  ])('$what', ({ reboot, nodes: observed, of, want }) => {
    expect(rebooted(reboot, observed, ...(of ? [of] : []))).toMatchObject(want);
  });

  test('names at most 20 nodes, in order', () => {
    const observed = Array.from({ length: 30 }, (_, index) => needs(`n${String(99 - index)}`));
    const { rebootRequired } = rebooted({}, observed);
    expect(rebootRequired).toMatchObject({ nodes: 30, names: expect.arrayContaining(['n70', 'n89']) });
    expect(rebootRequired?.names).toHaveLength(20);
  });

  test('is not shown for other windows', () => {
    expect(progress()).not.toHaveProperty('rebootRequired');
    expect(rebooted({ policy: 'Always' }, [])).not.toHaveProperty('notRequired');
  });
});

describe('for all outcomes', () => {
  const inputs = fc.record({
    selected: fc.shuffledSubarray(windowNodes),
    outcomes: anyOutcomes.map(outcomesByNode),
    reboots: fc.option(
      fc.record({
        policy: fc.constantFrom('IfRequired' as const, 'Always' as const),
        required: fc.subarray(windowNodes).map((names) => new Set(names)),
      }),
      { nil: undefined },
    ),
  });
  type Input = typeof inputs extends fc.Arbitrary<infer I> ? I : never;
  const shown = ({ selected, outcomes, reboots }: Input) => progressOf('r', selected, { outcomes, reboots });
  const holds = (law: (input: Input, progress: ReturnType<typeof shown>) => void) =>
    fc.assert(
      fc.property(inputs, (input) => law(input, shown(input))),
      { numRuns: 500 },
    );
  const namesIn = ({ outcomes }: Input, ...states: string[]) =>
    [...outcomes].filter(([, { state }]) => states.includes(state)).map(([name]) => name);

  test('every node is counted once: those that are selected, and others in progress or failed', () => {
    holds((input, { nodes: total, done, inProgress, failed, remaining, notRequired = 0 }) => {
      const counted = new Set([...input.selected, ...namesIn(input, 'InProgress', 'Failed')]);
      expect(total).toBe(input.selected.length);
      expect(done + inProgress + failed + remaining + notRequired).toBe(counted.size);
    });
  });

  test('the summary counts the nodes that need a maintenance, and no more of them as done', () => {
    holds((_input, { summary, nodes: total, done, notRequired = 0 }) => {
      expect(summary).toBe(`${done}/${total - notRequired}`);
      expect(done).toBeLessThanOrEqual(total - notRequired);
    });
  });

  test('failures are sorted, and short', () => {
    holds((input, { failures, failed }) => {
      expect(failures.map((one) => one.node)).toEqual(namesIn(input, 'Failed').toSorted());
      expect(failed).toBe(failures.length);
      for (const { message } of failures) expect(message).toMatch(/^.{0,1000}$/);
    });
  });

  test('a node in progress or failed does not wait for a reboot, and a node that is not selected never does', () => {
    holds((input, { rebootRequired }) => {
      const busy = namesIn(input, 'InProgress', 'Failed');
      const waiting = input.selected.filter(
        (name) => input.reboots?.required.has(name) && !busy.includes(name),
      );
      expect(rebootRequired).toEqual(input.reboots && { nodes: waiting.length, names: waiting.toSorted() });
    });
  });

  test('the order of the input does not matter', () => {
    holds((input, progressNow) => {
      const reversed = { ...input, selected: input.selected.toReversed() };
      expect(shown({ ...reversed, outcomes: new Map([...input.outcomes].toReversed()) })).toEqual(
        progressNow,
      );
    });
  });
});

test('every node of a closed window is counted once, whatever its NodeMaintenances record', () => {
  const names = nodes.map(({ metadata }) => metadata.name);
  const maintenances = fc.array(
    fc
      .record({
        name: fc.constantFrom(...names, 'gone'),
        result: fc.constantFrom(
          undefined,
          nodeSucceeded,
          nodeAdvanced,
          advanceRequested,
          nodeCancelled,
          nodeFailed('JobFailed', 'why'),
        ),
        isCompleted: fc.boolean(),
        revision: fc.constantFrom(revision, 'old'),
        uid: fc.constantFrom(undefined, 'previous'),
      })
      .map(({ name, result, uid, ...differs }) =>
        maintenanceOf(name, { ...differs, ...(result && { result }), ...(uid && { uid }) }),
      ),
    { maxLength: 6 },
  );
  fc.assert(
    fc.property(maintenances, (drawn) => {
      const { nodes: total, done, inProgress, failed, remaining, failures } = progress(...drawn);
      // Only nodes in progress and failed nodes count although the window does not select them.
      const others = new Set(drawn.map((one) => one.node).filter((name) => ['other', 'gone'].includes(name)));
      expect(total).toBe(3);
      expect(done + inProgress + failed + remaining).toBeGreaterThanOrEqual(total);
      expect(done + inProgress + failed + remaining).toBeLessThanOrEqual(total + others.size);
      expect(failures.length).toBe(failed);
      expect(progress(...drawn.toReversed())).toEqual(progress(...drawn));
    }),
    { numRuns: 300 },
  );
});
