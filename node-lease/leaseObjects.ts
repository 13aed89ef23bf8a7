import type { Lease, Node } from '../api/core.ts';
import { NODE_LEASE_NAMESPACE } from '../api/names.ts';
import { objectName } from '../api/schema.ts';
import type { JsonPatchOperation, Kube, RequestOptions } from '../kube/client.ts';
import { isKubeError, KubeError } from '../kube/errors.ts';
import { resources } from '../kube/resources.ts';

/** Writers that get in each other's way so often are a crowd, or one of them is broken. */
const attempts = 5;

/** `null` takes a field away. */
type SpecChanges = { readonly [Field in keyof Lease['spec']]?: Lease['spec'][Field] | null };

/** The Lease objects of nodes, read and conditionally written. Keeps nothing. */
export class LeaseObjects {
  readonly #kube: Kube;

  constructor(kube: Kube) {
    this.#kube = kube;
  }

  /** Reads the Lease and decides by it, again when another writer was first. */
  async decide<T>(
    node: string,
    options: RequestOptions,
    act: (lease: Lease | undefined) => Promise<T>,
  ): Promise<T> {
    requireNodeName(node);
    for (let attempt = 1; ; attempt++) {
      const lease = await this.#kube.get(resources.leases, leaseKeyOf(node), options);
      try {
        return await act(lease);
      } catch (error) {
        const isOvertaken = isKubeError(error, 'Conflict', 'AlreadyExists');
        // A Lease that was deleted between read and write is missing in the next round.
        const isDeleted = lease !== undefined && isKubeError(error, 'NotFound');
        if (attempt === attempts || !(isOvertaken || isDeleted)) throw error;
      }
    }
  }

  /**
   * If the spec is still what was read: another writer of it rejects as Conflict. One of labels or annotations does not matter,
   * so that no crowd of them can keep a holder from renewing. What the spec has beyond `changes` stays.
   */
  replace(lease: Lease, changes: SpecChanges, options: RequestOptions): Promise<Lease> {
    return this.#replaceIf({ op: 'test', path: '/spec', value: lease.spec }, lease, changes, options);
  }

  /** If nobody has written anything of it since it was read. */
  replaceVersion(lease: Lease, changes: SpecChanges, options: RequestOptions): Promise<Lease> {
    const { resourceVersion } = lease.metadata;
    const test = { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion } as const;
    return this.#replaceIf(test, lease, changes, options);
  }

  async create(node: string, spec: Lease['spec'], options: RequestOptions): Promise<Lease> {
    const owner = await this.nodeOf(node, options);
    return this.#kube.create(resources.leases, { ...newLease(owner), spec }, options);
  }

  /** Rejects with an Error of one line when there is no such node. */
  async nodeOf(node: string, options: RequestOptions): Promise<Node> {
    const found = await this.#kube.get(resources.nodes, { name: node }, options);
    if (found === undefined)
      throw new Error(`node: there is no node "${node}"; kubectl get nodes lists them`);
    return found;
  }

  async #replaceIf(
    test: JsonPatchOperation,
    { metadata: { name, uid, resourceVersion }, spec }: Lease,
    changes: SpecChanges,
    options: RequestOptions,
  ): Promise<Lease> {
    const value = Object.fromEntries(
      Object.entries({ ...spec, ...changes }).filter(([, field]) => field !== null),
    );
    const operations: JsonPatchOperation[] = [
      { op: 'test', path: '/metadata/uid', value: uid },
      test,
      { op: 'replace', path: '/spec', value },
    ];
    try {
      return await this.#kube.jsonPatch(resources.leases, leaseKeyOf(name), operations, options);
    } catch (error) {
      if (!isKubeError(error, 'Invalid')) throw error;
      // A test that failed looks like a spec that the apiserver does not take.
      const current = await this.#kube.get(resources.leases, leaseKeyOf(name), options);
      throw current?.metadata.resourceVersion === resourceVersion ? error : conflictOf(error);
    }
  }
}

function conflictOf(cause: KubeError): KubeError {
  const apiMessage = 'another writer was first';
  return new KubeError({ kind: 'Conflict', request: cause.request, apiMessage, cause });
}

/** "The ownerRef will be the corresponding node so it is removed when the node is deleted" (KEP-1411 > Proposal). */
export function newLease({ metadata: { name, uid = '' } }: Readonly<Node>): Lease {
  const ownerReferences = [{ apiVersion: 'v1', kind: 'Node', name, uid }];
  return { metadata: { ...leaseKeyOf(name), ownerReferences }, spec: {} };
}

function leaseKeyOf(node: string): { namespace: string; name: string } {
  return { namespace: NODE_LEASE_NAMESPACE, name: node };
}

/** Throws an Error of one line for a name that no node can have. */
export function requireNodeName(node: string): void {
  const parsed = objectName().safeParse(node);
  if (parsed.success) return;
  const shown = node.length > 253 ? `${node.length} characters` : JSON.stringify(node);
  throw new Error(`node: ${parsed.error.issues[0]?.message} (got ${shown})`);
}
