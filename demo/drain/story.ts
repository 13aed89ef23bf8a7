import { readWorkflow, workflowLink } from '../history.ts';
import { applyFile, chapters, complete, show, showAndApply, startFirstWorker, type } from '../narration.ts';
import { countEvictions } from '../proof.ts';
import { appOf, hasToLeave } from '../recording.ts';
import { createSetting, type Setting, type SettingOptions } from '../setting.ts';
import type { Section } from '../table.ts';
import { untilDrained, untilLeads, untilNoEvacuationIsLeft, untilReady } from '../waiting.ts';
import type { DemoProcess } from '../program.ts';
import { identityOf } from '../worker.ts';
import { departuresOf } from './progress.ts';
import { prove, type Snapshot, takeSnapshot } from './proof.ts';
import { showMaintenance, type View } from './view.ts';
import {
  allLeavingPods,
  allReplicas,
  maintained,
  maintenanceName,
  maintenanceYaml,
  nodeCount,
  rackLabel,
  tiers,
  workloadLines,
  workloads,
  workloadsYaml,
} from './workloads.ts';

/** The main job, whole: what a person does, and what the project does about it. Returns what was proved. */
export async function tellStory(options: SettingOptions): Promise<Section[]> {
  const chapter = chapters(options.screen);
  chapter('Kubernetes and Temporal start on this machine');
  const setting = await createSetting(options, { nodes: nodeCount, maintained, workloads });
  chapter('The worker starts, with the permissions of deploy/worker-rbac.yaml and no others');
  const first = startFirstWorker(setting);
  chapter(`${nodeCount} nodes get work to do; two of them stand in rack 7`);
  await startWorkloads(setting);

  chapter('Rack 7 needs new firmware: its nodes are to be drained');
  const view = await declareMaintenance(setting);
  const second = await killHalfWay(setting, view, first);
  const drained = await awaitDrained(setting, view);

  chapter('The nodes are free: now the firmware can be changed');
  await show(setting, 'get', 'nodemaintenance', maintenanceName);
  await show(setting, 'get', 'nodes', '--label-columns', rackLabel.name);
  chapter('The firmware is changed: the nodes are given back');
  const givenBack = await giveBack(setting);

  chapter('What the Kubernetes API and the history in Temporal prove');
  return prove({
    recording: setting.recording,
    evictions: countEvictions(await setting.kubectl('get', '--raw', '/metrics')),
    drained,
    givenBack,
    workflow: await readWorkflow(setting.sandbox, maintenanceName),
    killedWorker: identityOf(first),
    secondWorker: identityOf(second),
  });
}

async function startWorkloads(setting: Setting): Promise<void> {
  const { screen } = setting;
  await type(setting, 'label', 'node', ...maintained, `${rackLabel.name}=${rackLabel.value}`);
  await applyFile(setting, 'workloads.yaml', workloadsYaml());
  for (const text of workloadLines()) screen.say(`     ${text}`);
  await untilReady(setting);
  await untilLeads(setting);
  screen.say(
    `   ${allReplicas} pods are ready; ${allLeavingPods} of them run on ${maintained.join(' and ')}.`,
  );
}

async function declareMaintenance(setting: Setting): Promise<View> {
  const { screen, sandbox, cluster, recording } = setting;
  await showAndApply(setting, `${maintenanceName}.yaml`, maintenanceYaml());
  const link = workflowLink(sandbox, maintenanceName);
  screen.say('   One durable workflow does it. Look at it in the Temporal UI, for as long as this runs:');
  screen.say(`   ${screen.colors.cyan(link)}`);
  screen.say();
  const view = showMaintenance(screen, { cluster, recording, link });
  setting.undo.push(async () => view.stop());
  return view;
}

/** The tier in which the worker is killed: its pods leave one at a time. */
const fatalTier = tiers[1] as (typeof tiers)[number];

async function killHalfWay(setting: Setting, view: View, first: DemoProcess): Promise<DemoProcess> {
  const { screen, until, leader, startWorker } = setting;
  view.worker(`process ${first.pid}`);
  await until(`a part of the pods of "${fatalTier.title}" to be on their way`, () => halfWay(setting));
  const dead = leader();
  await first.kill();
  view.note(`✗ kill -9 ${first.pid}: the worker is dead, with pods on their way out`, screen.colors.red);
  const second = startWorker();
  view.note(
    `Another worker starts, process ${second.pid}. It takes over when the dead one's Lease has expired.`,
  );
  view.worker(`process ${second.pid}, waits for the Lease and the heartbeat of the dead one to expire`);
  await until('the other worker to lead', () => {
    const holder = leader();
    return holder === undefined || holder === dead ? `${holder} leads` : undefined;
  });
  view.note(`✓ Process ${second.pid} goes on where the other one stood`, screen.colors.green);
  view.worker(`process ${second.pid}, has taken over`);
  return second;
}

/** Undefined when some pods of the fatal tier are on their way out, or gone, and others still wait. */
function halfWay({ cluster, recording }: Setting): string | undefined {
  const left = departuresOf(fatalTier, recording.departures).length;
  const names = new Set(fatalTier.workloads.map(({ name }) => name));
  const here = cluster.pods.list().filter((pod) => hasToLeave(pod, maintained) && names.has(appOf(pod)));
  const waiting = here.filter(({ metadata }) => metadata.deletionTimestamp === undefined).length;
  const leaving = here.length - waiting + left;
  return leaving > 0 && waiting > 0 ? undefined : `${leaving} leave, ${waiting} wait`;
}

async function awaitDrained(setting: Setting, view: View): Promise<Snapshot> {
  await untilDrained(setting, maintenanceName);
  await untilReady(setting);
  await untilNoEvacuationIsLeft(setting);
  view.stop();
  return takeSnapshot(setting.kube);
}

async function giveBack(setting: Setting): Promise<Snapshot> {
  await complete(setting, maintenanceName);
  await show(setting, 'get', 'nodemaintenance', maintenanceName);
  await show(setting, 'get', 'nodes', '--label-columns', rackLabel.name);
  return takeSnapshot(setting.kube);
}
