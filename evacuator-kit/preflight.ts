import { sleep } from '../kube/abort.ts';
import { type AccessRule, findMissingRules, ruleText } from '../kube/authorization.ts';
import { backOffMs } from '../kube/backOff.ts';
import type { Kube } from '../kube/client.ts';
import { errorMessage, isKubeError } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';

interface PreflightOptions {
  kube: Kube;
  log: Log;
  signal: AbortSignal;
  /** Namespace of the evacuated pods; undefined for all namespaces. */
  namespace: string | undefined;
  leaseNamespace: string;
  /** The function also serves Evictions of lifecycle.k8s.io. */
  respondsTo: boolean;
}

const retries = { firstMs: 500, capMs: 10_000 };

/**
 * Waits until the apiserver responds. Throws an Error with a one-line message for problems that waiting does not solve: missing
 * permissions, or a cluster without the Evacuation API.
 */
export async function checkCluster(options: PreflightOptions): Promise<void> {
  for (let failures = 0; !options.signal.aborted; failures++) {
    try {
      await requirePermissions(options);
      await requireEvacuationApi(options);
      if (options.respondsTo) await requireEvictionApi(options);
      return;
    } catch (error) {
      if (options.signal.aborted) return;
      if (!isKubeError(error, 'Unavailable', 'Throttled')) throw error;
      options.log.warn('The apiserver did not respond, retrying', { error: errorMessage(error) });
      await sleep(backOffMs(failures, retries), options.signal);
    }
  }
}

async function requirePermissions({
  kube,
  namespace,
  leaseNamespace,
  respondsTo,
  signal,
}: PreflightOptions): Promise<void> {
  const { group } = resources.evacuations;
  const rules: AccessRule[] = [
    { group: '', resource: 'pods', verbs: ['get', 'list', 'watch'], namespace },
    { group, resource: 'evacuations', verbs: ['get', 'list', 'watch'], namespace },
    { group, resource: 'evacuations/status', verbs: ['patch'], namespace },
    ...(respondsTo ? evictionRules(namespace) : []),
    {
      group: resources.leases.group,
      resource: 'leases',
      verbs: ['get', 'list', 'watch', 'create', 'patch'],
      namespace: leaseNamespace,
    },
  ];
  const missing = await findMissingRules(kube, rules, { signal });
  if (missing.length === 0) return;
  throw new Error(`missing RBAC permissions of an evacuator: add ${missing.map(ruleText).join(' and ')}`);
}

function evictionRules(namespace: string | undefined): AccessRule[] {
  const { group } = resources.evictions;
  return [
    { group, resource: 'evictions', verbs: ['get', 'list', 'watch'], namespace },
    { group, resource: 'evictions/status', verbs: ['patch'], namespace },
  ];
}

async function requireEvictionApi({ kube, signal }: PreflightOptions): Promise<void> {
  if (await kube.serves(resources.evictions, { signal })) return;
  throw new Error(
    'this cluster does not serve lifecycle.k8s.io/v1alpha1, which responderName needs: enable it in the apiserver, or remove responderName',
  );
}

async function requireEvacuationApi({ kube, namespace, signal }: PreflightOptions): Promise<void> {
  try {
    await kube.list(resources.evacuations, { namespace, signal });
  } catch (error) {
    if (!isKubeError(error, 'NotFound')) throw error;
    const message =
      'this cluster has no Evacuation API: install node-maintenance with kubectl apply -k deploy';
    throw new Error(message, { cause: error });
  }
}
