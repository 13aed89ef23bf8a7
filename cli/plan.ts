import { type Command, Option } from 'commander';
import { parseMaintenanceInput, toMaintenanceInput, toNodeMaintenance } from '../api/maintenanceInput.ts';
import type { Node } from '../api/core.ts';
import { NODE_BUDGET_NAME, NODE_LEASE_NAMESPACE, NODE_MAINTENANCE } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { claimedTurns } from '../api/windowTurn.ts';
import { admissionWarnings } from '../domain/admission.ts';
import { isCordoned } from '../domain/cordon.ts';
import { completeDrainPlan, drainPlanProblems } from '../domain/drainPlan.ts';
import { summaryOf } from '../domain/leaseSummary.ts';
import { stageOf } from '../domain/stage.ts';
import { asItStands } from '../domain/nodeBudget.ts';
import { nameFor } from '../domain/maintenanceName.ts';
import { compareNames } from '../domain/names.ts';
import { selectsNode } from '../domain/nodeSelector.ts';
import { type Preview, type PreviewedPod, previewDrain } from '../domain/preview.ts';
import { forEachBounded } from '../kube/bounded.ts';
import type { Kube } from '../kube/client.ts';
import { resources } from '../kube/resources.ts';
import { slimBudget, slimPod } from '../kube/slim.ts';
import { type ClusterOptions, withCluster } from './cluster.ts';
import { documentOf, drainPlanOf } from './files.ts';
import { maintenanceCalled, maintenanceName, permittedToLook, titleOf } from './maintenances.ts';
import { type ChosenNodes, chosenNodes } from './nodes.ts';
import { Refusal, say, type Structured, structuredOne, UsageError } from './output.ts';
import { planLines } from './planView.ts';
import { tellRunPages, tellStartForm, type UiOptions } from './temporalUi.ts';

interface PlanOptions extends ClusterOptions, UiOptions {
  readonly selector?: string;
  readonly filename?: string;
  readonly plan?: string;
  readonly check?: boolean;
  readonly output?: Structured | 'wide';
}

/** What would happen to which nodes, for people and scripts. */
export interface PlanReport extends Preview {
  readonly nodes: readonly string[];
  /** Nodes whose maintenance Lease somebody else has: the drain would wait for them. */
  readonly held: readonly { readonly node: string; readonly holder: string }[];
  /** What whoever drains these nodes may want to know of nodes and other maintenances. */
  readonly warnings: readonly string[];
}

/** kubectl maintenance plan */
export function addPlanVerb(program: Command): void {
  program
    .command('plan')
    .description('show tier by tier what a drain would do, and what would block it; nothing is touched')
    .argument(
      '[node...]',
      'names of nodes, or of one NodeMaintenance (nm/NAME where a node has the same name)',
    )
    .option('-l, --selector <labels>', 'instead of names: nodes with these labels')
    .option('-f, --filename <file>', 'a NodeMaintenance that is not applied yet; - is standard input')
    .option('--plan <file>', 'a drain plan for the nodes, in YAML or JSON')
    .option('--check', 'exit 1 if the drain would not end by itself')
    .addOption(new Option('-o, --output <format>').choices(['wide', 'json', 'yaml']))
    .action((nodes: string[], _options, command: Command) => run(nodes, command.optsWithGlobals()));
}

async function run(args: readonly string[], options: PlanOptions): Promise<void> {
  const { check, output } = options;
  await withCluster(options, async (kube) => {
    const maintenance = await permittedToLook(wanted(kube, args, options));
    const report = await permittedToLook(reportOn(kube, maintenance));
    if (output === 'json' || output === 'yaml') say(structuredOne(report, output));
    else {
      say(planLines(report, output === 'wide').join('\n'));
      await tellPages(options, maintenance);
    }
    if (check === true && report.blocked) throw new Refusal('the drain would not end by itself');
  });
}

/** The page of its run, or where it can be started. */
async function tellPages(options: PlanOptions, maintenance: NodeMaintenance): Promise<void> {
  const { name, uid } = maintenance.metadata;
  if (uid === undefined) await tellStartForm(options, toMaintenanceInput(maintenance));
  else await tellRunPages(options, [name]);
}

/** The maintenance that is meant: one that exists, one in a file, or one that `start` would create. */
async function wanted(kube: Kube, args: readonly string[], options: PlanOptions): Promise<NodeMaintenance> {
  const { filename, selector, plan } = options;
  if (filename !== undefined) {
    if (args.length > 0 || selector !== undefined || plan !== undefined)
      throw new UsageError('give --filename alone: it says which nodes, and has the drain plan');
    return maintenanceIn(filename);
  }
  const [first = ''] = args;
  const prefixed = args.find((one) => maintenanceName(one) !== one);
  if (prefixed !== undefined || (args.length === 1 && (await isMaintenance(kube, first)))) {
    if (args.length > 1 || selector !== undefined || plan !== undefined)
      throw new UsageError(
        `give ${prefixed ?? first} alone: a NodeMaintenance says which nodes, and has the drain plan`,
      );
    return underWay(await maintenanceCalled(kube, maintenanceName(first)));
  }
  const chosen = await chosenNodes(kube, { nodes: args, selector });
  return maintenanceOf(chosen, plan === undefined ? undefined : await drainPlanOf(plan), selector);
}

/** A node has precedence: maintenances are called after their nodes. */
async function isMaintenance(kube: Kube, name: string): Promise<boolean> {
  if (name.includes('/')) return false;
  if ((await kube.get(resources.nodes, { name })) !== undefined) return false;
  return (await kube.get(resources.nodeMaintenances, { name })) !== undefined;
}

function underWay(maintenance: NodeMaintenance): NodeMaintenance {
  const { name } = maintenance.metadata;
  if (stageOf(maintenance) === 'Complete')
    throw new Refusal(
      `${titleOf(name)} is in stage Complete, and drains nothing any more: name its nodes to plan another`,
    );
  return maintenance;
}

async function maintenanceIn(file: string): Promise<NodeMaintenance> {
  const { kind, metadata, spec } = ((await documentOf(file)) ?? {}) as Partial<NodeMaintenance>;
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
    throw new UsageError(`${prefix}${problems.join('; ') || 'spec.nodeSelector is missing'}`);
  return maintenance;
}

/** Lists of pods that are read at once. */
const nodesAtOnce = 8;

async function reportOn(kube: Kube, maintenance: NodeMaintenance): Promise<PlanReport> {
  const { items: existing } = await kube.list(resources.nodes);
  const nodes = existing
    .filter((node) => selectsNode(maintenance.spec.nodeSelector, node))
    .toSorted((a, b) => compareNames(a.metadata.name, b.metadata.name));
  const names = nodes.map(({ metadata }) => metadata.name);
  const [pods, budgets, { held, warnings }] = await Promise.all([
    podsOn(kube, names),
    kube.list(resources.podDisruptionBudgets),
    warningsOn(kube, maintenance, { nodes, existing }),
  ]);
  const isDraining = stageOf(maintenance) === 'Drain';
  const preview = previewDrain({
    plan: completeDrainPlan(maintenance.spec.drainPlan),
    from: isDraining ? (maintenance.status?.drainPosition ?? 0) : 0,
    pods,
    budgets: budgets.items.map(slimBudget),
    now: kube.now(),
  });
  const blocked = preview.blocked || held.length > 0 || names.length === 0;
  return { nodes: names, held, ...preview, blocked, warnings };
}

async function podsOn(kube: Kube, names: readonly string[]): Promise<PreviewedPod[]> {
  const pods: PreviewedPod[] = [];
  await forEachBounded(nodesAtOnce, names, async (name) => {
    const { items } = await kube.list(resources.pods, { fieldSelector: `spec.nodeName=${name}` });
    for (const raw of items) {
      const emptyDirs = (raw.spec.volumes ?? []).filter(({ emptyDir }) => emptyDir !== undefined);
      pods.push({ pod: slimPod(raw), emptyDirs: emptyDirs.map((volume) => volume.name) });
    }
  });
  return pods;
}

async function warningsOn(
  kube: Kube,
  maintenance: NodeMaintenance,
  { nodes, existing }: { nodes: readonly Node[]; existing: readonly Node[] },
): Promise<Pick<PlanReport, 'held' | 'warnings'>> {
  const [leases, all, budget] = await Promise.all([
    kube.list(resources.leases, { namespace: NODE_LEASE_NAMESPACE }),
    kube.list(resources.nodeMaintenances),
    kube.get(resources.nodeBudgets, { name: NODE_BUDGET_NAME }),
  ]);
  const { name } = maintenance.metadata;
  // As if it were started now: one that is under way was warned of when it was.
  const proposal = { name, spec: { ...maintenance.spec, stage: 'Drain' as const } };
  const now = kube.now().getTime();
  const held = nodes.flatMap(({ metadata }) => {
    const lease = leases.items.find((one) => one.metadata.name === metadata.name);
    const { state, holder = '' } = summaryOf(metadata.name, lease, now);
    const isForeign = (state === 'Held' || state === 'Administrator') && !holder.startsWith(ourHolders);
    return isForeign ? [{ node: metadata.name, holder }] : [];
  });
  const foreign = held.map(
    ({ node, holder }) => `node ${node} is held by ${holder}: the drain would wait for its Lease`,
  );
  const recorded = new Set(maintenance.status?.nodeStatuses.map(({ nodeRef }) => nodeRef.name));
  const cordoned = nodes
    .filter((node) => isCordoned(node) && !recorded.has(node.metadata.name))
    .map(({ metadata }) => `node ${metadata.name} is cordoned already, and would stay so afterwards`);
  const admission = admissionWarnings(proposal, {
    nodes: existing,
    maintenances: all.items,
    budget: budget && asItStands(budget, { turns: claimedTurns(all.items), now }),
  });
  return { held, warnings: [...admission, ...foreign, ...cordoned] };
}

/** What leaseHolderOf gives, whatever the installation's namespace. */
const ourHolders = `${NODE_MAINTENANCE.group}/`;
