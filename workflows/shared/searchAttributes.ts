import {
  defineSearchAttributeKey,
  type SearchAttributePair,
  type TypedSearchAttributes,
} from '@temporalio/common';

/** Values of the search attributes of a maintenance or a window. */
interface SearchableRun {
  name: string;
  /** Undefined until an activity has run. */
  cluster?: { name: string };
  /** Undefined for a window. */
  stage?: string;
  /** Nodes under maintenance. */
  nodes: readonly string[];
}

const stageKey = defineSearchAttributeKey('NodeMaintenanceStage', 'KEYWORD');
const nameKey = defineSearchAttributeKey('NodeMaintenanceName', 'KEYWORD');
const clusterKey = defineSearchAttributeKey('KubernetesCluster', 'KEYWORD');
const nodesKey = defineSearchAttributeKey('MaintenanceNodes', 'KEYWORD_LIST');

/** Temporal's limit of 2 KiB for one value, less room for its encoding. */
const maxValueBytes = 1_900;

/** Returns the search attributes that differ from the present ones: an upsert of equal values would only grow the history. */
export function changedSearchAttributes(
  run: SearchableRun,
  present: TypedSearchAttributes,
): SearchAttributePair[] {
  const pairs: SearchAttributePair[] = [];
  if (run.stage !== undefined && present.get(stageKey) !== run.stage)
    pairs.push({ key: stageKey, value: run.stage });
  if (present.get(nameKey) !== run.name) pairs.push({ key: nameKey, value: run.name });
  if (run.cluster !== undefined && present.get(clusterKey) !== run.cluster.name)
    pairs.push({ key: clusterKey, value: run.cluster.name });
  const nodes = fits(run.nodes) ? [...run.nodes] : [];
  if (JSON.stringify(present.get(nodesKey) ?? []) !== JSON.stringify(nodes))
    pairs.push({ key: nodesKey, value: nodes });
  return pairs;
}

function fits(nodes: readonly string[]): boolean {
  return JSON.stringify(nodes).length <= maxValueBytes;
}
