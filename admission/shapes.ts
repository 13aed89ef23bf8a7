import * as z from 'zod';
import { MAX_READINESS_GATES } from '../api/names.ts';
import { MAX_DRAIN_PLAN_ENTRIES } from '../api/nodeMaintenance.ts';
import {
  MAX_LABEL_VALUES,
  MAX_LABELS,
  MAX_NODE_REQUIREMENTS,
  MAX_NODE_TERMS,
  MAX_NODE_VALUES,
  MAX_OTHER_NODE_TERMS,
} from '../api/selectors.ts';

/**
 * The types of the fields that admission reads. Objects of custom resources reach mutating webhooks before the apiserver validates them, and any peer
 * that reaches the port can send anything. Other fields, and values of other releases, are left to the apiserver. What is compared with all nodes, or
 * each with each other, is limited as in the CRDs: one request must not occupy the process.
 */

const texts = z.record(z.string(), z.string());

/** Fields that are pointers in Go may be null. */
const metadata = z.looseObject({
  name: z.string().optional(),
  labels: texts.optional(),
  annotations: texts.optional(),
  finalizers: z.array(z.string()).optional(),
  ownerReferences: z
    .array(
      z.looseObject({
        apiVersion: z.string(),
        kind: z.string(),
        name: z.string(),
        controller: z.boolean().nullish(),
      }),
    )
    .optional(),
  deletionTimestamp: z.string().nullish(),
});

const nodeRequirements = z
  .array(
    z.looseObject({
      key: z.string(),
      operator: z.enum(['In', 'NotIn', 'Exists', 'DoesNotExist', 'Gt', 'Lt']),
      values: z.array(z.string()).max(MAX_NODE_VALUES).optional(),
    }),
  )
  .max(MAX_NODE_REQUIREMENTS)
  .optional();

const nodeSelectorTerm = z.looseObject({
  matchExpressions: nodeRequirements,
  matchFields: nodeRequirements,
});

/** True if the term lists values of one label, or names: many of these are matched as fast as one. */
function onlyLists({ matchExpressions = [], matchFields = [] }: z.infer<typeof nodeSelectorTerm>): boolean {
  const [requirement, ...others] = [...matchExpressions, ...matchFields];
  return requirement?.operator === 'In' && others.length === 0;
}

const nodeSelector = z.looseObject({
  nodeSelectorTerms: z
    .array(nodeSelectorTerm)
    .max(MAX_NODE_TERMS)
    .refine((terms) => terms.filter((term) => !onlyLists(term)).length <= MAX_OTHER_NODE_TERMS, {
      error: `expected at most ${MAX_OTHER_NODE_TERMS} terms that are not one requirement with operator In`,
    }),
});

const labelSelector = z.looseObject({
  matchLabels: texts
    .refine((labels) => Object.keys(labels).length <= MAX_LABELS, {
      error: `expected at most ${MAX_LABELS} labels`,
    })
    .optional(),
  matchExpressions: z
    .array(
      z.looseObject({
        key: z.string(),
        operator: z.enum(['In', 'NotIn', 'Exists', 'DoesNotExist']),
        values: z.array(z.string()).max(MAX_LABEL_VALUES).optional(),
      }),
    )
    .max(MAX_LABELS)
    .optional(),
});

export const drainPlanShape = z
  .array(
    z.looseObject({ podPriority: z.number(), podType: z.string(), podSelector: labelSelector.optional() }),
  )
  .max(MAX_DRAIN_PLAN_ENTRIES);

export const maintenanceShape = z.looseObject({
  metadata,
  spec: z.looseObject({
    nodeSelector,
    stage: z.string(),
    drainPlan: drainPlanShape.optional(),
    drainDeadline: z.looseObject({ at: z.string().optional() }).optional(),
  }),
  status: z
    .looseObject({
      nodeStatuses: z.array(z.looseObject({ nodeRef: z.looseObject({ name: z.string() }) })).default([]),
    })
    .optional(),
});

export const evacuationShape = z.looseObject({
  metadata,
  spec: z.looseObject({ podRef: z.looseObject({ name: z.string(), uid: z.string() }) }),
});

export const readinessPolicyShape = z.looseObject({
  spec: z.looseObject({
    nodeSelector,
    // Each asks the apiserver for its namespace and its pods.
    readinessGates: z
      .array(z.looseObject({ name: z.string(), namespace: z.string(), selector: labelSelector }))
      .max(MAX_READINESS_GATES),
  }),
});

/** An object of any kind that a mutating webhook changes. */
export const mutatedShape = z.looseObject({ metadata, spec: z.looseObject({}).optional() });

/** A shape of such an object, of which more fields may be read. */
export type MutatedShape = z.ZodType<z.infer<typeof mutatedShape>>;

/** Node selector in the affinity of a pod: it is not limited, and only read for the names of nodes. */
const affinityNodeSelector = z.looseObject({
  nodeSelectorTerms: z.array(
    z.looseObject({
      matchFields: z
        .array(
          z.looseObject({ key: z.string(), operator: z.string(), values: z.array(z.string()).optional() }),
        )
        .optional(),
    }),
  ),
});

const tolerations = z
  .array(z.looseObject({ key: z.string().optional(), effect: z.string().optional() }))
  .optional();
const conditions = z.array(z.looseObject({ type: z.string(), status: z.string() })).optional();

export const podShape = z.looseObject({
  metadata,
  spec: z.looseObject({
    priority: z.number().optional(),
    tolerations,
    schedulingGates: z.array(z.looseObject({ name: z.string() })).optional(),
    evictionResponders: z.array(z.looseObject({})).optional(),
    affinity: z
      .looseObject({
        nodeAffinity: z
          .looseObject({ requiredDuringSchedulingIgnoredDuringExecution: affinityNodeSelector.optional() })
          .optional(),
      })
      .optional(),
  }),
  status: z.looseObject({ conditions, containerStatuses: z.array(z.looseObject({})).optional() }).optional(),
});

export const nodeShape = z.looseObject({
  metadata,
  spec: z.looseObject({ taints: z.array(z.looseObject({})).optional() }).optional(),
});
