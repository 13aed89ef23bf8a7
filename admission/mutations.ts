import type { Node } from '../api/core.ts';
import type { DrainPlanEntry, NodeMaintenance } from '../api/nodeMaintenance.ts';
import {
  DAEMONSET_EVACUATOR_ANNOTATION,
  DAEMONSET_EVACUATOR_PRIORITY,
  MAINTENANCE_GATE,
  READINESS_TAINT,
  REQUESTED_BY_ANNOTATION,
  REQUESTER_ANNOTATION,
  UNCORDONED_BY_ANNOTATION,
} from '../api/names.ts';
import {
  correctedRecord,
  isGatedAtCreation,
  isTaintedAtCreation,
  nodesOfTerms,
  planToStore,
  recordOfRequester,
  requestAuthor,
} from '../domain/admission/mutations.ts';
import { mayGateNode } from '../kube/authorization.ts';
import type { JsonPatchOperation } from '../kube/client.ts';
import { type RawPod, resources } from '../kube/resources.ts';
import { trimPod } from '../kube/transform.ts';
import { type MutationRequest, mutationWebhook, type Webhook } from './review.ts';
import type { AdmissionView } from './reviewers.ts';
import { drainPlanShape, type MutatedShape, nodeShape, podShape } from './shapes.ts';

/**
 * The webhooks that replace the MutatingAdmissionPolicies of deploy/ on apiservers that do not serve them (docs/adr/0047), by path. Each has the
 * conditions of its policy; this is the part that reads more than the request.
 */
export function mutationWebhooks(view: AdmissionView): Record<string, Webhook> {
  const mutations: Readonly<Record<string, Mutation>> = {
    '/requested-by': (request) => annotationPatch(request.object, REQUESTED_BY_ANNOTATION, authorOf(request)),
    '/uncordoned-by': (request) =>
      annotationPatch(request.object, UNCORDONED_BY_ANNOTATION, authorOf(request)),
    '/daemonset-evacuator': ({ object }) =>
      annotationPatch(object, DAEMONSET_EVACUATOR_ANNOTATION, DAEMONSET_EVACUATOR_PRIORITY),
    '/drain-plan': planPatch,
    '/requester': (request, signal) => requesterPatch(view, request, signal),
    '/daemonset-gate': ({ object }) => gatePatch(view, object),
    '/readiness-taint': (request, signal) => policyTaintPatch(view, request, signal),
    '/prepared-readiness-taint': (request, signal) => preparedTaintPatch(view, request, signal),
  };
  return Object.fromEntries(
    Object.entries(mutations).map(([path, mutation]) => [
      path,
      mutationWebhook(
        async (request, signal) => ({
          kind: 'Allowed',
          patch: await mutation(request, signal),
        }),
        shapes[path],
      ),
    ]),
  );
}

/** The shapes of objects of which more than the metadata is read. */
const shapes: Readonly<Record<string, MutatedShape>> = {
  '/daemonset-gate': podShape,
  '/readiness-taint': nodeShape,
  '/prepared-readiness-taint': nodeShape,
};

type Patch = readonly JsonPatchOperation[];
type Mutation = (request: MutationRequest, signal: AbortSignal) => Patch | Promise<Patch>;
type Target = MutationRequest['object'];

function authorOf({ user, options }: MutationRequest): string {
  return requestAuthor(user, options?.fieldManager);
}

function annotationPatch({ metadata }: Target, key: string, value: string): JsonPatchOperation[] {
  if (metadata.annotations === undefined)
    return [{ op: 'add', path: '/metadata/annotations', value: { [key]: value } }];
  return [{ op: 'add', path: annotationPath(key), value }];
}

/** Escapes the key for a JSON Pointer (RFC 6901). */
function annotationPath(key: string): string {
  return `/metadata/annotations/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

function planPatch({ object, oldObject }: MutationRequest): JsonPatchOperation[] {
  const plan = drainPlanShape.optional().safeParse(object.spec?.['drainPlan']);
  // The apiserver rejects it, with messages of the schema.
  if (!plan.success) return [];
  const value = planToStore(
    plan.data as DrainPlanEntry[] | undefined,
    oldObject as Pick<NodeMaintenance, 'spec'> | undefined,
  );
  return value === undefined ? [] : [{ op: 'add', path: '/spec/drainPlan', value }];
}

async function requesterPatch(
  { kube }: AdmissionView,
  { object, oldObject, user }: MutationRequest,
  signal: AbortSignal,
): Promise<JsonPatchOperation[]> {
  const record = recordOfRequester(user, await mayGateNode(kube, user, undefined, { signal }));
  const value = correctedRecord(object, oldObject, record);
  if (value === undefined) return [];
  if (value === '') return [{ op: 'remove', path: annotationPath(REQUESTER_ANNOTATION) }];
  return annotationPatch(object, REQUESTER_ANNOTATION, value);
}

function gatePatch({ maintenances }: AdmissionView, object: Target): JsonPatchOperation[] {
  const pod = object as unknown as RawPod;
  const { affinity, schedulingGates } = pod.spec;
  const selector = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  const nodes = nodesOfTerms(selector?.nodeSelectorTerms);
  if (!isGatedAtCreation(trimPod(pod), nodes, maintenances.list())) return [];
  return appendPatch('/spec/schedulingGates', schedulingGates, { name: MAINTENANCE_GATE });
}

/** Nodes are created rarely: the policies are read for each. */
async function policyTaintPatch(
  { kube }: AdmissionView,
  { object }: MutationRequest,
  signal: AbortSignal,
): Promise<JsonPatchOperation[]> {
  const { items } = await kube.list(resources.nodeReadinessPolicies, { signal });
  return isTaintedAtCreation(object as unknown as Node, items, undefined) ? taintPatch(object) : [];
}

async function preparedTaintPatch(
  { kube }: AdmissionView,
  { object }: MutationRequest,
  signal: AbortSignal,
): Promise<JsonPatchOperation[]> {
  const node = object as unknown as Node;
  const { name } = node.metadata;
  const readiness = await kube.get(resources.nodeReadinesses, { name }, { signal });
  return isTaintedAtCreation(node, [], readiness) ? taintPatch(object) : [];
}

function taintPatch({ spec }: Target): JsonPatchOperation[] {
  const taints = (spec as { taints?: unknown[] } | undefined)?.taints;
  const { key, effect } = READINESS_TAINT;
  return appendPatch('/spec/taints', taints, { key, effect });
}

function appendPatch(path: string, list: unknown[] | undefined, value: object): JsonPatchOperation[] {
  return list === undefined
    ? [{ op: 'add', path, value: [value] }]
    : [{ op: 'add', path: `${path}/-`, value }];
}
