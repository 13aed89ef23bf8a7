import * as z from 'zod';
import { EvacuationSpec, EvacuationStatus } from './evacuation.ts';
import { MaintenanceWindowSpec, MaintenanceWindowStatus } from './maintenanceWindow.ts';
import {
  EVACUATION,
  MAINTENANCE_WINDOW,
  NODE_BUDGET,
  NODE_BUDGET_NAME,
  NODE_MAINTENANCE,
  NODE_READINESS,
  NODE_READINESS_POLICY,
  READINESS_POLICY_MANAGER,
} from './names.ts';
import { NodeBudgetSpec, NodeBudgetStatus } from './nodeBudget.ts';
import { NodeMaintenanceSpec, NodeMaintenanceStatus } from './nodeMaintenance.ts';
import { NodeReadinessSpec, NodeReadinessStatus } from './nodeReadiness.ts';
import { NodeReadinessPolicySpec, NodeReadinessPolicyStatus } from './nodeReadinessPolicy.ts';
import { type CelRule, cel } from './schema.ts';

/** CustomResourceDefinitions made from the schemas: the stored types have no second description. */

/** An OpenAPI v3 node as it stands in a CRD. */
export interface SchemaNode {
  [keyword: string]: unknown;
}

/** As much of an apiextensions.k8s.io/v1 CustomResourceDefinition as callers read; the rest is written as is. */
export interface CustomResourceDefinition {
  apiVersion: 'apiextensions.k8s.io/v1';
  kind: 'CustomResourceDefinition';
  metadata: { name: string; annotations: Record<string, string> };
  spec: SchemaNode;
}

interface PrinterColumn {
  name: string;
  type: 'string' | 'integer' | 'date';
  jsonPath: string;
  description: string;
  /** Above 0: shown by `-o wide` only. */
  priority?: number;
}

interface StoredKind {
  names: { group: string; version: string; kind: string; plural: string };
  shortName: string;
  scope: 'Cluster' | 'Namespaced';
  description: string;
  spec: z.ZodType;
  status: z.ZodType;
  columns: PrinterColumn[];
  /** About the whole object. */
  rules?: CelRule[];
}

const nodeMaintenance: StoredKind = {
  names: NODE_MAINTENANCE,
  shortName: 'nm',
  scope: 'Cluster',
  description: 'NodeMaintenance objects serve as an intent to remove or migrate pods from a set of nodes.',
  spec: NodeMaintenanceSpec,
  status: NodeMaintenanceStatus,
  columns: [
    { name: 'Stage', type: 'string', jsonPath: '.spec.stage', description: 'Stage that is wanted' },
    { name: 'Nodes', type: 'integer', jsonPath: '.status.nodes', description: 'Nodes targeted' },
    {
      name: 'Drained',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Drained")].status',
      description: 'Whether all pods have terminated on all target nodes',
    },
    {
      name: 'Pending',
      type: 'integer',
      jsonPath: '.status.podsPendingEvacuation',
      description: 'Pods that have not yet started evacuation',
    },
    {
      name: 'Evacuating',
      type: 'integer',
      jsonPath: '.status.podsEvacuating',
      description: 'Pods that have started evacuation',
    },
    {
      name: 'Age',
      type: 'date',
      jsonPath: '.metadata.creationTimestamp',
      description: 'Time since creation',
    },
    { name: 'Reason', type: 'string', jsonPath: '.spec.reason', description: 'Reason for the maintenance' },
  ],
};

const evacuation: StoredKind = {
  names: EVACUATION,
  shortName: 'evac',
  scope: 'Namespaced',
  description:
    'Evacuation requests the removal of a pod from its node by its presence: evacuators respond to it in turn, then the eviction API.',
  spec: EvacuationSpec,
  status: EvacuationStatus,
  columns: [
    { name: 'Pod', type: 'string', jsonPath: '.spec.podRef.name', description: 'Pod to be removed' },
    {
      name: 'Active Evacuator',
      type: 'string',
      jsonPath: '.status.activeEvacuatorClass',
      description: 'Evacuator whose turn it is',
    },
    {
      name: 'Since',
      type: 'date',
      jsonPath: '.status.activeEvacuatorSince',
      description: 'Time since its turn began',
      priority: 1,
    },
    {
      name: 'Blocked',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Blocked")].reason',
      description: 'Why it cannot go on by itself',
      priority: 1,
    },
    {
      name: 'Progress Age',
      type: 'date',
      jsonPath: '.status.evacuationProgressTimestamp',
      description: 'Time since progress was last reported',
    },
    {
      name: 'Message',
      type: 'string',
      jsonPath: '.status.message',
      description: 'What the evacuator is doing',
    },
  ],
};

/** Labels and workflow ids are made of the name. */
const longestWindowName = 63;

const maintenanceWindow: StoredKind = {
  names: MAINTENANCE_WINDOW,
  shortName: 'mw',
  scope: 'Cluster',
  description:
    'MaintenanceWindow maintains the nodes that it selects while it is open: a few at a time, each by a NodeMaintenance of its own, and each once for every revision of what is to be done.',
  spec: MaintenanceWindowSpec,
  status: MaintenanceWindowStatus,
  columns: [
    { name: 'Schedule', type: 'string', jsonPath: '.status.schedule', description: 'When it opens' },
    {
      name: 'Zone',
      type: 'string',
      jsonPath: '.spec.schedule.timeZone',
      description: 'Time zone of the schedule',
    },
    { name: 'Next', type: 'string', jsonPath: '.status.nextTime', description: 'When it opens next' },
    {
      name: 'Open-Until',
      type: 'string',
      jsonPath: '.status.active.end',
      description: 'Until when it is open, if it is',
    },
    {
      name: 'Progress',
      type: 'string',
      jsonPath: '.status.progress.summary',
      description: 'Nodes that had their turn, of those selected',
    },
    {
      name: 'Failed',
      type: 'integer',
      jsonPath: '.status.progress.failed',
      description: 'Nodes whose turn failed, and wait for somebody',
    },
    {
      name: 'Valid',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Valid")].status',
      description: 'Whether it can be scheduled as it is',
    },
    {
      name: 'Waiting',
      type: 'string',
      jsonPath: '.status.active.waiting.message',
      description: 'Why no further node begins its turn now',
      priority: 1,
    },
  ],
  rules: [
    {
      rule: `size(self.metadata.name) <= ${longestWindowName}`,
      message: `the name of a MaintenanceWindow is the value of a label: choose one of at most ${longestWindowName} characters`,
    },
    {
      rule: "!self.metadata.name.contains('.')",
      message: 'the name of a MaintenanceWindow must not contain a dot',
    },
  ],
};

const nodeBudget: StoredKind = {
  names: NODE_BUDGET,
  shortName: 'nb',
  scope: 'Cluster',
  description:
    'NodeBudget limits how many nodes of the cluster may be out of service at once, whoever took them out. There is one, named cluster.',
  spec: NodeBudgetSpec,
  status: NodeBudgetStatus,
  columns: [
    {
      name: 'Max-Unavailable',
      type: 'string',
      jsonPath: '.spec.maxUnavailable',
      description: 'Nodes that may be out of service at once',
    },
    { name: 'Nodes', type: 'integer', jsonPath: '.status.nodes', description: 'Nodes of the cluster' },
    { name: 'Allowed', type: 'integer', jsonPath: '.status.allowed', description: 'The limit as a number' },
    {
      name: 'Out',
      type: 'integer',
      jsonPath: '.status.outOfService',
      description: 'Nodes out of service when a window last looked',
    },
  ],
  rules: [
    {
      rule: `self.metadata.name == '${NODE_BUDGET_NAME}'`,
      message: `a NodeBudget is the cluster's only one: its name must be ${NODE_BUDGET_NAME}`,
    },
  ],
};

const age: PrinterColumn = {
  name: 'Age',
  type: 'date',
  jsonPath: '.metadata.creationTimestamp',
  description: 'Time since creation',
};

function conditionColumn(type: string, description: string): PrinterColumn {
  return {
    name: type,
    type: 'string',
    jsonPath: `.status.conditions[?(@.type=="${type}")].status`,
    description,
  };
}

const nodeReadiness: StoredKind = {
  names: NODE_READINESS,
  shortName: 'nr',
  scope: 'Cluster',
  description:
    'NodeReadiness has the readiness gates of the node of the same name, and what is seen of them: the node takes workloads when all that block it are ready.',
  spec: NodeReadinessSpec,
  status: NodeReadinessStatus,
  columns: [
    conditionColumn('Ready', 'Whether all gates that block the readiness of the node are ready'),
    { name: 'Gates', type: 'string', jsonPath: '.status.gates', description: 'Gates that are ready' },
    {
      name: 'Blocked-By',
      type: 'string',
      jsonPath: '.status.blockedBy',
      description: 'Gates that block the readiness of the node',
    },
    {
      name: 'Losses',
      type: 'integer',
      jsonPath: '.status.losses',
      description: 'How often a ready node lost a gate',
      priority: 1,
    },
    {
      name: 'Taint-Until',
      type: 'string',
      jsonPath: '.status.taintUntil',
      description: 'Until when the taint stays although all gates are ready',
      priority: 1,
    },
    age,
  ],
};

const longestPolicyName = 128 - READINESS_POLICY_MANAGER.length;

const nodeReadinessPolicy: StoredKind = {
  names: NODE_READINESS_POLICY,
  shortName: 'nrp',
  scope: 'Cluster',
  description:
    'NodeReadinessPolicy gives readiness gates to all nodes that it selects: it writes them into the NodeReadiness of each, as the field manager node-readiness-policy/<name>.',
  spec: NodeReadinessPolicySpec,
  status: NodeReadinessPolicyStatus,
  columns: [
    { name: 'Nodes', type: 'integer', jsonPath: '.status.nodes', description: 'Nodes selected' },
    {
      name: 'Gates',
      type: 'integer',
      jsonPath: '.status.gates',
      description: 'Gates that each of them gets',
    },
    {
      name: 'Problems',
      type: 'string',
      jsonPath: '.status.problems',
      description: 'What is not as it should be: the reasons of the conditions that are False',
    },
    ...[
      conditionColumn('GatesWritten', 'Whether every selected node has every gate'),
      conditionColumn('GatesTolerated', 'Whether the pods of all gates tolerate the readiness taint'),
      conditionColumn('SelectorsNarrow', 'Whether each gate selects at most one pod on a node'),
      conditionColumn('SelectorsMatch', 'Whether each gate selects a pod or a pod template'),
      conditionColumn('NodesLimited', 'Whether some nodes are not selected'),
    ].map((column) => ({ ...column, priority: 1 })),
    age,
  ],
  rules: [
    {
      rule: `size(self.metadata.name) <= ${longestPolicyName}`,
      message: `the name of a NodeReadinessPolicy is part of a field manager: choose one of at most ${longestPolicyName} characters`,
    },
  ],
};

/** Every CRD of this project, in the order in which `deploy/crd/` lists them. */
export function customResourceDefinitions(): CustomResourceDefinition[] {
  return [nodeMaintenance, evacuation, nodeReadiness, nodeReadinessPolicy, maintenanceWindow, nodeBudget].map(
    toCustomResourceDefinition,
  );
}

function toCustomResourceDefinition(stored: StoredKind): CustomResourceDefinition {
  const { group, version, kind, plural } = stored.names;
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: {
      name: `${plural}.${group}`,
      // Groups under *.k8s.io need this annotation; the value says that no API review took place.
      annotations: { 'api-approved.kubernetes.io': 'unapproved, experimental-only' },
    },
    spec: {
      group,
      scope: stored.scope,
      names: {
        kind,
        listKind: `${kind}List`,
        plural,
        singular: kind.toLowerCase(),
        shortNames: [stored.shortName],
      },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: stored.columns,
          schema: { openAPIV3Schema: toRootSchema(stored) },
        },
      ],
    },
  };
}

function toRootSchema({ description, spec, status, rules }: StoredKind): SchemaNode {
  return {
    description,
    type: 'object',
    required: ['spec'],
    properties: {
      apiVersion: { type: 'string' },
      kind: { type: 'string' },
      metadata: { type: 'object' },
      spec: { description: 'What is wanted.', ...emptyIfItMayBe(spec), ...toStructuralSchema(spec) },
      status: { description: 'What is seen.', ...withoutRules(toStructuralSchema(status)) },
    },
    ...(rules && cel(...rules)),
  };
}

/** Server-side apply leaves null where the last field that somebody owned was removed: the default takes its place. */
function emptyIfItMayBe(spec: z.ZodType): SchemaNode {
  return spec.safeParse({}).success ? { default: {} } : {};
}

/** The structural OpenAPI v3 schema of what may be written, so that fields with a default stay optional. */
function toStructuralSchema(schema: z.ZodType): SchemaNode {
  return z.toJSONSchema(schema, {
    target: 'openapi-3.0',
    io: 'input',
    override: ({ jsonSchema }) => makeStructural(jsonSchema as SchemaNode),
  }) as SchemaNode;
}

/**
 * Status repeats parts of a spec that was checked when it was written, once for each node: checking them again
 * would cost more than the apiserver allows.
 */
function withoutRules<Value>(node: Value): Value {
  return JSON.parse(
    JSON.stringify(node, (keyword, value) => (keyword === 'x-kubernetes-validations' ? undefined : value)),
  );
}

/** Drops what a structural schema must not have and the apiserver does in another way (pruning, `format`, CEL). */
function makeStructural(node: SchemaNode): void {
  // The only form in which a structural schema may have alternatives; rules in CEL say the rest.
  if (node['x-kubernetes-int-or-string'] === true) node['anyOf'] = [{ type: 'integer' }, { type: 'string' }];
  // The apiserver forgets an empty list of fields.
  if (node['x-kubernetes-preserve-unknown-fields'] === true) delete node['properties'];
  if (node['properties'] !== undefined) delete node['additionalProperties'];
  if (node['format'] === 'date-time') delete node['pattern'];
  if (node['x-kubernetes-preserve-unknown-fields'] === true) delete node['additionalProperties'];
  delete node['propertyNames'];
}
