import type { KubeObject } from '../api/core.ts';
import { GATE_VERB } from '../api/names.ts';
import type { Requester } from '../api/requester.ts';
import { forEachBounded } from './bounded.ts';
import type { Kube, RequestOptions } from './client.ts';
import { isKubeError } from './errors.ts';
import { type Resource, resources } from './resources.ts';

export type Permission =
  | { readonly kind: 'Granted' }
  /** `nodes` are the first denied nodes in the given order; `unchecked` is the number of nodes that were not checked. */
  | { readonly kind: 'Denied'; readonly nodes: readonly string[]; readonly unchecked: number };

interface SubjectAccessReview extends KubeObject {
  spec: Omit<Requester, 'username'> & {
    user: string;
    resourceAttributes: ReviewedRequest & { version?: string };
  };
  status?: { allowed: boolean };
}

const subjectAccessReviews: Resource<SubjectAccessReview> = {
  group: 'authorization.k8s.io',
  version: 'v1',
  plural: 'subjectaccessreviews',
  kind: 'SubjectAccessReview',
  namespaced: false,
};

/** Concurrent reviews: half of the client's requests in flight, because a drain needs the other half. */
export const maxConcurrentReviews = 32;
/** Nodes that are reviewed before the results are evaluated. */
const batchSize = 64;
/** Reviews stop at this number of denied nodes: a message names no more. */
const maxDenied = 6;

/**
 * Reviews whether a user may delete these nodes: with one review if they may delete any node, otherwise with one review
 * per node until `maxDenied` are denied.
 */
export async function reviewNodeDeletion(
  kube: Kube,
  requester: Requester,
  nodes: readonly string[],
  options: RequestOptions = {},
): Promise<Permission> {
  if (nodes.length === 0 || (await mayDeleteNode(kube, requester, undefined, options)))
    return { kind: 'Granted' };
  const denied: string[] = [];
  for (let checked = 0; checked < nodes.length; checked += batchSize) {
    denied.push(...(await deniedOf(kube, requester, nodes.slice(checked, checked + batchSize), options)));
    const unchecked = Math.max(nodes.length - checked - batchSize, 0);
    if (denied.length >= maxDenied) return { kind: 'Denied', nodes: denied, unchecked };
  }
  return denied.length === 0 ? { kind: 'Granted' } : { kind: 'Denied', nodes: denied, unchecked: 0 };
}

async function deniedOf(
  kube: Kube,
  requester: Requester,
  nodes: readonly string[],
  options: RequestOptions,
): Promise<string[]> {
  const denied = new Set<string>();
  await forEachBounded(maxConcurrentReviews, nodes, async (node) => {
    if (!(await mayDeleteNode(kube, requester, node, options))) denied.add(node);
  });
  return nodes.filter((node) => denied.has(node));
}

/** Reviews the deletion of one node, or of any node if `name` is undefined. */
export function mayDeleteNode(
  kube: Kube,
  requester: Requester,
  name: string | undefined,
  options: RequestOptions = {},
): Promise<boolean> {
  const { group, version, plural } = resources.nodes;
  return isAllowed(
    kube,
    requester,
    { group, version, resource: plural, verb: 'delete', ...(name && { name }) },
    options,
  );
}

/** Reviews whether the user may gate one node, or any node if `name` is undefined. A user who may delete a node may also gate it. */
export async function mayGateNode(
  kube: Kube,
  requester: Requester,
  name: string | undefined,
  options: RequestOptions = {},
): Promise<boolean> {
  const { group, version, plural } = resources.nodeReadinesses;
  const action = { group, version, resource: plural, verb: GATE_VERB, ...(name && { name }) };
  return (await mayDeleteNode(kube, requester, name, options)) || isAllowed(kube, requester, action, options);
}

async function isAllowed(
  kube: Kube,
  { username, uid, groups, extra }: Requester,
  resourceAttributes: ReviewedRequest & { version?: string },
  options: RequestOptions,
): Promise<boolean> {
  const review: SubjectAccessReview = {
    // A review is not stored and therefore has no name.
    metadata: { name: '' },
    spec: { user: username, uid, groups, extra, resourceAttributes },
  };
  const { status } = await kube.create(subjectAccessReviews, review, options);
  return status?.allowed === true;
}

/** A request that access reviews evaluate. Empty fields do not restrict it. */
export interface ReviewedRequest {
  readonly group: string;
  /** Plural. */
  readonly resource: string;
  readonly subresource?: string | undefined;
  readonly verb: string;
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
}

/** Returns the requests that a user may not make, in their order. */
export async function deniedRequests(
  kube: Kube,
  requester: Requester,
  requests: readonly ReviewedRequest[],
  options: RequestOptions = {},
): Promise<ReviewedRequest[]> {
  const denied = new Set<ReviewedRequest>();
  await forEachBounded(maxConcurrentReviews, requests, async (request) => {
    if (!(await isAllowed(kube, requester, request, options))) denied.add(request);
  });
  return requests.filter((request) => denied.has(request));
}

/** An RBAC rule for a resource. */
export interface AccessRule {
  readonly group: string;
  /** Includes the subresource, if any: `evacuations/status`. */
  readonly resource: string;
  readonly verbs: readonly string[];
  /** Undefined: all namespaces. */
  readonly namespace?: string | undefined;
}

/** Describes a rule on one line, in the syntax of a Role. */
export function ruleText({ group, resource, verbs, namespace }: AccessRule): string {
  const where = namespace === undefined ? 'a ClusterRole' : `a Role in namespace ${namespace}`;
  return `to ${where} the rule {apiGroups: ["${group}"], resources: [${resource}], verbs: [${verbs.join(', ')}]}`;
}

interface SelfSubjectAccessReview extends KubeObject {
  spec: {
    resourceAttributes: {
      group: string;
      resource: string;
      subresource?: string;
      verb: string;
      namespace?: string | undefined;
    };
  };
  status?: { allowed: boolean };
}

const selfSubjectAccessReviews: Resource<SelfSubjectAccessReview> = {
  group: 'authorization.k8s.io',
  version: 'v1',
  plural: 'selfsubjectaccessreviews',
  kind: 'SelfSubjectAccessReview',
  namespaced: false,
};

/** Returns the rules that this client does not have, each with the missing verbs. */
export async function findMissingRules(
  kube: Kube,
  rules: readonly AccessRule[],
  options: RequestOptions = {},
): Promise<AccessRule[]> {
  const reviews = rules.flatMap((rule) => rule.verbs.map((verb) => ({ rule, verb })));
  const denied = new Set<unknown>();
  await forEachBounded(maxConcurrentReviews, reviews, async (review) => {
    if (!(await mayDo(kube, review.rule, review.verb, options))) denied.add(review);
  });
  return rules.flatMap((rule) => {
    const verbs = reviews.filter((review) => review.rule === rule && denied.has(review));
    return verbs.length === 0 ? [] : [{ ...rule, verbs: verbs.map(({ verb }) => verb) }];
  });
}

async function mayDo(
  kube: Kube,
  { group, resource: path, namespace }: AccessRule,
  verb: string,
  options: RequestOptions,
): Promise<boolean> {
  const [resource = '', subresource = ''] = path.split('/');
  const review: SelfSubjectAccessReview = {
    metadata: { name: '' },
    spec: { resourceAttributes: { group, resource, subresource, verb, namespace } },
  };
  const { status } = await kube.create(selfSubjectAccessReviews, review, options);
  return status?.allowed === true;
}

interface SelfSubjectReview extends KubeObject {
  status?: { userInfo?: { username?: string } };
}

const selfSubjectReviews: Resource<SelfSubjectReview> = {
  group: 'authentication.k8s.io',
  version: 'v1',
  plural: 'selfsubjectreviews',
  kind: 'SelfSubjectReview',
  namespaced: false,
};

/** Returns the username of this client, or undefined if the apiserver does not report it. */
export async function whoAmI(kube: Kube, options: RequestOptions = {}): Promise<string | undefined> {
  try {
    const { status } = await kube.create(selfSubjectReviews, { metadata: { name: '' } }, options);
    return status?.userInfo?.username || undefined;
  } catch (error) {
    if (isKubeError(error, 'Forbidden', 'NotFound')) return undefined;
    throw error;
  }
}
