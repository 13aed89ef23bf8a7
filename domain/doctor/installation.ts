import { applyInstallation } from '../common/applyInstallation.ts';
import { versionProblem } from '../common/kubernetesVersion.ts';
import { type MutatingPolicies, weakerForMaintenances, weakerForNodes } from '../common/mutations.ts';
import { listed } from '../common/names.ts';
import { numbered } from '../common/text.ts';
import { error, type Finding, ok, warning } from './finding.ts';

/** Checks the version of the apiserver, and what makes the mutations. */
export function kubernetesFindings({
  version,
  policies,
}: {
  /** Version of the apiserver, such as `v1.37.1`. */
  version: string;
  /** Undefined if the user may not read them. */
  policies: MutatingPolicies | undefined;
}): Finding[] {
  const problem = versionProblem(version);
  if (problem !== undefined)
    return [error(`${problem}, and 1.33 or later is required`, 'upgrade the control plane')];
  const served = ok(`Kubernetes ${version}`);
  if (policies === undefined || policies === 'Installed') return [served];
  const weaker = [...weakerForMaintenances, ...weakerForNodes].join('; ');
  const consequence = `webhooks of the admission server replace them, and while none runs: ${weaker}`;
  return policies === 'NotServed'
    ? [
        served,
        warning(
          `this version does not serve MutatingAdmissionPolicies: ${consequence}`,
          'run two admission servers (deploy/admission-server), or upgrade the control plane to 1.36 and apply the installation again; see docs/reference/compatibility.md',
        ),
      ]
    : [
        served,
        warning(
          `MutatingAdmissionPolicies are served but not installed: ${consequence}`,
          'apply the installation again; it then uses the policies',
        ),
      ];
}

export interface InstallationFacts {
  /** Version of the plugin, such as `0.1.0`. */
  version: string;
  namespace: string;
  /** Number of compared objects: CRDs, policies, webhook configurations. */
  compared: number;
  /** Differences, such as `ValidatingAdmissionPolicy x is missing` and `ValidatingAdmissionPolicy y of release 0.2.0`. */
  differing: readonly string[];
  /** Why processes of this release do not start with what is installed. */
  problems: readonly string[];
  /** Namespaces of installations that the policies name. */
  namespaces: readonly string[];
}

const applyRemedy = `apply the manifests of the release that the workers run (${applyInstallation}), and use the plugin of that release`;

/** Checks the installed CRDs, policies and webhooks. */
export function installationFindings({
  version,
  namespace,
  compared,
  differing,
  problems,
  namespaces,
}: InstallationFacts): Finding[] {
  const others = namespaces.filter((one) => one !== namespace);
  if (others.length > 0)
    return [
      error(
        `the installed policies apply to the processes in namespace ${listed(others)}, not in ${namespace}`,
        `run the command with --namespace ${others[0]}, or apply the installation for namespace ${namespace}`,
      ),
    ];
  if (differing.length === 0 && problems.length === 0)
    return [
      ok(`${numbered(compared, 'CRD, policy and webhook object')} of release ${version} in ${namespace}`),
    ];
  if (problems.length > 0)
    return [error(`processes of release ${version} do not start: ${listed(problems)}`, applyRemedy)];
  // Processes of this release work with them (docs/adr/0055).
  const be = differing.length === 1 ? 'differs' : 'differ';
  const message = `${numbered(differing.length, 'object')} of ${compared} ${be} from release ${version}: ${listed(differing)}`;
  return [warning(message, applyRemedy)];
}

/** Permissions that a ServiceAccount lacks, according to access reviews. */
export interface AccountPermissions {
  account: string;
  /** Reviewed requests. */
  reviewed: number;
  /** Denied permissions, such as `patch nodes`. */
  denied: readonly string[];
}

/** Checks the permissions of the processes. */
export function accountFindings(accounts: readonly AccountPermissions[]): Finding[] {
  return accounts.map(({ account, reviewed, denied }) =>
    denied.length === 0
      ? ok(`ServiceAccount ${account} has the ${reviewed} permissions of deploy/`)
      : error(
          `ServiceAccount ${account} may not ${listed(denied)}`,
          `apply deploy/ of the release that the processes run: ${applyInstallation}`,
          `serviceaccount/${account}`,
        ),
  );
}

/** Reports what the user of the command may do. `missing` names what the role lacks, such as `create nodemaintenances`. */
export function userFindings(
  user: string,
  roles: readonly { role: string; purpose: string; missing: readonly string[] }[],
): Finding[] {
  const [granted, denied] = [
    roles.filter(({ missing }) => missing.length === 0),
    roles.filter(({ missing }) => missing.length > 0),
  ];
  const may = granted.map(({ purpose }) => purpose).join(' and ');
  return [
    ...(granted.length === 0 ? [] : [ok(`user ${user} may ${may}`)]),
    ...denied.map(({ role, purpose, missing }) =>
      warning(
        `user ${user} may not ${purpose}: ${listed(missing)} denied`,
        `bind the ClusterRole ${role}, if the user is meant to`,
      ),
    ),
  ];
}
