import type { KubeObject } from '../../api/core.ts';
import { type ObjectKey, pathOf, type Resource } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { type Impersonation, impersonationIn, type Response } from './impersonation.ts';

/** The answer of the apiserver to a request that stores nothing. */
export interface DryRunResult {
  /** 200 or 201, unless the request is rejected. */
  status: number;
  /** Why it is rejected: one line for each problem, as kubectl prints them. Empty if it is not. */
  rejection: string;
  warnings: string[];
  /** The object that the apiserver would store, if it is not rejected. */
  object: unknown;
}

/** Neither rejected nor warned of. */
export const allowed = { rejection: '', warnings: [] };

/**
 * Asks the apiserver what it would answer to users, without storing anything. A process of kubectl costs ten times as much as such a request, and a
 * table of rules needs hundreds of them.
 */
export class DryRuns {
  readonly #as: Impersonation;

  constructor(as: Impersonation) {
    this.#as = as;
  }

  /** Creates like `kubectl create --dry-run=server --as`; as the administrator unless a user is given. */
  async create(resource: Resource, object: object, user?: string): Promise<DryRunResult> {
    const { namespace } = (object as KubeObject).metadata;
    return this.#sent(user, 'POST', pathOf(resource, { namespace }), object);
  }

  /** Patches like `kubectl patch --type=merge --dry-run=server --as`. */
  async patch(resource: Resource, key: ObjectKey, patch: object, user?: string): Promise<DryRunResult> {
    return this.#sent(user, 'PATCH', pathOf(resource, key), patch);
  }

  close(): void {
    this.#as.close();
  }

  async #sent(
    user: string | undefined,
    method: 'POST' | 'PATCH',
    path: string,
    body: object,
  ): Promise<DryRunResult> {
    const query = 'dryRun=All&fieldValidation=Strict&fieldManager=kubectl';
    const response = await this.#as.send(user, { method, path: `${path}?${query}`, body });
    const { status, warnings } = response;
    return { status, rejection: rejectionIn(response), warnings, object: response.body };
  }
}

export async function dryRunsIn(sandbox: Sandbox): Promise<DryRuns> {
  return new DryRuns(await impersonationIn(sandbox));
}

function rejectionIn({ status, body: { reason, message = '', details } }: Response): string {
  if (status < 300) return '';
  const causes = details?.causes ?? [];
  if (reason !== 'Invalid' || causes.length === 0) return message;
  return causes.map((cause) => `${cause.field}: ${cause.message}`).join('\n');
}
