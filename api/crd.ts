import * as z from 'zod';
import { EvacuationSpec, EvacuationStatus } from './evacuation.ts';
import { MaintenanceWindowSpec, MaintenanceWindowStatus } from './maintenanceWindow.ts';
import {
  EVACUATION,
  MAINTENANCE_WINDOW,
  NODE_DISRUPTION_BUDGET,
  NODE_MAINTENANCE,
  NODE_READINESS,
  NODE_READINESS_POLICY,
  READINESS_POLICY_MANAGER,
} from './names.ts';
import { NodeDisruptionBudgetSpec, NodeDisruptionBudgetStatus } from './nodeDisruptionBudget.ts';
import { NodeMaintenanceSpec, NodeMaintenanceStatus } from './nodeMaintenance.ts';
import { NodeReadinessSpec, NodeReadinessStatus } from './nodeReadiness.ts';
import { NodeReadinessPolicySpec, NodeReadinessPolicyStatus } from './nodeReadinessPolicy.ts';
import { type CelRule, cel } from './schema.ts';

/** Generates the CustomResourceDefinitions from the schemas, which are the only description of the stored types. */

/** An OpenAPI v3 node of a CRD. */
export interface SchemaNode {
  [keyword: string]: unknown;
}

/** An apiextensions.k8s.io/v1 CustomResourceDefinition. Only the fields that callers read have types. */
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
  /** A column with a priority above 0 is shown only with `-o wide`. */
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
  /** Rules for the whole object. */
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
    { name: 'Stage', type: 'string', jsonPath: '.spec.stage', description: 'Requested stage' },
    { name: 'Nodes', type: 'integer', jsonPath: '.status.nodes', description: 'Number of selected nodes' },
    {
      name: 'Drained',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Drained")].status',
      description: 'Whether all pods have terminated on all selected nodes',
    },
    {
      name: 'Pending',
      type: 'integer',
      jsonPath: '.status.podsPendingEvacuation',
      description: 'Number of pods that have not started evacuation',
    },
    {
      name: 'Evacuating',
      type: 'integer',
      jsonPath: '.status.podsEvacuating',
      description: 'Number of pods that have started evacuation',
    },
    {
      name: 'Deadline',
      type: 'string',
      jsonPath: '.status.drainDeadline.time',
      description: 'Deadline of the drain',
      priority: 1,
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
    'Evacuation requests the removal of a pod from its node by its presence: evacuators act on it one after the other, and then the eviction API.',
  spec: EvacuationSpec,
  status: EvacuationStatus,
  columns: [
    { name: 'Pod', type: 'string', jsonPath: '.spec.podRef.name', description: 'Pod to be removed' },
    {
      name: 'Active Evacuator',
      type: 'string',
      jsonPath: '.status.activeEvacuatorClass',
      description: 'Class of the active evacuator',
    },
    {
      name: 'Since',
      type: 'date',
      jsonPath: '.status.activeEvacuatorSince',
      description: 'Time since the active evacuator became active',
      priority: 1,
    },
    {
      name: 'Blocked',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Blocked")].reason',
      description: 'Why the evacuation is blocked',
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

/** The name is part of labels and workflow ids. */
const maxWindowNameLength = 63;

const maintenanceWindow: StoredKind = {
  names: MAINTENANCE_WINDOW,
  shortName: 'mw',
  scope: 'Cluster',
  description:
    'MaintenanceWindow maintains the selected nodes while it is open: a few nodes at a time, with one NodeMaintenance for each node, and once per revision of the template.',
  spec: MaintenanceWindowSpec,
  status: MaintenanceWindowStatus,
  columns: [
    { name: 'Schedule', type: 'string', jsonPath: '.status.schedule', description: 'Schedule of the window' },
    {
      name: 'Timezone',
      type: 'string',
      jsonPath: '.spec.schedule.timeZone',
      description: 'Time zone of the schedule',
    },
    { name: 'Next', type: 'string', jsonPath: '.status.nextTime', description: 'Time of the next opening' },
    {
      name: 'Open-Until',
      type: 'string',
      jsonPath: '.status.active.end',
      description: 'End of the open window',
    },
    {
      name: 'Progress',
      type: 'string',
      jsonPath: '.status.progress.summary',
      description: 'Maintained nodes of the selected nodes',
    },
    {
      name: 'Failed',
      type: 'integer',
      jsonPath: '.status.progress.failed',
      description: 'Number of failed nodes, which require intervention',
    },
    {
      name: 'Valid',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Valid")].status',
      description: 'True if the window can be scheduled',
    },
    {
      name: 'Reboots',
      type: 'integer',
      jsonPath: '.status.progress.rebootRequired.nodes',
      description: 'Number of nodes that wait for a reboot',
      priority: 1,
    },
    {
      name: 'Waiting',
      type: 'string',
      jsonPath: '.status.active.waiting.message',
      description: 'Why no more nodes are started now',
      priority: 1,
    },
  ],
  rules: [
    {
      rule: `size(self.metadata.name) <= ${maxWindowNameLength}`,
      message: `metadata.name is used as the value of a label: choose a name of at most ${maxWindowNameLength} characters`,
    },
    {
      rule: "!self.metadata.name.contains('.')",
      message: 'metadata.name of a MaintenanceWindow must not contain a dot: choose another name',
    },
  ],
};

const nodeDisruptionBudget: StoredKind = {
  names: NODE_DISRUPTION_BUDGET,
  shortName: 'ndb',
  scope: 'Cluster',
  description:
    'NodeDisruptionBudget limits how many nodes of the cluster, or of those that its nodeSelector selects, may be out of service at the same time, for any reason. Windows start a node only when every budget that selects it allows it. The budget named cluster always exists.',
  spec: NodeDisruptionBudgetSpec,
  status: NodeDisruptionBudgetStatus,
  columns: [
    {
      name: 'Max-Unavailable',
      type: 'string',
      jsonPath: '.spec.maxUnavailable',
      description: 'Number or percentage of nodes that may be out of service',
    },
    { name: 'Nodes', type: 'integer', jsonPath: '.status.nodes', description: 'Number of selected nodes' },
    {
      name: 'Allowed',
      type: 'integer',
      jsonPath: '.status.allowed',
      description: 'Number of nodes that may be out of service',
    },
    {
      name: 'Out-Of-Service',
      type: 'integer',
      jsonPath: '.status.outOfService',
      description: 'Number of selected nodes that are out of service',
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
    'NodeReadiness has the readiness gates of the node of the same name, and their status: the node accepts workloads when all blocking gates are ready.',
  spec: NodeReadinessSpec,
  status: NodeReadinessStatus,
  columns: [
    conditionColumn('Ready', 'Whether all gates that block the readiness of the node are ready'),
    { name: 'Gates', type: 'string', jsonPath: '.status.gates', description: 'Ready gates of all gates' },
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
      description: 'Number of times that a ready node lost a gate',
      priority: 1,
    },
    {
      name: 'Taint-Until',
      type: 'string',
      jsonPath: '.status.taintUntil',
      description: 'Time until which the taint stays although all gates are ready',
      priority: 1,
    },
    age,
  ],
};

const maxPolicyNameLength = 128 - READINESS_POLICY_MANAGER.length;

const nodeReadinessPolicy: StoredKind = {
  names: NODE_READINESS_POLICY,
  shortName: 'nrp',
  scope: 'Cluster',
  description:
    'NodeReadinessPolicy adds readiness gates to all selected nodes: it writes them to the NodeReadiness of each node with the field manager node-readiness-policy/<name>.',
  spec: NodeReadinessPolicySpec,
  status: NodeReadinessPolicyStatus,
  columns: [
    { name: 'Nodes', type: 'integer', jsonPath: '.status.nodes', description: 'Number of selected nodes' },
    {
      name: 'Gates',
      type: 'integer',
      jsonPath: '.status.gates',
      description: 'Number of gates that each node gets',
    },
    {
      name: 'Problems',
      type: 'string',
      jsonPath: '.status.problems',
      description: 'Reasons of the conditions that are False',
    },
    ...[
      conditionColumn('GatesApplied', 'Whether every selected node has every gate'),
      conditionColumn('TaintTolerated', 'Whether the pods of all gates tolerate the readiness taint'),
      conditionColumn('OnePodPerNode', 'Whether each gate selects at most one pod on a node'),
      conditionColumn('SelectorsMatch', 'Whether each gate selects a pod or a pod template'),
      conditionColumn('NotAllNodesSelected', 'Whether some nodes are not selected'),
    ].map((column) => ({ ...column, priority: 1 })),
    age,
  ],
  rules: [
    {
      rule: `size(self.metadata.name) <= ${maxPolicyNameLength}`,
      message: `metadata.name is used as part of a field manager: choose a name of at most ${maxPolicyNameLength} characters`,
    },
  ],
};

/** Returns every CRD of this project. */
export function customResourceDefinitions(): CustomResourceDefinition[] {
  return [
    nodeMaintenance,
    evacuation,
    nodeReadiness,
    nodeReadinessPolicy,
    maintenanceWindow,
    nodeDisruptionBudget,
  ].map(toCustomResourceDefinition);
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
      spec: { description: 'Desired state.', ...emptyDefaultFor(spec), ...toStructuralSchema(spec) },
      status: { description: 'Observed state.', ...withoutRules(toStructuralSchema(status)) },
    },
    ...(rules && cel(...rules)),
  };
}

/** Returns `default: {}` for a spec without required fields: server-side apply leaves null where it removes the last field of an owner. */
function emptyDefaultFor(spec: z.ZodType): SchemaNode {
  return spec.safeParse({}).success ? { default: {} } : {};
}

/** Returns the structural OpenAPI v3 schema of the input, in which fields with a default are optional. */
function toStructuralSchema(schema: z.ZodType): SchemaNode {
  return z.toJSONSchema(schema, {
    target: 'openapi-3.0',
    io: 'input',
    override: ({ jsonSchema }) => makeStructural(jsonSchema as SchemaNode),
  }) as SchemaNode;
}

/**
 * Removes the rules. A status repeats parts of a spec, once for each node, that were checked when the spec was written; checking them again
 * would exceed the cost limit of the apiserver.
 */
function withoutRules<Value>(node: Value): Value {
  return JSON.parse(
    JSON.stringify(node, (keyword, value) => (keyword === 'x-kubernetes-validations' ? undefined : value)),
  );
}

/** Removes keywords that a structural schema must not have. The apiserver has other means for them (pruning, `format`, CEL). */
function makeStructural(node: SchemaNode): void {
  // The only form of alternatives that a structural schema allows. CEL rules check the rest.
  if (node['x-kubernetes-int-or-string'] === true) node['anyOf'] = [{ type: 'integer' }, { type: 'string' }];
  // The apiserver drops an empty list of fields.
  if (node['x-kubernetes-preserve-unknown-fields'] === true) delete node['properties'];
  if (node['properties'] !== undefined) delete node['additionalProperties'];
  if (node['format'] === 'date-time') delete node['pattern'];
  if (node['x-kubernetes-preserve-unknown-fields'] === true) delete node['additionalProperties'];
  delete node['propertyNames'];
}
