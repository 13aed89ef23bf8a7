import type { KubeObject } from '../api/core.ts';
import {
  MAINTENANCE_WINDOW,
  SYSTEM_NAMESPACE,
  WINDOW_FINALIZER,
  WindowOverrideAnnotation,
  WindowRequestAnnotation,
  WORK_NAMESPACE,
  workerUser,
} from '../api/names.ts';

/**
 * A MaintenanceWindow drains nodes and runs Jobs with the rights of the worker. This policy asks the apiserver for the rights of its
 * author, even if no worker runs. Contract:
 *
 * 1. Creating a window, and changing it, requires the right to delete its nodes: every node, or those that it selects by name.
 * 2. A window that runs a Job also requires the right to create Jobs in their namespace.
 * 3. A window whose drain deadline deletes pods also requires the right to delete pods in all namespaces.
 * 4. Asking an open window by annotation requires the same: to approve or resume, because it then starts nodes; and to cancel, because nodes
 *    in the middle of their work are uncordoned, but without the rights of 2 and 3, because no node starts.
 * 5. Resuming a paused window, and no longer skipping an opening, requires the same, whether the spec or an annotation does it.
 * 6. Removing the finalizer, for everyone but the worker, requires the same as to cancel: the nodes in progress would stay cordoned, and their
 *    reservations count.
 * 7. Changes that only lower the risk require neither: suspending, pausing, skipping openings, other metadata, and deletion.
 * 8. A check that fails rejects the request. Each check costs 350,000 of the 10,000,000 units that a policy may spend (Kubernetes
 *    CEL cost limits), which limits the number of names.
 */

const policyName = `window-author.${MAINTENANCE_WINDOW.group}`;
const apiVersion = 'admissionregistration.k8s.io/v1';

/** A window that names more nodes requires the right over every node. */
export const maxNamedNodes = 20;

/** The fields of the spec whose change may raise the risk. `suspend` and `schedule.exceptions` are compared separately. */
export const comparedFields = ['nodeSelector', 'rollout', 'template', 'work', 'approval', 'onWindowEnd'];
export const comparedScheduleFields = ['cron', 'calendar', 'timeZone', 'duration'];

/** Compares fields that may be missing. */
const isSame = (path: string) => (field: string) => `object.${path}.?${field} == oldObject.${path}.?${field}`;

const onlySkipsOpenings = [
  ...comparedScheduleFields.map(isSame('spec.schedule')),
  'oldObject.spec.schedule.?exceptions.orValue([]).all(date, date in object.spec.schedule.?exceptions.orValue([]))',
].join(' && ');

const lowersRisk = [
  ...comparedFields.map(isSame('spec')),
  '(object.spec.?suspend.orValue(false) || !oldObject.spec.?suspend.orValue(false))',
  `(object.spec.schedule == oldObject.spec.schedule || (${onlySkipsOpenings}))`,
].join(' && ');

const raisesRisk = `request.operation == 'CREATE' || (object.spec != oldObject.spec && !(${lowersRisk}))`;

const requestKeys = Object.values(WindowRequestAnnotation);

/** The requests that are set or changed. Removing one withdraws it. */
const requests = `[${requestKeys.map((key) => `'${key}'`).join(', ')}].filter(key, request.operation == 'UPDATE' && object.metadata.?annotations[?key].hasValue() && object.metadata.?annotations[?key] != oldObject.metadata.?annotations[?key])`;

const { Paused, SkippedDates } = WindowOverrideAnnotation;

/** The overrides of the spec that end, or skip fewer openings. */
const withdrawn = `['${Paused}'].filter(key, request.operation == 'UPDATE' && oldObject.metadata.?annotations[?key].hasValue() && !object.metadata.?annotations[?key].hasValue()) + ['${SkippedDates}'].filter(key, request.operation == 'UPDATE' && !oldObject.metadata.?annotations[?key].orValue('').split(',').all(date, date == '' || date in object.metadata.?annotations[?key].orValue('').split(',')))`;

const finalizers = 'metadata.finalizers';
const hasFinalizer = (object: string) =>
  `'${WINDOW_FINALIZER}' in ${object}.metadata.?finalizers.orValue([])`;

/** The finalizers of the window, if they are removed before its nodes are completed. */
const released = `(request.operation == 'UPDATE' && ${hasFinalizer('oldObject')} && !(${hasFinalizer('object')}) && request.userInfo.username != '${workerUser(SYSTEM_NAMESPACE)}' ? ['${finalizers}'] : [])`;

const nodes = "authorizer.group('').resource('nodes')";
const user = 'user "\' + request.userInfo.username + \'"';

const variables = [
  { name: 'raisesRisk', expression: raisesRisk },
  { name: 'requests', expression: `${requests} + ${withdrawn} + ${released}` },
  {
    // What the user has to change.
    name: 'field',
    expression: `variables.raisesRisk ? 'spec.nodeSelector' : variables.requests[0] == '${finalizers}' ? '${finalizers}' : 'metadata.annotations[' + variables.requests[0] + ']'`,
  },
  {
    name: 'terms',
    expression: 'object.spec.nodeSelector.nodeSelectorTerms',
  },
  {
    // A node must have one of the names in the term; what else the term requires only leaves nodes out.
    name: 'isNamed',
    expression:
      "variables.terms.all(term, term.?matchFields.orValue([]).exists(field, field.key == 'metadata.name' && field.operator == 'In'))",
  },
  {
    // Kubernetes 1.33 cannot flatten lists. No name of a node contains a comma.
    name: 'names',
    expression:
      "variables.terms.map(term, term.?matchFields.orValue([]).filter(field, field.key == 'metadata.name' && field.operator == 'In').map(field, field.values.join(',')).join(',')).join(',').split(',').filter(name, name != '')",
  },
  { name: 'mayDeleteEveryNode', expression: `${nodes}.check('delete').allowed()` },
  {
    name: 'asksByName',
    expression: `!variables.mayDeleteEveryNode && variables.isNamed && size(variables.names) <= ${maxNamedNodes}`,
  },
  {
    name: 'mayDeletePods',
    expression: "authorizer.group('').resource('pods').check('delete').allowed()",
  },
  {
    name: 'mayCreateJobs',
    expression: `authorizer.group('batch').resource('jobs').namespace('${WORK_NAMESPACE}').check('create').allowed()`,
  },
];

const everyNode = {
  expression: 'variables.mayDeleteEveryNode || variables.asksByName',
  reason: 'Forbidden',
  messageExpression: `variables.field + ': ${user} may not delete every node, which a window that drains them requires: request the verb delete on nodes, or select at most ${maxNamedNodes} nodes that you may delete by name (matchFields, key metadata.name, operator In)'`,
};

const namedNode = (index: number) => ({
  expression: `!variables.asksByName || size(variables.names) <= ${index} || ${nodes}.name(variables.names[${index}]).check('delete').allowed()`,
  reason: 'Forbidden',
  messageExpression: `variables.field + ': ${user} may not delete node ' + variables.names[${index}] + ', which a window that drains it requires: request the verb delete on nodes, or remove the node from the selector'`,
});

const startsNoNode = `(!variables.raisesRisk && variables.requests.all(key, key in ['${WindowRequestAnnotation.Cancel}', '${finalizers}']))`;

const jobs = {
  expression: `${startsNoNode} || object.spec.?work.?type.orValue('None') != 'Job' || variables.mayCreateJobs`,
  reason: 'Forbidden',
  messageExpression: `'spec.work: ${user} may not create Jobs in namespace ${WORK_NAMESPACE}, which a window that runs a Job requires: request the verb create on jobs in this namespace, or set work.type to None'`,
};

const deletions = {
  expression: `${startsNoNode} || object.spec.?template.?drainDeadline.?onDeadline.orValue('Report') != 'Delete' || variables.mayDeletePods`,
  reason: 'Forbidden',
  messageExpression: `'spec.template.drainDeadline.onDeadline: ${user} may not delete pods in all namespaces, which Delete requires: request the verb delete on pods in a ClusterRole, or set onDeadline to Report'`,
};

export function windowAuthorPolicy(): KubeObject[] {
  return [
    {
      apiVersion,
      kind: 'ValidatingAdmissionPolicy',
      metadata: { name: policyName, labels: { 'app.kubernetes.io/part-of': 'node-maintenance' } },
      spec: {
        failurePolicy: 'Fail',
        matchConstraints: {
          resourceRules: [
            {
              apiGroups: [MAINTENANCE_WINDOW.group],
              apiVersions: [MAINTENANCE_WINDOW.version],
              operations: ['CREATE', 'UPDATE'],
              resources: [MAINTENANCE_WINDOW.plural],
            },
          ],
        },
        matchConditions: [
          {
            name: 'may-raise-the-risk',
            expression: `${raisesRisk} || size(${requests} + ${withdrawn} + ${released}) > 0`,
          },
        ],
        variables,
        validations: [
          everyNode,
          ...Array.from({ length: maxNamedNodes }, (_, index) => namedNode(index)),
          jobs,
          deletions,
        ],
      },
    } as KubeObject,
    {
      apiVersion,
      kind: 'ValidatingAdmissionPolicyBinding',
      metadata: { name: policyName, labels: { 'app.kubernetes.io/part-of': 'node-maintenance' } },
      spec: { policyName, validationActions: ['Deny'] },
    } as KubeObject,
  ];
}
