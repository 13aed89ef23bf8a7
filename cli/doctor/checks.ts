import { applyInstallation } from '../../domain/common/applyInstallation.ts';
import { leaseHolderOf } from '../../api/names.ts';
import { budgetFindings } from '../../domain/doctor/budgets.ts';
import { evacuationFindings, evacuatorFindings } from '../../domain/doctor/evacuations.ts';
import { evictionRequestFindings, responderFindings } from '../../domain/doctor/evictionRequests.ts';
import {
  CheckName,
  error,
  type Finding,
  type ReportedFinding,
  warning,
} from '../../domain/doctor/finding.ts';
import {
  accountFindings,
  installationFindings,
  kubernetesFindings,
  userFindings,
} from '../../domain/doctor/installation.ts';
import { maintenanceFindings, windowFindings } from '../../domain/doctor/maintenances.ts';
import { nodeDisruptionBudgetFindings } from '../../domain/doctor/nodeDisruptionBudgets.ts';
import { leaseFindings, nodeFindings } from '../../domain/doctor/nodes.ts';
import { clockFindings, processFindings } from '../../domain/doctor/processes.ts';
import { temporalFindings } from '../../domain/doctor/temporal.ts';
import { certificateFindings, webhookFindings } from '../../domain/doctor/webhooks.ts';
import { whoAmI } from '../../kube/authorization.ts';
import type { Kube } from '../../kube/client.ts';
import { errorMessage, isKubeError } from '../../kube/errors.ts';
import { installationOf } from '../installation.ts';
import { accountFacts, userRoles } from './accounts.ts';
import { clockFacts } from './clocks.ts';
import { installationFacts, ownRelease, policiesIn } from './installation.ts';
import { ClusterObjects } from './objects.ts';
import { temporalFacts } from './temporal.ts';
import { authoritiesOf, probeWebhooks, readyEndpoints, registeredWebhooks } from './webhooks.ts';

export interface Examination {
  readonly namespace: string;
  readonly stuckAfterMs: number;
}

/** Input of a check. Each check gets its own signal, and shares the lists of objects. */
interface Context extends Examination {
  readonly kube: Kube;
  readonly objects: ClusterObjects;
  readonly signal: AbortSignal;
}

interface Check {
  readonly name: CheckName;
  /** The ClusterRole with the rights that it needs. */
  readonly role: string;
  readonly run: (context: Context) => Promise<Finding[]>;
}

const viewRole = 'node-maintenance-view';
const doctorRole = 'node-maintenance-doctor';

/** The checks in the order of the report. None depends on another one. */
const checks: readonly Check[] = [
  { name: CheckName.Kubernetes, role: doctorRole, run: checkKubernetes },
  { name: CheckName.Installation, role: doctorRole, run: checkInstallation },
  { name: CheckName.Permissions, role: viewRole, run: checkUser },
  { name: CheckName.Permissions, role: 'cluster-admin', run: checkAccounts },
  { name: CheckName.Webhooks, role: doctorRole, run: checkWebhooks },
  { name: CheckName.Certificates, role: doctorRole, run: checkCertificates },
  { name: CheckName.Processes, role: viewRole, run: checkProcesses },
  { name: CheckName.Clocks, role: viewRole, run: checkClocks },
  { name: CheckName.Temporal, role: viewRole, run: checkTemporal },
  { name: CheckName.Maintenances, role: viewRole, run: checkMaintenances },
  { name: CheckName.Windows, role: viewRole, run: checkWindows },
  { name: CheckName.Evacuations, role: viewRole, run: checkEvacuations },
  { name: CheckName.Evacuators, role: viewRole, run: checkEvacuators },
  { name: CheckName.Budgets, role: viewRole, run: checkBudgets },
  { name: CheckName.Leases, role: viewRole, run: checkLeases },
  { name: CheckName.Nodes, role: viewRole, run: checkNodes },
];

/** A check that takes longer reports so, and the others are complete. */
const checkTimeoutMs = 30_000;

/** Runs all checks at the same time. Never rejects: a check that fails is a finding. */
export async function examine(kube: Kube, examination: Examination): Promise<ReportedFinding[]> {
  const objects = new ClusterObjects(kube, AbortSignal.timeout(checkTimeoutMs));
  const results = await Promise.all(
    checks.map(async (check) => {
      const signal = AbortSignal.timeout(checkTimeoutMs);
      const findings = await check
        .run({ kube, objects, signal, ...examination })
        .catch((reason: unknown) => [notChecked(reason, check)]);
      return findings.map((finding) => ({ check: check.name, ...finding }));
    }),
  );
  return results.flat();
}

/** Reports a check that could not run: that is no proof that something is wrong. */
function notChecked(reason: unknown, { name, role }: Check): Finding {
  if (reason instanceof DOMException && reason.name === 'TimeoutError')
    return warning(
      `not checked: no complete answer within ${checkTimeoutMs / 1_000} s`,
      'repeat the command; if it does not help, look at the load of the apiserver',
    );
  const message = `not checked: ${errorMessage(reason)}`;
  if (isKubeError(reason, 'Forbidden')) return warning(message, `bind the ClusterRole ${role}`);
  if (isKubeError(reason, 'NotFound') && reason.request.verb !== 'get')
    return error(message, `install Node Maintenance: ${applyInstallation}`);
  const remedy = 'check the kubeconfig and the connection to the apiserver';
  return name === CheckName.Kubernetes ? error(message, remedy) : warning(message, remedy);
}

async function checkKubernetes({ kube, signal }: Context): Promise<Finding[]> {
  const version = await kube.serverVersion({ signal });
  const policies = await policiesIn(kube, signal).catch(unlessForbidden);
  return kubernetesFindings({ version, policies });
}

async function checkInstallation({ kube, namespace, signal }: Context): Promise<Finding[]> {
  return installationFindings(await installationFacts(kube, namespace, signal));
}

async function checkUser({ kube, namespace, signal }: Context): Promise<Finding[]> {
  const [user = 'of this kubeconfig', roles] = await Promise.all([
    whoAmI(kube, { signal }),
    userRoles(kube, namespace, signal),
  ]);
  return userFindings(user, roles);
}

async function checkAccounts({ kube, namespace, signal }: Context): Promise<Finding[]> {
  return accountFindings(await accountFacts(kube, namespace, signal));
}

async function checkWebhooks({ kube, namespace, signal }: Context): Promise<Finding[]> {
  const [webhooks, { probe, missingMutations }, endpoints] = await Promise.all([
    registeredWebhooks(kube, signal).catch(unlessForbidden),
    probeWebhooks(kube, signal),
    readyEndpoints(kube, namespace, signal).catch(unlessForbidden),
  ]);
  const callsService = webhooks?.some(({ address }) => address.startsWith('Service ')) === true;
  return webhookFindings({
    webhooks,
    probe,
    missingMutations,
    readyEndpoints: callsService ? endpoints : undefined,
  });
}

/** Resolves with undefined for facts that only users with more permissions can read. */
function unlessForbidden(reason: unknown): undefined {
  if (!isKubeError(reason, 'Forbidden')) throw reason;
}

async function checkCertificates({ kube, signal }: Context): Promise<Finding[]> {
  const webhooks = await registeredWebhooks(kube, signal);
  const bundles = webhooks
    .filter(({ caBundle }) => caBundle !== '')
    .map(({ name, caBundle }) => ({ webhook: name, authorities: authoritiesOf(caBundle) }));
  return certificateFindings(bundles, kube.now().getTime());
}

async function checkProcesses({ kube, namespace, signal }: Context): Promise<Finding[]> {
  const { processes, leader, election } = await installationOf(kube, namespace, { signal });
  return processFindings({
    namespace,
    version: await ownRelease(),
    processes,
    leader,
    electedAt: election?.spec.renewTime,
    now: kube.now().getTime(),
  });
}

async function checkClocks({ kube, namespace, signal }: Context): Promise<Finding[]> {
  const { clocks, localSkewMs } = await clockFacts(kube, namespace, signal);
  return clockFindings(clocks, localSkewMs);
}

async function checkTemporal({ kube, objects, namespace, signal }: Context): Promise<Finding[]> {
  return temporalFindings(await temporalFacts({ kube, objects, namespace, signal }));
}

async function checkMaintenances(context: Context): Promise<Finding[]> {
  return maintenanceFindings(await context.objects.maintenances(), timingOf(context));
}

async function checkWindows(context: Context): Promise<Finding[]> {
  return windowFindings(await context.objects.windows(), timingOf(context));
}

async function checkEvacuations(context: Context): Promise<Finding[]> {
  const { objects } = context;
  const [evacuations, pods, requests, evictions] = await Promise.all([
    objects.evacuations(),
    objects.pods(),
    objects.evictionRequests(),
    objects.evictions(),
  ]);
  const timing = timingOf(context);
  return [
    ...evacuationFindings(evacuations, pods, timing),
    ...evictionRequestFindings({ requests, evictions, pods }, timing),
  ];
}

async function checkEvacuators(context: Context): Promise<Finding[]> {
  const { objects, signal } = context;
  const [evacuations, pods] = await Promise.all([objects.evacuations(), objects.pods()]);
  const leading = await objects.leadingEvacuators(signal);
  const timing = timingOf(context);
  return [
    ...evacuatorFindings({ pods, evacuations, leading }, timing),
    ...responderFindings(await objects.evictions(), timing),
  ];
}

async function checkBudgets({ objects }: Context): Promise<Finding[]> {
  const [pods, budgets, nodeDisruptionBudgets] = await Promise.all([
    objects.pods(),
    objects.budgets(),
    objects.nodeDisruptionBudgets(),
  ]);
  return [...budgetFindings(pods, budgets), ...nodeDisruptionBudgetFindings(nodeDisruptionBudgets)];
}

async function checkLeases(context: Context): Promise<Finding[]> {
  const { objects, namespace } = context;
  const [leases, maintenances] = await Promise.all([objects.nodeLeases(), objects.maintenances()]);
  return leaseFindings({ leases, maintenances, ourHolder: leaseHolderOf(namespace) }, timingOf(context));
}

async function checkNodes(context: Context): Promise<Finding[]> {
  const { objects } = context;
  const [{ nodes, cordonedByUs }, maintenances, readinesses, pods, agentLeases] = await Promise.all([
    objects.nodes(),
    objects.maintenances(),
    objects.readinesses(),
    objects.pods(),
    objects.agentLeases(),
  ]);
  const facts = { nodes, cordonedByUs, maintenances, readinesses, pods, agentLeases };
  return nodeFindings(facts, timingOf(context));
}

function timingOf({ kube, stuckAfterMs }: Context) {
  return { now: kube.now().getTime(), stuckAfterMs };
}
