import type { Command } from 'commander';
import type { NodeMaintenance, NodeMaintenanceStage } from '../api/nodeMaintenance.ts';
import { workflowIdOf } from '../api/names.ts';
import { isPaused } from '../domain/maintenanceSummary.ts';
import { stageOf, stagesAfter, transitionProblem } from '../domain/stage.ts';
import type { Kube } from '../kube/client.ts';
import { isKubeError, isRefusal, wordsOf } from '../kube/errors.ts';
import { resources } from '../kube/resources.ts';
import { type ClusterOptions, withCluster } from './cluster.ts';
import { maintenanceCalled, maintenanceName, permitted, titleOf } from './maintenances.ts';
import { orderRun } from './orders.ts';
import { outputOption, stageOption, timeoutOf, type WaitOptions, waitOptions } from './options.ts';
import { Refusal, say, type Structured, structuredOne } from './output.ts';
import { waitFor } from './wait.ts';

interface SteeringOptions extends ClusterOptions {
  readonly output?: Structured;
}

interface AdvanceOptions extends SteeringOptions, WaitOptions {
  readonly to?: NodeMaintenanceStage;
}

/** kubectl maintenance advance | cancel | pause | resume */
export function addSteeringVerbs(program: Command): void {
  const advance = program
    .command('advance')
    .description('go on to the next stage')
    .argument('<name>', 'of the NodeMaintenance', maintenanceName)
    .addOption(stageOption('--to <stage>', 'instead of the next one', ['Cordon', 'Drain', 'Complete']));
  const cancel = program
    .command('cancel')
    .description('stop, and give the nodes back: the same as advance --to Complete')
    .argument('<name>', 'of the NodeMaintenance', maintenanceName);
  for (const verb of [advance, cancel])
    for (const option of [...waitOptions(), outputOption()]) verb.addOption(option);
  advance.action((name: string, _options, command: Command) => moveOn(name, command.optsWithGlobals()));
  cancel.action((name: string, _options, command: Command) =>
    moveOn(name, { ...command.optsWithGlobals(), to: 'Complete' }),
  );
  program
    .command('pause')
    .description(
      'begin no new Evacuation and no new tier; nodes stay cordoned, what is evacuated already goes on',
    )
    .argument('<name>', 'of the NodeMaintenance', maintenanceName)
    .addOption(outputOption())
    .action((name: string, _options, command: Command) => setPaused(name, true, command.optsWithGlobals()));
  program
    .command('resume')
    .description('undo pause')
    .argument('<name>', 'of the NodeMaintenance', maintenanceName)
    .addOption(outputOption())
    .action((name: string, _options, command: Command) => setPaused(name, false, command.optsWithGlobals()));
}

/** Writes `.spec.stage`: the object is what the workflow obeys. */
async function moveOn(
  name: string,
  { to, wait, timeout: asked, output, ...cluster }: AdvanceOptions,
): Promise<void> {
  const timeout = timeoutOf({ wait, timeout: asked });
  await withCluster(cluster, async (kube) => {
    const current = await permitted(maintenanceCalled(kube, name));
    const from = stageOf(current);
    const stage = to ?? stagesAfter(from)[0];
    const problem = stage === undefined ? nothingIsNext : transitionProblem(from, stage);
    if (stage === undefined || problem !== undefined) throw new Refusal(`${titleOf(name)}: ${problem}`);
    const isThere = current.spec.stage === stage || from === stage;
    const maintenance = isThere ? current : await permitted(writeStage(kube, current, stage));
    const moved = isThere ? `is already in stage ${stage}` : `moved from ${from} to ${stage}`;
    tell(maintenance, moved, output);
    if (wait === true) await waitFor(kube, { maintenance, stage, timeout, isQuiet: output !== undefined });
  });
}

/** In words, or as an object for scripts. */
function tell(maintenance: NodeMaintenance, words: string, output: Structured | undefined): void {
  const { name } = maintenance.metadata;
  say(output === undefined ? `${titleOf(name)} ${words}` : structuredOne(maintenance, output));
}

const nothingIsNext = 'stage Complete is final: there is nothing to advance to';

/** Only from the stage that was seen: whoever was faster may have wanted something else. */
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
    if (isKubeError(error, 'Unavailable') && !isRefusal(error))
      throw new Refusal(
        `${wordsOf(error)}; nothing tells whether it was taken: repeat it with kubectl maintenance advance ${name} --to ${stage}`,
        { cause: error },
      );
    if (!isKubeError(error, 'Invalid', 'Conflict')) throw error;
    const now = await maintenanceCalled(kube, name);
    if (now.metadata.uid === uid && now.spec.stage === spec.stage) throw error;
    throw new Refusal(
      `${titleOf(name)} was changed by somebody else meanwhile, and is in stage ${now.spec.stage}: look at it, and try again`,
      { cause: error },
    );
  }
}

/** By an update of the workflow, which answers when the drain really rests. */
async function setPaused(
  name: string,
  wanted: boolean,
  { output, ...cluster }: SteeringOptions,
): Promise<void> {
  await withCluster(cluster, async (kube) => {
    const maintenance = await permitted(maintenanceCalled(kube, name));
    const verb = wanted ? 'pause' : 'resume';
    if (stageOf(maintenance) === 'Complete')
      throw new Refusal(`${titleOf(name)} is in stage Complete: there is nothing to ${verb}`);
    await orderRun(kube, { title: titleOf(name), workflowId: workflowIdOf(name), verb });
    const isNews = isPaused(maintenance) !== wanted;
    const paused = `is ${isNews ? '' : 'already '}paused: no new Evacuation and no new tier begins, nodes stay cordoned`;
    const resumed = isNews ? 'goes on' : 'was not paused';
    const seen = output === undefined ? maintenance : await permitted(maintenanceCalled(kube, name));
    tell(seen, wanted ? paused : resumed, output);
  });
}
