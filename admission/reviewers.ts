import { isDeepStrictEqual } from 'node:util';
import type { Node } from '../api/core.ts';
import { NODE_BUDGET_NAME, REVISION_LABEL, TurnAnnotation, WINDOW_LABEL } from '../api/names.ts';
import type { NodeBudget } from '../api/nodeBudget.ts';
import { READINESS_TAINT } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { claimedTurns } from '../api/windowTurn.ts';
import {
  admissionWarnings,
  denialMessage,
  nodesToAuthorize,
  type Proposal,
  storageProblem,
} from '../domain/admission.ts';
import { selectorText } from '../domain/labelSelector.ts';
import { asItStands } from '../domain/nodeBudget.ts';
import { holdsNodes } from '../domain/stage.ts';
import { policyWarnings } from '../domain/readinessAdmission.ts';
import { selectsAnything } from '../domain/readinessPolicy.ts';
import { mayDeleteNodes } from '../kube/authorization.ts';
import type { Kube } from '../kube/client.ts';
import type { Informer } from '../kube/informer.ts';
import { resources } from '../kube/resources.ts';
import { slimPod } from '../kube/slim.ts';
import { workloadsIn } from '../kube/workloads.ts';
import type { MaintenanceRequest, ReadinessPolicyRequest, Reviewer } from './review.ts';

/** What the reviewers see of the cluster. */
export interface AdmissionView {
  readonly kube: Kube;
  readonly nodes: Pick<Informer<Node>, 'list' | 'hasSynced'>;
  readonly maintenances: Pick<Informer<NodeMaintenance>, 'list' | 'hasSynced'>;
}

/** "All nodes matching the .spec.nodeSelector must pass an authorization check for the DELETE operation." */
export function authorizationReviewer({ kube, nodes }: AdmissionView): Reviewer<MaintenanceRequest> {
  return async (request, signal) => {
    if (!mattersToNodes(request)) return { kind: 'Allowed' };
    const names = nodesToAuthorize(
      objectsOf(request).map(({ spec }) => spec),
      nodes.list(),
    );
    const permission = await mayDeleteNodes(kube, request.user, names, { signal });
    if (permission.kind === 'Granted') return { kind: 'Allowed' };
    const message = denialMessage({ user: request.user.username, ...permission });
    return { kind: 'Refused', reason: 'Forbidden', message };
  };
}

/** What is worth a word, and what could not be stored. */
export function warningReviewer(view: AdmissionView): Reviewer<MaintenanceRequest> {
  const { nodes, maintenances } = view;
  return async (request, signal) => {
    const proposal = proposalOf(request);
    if (proposal === undefined) return { kind: 'Allowed' };
    const surroundings = { nodes: nodes.list(), maintenances: maintenances.list() };
    const problem = storageProblem(proposal, surroundings);
    if (problem !== undefined) return { kind: 'Refused', reason: 'Invalid', message: problem };
    const budget = holdsNodes(proposal.spec.stage) ? await budgetOf(view, signal) : undefined;
    return { kind: 'Allowed', warnings: admissionWarnings(proposal, { ...surroundings, budget }) };
  };
}

/** A warning is not worth an error. */
async function budgetOf(
  { kube, maintenances }: AdmissionView,
  signal: AbortSignal,
): Promise<NodeBudget | undefined> {
  const key = { name: NODE_BUDGET_NAME };
  const budget = await kube.get(resources.nodeBudgets, key, { signal }).catch(() => undefined);
  const turns = claimedTurns(maintenances.list());
  return budget && asItStands(budget, { turns, now: kube.now().getTime() });
}

/** What could lock nodes, said to whoever writes the policy. */
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
        workloadsIn(kube, namespace, [daemonSets, deployments, statefulSets], { signal }),
      ),
    );
    const known = {
      nodes: nodes.list(),
      missingNamespaces: namespaces.filter((_, i) => missing[i]),
      workloads: workloads.flat(),
      taint: READINESS_TAINT,
    };
    // Templates speak for their pods: only where there is none the pods themselves are of interest.
    const alone = spec.readinessGates.filter((gate) => !selectsAnything(gate, { ...known, pods: [] }));
    const pods = await Promise.all(
      alone.map(({ namespace, selector }) =>
        kube.list(resources.pods, { namespace, labelSelector: selectorText(selector), signal }),
      ),
    );
    const seen = pods.flatMap(({ items }) => items.map(slimPod));
    return { kind: 'Allowed', warnings: policyWarnings(spec, { ...known, pods: seen }) };
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

/** Its labels and annotations tell what a turn in a window does to its node: one says that the turn is to end. */
const ofTurn = [WINDOW_LABEL, REVISION_LABEL, ...Object.values(TurnAnnotation)];

/**
 * Other labels and annotations are anybody's. Finalizers are not: without ours nodes are not given back; nor are owners, with
 * which the garbage collector would delete the maintenance.
 */
function mattersToNodes(request: MaintenanceRequest): boolean {
  if (request.operation !== 'UPDATE') return true;
  const [after, before] = [request.object, request.oldObject].map(({ spec, metadata }) => ({
    spec,
    finalizers: metadata.finalizers ?? [],
    owners: metadata.ownerReferences ?? [],
    turn: ofTurn.map((key) => metadata.labels?.[key] ?? metadata.annotations?.[key]),
  }));
  return !isDeepStrictEqual(after, before);
}

function proposalOf(request: MaintenanceRequest): Proposal | undefined {
  if (request.operation === 'DELETE') return undefined;
  const { metadata, spec } = request.object;
  const before = request.operation === 'UPDATE' ? request.oldObject.spec : undefined;
  return { name: metadata.name, spec, before };
}
