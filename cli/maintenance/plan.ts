import { type Command, Option } from 'commander';
import { parseMaintenanceInput, toMaintenanceInput, toNodeMaintenance } from '../../api/maintenanceInput.ts';
import type { Node, Pod } from '../../api/core.ts';
import { NODE_LEASE_NAMESPACE, NODE_MAINTENANCE } from '../../api/names.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { windowMaintenancesIn } from '../../domain/windows/windowMaintenance.ts';
import { admissionWarnings } from '../../domain/admission/maintenance.ts';
import { holdsPodsBack } from '../../domain/capacity/condition.ts';
import { claimsToRead, forecastCapacity } from '../../domain/capacity/forecast.ts';
import { DRAIN_DEADLINE_EXCEEDED, isTrue } from '../../domain/common/conditions.ts';
import { isCordoned, isCordonedByMaintenance } from '../../domain/common/cordon.ts';
import { deletesOnDeadline } from '../../domain/drain/escalation.ts';
import { drainPlanProblems, planOf, positionOf } from '../../domain/drain/plan.ts';
import { summaryOf } from '../../domain/leases/summary.ts';
import { stageOf } from '../../domain/common/stage.ts';
import { activeReservationsIn } from '../../domain/windows/reservations.ts';
import { nameFor } from '../../domain/maintenance/name.ts';
import { isPaused } from '../../domain/maintenance/summary.ts';
import { compareNames, mayHaveAgent } from '../../domain/common/names.ts';
import { isLeftRunning, podTypeOf } from '../../domain/common/pod.ts';
import { joinedProblems } from '../../domain/common/text.ts';
import { type NodeAgent, nodeAgentOf } from '../../domain/leases/nodeAgent.ts';
import {
  type DeploymentRegistration,
  evictionApiOf,
  registrationOf,
} from '../../domain/leases/processSummary.ts';
import { selectsNode } from '../../domain/common/nodeSelector.ts';
import type { EvictionApi } from '../../domain/common/evictionApi.ts';
import { evacuationsByPod } from '../../domain/evacuation/evacuation.ts';
import { mayHaveRequests } from '../../domain/evacuation/serving.ts';
import {
  isStuck,
  type PodPreview,
  type Preview,
  type PreviewedPod,
  previewDrain,
} from '../../domain/drain/preview.ts';
import { BlockerReason } from '../../domain/evacuation/blocker.ts';
import { readAgentLease } from '../../kube/agentLease.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import { isKubeError } from '../../kube/errors.ts';
import { readClaimedVolumes } from '../../kube/claimedVolumes.ts';
import type { Kube } from '../../kube/client.ts';
import { listPodsWithScheduling } from '../../kube/podScheduling.ts';
import { resources } from '../../kube/resources.ts';
import { trimPodDisruptionBudget, trimPod } from '../../kube/transform.ts';
import { type ClusterOptions, withCluster } from '../cluster.ts';
import { installationOf } from '../installation.ts';
import { namespaceOption } from '../options.ts';
import { readRequests } from './evictionRequests.ts';
import { readDocument, readDrainPlan } from './files.ts';
import { getMaintenance, maintenanceName, permittedToRead, titleOf } from './maintenances.ts';
import { type ChosenNodes, chosenNodes } from './nodes.ts';
import { formatObject, print, CommandError, type Structured, UsageError } from '../output.ts';
import { type CapacityEffect, planLines, type PlanReport } from './planView.ts';
import { printWorkflowLinks, printStartFormLink, type UiOptions } from './temporalUi.ts';

interface PlanOptions extends ClusterOptions, UiOptions {
  readonly selector?: string;
  readonly filename?: string;
  readonly plan?: string;
  readonly check?: boolean;
  readonly namespace: string;
  readonly output?: Structured | 'wide';
}

/** kubectl maintenance plan */
export function addPlanVerb(program: Command): void {
  program
    .command('plan')
    .description('preview a drain tier by tier, including what would block it; changes nothing')
    .argument('[node...]', 'names of nodes, or of one NodeMaintenance (nm/NAME if a node has the same name)')
    .option('-l, --selector <labels>', 'select nodes by label instead of by name')
    .option(
      '-f, --filename <file>',
      'file with a NodeMaintenance that is not applied yet; - is standard input',
    )
    .option('--plan <file>', 'file with a drain plan, in YAML or JSON')
    .addOption(namespaceOption())
    .option('--check', 'exit with code 1 if the drain would not finish without intervention')
    .addOption(new Option('-o, --output <format>').choices(['wide', 'json', 'yaml']))
    .action((nodes: string[], _options, command: Command) => run(nodes, command.optsWithGlobals()));
}

async function run(args: readonly string[], options: PlanOptions): Promise<void> {
  const { check, output, namespace } = options;
  await withCluster(options, async (kube) => {
    const maintenance = await permittedToRead(resolveMaintenance(kube, args, options));
    const report = await permittedToRead(planReport(kube, maintenance, namespace));
    if (output === 'json' || output === 'yaml') print(formatObject(report, output));
    else {
      print(planLines(report, output === 'wide').join('\n'));
      await printLinks(kube, options, maintenance);
    }
    if (check === true && report.blocked)
      throw new CommandError('the drain would not finish without intervention');
  });
}

/** Prints a link to the run, or to the form that starts it. */
async function printLinks(kube: Kube, options: PlanOptions, maintenance: NodeMaintenance): Promise<void> {
  const { name, uid } = maintenance.metadata;
  if (uid === undefined) await printStartFormLink(kube, options, toMaintenanceInput(maintenance));
  else await printWorkflowLinks(kube, options, [name]);
}

/** Returns the maintenance to preview: an existing one, one in a file, or one that `start` would create. */
async function resolveMaintenance(
  kube: Kube,
  args: readonly string[],
  options: PlanOptions,
): Promise<NodeMaintenance> {
  const { filename, selector, plan } = options;
  if (filename !== undefined) {
    if (args.length > 0 || selector !== undefined || plan !== undefined)
      throw new UsageError(
        '--filename cannot be combined with nodes, --selector or --plan: the file contains them',
      );
    return maintenanceIn(filename);
  }
  const [first = ''] = args;
  const prefixed = args.find((one) => maintenanceName(one) !== one);
  if (prefixed !== undefined || (args.length === 1 && (await isMaintenance(kube, first)))) {
    if (args.length > 1 || selector !== undefined || plan !== undefined)
      throw new UsageError(
        `${prefixed ?? first} cannot be combined with nodes, --selector or --plan: the NodeMaintenance contains them`,
      );
    return inProgress(await getMaintenance(kube, maintenanceName(first)));
  }
  const chosen = await chosenNodes(kube, { nodes: args, selector });
  return maintenanceOf(chosen, plan === undefined ? undefined : await readDrainPlan(plan), selector);
}

/** A node takes precedence because maintenances are named after their nodes. */
async function isMaintenance(kube: Kube, name: string): Promise<boolean> {
  if (name.includes('/')) return false;
  if ((await kube.get(resources.nodes, { name })) !== undefined) return false;
  return (await kube.get(resources.nodeMaintenances, { name })) !== undefined;
}

function inProgress(maintenance: NodeMaintenance): NodeMaintenance {
  const { name } = maintenance.metadata;
  if (stageOf(maintenance) === 'Complete')
    throw new CommandError(
      `${titleOf(name)} is in stage Complete and does not drain any more: specify its nodes to preview a new drain`,
    );
  return maintenance;
}

async function maintenanceIn(file: string): Promise<NodeMaintenance> {
  const { kind, metadata, spec } = ((await readDocument(file)) ?? {}) as Partial<NodeMaintenance>;
  if (kind !== NODE_MAINTENANCE.kind) throw new UsageError(`${file}: expected a NodeMaintenance`);
  return parsed({ ...spec, name: metadata?.name ?? 'unnamed' }, `${file}: `);
}

function maintenanceOf(
  { fields, names }: ChosenNodes,
  drainPlan: unknown,
  selector: string | undefined,
): NodeMaintenance {
  const plan = drainPlan === undefined ? {} : { drainPlan };
  return parsed({ name: nameFor(names, selector), stage: 'Drain', ...fields, ...plan }, '');
}

/** Throws a UsageError that names the fields. */
function parsed(input: object, prefix: string): NodeMaintenance {
  const result = parseMaintenanceInput(input);
  const problems = result.ok ? drainPlanProblems(result.input.drainPlan ?? []) : result.problems;
  const maintenance = result.ok ? toNodeMaintenance(result.input) : undefined;
  if (problems.length > 0 || maintenance === undefined)
    throw new UsageError(`${prefix}${joinedProblems(problems) || 'spec.nodeSelector is missing'}`);
  return maintenance;
}

/** Pod lists that are read concurrently. */
const maxConcurrentLists = 8;

/** `namespace` is that of the installation. */
async function planReport(kube: Kube, maintenance: NodeMaintenance, namespace: string): Promise<PlanReport> {
  const { items: existing } = await kube.list(resources.nodes);
  const nodes = existing
    .filter((node) => selectsNode(maintenance.spec.nodeSelector, node))
    .toSorted((a, b) => compareNames(a.metadata.name, b.metadata.name));
  const names = nodes.map(({ metadata }) => metadata.name);
  const pods = await podsOn(kube, names, namespace);
  const [agents, budgets, evacuations, { held, warnings }, settings, capacity] = await Promise.all([
    agentsOf(kube, pods),
    kube.list(resources.podDisruptionBudgets),
    evacuationsOf(kube, pods),
    warningsOn(kube, maintenance, { nodes, existing }),
    settingsIn(kube, namespace),
    capacityOf(kube, { existing, drained: new Set(names), namespace }),
  ]);
  const { registration, evictionApi } = settings;
  const usesRequests = evictionApi !== undefined || mayHaveRequests(maintenance);
  const isDraining = stageOf(maintenance) === 'Drain';
  const preview = previewDrain({
    plan: planOf(maintenance),
    ...(isDraining && { from: positionOf(maintenance), fromTier: maintenance.status?.drainTier }),
    pods,
    budgets: budgets.items.map(trimPodDisruptionBudget),
    evacuations,
    agents,
    registration,
    evictionApi,
    ...(usesRequests && { requests: await readRequests(kube, podsOf(pods)) }),
    now: kube.now(),
  });
  const effect = effectOfMissingCapacity(maintenance);
  const unplaced = capacity?.unplaced ?? [];
  const isFull = effect === 'Waits' && unplaced.length > 0;
  const deletes = deletesLeftPods(maintenance, preview, evacuations);
  const halted = haltedBecause(maintenance);
  const needsHelp = preview.blocked && !deletes;
  const blocked = [needsHelp, held.length > 0, halted.length > 0, names.length === 0, isFull].includes(true);
  return {
    nodes: names,
    held,
    halted,
    ...(deletes && { deletesAtDeadline: true }),
    ...preview,
    blocked,
    warnings,
    ...(registration !== undefined && { deploymentRegistration: registration }),
    ...(evictionApi !== undefined && { evictionApi }),
    ...(capacity !== undefined && { capacity: { ...capacity, effect } }),
  };
}

/** Reports whether the drain deadline deletes all pods that cannot be evacuated: not static pods, those that terminate, and those whose Evacuations may not be cancelled. */
function deletesLeftPods(
  maintenance: NodeMaintenance,
  { tiers }: Preview,
  evacuations: ReadonlyMap<string, Evacuation>,
): boolean {
  const { drainedAt } = maintenance.status?.drainDeadline ?? {};
  if (!deletesOnDeadline(maintenance) || drainedAt !== undefined) return false;
  const isForbidden = ({ status }: Evacuation) => status?.evacuationCancellationPolicy === 'Forbid';
  const stuck = tiers.flatMap(({ pods }) => pods.filter(isStuck));
  const isDeletable = ({ podType, blockers }: PodPreview) =>
    podType !== 'Static' && !blockers.some(({ reason }) => reason === BlockerReason.StuckTerminating);
  return stuck.every(isDeletable) && ![...evacuations.values()].some(isForbidden);
}

/** Returns why an existing maintenance evacuates nothing. */
function haltedBecause(maintenance: NodeMaintenance): string[] {
  const { name } = maintenance.metadata;
  return isPaused(maintenance) ? [`it is paused: kubectl maintenance resume ${name}`] : [];
}

/** Returns what happens to pods that fit on no other node. After a deadline no pod waits. */
function effectOfMissingCapacity({ spec, status }: NodeMaintenance): CapacityEffect {
  const isPastDeadline = isTrue(status?.conditions, DRAIN_DEADLINE_EXCEEDED);
  if (!holdsPodsBack({ spec }, isPastDeadline)) return 'Pending';
  return spec.drainDeadline === undefined ? 'Waits' : 'WaitsUntilDeadline';
}

/** Reads from the identity Leases of the workers how they register the evacuator of Deployments, and by which API they drain. */
async function settingsIn(
  kube: Kube,
  namespace: string,
): Promise<{ registration?: DeploymentRegistration | undefined; evictionApi?: EvictionApi | undefined }> {
  try {
    const { processes } = await installationOf(kube, namespace);
    const evictionApi = evictionApiOf(processes);
    return {
      registration: registrationOf(processes),
      ...(evictionApi !== 'evacuation' && { evictionApi }),
    };
  } catch (error) {
    if (!isKubeError(error, 'Forbidden')) throw error;
    return {};
  }
}

/** All pods of the cluster are read for this long at most, and this many. */
const maxCapacityMs = 30_000;
const maxCapacityPods = 200_000;
const maxClaims = 500;

async function capacityOf(
  kube: Kube,
  { existing, drained, namespace }: { existing: readonly Node[]; drained: Set<string>; namespace: string },
): Promise<Omit<NonNullable<PlanReport['capacity']>, 'effect'> | undefined> {
  if (drained.size === 0) return undefined;
  const signal = AbortSignal.timeout(maxCapacityMs);
  const pods = await listPodsWithScheduling(kube, { maxPods: maxCapacityPods, signal });
  if (pods === undefined) return undefined;
  const claims = claimsToRead({ drained, pods }, maxClaims);
  const endsAt = performance.now() + maxCapacityMs;
  const { volumes, unread } = await readClaimedVolumes(kube, claims, { endsAt });
  const leaves = (pod: Pod) => !isLeftRunning(pod, namespace);
  const nowMs = kube.now().getTime();
  return {
    ...forecastCapacity({ nodes: existing, drained, pods, volumes, leaves, nowMs }),
    unreadClaims: unread,
  };
}

/** Returns the agents of the nodes that have static pods. */
async function agentsOf(kube: Kube, pods: readonly PreviewedPod[]): Promise<Map<string, NodeAgent>> {
  const withStaticPods = pods.filter(({ pod }) => podTypeOf(pod) === 'Static');
  const nodes = new Set(withStaticPods.map(({ pod }) => pod.spec.nodeName ?? ''));
  const agents = new Map<string, NodeAgent>();
  await forEachBounded(maxConcurrentLists, [...nodes].filter(mayHaveAgent), async (node) => {
    agents.set(node, nodeAgentOf(await readAgentLease(kube, node), kube.now()));
  });
  return agents;
}

/** Returns the Evacuations of these pods, by the UIDs of the pods. */
async function evacuationsOf(kube: Kube, pods: readonly PreviewedPod[]): Promise<Map<string, Evacuation>> {
  const { items } = await kube.list(resources.evacuations);
  return evacuationsByPod(podsOf(pods), items);
}

function podsOf(previewed: readonly PreviewedPod[]): Pod[] {
  return previewed.map(({ pod }) => pod);
}

/** Returns the pods on the nodes that a drain does not leave running whatever they are. */
async function podsOn(kube: Kube, names: readonly string[], namespace: string): Promise<PreviewedPod[]> {
  const pods: PreviewedPod[] = [];
  await forEachBounded(maxConcurrentLists, names, async (name) => {
    const { items } = await kube.list(resources.pods, { fieldSelector: `spec.nodeName=${name}` });
    for (const raw of items) {
      const pod = trimPod(raw);
      if (isLeftRunning(pod, namespace)) continue;
      const emptyDirs = (raw.spec.volumes ?? []).filter(({ emptyDir }) => emptyDir !== undefined);
      const hasClaims = raw.spec.volumes?.some((one) => one.persistentVolumeClaim !== undefined) === true;
      pods.push({ pod, emptyDirs: emptyDirs.map((volume) => volume.name), hasClaims });
    }
  });
  return pods;
}

async function warningsOn(
  kube: Kube,
  maintenance: NodeMaintenance,
  { nodes, existing }: { nodes: readonly Node[]; existing: readonly Node[] },
): Promise<Pick<PlanReport, 'held' | 'warnings'>> {
  const [leases, all, budgets] = await Promise.all([
    kube.list(resources.leases, { namespace: NODE_LEASE_NAMESPACE }),
    kube.list(resources.nodeMaintenances),
    kube.list(resources.nodeDisruptionBudgets),
  ]);
  const { name } = maintenance.metadata;
  // Evaluated as a new maintenance: one in progress received its warnings when it was created.
  const proposal = { name, spec: { ...maintenance.spec, stage: 'Drain' as const } };
  const now = kube.now().getTime();
  const held = nodes.flatMap(({ metadata }) => {
    const lease = leases.items.find((one) => one.metadata.name === metadata.name);
    const { state, holder = '' } = summaryOf(metadata.name, lease, now);
    const isHeldByOther =
      (state === 'Held' || state === 'HeldByAdministrator') && !holder.startsWith(ourHolders);
    return isHeldByOther ? [{ node: metadata.name, holder }] : [];
  });
  const foreign = held.map(
    ({ node, holder }) => `node ${node} is held by ${holder}: the drain would wait for its Lease`,
  );
  const recorded = new Set(maintenance.status?.nodeStatuses.map(({ nodeRef }) => nodeRef.name));
  const cordoned = nodes
    .filter((node) => isCordoned(node) && !isCordonedByMaintenance(node))
    .filter(({ metadata }) => !recorded.has(metadata.name))
    .map(({ metadata }) => `node ${metadata.name} is already cordoned and would stay cordoned afterwards`);
  const admission = admissionWarnings(proposal, {
    nodes: existing,
    maintenances: all.items,
    budgets: budgets.items,
    reservations: activeReservationsIn(budgets.items, {
      maintenances: windowMaintenancesIn(all.items),
      nowMs: now,
    }),
  });
  return { held, warnings: [...admission, ...foreign, ...cordoned] };
}

/** Prefix of the holders of this project, independent of the namespace of the installation. */
const ourHolders = `${NODE_MAINTENANCE.group}/`;
