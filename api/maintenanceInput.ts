import * as z from 'zod';
import type { NodeSelector as CoreNodeSelector } from './core.ts';
import { NODE_MAINTENANCE } from './names.ts';
import { type NodeMaintenance, NodeMaintenanceSpec, NodeMaintenanceStage } from './nodeMaintenance.ts';
import { objectName } from './schema.ts';
import { NodeSelector } from './selectors.ts';
import { escapeUnprintable } from './text.ts';

/** Inputs of the `nodeMaintenance` workflow and of its messages. Each is one JSON object. */

const MAX_NODES = 5000;

/**
 * The input of the `nodeMaintenance` workflow. With only `name`, the workflow runs an existing NodeMaintenance. With `nodes` or `nodeSelector`, it
 * creates the object first.
 */
export const MaintenanceInput = z.strictObject({
  name: objectName(),
  nodes: z
    .array(objectName(), { error: 'expected a list of node names' })
    .min(1, { error: 'expected at least one node name' })
    .max(MAX_NODES, {
      error: `expected at most ${MAX_NODES} node names; use nodeSelector to select more nodes`,
    })
    .optional(),
  nodeSelector: NodeSelector.optional(),
  stage: NodeMaintenanceStage.optional(),
  reason: NodeMaintenanceSpec.shape.reason,
  drainPlan: NodeMaintenanceSpec.shape.drainPlan,
  drainDeadline: NodeMaintenanceSpec.shape.drainDeadline,
  requireCapacity: NodeMaintenanceSpec.shape.requireCapacity,
});
export type MaintenanceInput = z.infer<typeof MaintenanceInput>;

/**
 * The payload of signal and update `advance`. Without `to`, the maintenance advances to the next stage. With `from`, only from this stage:
 * the same request, sent twice, then advances once.
 */
export const AdvanceRequest = z.strictObject({
  to: NodeMaintenanceStage.optional(),
  from: NodeMaintenanceStage.optional(),
});
export type AdvanceRequest = z.infer<typeof AdvanceRequest>;

/** The result of parsing an input. Each problem is one line that names the field: `drainPlan[1].podPriority: expected ... (got "high")`. */
export type Parsed<Input> = { ok: true; input: Input } | { ok: false; problems: string[] };

export function parseMaintenanceInput(value: unknown): Parsed<MaintenanceInput> {
  const parsed = parseStrictly(MaintenanceInput, value);
  if (!parsed.ok) return parsed;
  const problems = nodeChoiceProblems(parsed.input);
  return problems.length === 0 ? parsed : { ok: false, problems };
}

/** Parses the payload of `advance`, which may be missing. */
export function parseAdvanceRequest(value: unknown): Parsed<AdvanceRequest> {
  return parseStrictly(AdvanceRequest, value ?? {});
}

/** Returns the object that the input describes; undefined if it only names an existing one. */
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
      ...(input.drainDeadline && { drainDeadline: input.drainDeadline }),
      ...(input.requireCapacity !== undefined && { requireCapacity: input.requireCapacity }),
    },
  };
}

/** Returns the input that describes the object. */
export function toMaintenanceInput({ metadata: { name }, spec }: NodeMaintenance): MaintenanceInput {
  const { nodeSelector, stage, drainPlan, reason, drainDeadline, requireCapacity } = spec;
  const nodes = namedNodes(nodeSelector);
  return {
    name,
    ...(nodes === undefined ? { nodeSelector } : { nodes }),
    stage,
    ...(reason !== undefined && { reason }),
    ...(drainPlan && { drainPlan }),
    ...(drainDeadline && { drainDeadline }),
    ...(requireCapacity !== undefined && { requireCapacity }),
  };
}

/** Returns the node names of a selector that is a list of names; undefined for any other selector. */
function namedNodes({ nodeSelectorTerms }: CoreNodeSelector): string[] | undefined {
  const names = nodeSelectorTerms.flatMap(({ matchFields: [field] = [] }) => field?.values ?? []);
  const isList = JSON.stringify(selectNodes(names)) === JSON.stringify({ nodeSelectorTerms });
  return isList && names.length > 0 ? names : undefined;
}

/** Selects nodes by name, with one term for each node: core/v1 allows `metadata.name` a single value, and ORs the terms. */
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
  const others = (['stage', 'reason', 'drainPlan', 'drainDeadline', 'requireCapacity'] as const).filter(
    (field) => input[field] !== undefined,
  );
  if (nodeSelector || others.length === 0) return [];
  return [
    `nodes or nodeSelector: one of them is required with ${others.join(', ')} (give only name to run an existing NodeMaintenance)`,
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

/** Parses one JSON object. Unknown fields are problems. */
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

/** Formats `['drainPlan', 1, 'podPriority']` as the field path `drainPlan[1].podPriority`. */
function pathOf(path: readonly PropertyKey[]): string {
  return path
    .map((key) =>
      typeof key === 'number'
        ? `[${key}]`
        : /^\w{1,80}$/.test(String(key))
          ? `.${String(key)}`
          : `["${printable(String(key))}"]`,
    )
    .join('')
    .replace(/^\./, '');
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>((at, key) => (isObject(at) ? Reflect.get(at, key) : undefined), value);
}

const MAX_VALUE_LENGTH = 80;

/** Formats a value as JSON, truncated so that a problem stays one readable line. */
function shown(value: unknown): string {
  return printable(JSON.stringify(value) ?? String(value));
}

/** Truncates a text, and escapes its unprintable characters in the notation of JSON. */
function printable(text: string): string {
  const start = text.length <= MAX_VALUE_LENGTH ? text : `${text.slice(0, MAX_VALUE_LENGTH)}...`;
  return escapeUnprintable(start);
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

function isRecord(value: unknown): boolean {
  return isObject(value) && !Array.isArray(value);
}
