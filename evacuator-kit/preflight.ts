import { rest } from '../kube/abort.ts';
import { type AccessRule, missingRules, ruleText } from '../kube/authorization.ts';
import { backOffMs } from '../kube/backOff.ts';
import type { Kube } from '../kube/client.ts';
import { isKubeError, wordsOf } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';

interface Preflight {
  kube: Kube;
  log: Log;
  signal: AbortSignal;
  /** Where pods are evacuated; without it everywhere. */
  namespace: string | undefined;
  leaseNamespace: string;
}

const retries = { firstMs: 500, capMs: 10_000 };

/**
 * Waits for the apiserver. Throws an Error of one line for what waiting does not mend: a rule that the ServiceAccount
 * lacks, or a cluster without Evacuations.
 */
export async function checkCluster(preflight: Preflight): Promise<void> {
  for (let failures = 0; !preflight.signal.aborted; failures++) {
    try {
      await requireRules(preflight);
      await requireEvacuations(preflight);
      return;
    } catch (error) {
      if (preflight.signal.aborted) return;
      if (!isKubeError(error, 'Unavailable', 'Throttled')) throw error;
      preflight.log.warn('Kubernetes did not answer, trying again', { error: wordsOf(error) });
      await rest(backOffMs(failures, retries), preflight.signal);
    }
  }
}

async function requireRules({ kube, namespace, leaseNamespace, signal }: Preflight): Promise<void> {
  const { group } = resources.evacuations;
  const rules: AccessRule[] = [
    { group: '', resource: 'pods', verbs: ['get', 'list', 'watch'], namespace },
    { group, resource: 'evacuations', verbs: ['get', 'list', 'watch'], namespace },
    { group, resource: 'evacuations/status', verbs: ['patch'], namespace },
    {
      group: resources.leases.group,
      resource: 'leases',
      verbs: ['get', 'list', 'watch', 'create', 'patch'],
      namespace: leaseNamespace,
    },
  ];
  const missing = await missingRules(kube, rules, { signal });
  if (missing.length === 0) return;
  throw new Error(`RBAC does not allow what an evacuator needs: add ${missing.map(ruleText).join(' and ')}`);
}

async function requireEvacuations({ kube, namespace, signal }: Preflight): Promise<void> {
  try {
    await kube.list(resources.evacuations, { namespace, signal });
  } catch (error) {
    if (!isKubeError(error, 'NotFound')) throw error;
    const words = 'this cluster has no Evacuations: install node-maintenance, kubectl apply -k deploy';
    throw new Error(words, { cause: error });
  }
}
