import type { KubeObject } from '../../api/core.ts';

/** The phases of an uninstallation. Each begins when nothing is left to do in the one before. */
export const uninstallPhases = [
  /** A living worker completes what it has started. */
  'Ask',
  /** The processes, and what acts in the apiserver without them. */
  'Stop',
  /** Runs and Schedules in Temporal. */
  'Temporal',
  /** Pods, Evacuations and nodes. */
  'Nodes',
  /** Finalizers, Leases and objects. */
  'Objects',
  /** The other objects of the installation. */
  'Installation',
  'Definitions',
  /** The claim of the cluster in Temporal, by which the runs of the cluster are found. */
  'Claim',
] as const;
export type UninstallPhase = (typeof uninstallPhases)[number];

/** An operation of a JSON patch (RFC 6902). */
export interface PatchOperation {
  readonly op: 'add' | 'remove' | 'replace' | 'test';
  readonly path: string;
  readonly value?: unknown;
}

export type UninstallAction =
  /** `operations` begin with tests, so that an object that was changed since it was read stays as it is. */
  | {
      readonly kind: 'Patch';
      readonly operations: readonly PatchOperation[];
      readonly subresource?: 'status';
    }
  /** An empty server-side apply, which removes what this field manager has set in the status. */
  | { readonly kind: 'RemoveConditions'; readonly uid: string; readonly manager: string }
  | {
      readonly kind: 'Delete';
      readonly uid: string;
      readonly resourceVersion?: string | undefined;
      readonly propagationPolicy?: 'Foreground';
    }
  | { readonly kind: 'TerminateRun'; readonly runId: string }
  | { readonly kind: 'DeleteSchedule' }
  /** Something that was asked for and takes time. */
  | { readonly kind: 'Wait' }
  /** Stays, as it should. */
  | { readonly kind: 'Keep' }
  /** Stays, and a user has to do something about it. */
  | { readonly kind: 'Blocked' };

/** One thing that was found, and what is done with it. */
export interface UninstallItem {
  readonly phase: UninstallPhase;
  readonly kind: string;
  readonly namespace?: string | undefined;
  readonly name: string;
  /** Verb that users read, such as `uncordon`. */
  readonly verb: string;
  readonly reason?: string | undefined;
  readonly action: UninstallAction;
}

type Subject = Pick<UninstallItem, 'phase' | 'kind'>;

/** Returns items about one object. */
export function itemsAbout({ phase, kind }: Subject, { metadata }: KubeObject) {
  const { namespace, name, uid = '', resourceVersion } = metadata;
  const item = (verb: string, action: UninstallAction, reason?: string): UninstallItem => ({
    phase,
    kind,
    ...(namespace !== undefined && { namespace }),
    name,
    verb,
    ...(reason !== undefined && { reason }),
    action,
  });
  const isOfUid: PatchOperation = { op: 'test', path: '/metadata/uid', value: uid };
  return {
    item,
    patch: (verb: string, operations: readonly PatchOperation[], reason?: string): UninstallItem =>
      item(verb, { kind: 'Patch', operations: [isOfUid, ...operations] }, reason),
    patchStatus: (verb: string, operations: readonly PatchOperation[], reason?: string): UninstallItem =>
      item(verb, { kind: 'Patch', operations: [isOfUid, ...operations], subresource: 'status' }, reason),
    /** Deletes the object; waits if that was done before and something holds it. */
    delete: (reason?: string): UninstallItem =>
      metadata.deletionTimestamp === undefined
        ? item('delete', { kind: 'Delete', uid }, reason)
        : item('wait until it is gone', { kind: 'Wait' }, reason),
    /** Deletes exactly the version that was read. */
    deleteUnchanged: (): UninstallItem => item('delete', { kind: 'Delete', uid, resourceVersion }),
    wait: (reason: string): UninstallItem => item('wait', { kind: 'Wait' }, reason),
    keep: (reason: string): UninstallItem => item('keep', { kind: 'Keep' }, reason),
    blocked: (reason: string): UninstallItem => item('left', { kind: 'Blocked' }, reason),
  };
}

/** Returns the operations that remove an item of a list, unless the list was changed. */
export function removeAt(path: string, index: number, value: unknown): PatchOperation[] {
  const item = `${path}/${index}`;
  return [
    { op: 'test', path: item, value },
    { op: 'remove', path: item },
  ];
}

/** Returns the operations that remove a key with this value. */
export function removeKey(path: string, key: string, value: unknown): PatchOperation[] {
  const field = keyPath(path, key);
  return [
    { op: 'test', path: field, value },
    { op: 'remove', path: field },
  ];
}

export function keyPath(path: string, key: string): string {
  return `${path}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

/** Returns the operations that remove a finalizer; undefined if the object does not have it. */
export function removeFinalizer({ metadata }: KubeObject, finalizer: string): PatchOperation[] | undefined {
  const index = metadata.finalizers?.indexOf(finalizer) ?? -1;
  return index === -1 ? undefined : removeAt('/metadata/finalizers', index, finalizer);
}
