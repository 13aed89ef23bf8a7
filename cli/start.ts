import { type Command, Option } from 'commander';
import { parseMaintenanceInput, toNodeMaintenance } from '../api/maintenanceInput.ts';
import type { NodeMaintenance, NodeMaintenanceStage } from '../api/nodeMaintenance.ts';
import { drainPlanProblems } from '../domain/drainPlan.ts';
import { stageOf } from '../domain/stage.ts';
import { freeName, nameFor } from '../domain/maintenanceName.ts';
import type { Kube } from '../kube/client.ts';
import { isKubeError } from '../kube/errors.ts';
import { resources } from '../kube/resources.ts';
import { type ClusterOptions, withCluster } from './cluster.ts';
import { drainPlanOf } from './files.ts';
import { maintenanceCalled, permitted, titleOf } from './maintenances.ts';
import { type ChosenNodes, chosenNodes } from './nodes.ts';
import { outputOption, stageOption, timeoutOf, type WaitOptions, waitOptions } from './options.ts';
import { Refusal, say, type Structured, structuredOne, UsageError } from './output.ts';
import { tellRunPages, type UiOptions } from './temporalUi.ts';
import { waitFor } from './wait.ts';

interface StartOptions extends ClusterOptions, UiOptions, WaitOptions {
  readonly selector?: string;
  readonly stage: NodeMaintenanceStage;
  readonly reason?: string;
  readonly name?: string;
  readonly plan?: string;
  readonly dryRun: 'none' | 'server';
  readonly output?: Structured;
}

/** kubectl maintenance start */
export function addStartVerb(program: Command): void {
  const start = program
    .command('start')
    .description('create a NodeMaintenance: cordon and drain nodes, and hold them for the work')
    .argument('[node...]', 'names of nodes')
    .option(
      '-l, --selector <labels>',
      'instead of names: nodes with these labels, also those that get them later',
    )
    .addOption(
      stageOption('--stage <stage>', 'to go to at once', ['Idle', 'Cordon', 'Drain', 'Complete']).default(
        'Drain',
      ),
    )
    .option('--reason <text>', 'why, for whoever meets the nodes meanwhile')
    .option('--name <name>', 'of the NodeMaintenance; made from the nodes if not given')
    .option('--plan <file>', 'a drain plan, in YAML or JSON; - is standard input')
    .addOption(
      new Option('--dry-run <strategy>', 'server: check it, admission included, and create nothing')
        .choices(['none', 'server'])
        .default('none'),
    )
    .addOption(outputOption());
  for (const option of waitOptions()) start.addOption(option);
  start.action((nodes: string[], _options, command: Command) => run(nodes, command.optsWithGlobals()));
}

async function run(nodes: readonly string[], options: StartOptions): Promise<void> {
  const timeout = timeoutOf(options);
  const isDry = options.dryRun === 'server';
  if (isDry && options.wait === true) throw new UsageError('give --wait or --dry-run, not both');
  const drainPlan = options.plan === undefined ? undefined : await drainPlanOf(options.plan);
  await withCluster(options, async (kube) => {
    const choice = { nodes, selector: options.selector };
    const chosen = await permitted(chosenNodes(kube, choice));
    const wanted = await named(kube, maintenanceOf(chosen, options, drainPlan), options.name === undefined);
    const created = await permitted(create(kube, wanted, isDry));
    say(
      options.output === undefined
        ? createdText(created, chosen, isDry)
        : structuredOne(created, options.output),
    );
    if (options.output === undefined && !isDry) await tellRunPages(options, [created.metadata.name]);
    if (options.wait === true)
      await waitFor(kube, {
        maintenance: created,
        stage: options.stage,
        timeout,
        isQuiet: options.output !== undefined,
      });
  });
}

async function create(kube: Kube, wanted: NodeMaintenance, isDry: boolean): Promise<NodeMaintenance> {
  const { name } = wanted.metadata;
  try {
    const options = { dryRun: isDry, fieldManager: 'kubectl-maintenance' };
    return await kube.create(resources.nodeMaintenances, wanted, options);
  } catch (error) {
    if (!isKubeError(error, 'AlreadyExists')) throw error;
    const existing = await maintenanceCalled(kube, name);
    throw new Refusal(
      `${titleOf(name)} exists already, and is in stage ${stageOf(existing)}: kubectl maintenance status ${name} shows it; give another --name`,
      { cause: error },
    );
  }
}

/** Throws a UsageError that names the fields, as they are called in the object. */
function maintenanceOf(
  { fields, names }: ChosenNodes,
  { name, selector, stage, reason }: StartOptions,
  drainPlan: unknown,
): NodeMaintenance {
  const parsed = parseMaintenanceInput({
    name: name ?? nameFor(names, selector),
    ...fields,
    stage,
    ...(reason !== undefined && { reason }),
    ...(drainPlan !== undefined && { drainPlan }),
  });
  const problems = parsed.ok ? drainPlanProblems(parsed.input.drainPlan ?? []) : parsed.problems;
  const maintenance = parsed.ok ? toNodeMaintenance(parsed.input) : undefined;
  if (problems.length > 0 || maintenance === undefined) throw new UsageError(problems.join('; '));
  return maintenance;
}

/** With a name that is free, where it was not given: maintenances that are complete stay for their history. */
async function named(kube: Kube, wanted: NodeMaintenance, isDerived: boolean): Promise<NodeMaintenance> {
  if (!isDerived) return wanted;
  const { items } = await permitted(kube.list(resources.nodeMaintenances));
  const free = freeName(wanted, items);
  if (free.kind === 'Free') return { ...wanted, metadata: { name: free.name } };
  const { name, stage } = free;
  throw new Refusal(
    `${titleOf(name)} has these nodes already, and is in stage ${stage}: kubectl maintenance status ${name} shows it; give --name to start another`,
  );
}

function createdText({ metadata, spec }: NodeMaintenance, { names }: ChosenNodes, isDry: boolean): string {
  const nodes = names.length === 1 ? `node ${names[0]}` : `${names.length} nodes`;
  const dry = isDry ? ' (server dry run)' : '';
  return `${titleOf(metadata.name)} created${dry}: stage ${spec.stage}, ${nodes}`;
}
