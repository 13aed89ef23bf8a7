import type { KubeObject } from '../api/core.ts';
import { forEachBounded } from './bounded.ts';
import type { Kube, RequestOptions } from './client.ts';
import { isKubeError } from './errors.ts';
import { type Resource, resources } from './resources.ts';

/** Somebody as the apiserver knows them. */
export interface Requester {
  readonly username: string;
  readonly uid?: string | undefined;
  readonly groups?: readonly string[] | undefined;
  readonly extra?: Readonly<Record<string, readonly string[]>> | undefined;
}

export type Permission =
  | { readonly kind: 'Granted' }
  /** The first nodes, in the order in which they were given, that were denied; `unchecked` were not asked about. */
  | { readonly kind: 'Denied'; readonly nodes: readonly string[]; readonly unchecked: number };

interface SubjectAccessReview extends KubeObject {
  spec: Omit<Requester, 'username'> & {
    user: string;
    resourceAttributes: { group: string; version: string; resource: string; verb: string; name?: string };
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

/** Reviews under way at once: half of what the client may have in flight, for a drain needs the other half. */
const atOnce = 32;
/** Nodes that are asked about before the answers are looked at. */
const batch = 64;
/** With more of them denied than a message names, the rest makes no difference. */
const enough = 6;

/**
 * Whether somebody may delete these nodes: by one question if they may delete nodes at large, else by one for each
 * node, until enough are denied.
 */
export async function mayDeleteNodes(
  kube: Kube,
  requester: Requester,
  nodes: readonly string[],
  options: RequestOptions = {},
): Promise<Permission> {
  if (nodes.length === 0 || (await mayDelete(kube, requester, undefined, options)))
    return { kind: 'Granted' };
  const denied: string[] = [];
  for (let checked = 0; checked < nodes.length; checked += batch) {
    denied.push(...(await deniedOf(kube, requester, nodes.slice(checked, checked + batch), options)));
    const unchecked = Math.max(nodes.length - checked - batch, 0);
    if (denied.length >= enough) return { kind: 'Denied', nodes: denied, unchecked };
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
  await forEachBounded(atOnce, nodes, async (node) => {
    if (!(await mayDelete(kube, requester, node, options))) denied.add(node);
  });
  return nodes.filter((node) => denied.has(node));
}

/** Without a name: any node. */
async function mayDelete(
  kube: Kube,
  { username, uid, groups, extra }: Requester,
  name: string | undefined,
  options: RequestOptions,
): Promise<boolean> {
  const { group, version, plural } = resources.nodes;
  const resourceAttributes = { group, version, resource: plural, verb: 'delete', ...(name && { name }) };
  const review: SubjectAccessReview = {
    // It is answered, not stored, and so has no name.
    metadata: { name: '' },
    spec: { user: username, uid, groups, extra, resourceAttributes },
  };
  const { status } = await kube.create(subjectAccessReviews, review, options);
  return status?.allowed === true;
}

/** What RBAC calls a rule, for the resources of one group. */
export interface AccessRule {
  readonly group: string;
  /** With its subresource, if any: `evacuations/status`. */
  readonly resource: string;
  readonly verbs: readonly string[];
  /** Without it: in all namespaces. */
  readonly namespace?: string | undefined;
}

/** As it is written in a Role, on one line. */
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

/** Of these rules the ones that this client lacks, each with the verbs that it lacks. */
export async function missingRules(
  kube: Kube,
  rules: readonly AccessRule[],
  options: RequestOptions = {},
): Promise<AccessRule[]> {
  const questions = rules.flatMap((rule) => rule.verbs.map((verb) => ({ rule, verb })));
  const denied = new Set<unknown>();
  await forEachBounded(atOnce, questions, async (question) => {
    if (!(await mayDo(kube, question.rule, question.verb, options))) denied.add(question);
  });
  return rules.flatMap((rule) => {
    const verbs = questions.filter((question) => question.rule === rule && denied.has(question));
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

/** As whom the apiserver knows this client; undefined when it does not say. */
export async function ownUsername(kube: Kube, options: RequestOptions = {}): Promise<string | undefined> {
  try {
    const { status } = await kube.create(selfSubjectReviews, { metadata: { name: '' } }, options);
    return status?.userInfo?.username || undefined;
  } catch (error) {
    if (isKubeError(error, 'Forbidden', 'NotFound')) return undefined;
    throw error;
  }
}
