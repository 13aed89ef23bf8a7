import type { Command } from 'commander';
import type { TemporalNames } from '../../api/names.ts';
import type { NodeMaintenance, NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import { isPaused } from '../../domain/maintenance/summary.ts';
import {
  type AdvanceRequest,
  advanceProblem,
  destinationOf,
  hasStarted,
  missingFromProblem,
  stageOf,
} from '../../domain/common/stage.ts';
import type { Kube } from '../../kube/client.ts';
import { isKubeError, isRejection, errorMessage } from '../../kube/errors.ts';
import { resources } from '../../kube/resources.ts';
import { type ClusterOptions, withCluster } from '../cluster.ts';
import { getMaintenance, maintenanceName, permitted, permittedToRead, titleOf } from './maintenances.ts';
import { updateWorkflow } from './update.ts';
import { outputOption, stageOption, timeoutOf, type WaitOptions, waitOptions } from '../options.ts';
import { formatObject, print, printError, CommandError, type Structured } from '../output.ts';
import { waitFor } from './wait.ts';

interface StageOptions extends ClusterOptions {
  readonly output?: Structured;
}

interface AdvanceOptions extends StageOptions, WaitOptions {
  readonly to?: NodeMaintenanceStage;
  readonly from?: NodeMaintenanceStage;
}

/** kubectl maintenance advance | cancel | pause | resume */
export function addStageVerbs(program: Command): void {
  const advance = program
    .command('advance')
    .description('advance to the next stage')
    .argument('<name>', 'name of the NodeMaintenance', maintenanceName)
    .addOption(
      stageOption('--to <stage>', 'target stage; default: the next one', ['Cordon', 'Drain', 'Complete']),
    )
    .addOption(
      stageOption('--from <stage>', 'advance only from this stage: a repeated command has no effect', [
        'Idle',
        'Cordon',
        'Drain',
      ]),
    );
  const cancel = program
    .command('cancel')
    .description('stop the maintenance and uncordon its nodes; the same as advance --to Complete')
    .argument('<name>', 'name of the NodeMaintenance', maintenanceName);
  for (const verb of [advance, cancel])
    for (const option of [...waitOptions(), outputOption()]) verb.addOption(option);
  advance.action((name: string, _options, command: Command) => changeStage(name, command.optsWithGlobals()));
  cancel.action((name: string, _options, command: Command) =>
    changeStage(name, { ...command.optsWithGlobals(), to: 'Complete' }),
  );
  program
    .command('pause')
    .description(
      'start no new Evacuation and no new tier; nodes stay cordoned, evacuations in progress continue',
    )
    .argument('<name>', 'name of the NodeMaintenance', maintenanceName)
    .addOption(outputOption())
    .action((name: string, _options, command: Command) => setPaused(name, true, command.optsWithGlobals()));
  program
    .command('resume')
    .description('resume a paused maintenance')
    .argument('<name>', 'name of the NodeMaintenance', maintenanceName)
    .addOption(outputOption())
    .action((name: string, _options, command: Command) => setPaused(name, false, command.optsWithGlobals()));
}

/** Writes `.spec.stage`, which the workflow follows. */
async function changeStage(
  name: string,
  { to, from, wait, timeout: requestedTimeout, output, ...cluster }: AdvanceOptions,
): Promise<void> {
  const timeoutMs = timeoutOf({ wait, timeout: requestedTimeout });
  await withCluster(cluster, async (kube) => {
    const current = await permitted(getMaintenance(kube, name));
    const before = stageOf(current);
    const stage = destinationOf(before, { to, from });
    const problem =
      before === stage && to !== undefined ? undefined : requestProblem(current, { to, from }, kube.now());
    if (problem !== undefined) throw new CommandError(`${titleOf(name)}: ${problem}`);
    const isReached = current.spec.stage === stage || before === stage;
    const maintenance = isReached ? current : await permitted(writeStage(kube, current, stage));
    const text = isReached ? `is already in stage ${stage}` : `moved from ${before} to ${stage}`;
    report(maintenance, text, output);
    // Deleting the object is what changes nothing.
    if (!isReached && before === 'Idle' && stage === 'Complete' && hasStarted(current, 'Idle'))
      printError(
        'Nodes that someone has cordoned become schedulable, because the maintenance goes from Idle to Complete.',
      );
    if (wait === true) await waitFor(kube, { maintenance, stage, timeoutMs, isQuiet: output !== undefined });
  });
}

/** Prints a sentence, or the object for scripts. */
function report(maintenance: NodeMaintenance, text: string, output: Structured | undefined): void {
  const { name } = maintenance.metadata;
  print(output === undefined ? `${titleOf(name)} ${text}` : formatObject(maintenance, output));
}

/** Returns why the maintenance does not advance; undefined if it does, or if it has done so already. */
function requestProblem(
  maintenance: NodeMaintenance,
  { to, from }: AdvanceRequest,
  now: Date,
): string | undefined {
  const stage = stageOf(maintenance);
  const { stageStatuses = [] } = maintenance.status ?? {};
  const startedAt = stageStatuses.find(({ name }) => name === stage)?.startTimestamp;
  const sinceChangeMs = startedAt === undefined ? undefined : now.getTime() - Date.parse(startedAt);
  const problem =
    advanceProblem(stage, { to, from }) ?? missingFromProblem(stage, { to, from }, sinceChangeMs);
  return problem?.replace(/send \{"from": "(\w+)"\}/, 'add --from $1').replace(/^from/, '--from');
}

/** Writes the stage if it is still the one that was read: a concurrent change may have another intent. */
async function writeStage(
  kube: Kube,
  { metadata: { name, uid }, spec }: NodeMaintenance,
  stage: NodeMaintenanceStage,
): Promise<NodeMaintenance> {
  const operations = [
    { op: 'test', path: '/metadata/uid', value: uid },
    { op: 'test', path: '/spec/stage', value: spec.stage },
    { op: 'replace', path: '/spec/stage', value: stage },
  ] as const;
  const options = { fieldManager: 'kubectl-maintenance' };
  try {
    return await kube.jsonPatch(resources.nodeMaintenances, { name }, operations, options);
  } catch (error) {
    if (isKubeError(error, 'Unavailable') && !isRejection(error))
      throw new CommandError(
        `${errorMessage(error)}; the result is unknown: retry with kubectl maintenance advance ${name} --to ${stage}`,
        { cause: error },
      );
    if (!isKubeError(error, 'Invalid', 'Conflict')) throw error;
    const now = await getMaintenance(kube, name);
    if (now.metadata.uid === uid && now.spec.stage === spec.stage) throw error;
    throw new CommandError(
      `${titleOf(name)} was changed concurrently and is in stage ${now.spec.stage}: check it and retry`,
      { cause: error },
    );
  }
}

/** Sends an update to the workflow, which completes when the drain is really paused. */
async function setPaused(name: string, wanted: boolean, { output, ...cluster }: StageOptions): Promise<void> {
  await withCluster(cluster, async (kube) => {
    const maintenance = await permittedToRead(getMaintenance(kube, name));
    const verb = wanted ? 'pause' : 'resume';
    if (stageOf(maintenance) === 'Complete')
      throw new CommandError(`${titleOf(name)} is in stage Complete: there is nothing to ${verb}`);
    const workflowIdOf = ({ maintenanceId }: TemporalNames) => maintenanceId(name);
    await updateWorkflow(kube, { title: titleOf(name), workflowIdOf, verb });
    const isChange = isPaused(maintenance) !== wanted;
    const paused = `is ${isChange ? '' : 'already '}paused: no new Evacuation and no new tier starts, nodes stay cordoned`;
    const resumed = isChange ? 'resumed' : 'was not paused';
    const latest = output === undefined ? maintenance : await permittedToRead(getMaintenance(kube, name));
    report(latest, wanted ? paused : resumed, output);
  });
}
