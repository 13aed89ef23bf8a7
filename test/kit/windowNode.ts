import fc from 'fast-check';
import type { Condition, Job, Node } from '../../api/core.ts';
import { MAINTENANCE_FINALIZER } from '../../api/names.ts';
import type { NodeMaintenance, NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import type { ConditionFacts } from '../../domain/common/conditions.ts';
import { emptyStatus } from '../../domain/maintenance/status.ts';
import {
  advanceRequested,
  nodeAdvanced,
  nodeCancelled,
  nodeFailed,
  nodeSucceeded,
  workStarted,
  workSucceeded,
} from '../../domain/windows/nodeResult.ts';

/** The NodeMaintenance, the Job and the Node of a node of a window: named ones, and any of them. */

export const nowMs = Date.parse('2026-11-21T12:00:00Z');
export const before = (seconds: number): string => new Date(nowMs - seconds * 1_000).toISOString();

export const ready: Node = { metadata: { name: 'n' }, spec: { unschedulable: true } };
export const unready: Node = {
  metadata: { name: 'n' },
  spec: { taints: [{ key: 'node.kubernetes.io/not-ready', effect: 'NoSchedule' }] },
};
export const gated: Node = {
  metadata: { name: 'n' },
  spec: { taints: [{ key: 'readiness.k8s.io/gates', effect: 'NoSchedule' }] },
};

export const condition = (facts: ConditionFacts): Condition => ({ ...facts, lastTransitionTime: before(10) });
export const is = (type: string, status: 'True' | 'False' = 'True'): Condition =>
  condition({ type, status, reason: type, message: '' });

/** A Job that started this many seconds ago. */
export function job(startedSecondsAgo: number, ...conditions: Condition[]): Job {
  return {
    metadata: { name: 'work', uid: 'job', creationTimestamp: before(startedSecondsAgo) },
    spec: { activeDeadlineSeconds: 600, template: { spec: { terminationGracePeriodSeconds: 30 } } },
    status: { startTime: before(startedSecondsAgo), conditions },
  };
}

export const terminating = (startedSecondsAgo: number, deletedSecondsAgo: number): Job => ({
  ...job(startedSecondsAgo),
  metadata: { name: 'work', deletionTimestamp: before(deletedSecondsAgo) },
});

export interface MaintenanceDiffers {
  stage?: NodeMaintenanceStage;
  conditions?: Condition[];
  /** Seconds since Complete started. Its finalizer is removed. */
  uncordoned?: number | undefined;
}

export function maintenanceOf({
  stage = 'Drain',
  conditions = [],
  uncordoned,
}: MaintenanceDiffers): NodeMaintenance {
  const stageStatuses =
    uncordoned === undefined ? [] : [{ name: 'Complete' as const, startTimestamp: before(uncordoned) }];
  return {
    metadata: { name: 'maintenance', finalizers: uncordoned === undefined ? [MAINTENANCE_FINALIZER] : [] },
    spec: { stage, nodeSelector: { nodeSelectorTerms: [] } },
    status: { ...emptyStatus, conditions, stageStatuses },
  };
}

export const drained = [is('Drained')];
export const succeeded = job(100, is('Complete'));

const results: ConditionFacts[] = [
  nodeSucceeded,
  nodeAdvanced,
  advanceRequested,
  nodeCancelled,
  nodeFailed('JobFailed', 'why'),
];

/** The stage and the conditions of any NodeMaintenance of a window. */
export const anyMaintenance = {
  stage: fc.constantFrom<NodeMaintenanceStage>('Idle', 'Cordon', 'Drain', 'Complete'),
  uncordoned: fc.option(fc.nat(200), { nil: undefined }),
  conditions: fc
    .tuple(
      fc.option(fc.constantFrom(...results)),
      fc.option(fc.constantFrom(workStarted('work'), workSucceeded('work'))),
      fc.boolean(),
    )
    .map(([result, work, isDrained]) => [
      ...(result ? [condition(result)] : []),
      ...(work ? [condition(work)] : []),
      ...(isDrained ? drained : []),
    ]),
};

export const anyJob = fc.constantFrom(
  undefined,
  job(10),
  job(9_999),
  succeeded,
  job(50, is('Failed')),
  terminating(100, 5),
);

export const anyHeartbeatMs = fc.integer({ min: nowMs - 100_000, max: nowMs });
