import type { KubeObject } from '../api/core.ts';
import { NODE_MAINTENANCE } from '../api/names.ts';
import type { DrainPlanEntry } from '../api/nodeMaintenance.ts';
import { injectedEntries } from '../domain/drain/plan.ts';

/**
 * Implements completeDrainPlan of domain/drain/plan.ts as an admission policy: "the following entries are injected into the drainPlan
 * on the NodeMaintenance admission" (KEP-4212 > NodeMaintenance API), even if no worker runs. Contract:
 *
 * 1. A valid plan is completed exactly as completeDrainPlan does.
 * 2. An invalid plan stays unchanged, so that the validation rules of the CRD reject it with their own messages.
 * 3. An update may repeat the plan as its author wrote it (`kubectl apply` of the same manifest): it is completed to the stored
 *    plan. Any other change is left unchanged and rejected by the CRD, because the plan is immutable.
 */

const name = `drain-plan.${NODE_MAINTENANCE.group}`;
const apiVersion = 'admissionregistration.k8s.io/v1';

/** Lower than every podPriority, which is an int32. */
const belowMinPriority = -2_147_483_649;

const entryText = ({ podPriority, podType }: DrainPlanEntry) =>
  `{"podPriority": dyn(${podPriority}), "podType": dyn("${podType}")}`;

function listText(items: readonly string[]): string {
  return `[\n  ${items.join(',\n  ')}\n]`;
}

/** Returns an injected entry and the priority after which its section of the plan starts. The entry is the last of its section. */
function slotText(entry: DrainPlanEntry, index: number): string {
  const before = injectedEntries[index - 1];
  const after = before?.podType === entry.podType ? before.podPriority : belowMinPriority;
  return `{"after": dyn(${after}), "entry": dyn(${entryText(entry)})}`;
}

const sectionOfSlot =
  'variables.plan.filter(e, e.podType == slot.entry.podType && e.podPriority > slot.after && e.podPriority <= slot.entry.podPriority)';

const variables = [
  { name: 'plan', expression: 'has(object.spec.drainPlan) ? object.spec.drainPlan : []' },
  { name: 'slots', expression: listText(injectedEntries.map(slotText)) },
  // The plan sorted by slots; it differs from the written plan if that is not sorted.
  { name: 'ordered', expression: `variables.slots.map(slot, ${sectionOfSlot}).flatten()` },
  {
    name: 'complete',
    expression: `variables.slots.map(slot, ${sectionOfSlot} + (slot.entry in variables.plan ? [] : [slot.entry])).flatten()`,
  },
  {
    name: 'shouldComplete',
    expression: [
      'variables.ordered == variables.plan',
      "(request.operation == 'CREATE' || (has(oldObject.spec.drainPlan) && variables.complete == oldObject.spec.drainPlan))",
    ].join(' && '),
  },
];

/**
 * The conditions are as narrow as possible: for some seconds after its start, and after the CRD is installed, the apiserver does not
 * know the schema and returns 503 for all matching requests, regardless of the failurePolicy. Changes of stages and finalizers must
 * not be affected.
 */
const matchConditions = [
  {
    // The schema is validated after admission: the plan may still contain anything here.
    name: 'plan-is-readable',
    expression:
      'has(object.spec) && (!has(object.spec.drainPlan) || object.spec.drainPlan.all(e, has(e.podType) && has(e.podPriority) && type(e.podPriority) == int))',
  },
  {
    name: 'plan-is-incomplete',
    expression: `!has(object.spec.drainPlan) || ${listText(injectedEntries.map(entryText))}.exists(entry, !(entry in object.spec.drainPlan))`,
  },
  {
    name: 'plan-changes',
    expression:
      "request.operation == 'CREATE' || (has(oldObject.spec.drainPlan) && !(has(object.spec.drainPlan) && object.spec.drainPlan == oldObject.spec.drainPlan))",
  },
];

export function drainPlanPolicy(): KubeObject[] {
  return [
    {
      apiVersion,
      kind: 'MutatingAdmissionPolicy',
      metadata: { name },
      spec: {
        // The worker completes the plan again before it executes it (docs/adr/0004): an incomplete plan does no harm.
        failurePolicy: 'Ignore',
        reinvocationPolicy: 'IfNeeded',
        matchConstraints: {
          resourceRules: [
            {
              apiGroups: [NODE_MAINTENANCE.group],
              apiVersions: [NODE_MAINTENANCE.version],
              operations: ['CREATE', 'UPDATE'],
              resources: [NODE_MAINTENANCE.plural],
            },
          ],
        },
        matchConditions,
        variables,
        mutations: [
          {
            patchType: 'JSONPatch',
            jsonPatch: {
              expression:
                'variables.shouldComplete ? [JSONPatch{op: "add", path: "/spec/drainPlan", value: variables.complete}] : []',
            },
          },
        ],
      },
    } as KubeObject,
    {
      apiVersion,
      kind: 'MutatingAdmissionPolicyBinding',
      metadata: { name },
      spec: { policyName: name },
    } as KubeObject,
  ];
}
