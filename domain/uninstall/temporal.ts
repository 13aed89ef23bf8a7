import { temporalNames } from '../../api/names.ts';
import type { TemporalRun, UninstallFacts } from './facts.ts';
import type { UninstallItem, UninstallPhase } from './item.ts';
import { isOpen } from './objects.ts';

/** The runs and Schedules of this cluster; if Temporal does not answer, the commands that remove them. */
export function temporalItems(facts: UninstallFacts): UninstallItem[] {
  const { temporal } = facts;
  if (temporal.kind === 'Unreachable') return unreachableItems(facts, temporal);
  const schedules = temporal.schedules.map((name): UninstallItem => {
    return { phase: 'Temporal', kind: 'Schedule', name, verb: 'delete', action: { kind: 'DeleteSchedule' } };
  });
  return [...schedules, ...temporal.runs.map((run) => terminated('Temporal', run))];
}

export function claimItems({ temporal }: UninstallFacts): UninstallItem[] {
  return temporal.kind === 'Unreachable' ? [] : temporal.claims.map((run) => terminated('Claim', run));
}

function terminated(phase: UninstallPhase, { workflowId, runId }: TemporalRun): UninstallItem {
  const action = { kind: 'TerminateRun', runId } as const;
  return { phase, kind: 'Workflow', name: workflowId, verb: 'terminate', action };
}

function unreachableItems(
  { maintenances, windows }: UninstallFacts,
  { problem, cluster, clusterName }: Extract<UninstallFacts['temporal'], { kind: 'Unreachable' }>,
): UninstallItem[] {
  const names = temporalNames(clusterName);
  const left = (kind: string, name: string, reason: string): UninstallItem => ({
    phase: 'Temporal',
    kind,
    name,
    verb: 'left',
    reason,
    action: { kind: 'Blocked' },
  });
  return [
    left(
      'Temporal',
      cluster,
      `${problem}; run the command again with TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE of the workers`,
    ),
    ...windows.map(({ metadata }) => {
      const id = names.windowId(metadata.name);
      return left('Schedule', id, `temporal schedule delete --schedule-id ${id}`);
    }),
    ...maintenances.filter(isOpen).map(({ metadata }) => {
      const id = names.maintenanceId(metadata.name);
      return left('Workflow', id, `temporal workflow terminate --workflow-id ${id}`);
    }),
    left('Workflow', names.taskQueue, `temporal workflow terminate --workflow-id ${names.taskQueue}`),
  ];
}
