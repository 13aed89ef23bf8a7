import type { Lease, Node } from '../api/core.ts';
import {
  EXPECTED_OBJECT_NAME,
  MAX_OBJECT_NAME_LENGTH,
  NODE_LEASE_NAMESPACE,
  OBJECT_NAME_PATTERN,
} from '../api/names.ts';
import type { JsonPatchOperation, Kube, RequestOptions } from '../kube/client.ts';
import { isKubeError, KubeError } from '../kube/errors.ts';
import { resources } from '../kube/resources.ts';
import { NodeLeaseError } from './errors.ts';

/** The number of attempts at a conditional write. */
const maxAttempts = 5;

/** `null` removes a field. */
type SpecChanges = { readonly [Field in keyof Lease['spec']]?: Lease['spec'][Field] | null };

/** Reads the Leases of nodes and writes them conditionally. It has no state. */
export class LeaseObjects {
  readonly #kube: Kube;

  constructor(kube: Kube) {
    this.#kube = kube;
  }

  async read(node: string, options: RequestOptions): Promise<Lease | undefined> {
    requireNodeName(node);
    return this.#kube.get(resources.leases, leaseKeyOf(node), options);
  }

  /** Reads the Lease and acts on it. Repeats both if another client wrote it first. */
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
        const isConflict = isKubeError(error, 'Conflict', 'AlreadyExists');
        // The Lease was deleted between read and write.
        const isDeleted = lease !== undefined && isKubeError(error, 'NotFound');
        if (attempt === maxAttempts || !(isConflict || isDeleted)) throw error;
      }
    }
  }

  /**
   * Changes the spec, unless it differs from the one that was read (Conflict). Changed labels or annotations are no conflict: frequent
   * writers of these cannot prevent a renewal. Other fields of the spec stay.
   */
  replace(lease: Lease, changes: SpecChanges, options: RequestOptions): Promise<Lease> {
    return this.#replaceIf({ op: 'test', path: '/spec', value: lease.spec }, lease, changes, options);
  }

  /** Changes the spec, unless anything in the object changed since it was read (Conflict). */
  replaceVersion(lease: Lease, changes: SpecChanges, options: RequestOptions): Promise<Lease> {
    const { resourceVersion } = lease.metadata;
    const test = { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion } as const;
    return this.#replaceIf(test, lease, changes, options);
  }

  async create(node: string, spec: Lease['spec'], options: RequestOptions): Promise<Lease> {
    const owner = await this.nodeOf(node, options);
    return this.#kube.create(resources.leases, { ...newLease(owner), spec }, options);
  }

  /** Rejects with a NodeLeaseError if the node does not exist. */
  async nodeOf(node: string, options: RequestOptions): Promise<Node> {
    const found = await this.#kube.get(resources.nodes, { name: node }, options);
    if (found === undefined)
      throw new NodeLeaseError(`node: there is no node "${node}"; kubectl get nodes lists them`, {
        kind: 'NodeNotFound',
        node,
      });
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
      // The apiserver answers 422 Invalid for a failed test too: it is a conflict if the object has changed.
      const current = await this.#kube.get(resources.leases, leaseKeyOf(name), options);
      throw current?.metadata.resourceVersion === resourceVersion ? error : conflictOf(error);
    }
  }
}

function conflictOf(cause: KubeError): KubeError {
  const apiMessage = 'another client wrote the Lease first';
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

/** Throws a NodeLeaseError for an invalid node name. */
export function requireNodeName(node: string): void {
  if (node.length <= MAX_OBJECT_NAME_LENGTH && OBJECT_NAME_PATTERN.test(node)) return;
  const shown = node.length > MAX_OBJECT_NAME_LENGTH ? `${node.length} characters` : JSON.stringify(node);
  throw new NodeLeaseError(`node: ${EXPECTED_OBJECT_NAME} (got ${shown})`, { kind: 'InvalidArgument' });
}
