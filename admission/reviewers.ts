import { isDeepStrictEqual } from 'node:util';
import type { Node } from '../api/core.ts';
import { REVISION_LABEL, SHUTDOWN_BOOT_ID_ANNOTATION, WindowAnnotation, WINDOW_LABEL } from '../api/names.ts';
import { READINESS_TAINT } from '../api/names.ts';
import { type NodeMaintenance, NodeMaintenanceStatus } from '../api/nodeMaintenance.ts';
import { windowMaintenancesIn } from '../domain/windows/windowMaintenance.ts';
import {
  admissionWarnings,
  deadlineProblem,
  denialMessage,
  nameDenialMessage,
  nodeOfReservedName,
  nodesToAuthorize,
  type Proposal,
  storageProblem,
  type AdmissionContext,
} from '../domain/admission/maintenance.ts';
import { nodeOfAgent } from '../domain/common/requester.ts';
import { selectorText } from '../domain/common/labelSelector.ts';
import { activeReservationsIn } from '../domain/windows/reservations.ts';
import { holdsNodes } from '../domain/common/stage.ts';
import { heldNodesOf } from '../domain/maintenance/status.ts';
import { policyWarnings } from '../domain/admission/readinessPolicy.ts';
import { selectsAnyPod } from '../domain/readiness/policyStatus.ts';
import { reviewNodeDeletion } from '../kube/authorization.ts';
import type { Kube } from '../kube/client.ts';
import type { Informer } from '../kube/informer.ts';
import { resources } from '../kube/resources.ts';
import { trimPod } from '../kube/transform.ts';
import { listWorkloads } from '../kube/workloads.ts';
import { CapacityWarnings } from './capacity.ts';
import type { MaintenanceRequest, ReadinessPolicyRequest, Reviewer, ReviewResult } from './review.ts';

/** The part of the cluster that reviewers read. */
export interface AdmissionView {
  readonly kube: Kube;
  readonly nodes: Pick<Informer<Node>, 'list' | 'hasSynced'>;
  readonly maintenances: Pick<Informer<NodeMaintenance>, 'list' | 'hasSynced'>;
}

/**
 * Returns a reviewer that requires permission for every node of a maintenance: "All nodes matching the .spec.nodeSelector must pass an authorization
 * check for the DELETE operation." A node agent of the installation in `namespace` may maintain its own node without it.
 */
export function authorizationReviewer(view: AdmissionView, namespace: string): Reviewer<MaintenanceRequest> {
  const { kube } = view;
  return async (request, signal) => {
    if (!affectsNodes(request)) return { kind: 'Allowed' };
    const { permission, own, others } = await permissionFor(request, view, { namespace, signal });
    const { username } = request.user;
    if (permission.kind === 'Denied') return forbidden(denialMessage({ user: username, ...permission }));
    if (request.operation !== 'CREATE') return { kind: 'Allowed' };
    const { name } = request.object.metadata;
    const node = nodeOfReservedName(name);
    if (node === undefined || node === own || others.includes(node)) return { kind: 'Allowed' };
    const ofName = await reviewNodeDeletion(kube, request.user, [node], { signal });
    return ofName.kind === 'Granted'
      ? { kind: 'Allowed' }
      : forbidden(nameDenialMessage(username, name, node));
  };
}

/** Finds out whether the user may maintain the nodes of a request: `own`, the node of a node agent, and `others`. */
async function permissionFor(
  request: MaintenanceRequest,
  { kube, nodes }: AdmissionView,
  { namespace, signal }: { namespace: string; signal: AbortSignal },
) {
  const objects = objectsOf(request);
  const names = nodesToAuthorize(
    objects.map(({ spec }) => spec),
    nodes.list(),
    objects.flatMap(heldNodesOf),
  );
  const own = nodeOfAgent(request.user, namespace);
  const others = names.filter((name) => name !== own);
  return { permission: await reviewNodeDeletion(kube, request.user, others, { signal }), own, others };
}

function forbidden(message: string): ReviewResult {
  return { kind: 'Denied', reason: 'Forbidden', message };
}

/**
 * Warns about likely mistakes, and rejects a deadline that has passed and a maintenance whose status could not be stored. Warnings name pods and
 * other maintenances: a user who may not maintain the nodes, whom another reviewer rejects, gets none.
 */
export function specReviewer(
  view: AdmissionView,
  namespace: string,
  podsMaxAgeMs?: number,
): Reviewer<MaintenanceRequest> {
  const { kube, nodes, maintenances } = view;
  const capacity = new CapacityWarnings(kube, namespace, podsMaxAgeMs);
  return async (request, signal) => {
    const proposal = proposalOf(request);
    if (proposal === undefined) return { kind: 'Allowed' };
    const context = { nodes: nodes.list(), maintenances: maintenances.list() };
    const problem = deadlineProblem(proposal, view.kube.now()) ?? storageProblem(proposal, context);
    if (problem !== undefined) return { kind: 'Denied', reason: 'Invalid', message: problem };
    const { permission } = await permissionFor(request, view, { namespace, signal });
    if (permission.kind === 'Denied') return { kind: 'Allowed' };
    const [budgets, shortage] = await Promise.all([
      holdsNodes(proposal.spec.stage) ? budgetsIn(view, signal) : undefined,
      capacity.of(proposal.spec, context.nodes),
    ]);
    const warnings = admissionWarnings(proposal, { ...context, ...budgets });
    return { kind: 'Allowed', warnings: shortage === undefined ? warnings : [...warnings, shortage] };
  };
}

/** Reads the budgets for a warning; an error is ignored, because a warning must not fail the request. */
async function budgetsIn(
  { kube, maintenances }: AdmissionView,
  signal: AbortSignal,
): Promise<Pick<AdmissionContext, 'budgets' | 'reservations'> | undefined> {
  const list = await kube.list(resources.nodeDisruptionBudgets, { signal }).catch(() => undefined);
  if (list === undefined) return undefined;
  const reserving = { maintenances: windowMaintenancesIn(maintenances.list()), nowMs: kube.now().getTime() };
  return { budgets: list.items, reservations: activeReservationsIn(list.items, reserving) };
}

/** Warns about policies that could keep nodes tainted. */
export function readinessPolicyReviewer({ kube, nodes }: AdmissionView): Reviewer<ReadinessPolicyRequest> {
  return async ({ object: { spec } }, signal) => {
    const namespaces = [...new Set(spec.readinessGates.map(({ namespace }) => namespace))];
    const missing = await Promise.all(
      namespaces.map(
        async (name) => (await kube.get(resources.namespaces, { name }, { signal })) === undefined,
      ),
    );
    const { daemonSets, deployments, statefulSets } = resources;
    const workloads = await Promise.all(
      namespaces.map((namespace) =>
        listWorkloads(kube, namespace, [daemonSets, deployments, statefulSets], { signal }),
      ),
    );
    const known = {
      nodes: nodes.list(),
      missingNamespaces: namespaces.filter((_, i) => missing[i]),
      workloads: workloads.flat(),
      taint: READINESS_TAINT,
    };
    // Pod templates take precedence: pods are only read for gates without a template.
    const withoutTemplate = spec.readinessGates.filter(
      (gate) => !selectsAnyPod(gate, { ...known, pods: [] }),
    );
    const pods = await Promise.all(
      withoutTemplate.map(({ namespace, selector }) =>
        kube.list(resources.pods, { namespace, labelSelector: selectorText(selector), signal }),
      ),
    );
    const gatePods = pods.flatMap(({ items }) => items.map(trimPod));
    return { kind: 'Allowed', warnings: policyWarnings(spec, { ...known, pods: gatePods }) };
  };
}

function objectsOf(request: MaintenanceRequest): NodeMaintenance[] {
  switch (request.operation) {
    case 'CREATE':
      return [request.object];
    case 'UPDATE':
      return [request.object, request.oldObject];
    case 'DELETE':
      return [request.oldObject];
  }
}

/** The labels and annotations that control a maintenance, for example by marking the work of a window as done, or a shutdown as over. */
const controlKeys = [
  WINDOW_LABEL,
  REVISION_LABEL,
  ...Object.values(WindowAnnotation),
  SHUTDOWN_BOOT_ID_ANNOTATION,
];

/**
 * Reports whether a request needs permission for the nodes. A change of other labels or annotations needs none. Finalizers do, because without ours
 * the nodes are not uncordoned; and owners do, because the garbage collector would delete the maintenance with them.
 */
function affectsNodes(request: MaintenanceRequest): boolean {
  if (request.operation !== 'UPDATE') return true;
  const [after, before] = [request.object, request.oldObject].map(({ spec, metadata }) => ({
    spec,
    finalizers: metadata.finalizers ?? [],
    owners: metadata.ownerReferences ?? [],
    control: controlKeys.map((key) => [metadata.labels?.[key], metadata.annotations?.[key]]),
  }));
  return !isDeepStrictEqual(after, before);
}

function proposalOf(request: MaintenanceRequest): Proposal | undefined {
  if (request.operation === 'DELETE') return undefined;
  const { metadata, spec } = request.object;
  const stored = request.operation === 'UPDATE' ? request.oldObject : undefined;
  return { name: metadata.name, spec, before: stored?.spec, status: drainStatusOf(stored?.status) };
}

const DrainStatus = NodeMaintenanceStatus.pick({ stageStatuses: true, drainDeadline: true });

/** Returns what a deadline depends on; undefined of a status that no apiserver stores. */
function drainStatusOf(status: Partial<NodeMaintenanceStatus> | null | undefined): Proposal['status'] {
  const { stageStatuses, drainDeadline } = status ?? {};
  return DrainStatus.safeParse({ stageStatuses, drainDeadline }).data;
}
