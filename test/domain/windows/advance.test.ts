import fc from 'fast-check';
import type { Job, Node } from '../../../api/core.ts';
import type { MaintenanceWindow, WindowWork } from '../../../api/maintenanceWindow.ts';
import { RebootAnnotation, WindowAnnotation } from '../../../api/names.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { notReadyReason } from '../../../domain/budget/nodeService.ts';
import { type ConditionFacts, withCondition } from '../../../domain/common/conditions.ts';
import { isJobRunning } from '../../../domain/common/job.ts';
import { stageOf } from '../../../domain/common/stage.ts';
import { rebootStateOf } from '../../../domain/reboot/nodeReboot.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';
import { canUncordonWhileClosed, decideAdvance } from '../../../domain/windows/advance.ts';
import { canAdvance, nodeOutcomeOf } from '../../../domain/windows/nodeOutcome.ts';
import {
  advanceRequested,
  isAdvanced,
  nodeAdvanced,
  nodeFailed,
  nodeResultOf,
  nodeSucceeded,
} from '../../../domain/windows/nodeResult.ts';
import { closedWindowContext, nodeStepInput } from '../../../domain/windows/nodeStepInput.ts';
import { newWindowMaintenance, windowMaintenanceOf } from '../../../domain/windows/windowMaintenance.ts';
import {
  anyHeartbeatMs,
  anyJob,
  anyMaintenance,
  before,
  condition,
  is,
  job,
  type MaintenanceDiffers,
  maintenanceOf,
  nowMs,
  ready,
  unready,
} from '../../kit/windowNode.ts';

describe('the request to advance a node is', () => {
  test.each<{ when: string; result: ConditionFacts[]; job?: Job; want: ConditionFacts }>([
    { when: 'accepted in progress', result: [], want: advanceRequested },
    {
      when: 'accepted again while the node is not ready',
      result: [advanceRequested],
      want: advanceRequested,
    },
    { when: 'accepted for a failed node', result: [nodeFailed('JobFailed', 'why')], want: nodeAdvanced },
    {
      when: 'accepted for a node whose Job has failed, before the failure is recorded',
      result: [],
      job: job(9, is('Failed')),
      want: nodeAdvanced,
    },
    {
      when: 'without effect on a node that succeeded and is being uncordoned',
      result: [nodeSucceeded],
      want: nodeSucceeded,
    },
  ])('$when', ({ result, job: its, want }) => {
    const maintenance = maintenanceOf({ conditions: result.map(condition) });
    expect(decideAdvance(maintenance, 'n', its)).toEqual({
      kind: 'Accepted',
      result: expect.objectContaining(want),
    });
  });

  test('rejected while its Job is running, and for a node that was returned to service', () => {
    expect(decideAdvance(maintenanceOf({}), 'n', job(10))).toEqual({
      kind: 'Rejected',
      problem: expect.stringContaining('Job work is running on node n'),
    });
    const over = maintenanceOf({ stage: 'Complete', uncordoned: 1, conditions: [condition(nodeSucceeded)] });
    expect(decideAdvance(over, 'n', undefined)).toMatchObject({ kind: 'Rejected' });
  });
});

describe('for every request to advance a node', () => {
  /** A NodeMaintenance as the worker writes it, or with a result that something else has written. */
  const maintenances = fc
    .record({
      ...anyMaintenance,
      written: fc.option(
        fc.record({
          type: fc.constant('Succeeded'),
          status: fc.constantFrom('True' as const, 'False' as const, 'Unknown' as const),
          reason: fc.constantFrom('Done', 'Advanced', 'Cancelled', 'JobFailed', 'SomethingElse', ''),
          message: fc.string(),
        }),
      ),
    })
    .map(({ written, conditions, ...differs }) => {
      const others = conditions.filter(({ type }) => type !== 'Succeeded');
      return maintenanceOf({
        ...differs,
        conditions: written === null ? conditions : [...others, condition(written)],
      });
    });
  const holds = (law: (maintenance: NodeMaintenance, its: Job | undefined) => void) =>
    fc.assert(fc.property(maintenances, anyJob, law), { numRuns: 1_000 });
  const advanced = (maintenance: NodeMaintenance, result: ConditionFacts): NodeMaintenance => {
    const { status = emptyStatus } = maintenance;
    const conditions = withCondition(status.conditions, result, before(0));
    return { ...maintenance, status: { ...status, conditions } };
  };

  test('it is rejected exactly if the node is not in maintenance any more, or its Job is running', () => {
    holds((maintenance, its) => {
      const { kind } = decideAdvance(maintenance, 'n', its);
      expect(kind === 'Rejected').toBe(!canAdvance(maintenance) || isJobRunning(its));
    });
  });

  test('a rejected one has nothing to record, and says why', () => {
    holds((maintenance, its) => {
      const decision = decideAdvance(maintenance, 'n', its);
      if (decision.kind === 'Rejected')
        expect(decision).toEqual({ kind: 'Rejected', problem: expect.stringContaining('node n') });
    });
  });

  test('the decision changes nothing that it is given', () => {
    holds((maintenance, its) => {
      const given = structuredClone([maintenance, its]);
      decideAdvance(maintenance, 'n', its);
      expect([maintenance, its]).toEqual(given);
    });
  });

  test('the node of an accepted one has no failure any more', () => {
    holds((maintenance, its) => {
      const decision = decideAdvance(maintenance, 'n', its);
      if (decision.kind === 'Rejected') return;
      const { state } = nodeOutcomeOf(advanced(maintenance, decision.result));
      expect(['InProgress', 'Succeeded']).toContain(state);
      // A failure is resolved at once; a node in progress succeeds only when it is in service.
      if (nodeOutcomeOf(maintenance).state === 'Failed') expect(decision.result.status).toBe('True');
    });
  });

  test('a repeated one is rejected, or records the same result', () => {
    holds((maintenance, its) => {
      const first = decideAdvance(maintenance, 'n', its);
      if (first.kind === 'Rejected') return;
      const after = advanced(maintenance, first.result);
      const second = decideAdvance(after, 'n', its);
      if (second.kind === 'Rejected') return;
      expect(advanced(after, second.result)).toEqual(after);
    });
  });
});

describe('for every node of a closed window', () => {
  const bootId = 'boot-1';
  const { Requested, Started } = RebootAnnotation;
  const window = {
    metadata: { name: 'w' },
    spec: { template: {}, work: { type: 'None' }, rollout: { readyTimeoutSeconds: 60 } },
  } as unknown as MaintenanceWindow;
  const nodeIn = (state: { bootId: string; requested: boolean; started: boolean }, node: Node): Node => ({
    ...node,
    metadata: {
      ...node.metadata,
      uid: 'uid',
      annotations: {
        ...(state.requested && { [Requested]: bootId }),
        ...(state.started && { [Started]: bootId }),
      },
    },
    status: { nodeInfo: { bootID: state.bootId } },
  });
  const nodes = fc.oneof(
    fc.constantFrom(undefined, { ...ready, metadata: { name: 'n', uid: 'of another Node' } }),
    fc
      .record({
        bootId: fc.constantFrom(bootId, 'boot-2', ''),
        requested: fc.boolean(),
        started: fc.boolean(),
        is: fc.constantFrom(ready, unready),
      })
      .map(({ is: node, ...state }) => nodeIn(state, node)),
  );
  const withWork = (differs: MaintenanceDiffers, type: WindowWork['type']) => {
    const { metadata, spec } = newWindowMaintenance(window, { name: 'n', uid: 'uid' });
    const annotations = {
      ...metadata.annotations,
      [WindowAnnotation.WorkType]: type,
      [WindowAnnotation.BootId]: bootId,
    };
    const maintenance = maintenanceOf(differs);
    const created: NodeMaintenance = {
      ...maintenance,
      metadata: { ...metadata, ...maintenance.metadata, annotations },
      spec: { ...spec, stage: maintenance.spec.stage },
    };
    const windowMaintenance = windowMaintenanceOf(created);
    if (windowMaintenance === undefined) throw new Error('it belongs to the window');
    return windowMaintenance;
  };
  const closed = fc
    .record({
      differs: fc.record(anyMaintenance),
      work: fc.constantFrom('None' as const, 'Job' as const, 'Reboot' as const),
      node: nodes,
      its: anyJob,
      lastHeartbeatMs: fc.option(anyHeartbeatMs, { nil: undefined }),
      window: fc.constantFrom(window, undefined),
    })
    .map(({ differs, work, node, its, lastHeartbeatMs, window: now }) =>
      nodeStepInput(
        {
          windowMaintenance: withWork(differs, work),
          node,
          job: work === 'Job' ? its : undefined,
          kubeletLease:
            lastHeartbeatMs === undefined
              ? undefined
              : { metadata: { name: 'n' }, spec: { renewTime: new Date(lastHeartbeatMs).toISOString() } },
        },
        closedWindowContext(now, nowMs),
      ),
    );
  const holds = (law: (input: ReturnType<typeof nodeStepInput>, uncordons: boolean) => void) =>
    fc.assert(
      fc.property(closed, (input) => law(input, canUncordonWhileClosed(input))),
      { numRuns: 5_000 },
    );

  test('only an advanced one is uncordoned, and none whose Job is running', () => {
    holds(({ maintenance, job: its }, uncordons) => {
      if (uncordons) expect([isAdvanced(maintenance), isJobRunning(its)]).toEqual([true, false]);
    });
  });

  test('one that is not ready, or silent since the request, is uncordoned only if its failure was resolved', () => {
    holds(({ maintenance, node }, uncordons) => {
      const result = nodeResultOf(maintenance);
      if (!uncordons || node.kind !== 'Present' || result?.status === 'True') return;
      const { lastHeartbeatMs = Infinity } = node;
      expect(notReadyReason(node.node)).toBeUndefined();
      expect(lastHeartbeatMs).toBeGreaterThan(Date.parse(result?.lastTransitionTime ?? ''));
    });
  });

  test('one that is asked to reboot, or rebooting, is not uncordoned', () => {
    holds(({ node, work }, uncordons) => {
      if (!uncordons || node.kind !== 'Present' || work !== 'Reboot') return;
      expect(['NotRequested', 'Done']).toContain(rebootStateOf(node.node, bootId));
    });
  });

  test('one that does not exist any more, or is another one, is not waited for', () => {
    holds(({ maintenance, node, job: its }, uncordons) => {
      if (node.kind !== 'Present' && isAdvanced(maintenance) && !isJobRunning(its))
        expect(uncordons).toBe(true);
    });
  });

  test('an advanced one without work in progress is uncordoned once it is ready', () => {
    holds(({ maintenance, node, work }, uncordons) => {
      const { status, lastTransitionTime = '' } = nodeResultOf(maintenance) ?? {};
      if (work !== 'None' || status !== 'Unknown' || stageOf(maintenance) === 'Complete') return;
      if (node.kind !== 'Present' || notReadyReason(node.node) !== undefined) return;
      const { lastHeartbeatMs = Infinity } = node;
      expect(uncordons).toBe(lastHeartbeatMs > Date.parse(lastTransitionTime));
    });
  });
});
