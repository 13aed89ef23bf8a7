import type { Pod } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import { compareNames, listed } from '../common/names.ts';
import { isFinished, podName } from '../common/pod.ts';
import { numbered } from '../common/text.ts';
import { reportedBlocker, requiresIntervention } from '../evacuation/blocker.ts';
import { hasResponded, ownEvacuators, registeredEvacuators } from '../evacuation/evacuatorSelection.ts';
import { durationText, error, type Finding, listedFindings, warning } from './finding.ts';
import type { StuckTiming } from './maintenances.ts';

/** Finds Evacuations that do not end. */
export function evacuationFindings(
  evacuations: readonly Evacuation[],
  pods: readonly Pod[],
  timing: StuckTiming,
): Finding[] {
  const uids = new Set(pods.map(({ metadata }) => metadata.uid));
  const findings = evacuations.flatMap(
    (one) => stuckEvacuation(one, uids.has(one.spec.podRef.uid), timing) ?? [],
  );
  return listedFindings(findings, `${numbered(evacuations.length, 'Evacuation')}: none is stuck`);
}

function stuckEvacuation(
  { metadata, status }: Evacuation,
  hasPod: boolean,
  { now, stuckAfterMs }: StuckTiming,
): Finding | undefined {
  const { namespace, name, creationTimestamp, deletionTimestamp, finalizers = [] } = metadata;
  const object = `evacuation/${namespace}/${name}`;
  const isOlder = (time: string | undefined) => now - Date.parse(time ?? '') > stuckAfterMs;
  const keptBy =
    finalizers.length === 0 ? '' : `, and finalizers ${finalizers.toSorted().join(', ')} are left`;
  const remedy =
    'check that a worker is the leader; finalizers of other instigators are removed by their owners';
  if (deletionTimestamp !== undefined)
    return isOlder(deletionTimestamp)
      ? warning(
          `it was deleted ${durationText(now - Date.parse(deletionTimestamp))} ago${keptBy}`,
          remedy,
          object,
        )
      : undefined;
  if (!hasPod)
    return isOlder(creationTimestamp) ? warning(`its pod is gone${keptBy}`, remedy, object) : undefined;
  const blocker = reportedBlocker(status);
  if (blocker === undefined || !requiresIntervention(blocker)) return undefined;
  return warning(blocker.message, 'do what the message says: the pod stays on its node until then', object);
}

export interface EvacuatorFacts {
  readonly pods: readonly Pod[];
  readonly evacuations: readonly Evacuation[];
  /** Classes of evacuators with a live Lease `evacuator-<class>`, as those of evacuator-kit have. */
  readonly leading: ReadonlySet<string>;
}

/** A longer silence is not that of an evacuator that is busy. */
const silentAfterMs = 60_000;

/** Checks the evacuator classes that pods name and that are not built in: does a program serve them? */
export function evacuatorFindings(
  { pods, evacuations, leading }: EvacuatorFacts,
  { now, stuckAfterMs }: StuckTiming,
): Finding[] {
  const waitMs = Math.min(silentAfterMs, stuckAfterMs);
  const named = podsByClass(pods);
  const findings = [...named]
    .toSorted(([a], [b]) => compareNames(a, b))
    .flatMap(([evacuatorClass, names]): Finding[] => {
      const active = evacuations.filter(({ status }) => status?.activeEvacuatorClass === evacuatorClass);
      if (leading.has(evacuatorClass) || active.some((one) => hasResponded(one))) return [];
      const silent = active.find(
        ({ status }) => now - Date.parse(status?.activeEvacuatorSince ?? '') > waitMs,
      );
      const object = `evacuator/${evacuatorClass}`;
      const who = `${numbered(names.length, 'pod')} (${listed(names)}) ${names.length === 1 ? 'names' : 'name'} evacuator class ${evacuatorClass}`;
      const remedy = `start a program that serves the class, or remove the annotation evacuation.coordination.k8s.io/priority_${evacuatorClass}: until then the evacuation of each pod waits for it (--evacuator-response-timeout)`;
      return silent === undefined
        ? [
            warning(
              `${who}, and nothing shows that a program serves it: no live Lease evacuator-${evacuatorClass}, and no Evacuation to which it responds`,
              `${remedy}. A program without evacuator-kit need not have the Lease`,
              object,
            ),
          ]
        : [
            error(
              `${who}, which does not respond to Evacuation ${silent.metadata.namespace}/${silent.metadata.name}`,
              remedy,
              object,
            ),
          ];
    });
  const fine =
    named.size === 0
      ? 'no pod names an evacuator other than those of this project'
      : `evacuators serve ${listed([...named.keys()].toSorted())}`;
  return listedFindings(findings, fine);
}

/** Evacuator class -> pods that name it. */
function podsByClass(pods: readonly Pod[]): Map<string, string[]> {
  const named = pods
    .filter((pod) => !isFinished(pod))
    .flatMap((pod) =>
      registeredEvacuators(pod).evacuators.map(({ evacuatorClass }) => ({ evacuatorClass, pod })),
    )
    .filter(({ evacuatorClass }) => !ownEvacuators.includes(evacuatorClass));
  const groups = Map.groupBy(named, ({ evacuatorClass }) => evacuatorClass);
  return new Map([...groups].map(([name, members]) => [name, members.map(({ pod }) => podName(pod))]));
}
