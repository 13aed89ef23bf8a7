import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { MAINTENANCE_FINALIZER } from '../api/names.ts';
import { isTrue } from '../domain/conditions.ts';
import { readWorkflow, workflowLink } from './history.ts';
import { commandLine } from './kubectl.ts';
import { departuresOf } from './progress.ts';
import { countEvictions, prove, type Section, type Snapshot, takeSnapshot } from './proof.ts';
import { appOf, isOfConcern } from './recording.ts';
import type { Screen } from './screen.ts';
import { createSetting, type Setting, type SettingOptions } from './setting.ts';
import { showMaintenance, type View } from './view.ts';
import type { DemoWorker } from './worker.ts';
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
  const setting = await createSetting(options);
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
    workflow: await readWorkflow(setting.sandbox),
    killedWorker: first.identity,
    secondWorker: second.identity,
  });
}

function chapters({ say, colors }: Screen): (title: string) => void {
  let number = 0;
  return (title) => {
    number += 1;
    say();
    say(`${colors.cyan(`${number}.`)} ${colors.bold(title)}`);
  };
}

function sayCommand({ say, colors }: Screen, command: string): void {
  say(`   ${colors.dim('$')} ${colors.cyan(command)}`);
}

/** Types a kubectl command where everybody sees it; what it prints stays hidden. */
async function type({ screen, kubectl }: Setting, ...args: string[]): Promise<string> {
  sayCommand(screen, commandLine(args));
  return kubectl(...args);
}

async function show(setting: Setting, ...args: string[]): Promise<void> {
  const output = await type(setting, ...args);
  for (const text of output.trimEnd().split('\n')) setting.screen.say(`     ${text.trimEnd()}`);
}

function startFirstWorker({ screen, sandbox, startWorker }: Setting): DemoWorker {
  sayCommand(screen, 'KUBECONFIG=worker.kubeconfig npm start');
  const worker = startWorker();
  screen.say(`   Process ${worker.pid}. The Temporal UI is at ${sandbox.temporalUi}`);
  return worker;
}

async function startWorkloads(setting: Setting): Promise<void> {
  const { screen, sandbox } = setting;
  await type(setting, 'label', 'node', ...maintained, `${rackLabel.name}=${rackLabel.value}`);
  writeFileSync(join(sandbox.dir, 'workloads.yaml'), workloadsYaml());
  await type(setting, 'apply', '-f', 'workloads.yaml');
  for (const text of workloadLines()) screen.say(`     ${text}`);
  await untilReady(setting);
  await setting.until('the worker to lead', () =>
    setting.leader() === undefined ? 'none leads' : undefined,
  );
  screen.say(
    `   ${allReplicas} pods are ready; ${allLeavingPods} of them run on ${maintained.join(' and ')}.`,
  );
}

function untilReady({ until, recording }: Setting): Promise<void> {
  return until('all pods to be ready', () => {
    const counts = workloads.map((workload) => recording.readiness(workload).ready);
    const ready = counts.reduce((total, count) => total + count, 0);
    return ready === allReplicas ? undefined : `${ready} of ${allReplicas} are ready`;
  });
}

async function declareMaintenance(setting: Setting): Promise<View> {
  const { screen, sandbox, cluster, recording } = setting;
  const file = `${maintenanceName}.yaml`;
  writeFileSync(join(sandbox.dir, file), maintenanceYaml());
  sayCommand(screen, `cat ${file}`);
  for (const text of maintenanceYaml().trimEnd().split('\n')) screen.say(`     ${screen.colors.dim(text)}`);
  await type(setting, 'apply', '-f', file);
  const link = workflowLink(sandbox);
  screen.say('   One durable workflow does it. Look at it in the Temporal UI, for as long as this runs:');
  screen.say(`   ${screen.colors.cyan(link)}`);
  screen.say();
  const view = showMaintenance(screen, { cluster, recording, link });
  setting.undo.push(async () => view.stop());
  return view;
}

/** The tier in which the worker is killed: its pods leave one at a time. */
const fatalTier = tiers[1] as (typeof tiers)[number];

async function killHalfWay(setting: Setting, view: View, first: DemoWorker): Promise<DemoWorker> {
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
  const here = cluster.pods.list().filter((pod) => isOfConcern(pod) && names.has(appOf(pod)));
  const waiting = here.filter(({ metadata }) => metadata.deletionTimestamp === undefined).length;
  const leaving = here.length - waiting + left;
  return leaving > 0 && waiting > 0 ? undefined : `${leaving} leave, ${waiting} wait`;
}

async function awaitDrained(setting: Setting, view: View): Promise<Snapshot> {
  const { kube, cluster, until } = setting;
  await until('condition Drained to be True', () => {
    const status = cluster.maintenances.get(maintenanceName)?.status;
    if (isTrue(status?.conditions, 'Drained')) return undefined;
    return (
      status?.nodeStatuses.map((node) => `${node.nodeRef.name}: ${node.drainMessage}`).join('; ') ??
      'no status'
    );
  });
  await untilReady(setting);
  await until('the last Evacuation to be removed', () => {
    const left = cluster.evacuations.list().length;
    return left === 0 ? undefined : `${left} are left`;
  });
  view.stop();
  return takeSnapshot(kube);
}

async function giveBack(setting: Setting): Promise<Snapshot> {
  const { kube, cluster, until } = setting;
  const complete = JSON.stringify({ spec: { stage: 'Complete' } });
  await type(setting, 'patch', 'nodemaintenance', maintenanceName, '--type', 'merge', '-p', complete);
  await until('the finalizer to be removed', () => {
    const finalizers = cluster.maintenances.get(maintenanceName)?.metadata.finalizers ?? [];
    return finalizers.includes(MAINTENANCE_FINALIZER) ? `finalizers ${finalizers.join(', ')}` : undefined;
  });
  await show(setting, 'get', 'nodemaintenance', maintenanceName);
  await show(setting, 'get', 'nodes', '--label-columns', rackLabel.name);
  return takeSnapshot(kube);
}
