import * as z from 'zod';
import type { NodeSelector as CoreNodeSelector } from './core.ts';
import { NODE_MAINTENANCE } from './names.ts';
import { type NodeMaintenance, NodeMaintenanceSpec, NodeMaintenanceStage } from './nodeMaintenance.ts';
import { objectName } from './schema.ts';
import { NodeSelector } from './selectors.ts';

/** What a maintenance is started and steered with from Temporal: one JSON object each. */

const MAX_NODES = 5000;

/**
 * The input of workflow `nodeMaintenance`. With `name` alone it runs the NodeMaintenance that exists; with
 * `nodes` or `nodeSelector` it creates one first.
 */
export const MaintenanceInput = z.strictObject({
  name: objectName(),
  nodes: z
    .array(objectName(), { error: 'expected a list of node names' })
    .min(1, { error: 'expected at least one node name' })
    .max(MAX_NODES, { error: `expected at most ${MAX_NODES} node names; use nodeSelector for more` })
    .optional(),
  nodeSelector: NodeSelector.optional(),
  stage: NodeMaintenanceStage.optional(),
  reason: NodeMaintenanceSpec.shape.reason,
  drainPlan: NodeMaintenanceSpec.shape.drainPlan,
});
export type MaintenanceInput = z.infer<typeof MaintenanceInput>;

/** The payload of signal and update `advance`: the stage to go to, or the next one. */
export const AdvanceRequest = z.strictObject({ to: NodeMaintenanceStage.optional() });
export type AdvanceRequest = z.infer<typeof AdvanceRequest>;

/** Each problem is one line that names the field: `drainPlan[1].podPriority: expected ... (got "high")`. */
export type Parsed<Input> = { ok: true; input: Input } | { ok: false; problems: string[] };

export function parseMaintenanceInput(value: unknown): Parsed<MaintenanceInput> {
  const parsed = parseStrictly(MaintenanceInput, value);
  if (!parsed.ok) return parsed;
  const problems = nodeChoiceProblems(parsed.input);
  return problems.length === 0 ? parsed : { ok: false, problems };
}

/** `advance` may come without a payload: that means the next stage. */
export function parseAdvanceRequest(value: unknown): Parsed<AdvanceRequest> {
  return parseStrictly(AdvanceRequest, value ?? {});
}

/** The object that `input` asks for, or undefined when it only names one that exists. */
export function toNodeMaintenance(input: MaintenanceInput): NodeMaintenance | undefined {
  const nodeSelector = input.nodes === undefined ? input.nodeSelector : selectNodes(input.nodes);
  if (nodeSelector === undefined) return undefined;
  return {
    apiVersion: NODE_MAINTENANCE.apiVersion,
    kind: NODE_MAINTENANCE.kind,
    metadata: { name: input.name },
    spec: {
      nodeSelector,
      stage: input.stage ?? 'Idle',
      ...(input.drainPlan && { drainPlan: input.drainPlan }),
      ...(input.reason !== undefined && { reason: input.reason }),
    },
  };
}

/** The input that asks for this object. */
export function toMaintenanceInput({ metadata: { name }, spec }: NodeMaintenance): MaintenanceInput {
  const { nodeSelector, stage, drainPlan, reason } = spec;
  const nodes = namedNodes(nodeSelector);
  return {
    name,
    ...(nodes === undefined ? { nodeSelector } : { nodes }),
    stage,
    ...(reason !== undefined && { reason }),
    ...(drainPlan && { drainPlan }),
  };
}

/** Undefined for a selector that is no list of names. */
function namedNodes({ nodeSelectorTerms }: CoreNodeSelector): string[] | undefined {
  const names = nodeSelectorTerms.flatMap(({ matchFields: [field] = [] }) => field?.values ?? []);
  const isList = JSON.stringify(selectNodes(names)) === JSON.stringify({ nodeSelectorTerms });
  return isList && names.length > 0 ? names : undefined;
}

/** One term for each node: core/v1 allows `metadata.name` a single value, and ORs the terms. */
function selectNodes(nodes: readonly string[]): CoreNodeSelector {
  return {
    nodeSelectorTerms: nodes.map((node) => ({
      matchFields: [{ key: 'metadata.name', operator: 'In', values: [node] }],
    })),
  };
}

function nodeChoiceProblems(input: MaintenanceInput): string[] {
  const { nodes, nodeSelector } = input;
  if (nodes && nodeSelector) return ['nodes, nodeSelector: give one of the two, not both'];
  if (nodes) return repeatedNodes(nodes);
  const others = (['stage', 'reason', 'drainPlan'] as const).filter((field) => input[field] !== undefined);
  if (nodeSelector || others.length === 0) return [];
  return [
    `nodes or nodeSelector: one is required beside ${others.join(', ')} (give only name to run a NodeMaintenance that exists)`,
  ];
}

function repeatedNodes(nodes: readonly string[]): string[] {
  const firstIndex = new Map<string, number>();
  return nodes.flatMap((node, index) => {
    const first = firstIndex.get(node);
    if (first === undefined) firstIndex.set(node, index);
    return first === undefined ? [] : [`nodes[${index}]: ${node} is already nodes[${first}]; remove one`];
  });
}

/** One JSON object, or what is wrong with it. */
export function parseStrictly<Schema extends z.ZodObject>(
  schema: Schema,
  value: unknown,
): Parsed<z.infer<Schema>> {
  if (!isRecord(value)) return { ok: false, problems: [`expected one JSON object (got ${shown(value)})`] };
  const result = schema.safeParse(value);
  if (result.success) return { ok: true, input: result.data };
  const problems = result.error.issues.flatMap((issue) => describeIssue(issue, value));
  return { ok: false, problems: [...new Set(problems)] };
}

function describeIssue(issue: z.core.$ZodIssue, value: unknown): string[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map(
      (key) => `${pathOf([...issue.path, key])}: unknown field; remove it or correct its name`,
    );
  }
  const message = issue.code === 'invalid_key' ? issue.issues[0]?.message : issue.message;
  const got = issue.code === 'invalid_key' ? issue.path.at(-1) : valueAt(value, issue.path);
  return [`${pathOf(issue.path)}: ${message} (${got === undefined ? 'it is missing' : `got ${shown(got)}`})`];
}

/** `['drainPlan', 1, 'podPriority']` as people write it: `drainPlan[1].podPriority`. */
function pathOf(path: readonly PropertyKey[]): string {
  return path
    .map((key) =>
      typeof key === 'number'
        ? `[${key}]`
        : /^\w+$/.test(String(key))
          ? `.${String(key)}`
          : `["${String(key)}"]`,
    )
    .join('')
    .replace(/^\./, '');
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>((at, key) => (isObject(at) ? Reflect.get(at, key) : undefined), value);
}

const LONGEST_SHOWN = 80;

/** The value as JSON, cut so that a problem stays one readable line. */
function shown(value: unknown): string {
  const json = JSON.stringify(value) ?? String(value);
  return json.length <= LONGEST_SHOWN ? json : `${json.slice(0, LONGEST_SHOWN)}...`;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

function isRecord(value: unknown): boolean {
  return isObject(value) && !Array.isArray(value);
}
