import { agentUser, NODE_NAME_EXTRA } from '../../api/names.ts';
import type { Requester } from '../../api/requester.ts';
import { oneLine } from './text.ts';
import { isRecord } from './untrusted.ts';

/** On whose behalf an object changes nodes, as the apiserver recorded it in its annotation `requester` (ADR 27). */
type Authority =
  /** The user who changed the spec last. The user's permissions are asked for each node. */
  | { readonly kind: 'User'; readonly requester: Requester }
  /** The worker created the maintenance for a node that a maintenance window starts. */
  | { readonly kind: 'Window'; readonly window: string }
  /** The object is older than the record. Nobody's permissions can be asked for. */
  | { readonly kind: 'Unknown' };

/** Returns the record of a user who has no groups, such as the one of requests through Temporal. */
export function recordOfUser(username: string): string {
  return JSON.stringify({ username });
}

/** Returns the record of a maintenance that a window creates. No user name results in it: that of a user has a `username`. */
export function recordOfWindow(window: string): string {
  return JSON.stringify({ window });
}

/** Reads the record. One that cannot be read, for example because of control characters in a user name, grants nothing. */
export function authorityOf(record: string | undefined): Authority {
  const fields = fieldsOf(record);
  const { username, uid, groups, extra, window } = fields;
  if (isText(window) && username === undefined) return { kind: 'Window', window };
  const isUser =
    isText(username) &&
    (uid === undefined || typeof uid === 'string') &&
    (groups === undefined || isTexts(groups)) &&
    (extra === undefined || isExtra(extra));
  if (!isUser || window !== undefined) return { kind: 'Unknown' };
  return { kind: 'User', requester: { username, uid: uid === '' ? undefined : uid, groups, extra } };
}

function fieldsOf(record: string | undefined): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(record ?? '');
    return isRecord(value) ? value : {};
  } catch {
    return {};
  }
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((one) => typeof one === 'string');
}

function isExtra(value: unknown): value is Record<string, string[]> {
  return isRecord(value) && Object.values(value).every(isTexts);
}

/**
 * Returns the node that this user may maintain because they are its agent: the ServiceAccount of the agents of the installation in this
 * namespace, with a token that the apiserver has bound to the node. A user who may impersonate both could be any agent.
 */
export function nodeOfAgent({ username, extra }: Requester, namespace: string): string | undefined {
  if (username !== agentUser(namespace)) return undefined;
  const [node, ...others] = extra?.[NODE_NAME_EXTRA] ?? [];
  return node === '' || others.length > 0 ? undefined : node;
}

/** Begins the record of a user who might gate every node when the apiserver recorded them. */
const everyNode = '{"everyNode":true,';

/**
 * Returns true if a policy with this record taints new nodes before the permissions of its author are asked for. The policies in the
 * apiserver decide the same. A policy from before the record existed does.
 */
export function countsForEveryNode(record: string | undefined): boolean {
  return record === undefined || record.startsWith(everyNode);
}

/** The consequence of the requester's permission for a node. */
export const NodeDecision = {
  /** The object may change the node. */
  Proceed: 'Proceed',
  /** The permission was withdrawn after the node was cordoned: nothing more is started, and Complete returns the node to service. */
  Hold: 'Hold',
  /** Nothing is done to the node. */
  Skip: 'Skip',
} as const;
export type NodeDecision = (typeof NodeDecision)[keyof typeof NodeDecision];

/** `isStarted`: the maintenance has cordoned the node, or was about to. */
export function decideNode(isPermitted: boolean, isStarted: boolean): NodeDecision {
  if (isPermitted) return 'Proceed';
  return isStarted ? 'Hold' : 'Skip';
}

/** Explains why the author of a policy may not gate nodes. */
export function gateDenialOf(authority: Authority): string {
  return authority.kind === 'User'
    ? `user "${oneLine(authority.requester.username, maxNameLength)}", who changed this last, may not gate it: grant the verb gate on nodereadinesses with its name, or select other nodes`
    : 'who changed this last is not recorded: change the spec as a user who may gate it';
}

/** Explains why the requester has no permission. */
export function denialOf(authority: Authority): string {
  return authority.kind === 'User'
    ? `user "${oneLine(authority.requester.username, maxNameLength)}", who requested this, may not delete it: grant the verb delete on the node, or select other nodes`
    : 'who requested this is not recorded: change the spec, for example its reason, as a user who may delete it';
}

const maxNameLength = 128;
