import { type Command, Option } from 'commander';
import { parseMaintenanceInput, toNodeMaintenance } from '../../api/maintenanceInput.ts';
import type { NodeMaintenance, NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import { drainPlanProblems } from '../../domain/drain/plan.ts';
import { stageOf } from '../../domain/common/stage.ts';
import { joinedProblems, numbered } from '../../domain/common/text.ts';
import { freeName, nameFor } from '../../domain/maintenance/name.ts';
import type { Kube } from '../../kube/client.ts';
import { isKubeError } from '../../kube/errors.ts';
import { resources } from '../../kube/resources.ts';
import { type ClusterOptions, withCluster } from '../cluster.ts';
import { readDrainPlan } from './files.ts';
import { getMaintenance, permitted, titleOf } from './maintenances.ts';
import { type ChosenNodes, chosenNodes } from './nodes.ts';
import { outputOption, stageOption, timeoutOf, type WaitOptions, waitOptions } from '../options.ts';
import { formatObject, print, CommandError, type Structured, UsageError } from '../output.ts';
import { printWorkflowLinks, type UiOptions } from './temporalUi.ts';
import { waitFor } from './wait.ts';

interface StartOptions extends ClusterOptions, UiOptions, WaitOptions {
  readonly selector?: string;
  readonly stage: NodeMaintenanceStage;
  readonly reason?: string;
  readonly name?: string;
  readonly plan?: string;
  readonly drainDeadline?: string;
  readonly onDeadline?: 'Report' | 'Delete';
  readonly requireCapacity?: boolean;
  readonly dryRun: 'none' | 'server';
  readonly output?: Structured;
}

/** kubectl maintenance start */
export function addStartVerb(program: Command): void {
  const start = program
    .command('start')
    .description(
      'create a NodeMaintenance: cordon and drain nodes, and keep them cordoned until it completes',
    )
    .argument('[node...]', 'names of nodes')
    .option(
      '-l, --selector <labels>',
      'select nodes by label instead of by name, including nodes that are labeled later',
    )
    .addOption(
      stageOption('--stage <stage>', 'initial stage', ['Idle', 'Cordon', 'Drain', 'Complete']).default(
        'Drain',
      ),
    )
    .option('--reason <text>', 'why the nodes are in maintenance')
    .option('--name <name>', 'name of the NodeMaintenance; default: derived from the nodes')
    .option('--plan <file>', 'file with a drain plan, in YAML or JSON; - is standard input')
    .option(
      '--drain-deadline <duration|time>',
      'how long the drain may take, such as 2h, or a time such as 2024-04-22T21:40:32Z; owners of pods are notified before',
    )
    .addOption(
      new Option(
        '--on-deadline <action>',
        'what happens at the deadline to the pods that are left; Delete requires permission to delete pods',
      ).choices(['Report', 'Delete']),
    )
    .option('--require-capacity', 'evacuate a pod only when its replacement fits on another node')
    .addOption(
      new Option('--dry-run <strategy>', 'server: validate, including admission, without creating the object')
        .choices(['none', 'server'])
        .default('none'),
    )
    .addOption(outputOption());
  for (const option of waitOptions()) start.addOption(option);
  start.action((nodes: string[], _options, command: Command) => run(nodes, command.optsWithGlobals()));
}

async function run(nodes: readonly string[], options: StartOptions): Promise<void> {
  const timeoutMs = timeoutOf(options);
  const isDry = options.dryRun === 'server';
  if (isDry && options.wait === true) throw new UsageError('specify --wait or --dry-run, not both');
  const drainPlan = options.plan === undefined ? undefined : await readDrainPlan(options.plan);
  await withCluster(options, async (kube) => {
    const selection = { nodes, selector: options.selector };
    const chosen = await permitted(chosenNodes(kube, selection));
    const desired = await withFreeName(
      kube,
      maintenanceOf(chosen, options, drainPlan),
      options.name === undefined,
    );
    const created = await permitted(create(kube, desired, isDry));
    print(
      options.output === undefined
        ? createdText(created, chosen, isDry)
        : formatObject(created, options.output),
    );
    if (options.output === undefined && !isDry)
      await printWorkflowLinks(kube, options, [created.metadata.name]);
    if (options.wait === true)
      await waitFor(kube, {
        maintenance: created,
        stage: options.stage,
        timeoutMs,
        isQuiet: options.output !== undefined,
      });
  });
}

async function create(kube: Kube, desired: NodeMaintenance, isDry: boolean): Promise<NodeMaintenance> {
  const { name } = desired.metadata;
  try {
    const options = { dryRun: isDry, fieldManager: 'kubectl-maintenance' };
    return await kube.create(resources.nodeMaintenances, desired, options);
  } catch (error) {
    if (!isKubeError(error, 'AlreadyExists')) throw error;
    const existing = await getMaintenance(kube, name);
    throw new CommandError(
      `${titleOf(name)} already exists and is in stage ${stageOf(existing)}: kubectl maintenance status ${name} shows it; specify another --name`,
      { cause: error },
    );
  }
}

/** Builds the object. Throws a UsageError with field paths of the object. */
function maintenanceOf(
  { fields, names }: ChosenNodes,
  options: StartOptions,
  drainPlan: unknown,
): NodeMaintenance {
  const { name, selector, stage, reason, requireCapacity } = options;
  const drainDeadline = deadlineOf(options);
  const parsed = parseMaintenanceInput({
    name: name ?? nameFor(names, selector),
    ...fields,
    stage,
    ...(reason !== undefined && { reason }),
    ...(drainPlan !== undefined && { drainPlan }),
    ...(drainDeadline !== undefined && { drainDeadline }),
    ...(requireCapacity !== undefined && { requireCapacity }),
  });
  const problems = parsed.ok ? drainPlanProblems(parsed.input.drainPlan ?? []) : parsed.problems;
  const maintenance = parsed.ok ? toNodeMaintenance(parsed.input) : undefined;
  if (problems.length > 0 || maintenance === undefined) throw new UsageError(joinedProblems(problems));
  return maintenance;
}

/** A value that begins with a date is a time. */
function deadlineOf({ drainDeadline, onDeadline }: StartOptions): object | undefined {
  if (drainDeadline === undefined) {
    if (onDeadline !== undefined) throw new UsageError('--on-deadline requires --drain-deadline');
    return undefined;
  }
  const isTime = /^\d{4}-/.test(drainDeadline);
  return {
    ...(isTime ? { at: drainDeadline } : { after: drainDeadline }),
    ...(onDeadline !== undefined && { onDeadline }),
  };
}

/** Selects an unused name if none was specified: completed maintenances are kept for their history. */
async function withFreeName(
  kube: Kube,
  desired: NodeMaintenance,
  isDerived: boolean,
): Promise<NodeMaintenance> {
  if (!isDerived) return desired;
  const { items } = await permitted(kube.list(resources.nodeMaintenances));
  const free = freeName(desired, items);
  if (free.kind === 'Free') return { ...desired, metadata: { name: free.name } };
  const { name, stage } = free;
  throw new CommandError(
    `${titleOf(name)} already has these nodes and is in stage ${stage}: kubectl maintenance status ${name} shows it; specify --name to start another`,
  );
}

function createdText({ metadata, spec }: NodeMaintenance, { names }: ChosenNodes, isDry: boolean): string {
  const nodes = names.length === 1 ? `node ${names[0]}` : numbered(names.length, 'node');
  const dry = isDry ? ' (server dry run)' : '';
  return `${titleOf(metadata.name)} created${dry}: stage ${spec.stage}, ${nodes}`;
}
