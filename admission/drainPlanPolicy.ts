import type { KubeObject } from '../api/core.ts';
import { NODE_MAINTENANCE } from '../api/names.ts';
import type { DrainPlanEntry } from '../api/nodeMaintenance.ts';
import { injectedEntries } from '../domain/drainPlan.ts';

/**
 * completeDrainPlan of domain/drainPlan.ts as a policy that the apiserver runs by itself: "the following entries are
 * injected into the drainPlan on the NodeMaintenance admission" (KEP-4212 > NodeMaintenance API) while no process of ours
 * is there. Contract:
 *
 * 1. A sound plan becomes what completeDrainPlan makes of it.
 * 2. An unsound plan stays as it was written, so that the CRD's rules refuse it in their own words.
 * 3. An update may repeat the plan as its author wrote it (`kubectl apply` of the same manifest): it is completed to the
 *    plan that is stored. Any other change is left for the CRD's rule to refuse: the plan is immutable.
 */

const name = `drain-plan.${NODE_MAINTENANCE.group}`;
const apiVersion = 'admissionregistration.k8s.io/v1';

/** Below every podPriority, an int32. */
const lowest = -2_147_483_649;

const entryText = ({ podPriority, podType }: DrainPlanEntry) =>
  `{"podPriority": dyn(${podPriority}), "podType": dyn("${podType}")}`;

function listText(items: readonly string[]): string {
  return `[\n  ${items.join(',\n  ')}\n]`;
}

/** Each injected entry, and the priority after which its part of the plan begins: it is the last of that part. */
function slotText(entry: DrainPlanEntry, index: number): string {
  const before = injectedEntries[index - 1];
  const after = before?.podType === entry.podType ? before.podPriority : lowest;
  return `{"after": dyn(${after}), "entry": dyn(${entryText(entry)})}`;
}

const partOfSlot =
  'variables.plan.filter(e, e.podType == slot.entry.podType && e.podPriority > slot.after && e.podPriority <= slot.entry.podPriority)';

const variables = [
  { name: 'plan', expression: 'has(object.spec.drainPlan) ? object.spec.drainPlan : []' },
  { name: 'slots', expression: listText(injectedEntries.map(slotText)) },
  // The plan, put in order from slot to slot: another one than was written, if that was out of order.
  { name: 'ordered', expression: `variables.slots.map(slot, ${partOfSlot}).flatten()` },
  {
    name: 'complete',
    expression: `variables.slots.map(slot, ${partOfSlot} + (slot.entry in variables.plan ? [] : [slot.entry])).flatten()`,
  },
  {
    name: 'isToBeCompleted',
    expression: [
      'variables.ordered == variables.plan',
      "(request.operation == 'CREATE' || (has(oldObject.spec.drainPlan) && variables.complete == oldObject.spec.drainPlan))",
    ].join(' && '),
  },
];

/**
 * As narrow as can be: for some seconds after it starts, and after the CRD is installed, the apiserver does not know the
 * schema and answers 503 to whatever matches, whichever the failurePolicy. Stages and finalizers must not wait for that.
 */
const matchConditions = [
  {
    // The schema is checked after admission, so that anything may be in the plan here.
    name: 'plan-is-readable',
    expression:
      'has(object.spec) && (!has(object.spec.drainPlan) || object.spec.drainPlan.all(e, has(e.podType) && has(e.podPriority) && type(e.podPriority) == int))',
  },
  {
    name: 'plan-lacks-an-entry',
    expression: `!has(object.spec.drainPlan) || ${listText(injectedEntries.map(entryText))}.exists(entry, !(entry in object.spec.drainPlan))`,
  },
  {
    name: 'plan-is-written',
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
        // Whoever executes a plan completes it once more (docs/adr/0004): a plan that was not completed here does no harm.
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
                'variables.isToBeCompleted ? [JSONPatch{op: "add", path: "/spec/drainPlan", value: variables.complete}] : []',
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
