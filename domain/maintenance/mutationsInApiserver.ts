import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { ConditionFacts } from '../common/conditions.ts';
import { type MutatingPolicies, weakerForMaintenances } from '../common/mutations.ts';
import { isFinished } from './runNeed.ts';

/** Condition of a NodeMaintenance that webhooks guard in place of policies in the apiserver. Others do not have one. */
const MUTATIONS_IN_APISERVER = 'MutationsInApiserver';

/** Returns the condition that the maintenance should have; undefined if the one that it has stays, or it needs none. */
export function mutationsCondition(
  maintenance: Readonly<NodeMaintenance>,
  policies: MutatingPolicies,
): ConditionFacts | undefined {
  const { status } = maintenance;
  if (status === undefined || isFinished(maintenance)) return undefined;
  const reported = status.conditions.find(({ type }) => type === MUTATIONS_IN_APISERVER);
  const isReported = reported?.status === 'False';
  if (policies === 'Installed')
    return isReported
      ? {
          type: MUTATIONS_IN_APISERVER,
          status: 'True',
          reason: 'PoliciesInstalled',
          message:
            'MutatingAdmissionPolicies are installed: nothing depends on the admission server any more.',
        }
      : undefined;
  const facts: ConditionFacts = {
    type: MUTATIONS_IN_APISERVER,
    status: 'False',
    reason: policies === 'NotServed' ? 'PoliciesNotServed' : 'PoliciesNotInstalled',
    message: `${causes[policies]}, so webhooks of the admission server replace them. While no admission server runs: ${weakerForMaintenances.join('; ')}.`,
  };
  return isReported && reported.reason === facts.reason ? undefined : facts;
}

const causes = {
  NotServed: 'The apiserver does not serve MutatingAdmissionPolicies (Kubernetes before 1.36)',
  NotInstalled: 'The apiserver serves MutatingAdmissionPolicies, but the installation does not have them',
} as const;
