import {
  defineSearchAttributeKey,
  type SearchAttributePair,
  type TypedSearchAttributes,
} from '@temporalio/common';

/** What people look for. */
interface Sought {
  name: string;
  /** Of a maintenance. */
  stage?: string;
  /** That it holds, or has in turn. */
  nodes: readonly string[];
}

const stageKey = defineSearchAttributeKey('NodeMaintenanceStage', 'KEYWORD');
const nameKey = defineSearchAttributeKey('NodeMaintenanceName', 'KEYWORD');
const nodesKey = defineSearchAttributeKey('MaintenanceNodes', 'KEYWORD_LIST');

/** Temporal's limit for one value, less room for its encoding. Bytes. */
const longestValue = 1_900;

/** What differs from the attributes that the run has: an upsert of equal values would only lengthen the history. */
export function searchAttributesOf(run: Sought, present: TypedSearchAttributes): SearchAttributePair[] {
  const pairs: SearchAttributePair[] = [];
  if (run.stage !== undefined && present.get(stageKey) !== run.stage)
    pairs.push({ key: stageKey, value: run.stage });
  if (present.get(nameKey) !== run.name) pairs.push({ key: nameKey, value: run.name });
  const nodes = fits(run.nodes) ? [...run.nodes] : [];
  if (JSON.stringify(present.get(nodesKey) ?? []) !== JSON.stringify(nodes))
    pairs.push({ key: nodesKey, value: nodes });
  return pairs;
}

function fits(nodes: readonly string[]): boolean {
  return JSON.stringify(nodes).length <= longestValue;
}
