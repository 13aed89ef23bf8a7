import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Pod } from '../../api/core.ts';
import { isTrue } from '../../domain/conditions.ts';
import { resources } from '../../kube/resources.ts';
import { slimNode, slimPod } from '../../kube/slim.ts';
import { readWorkflow } from '../history.ts';
import {
  applyFile,
  chapters,
  complete,
  sayCommand,
  show,
  showAndApply,
  showRefusal,
  startFirstWorker,
  type,
} from '../narration.ts';
import type { DemoProcess } from '../program.ts';
import { countEvictions, type Evictions } from '../proof.ts';
import { appOf } from '../recording.ts';
import { createSetting, type Setting, type SettingOptions } from '../setting.ts';
import type { Section } from '../table.ts';
import { untilDrained, untilLeads, untilNoEvacuationIsLeft, untilReady } from '../waiting.ts';
import {
  evacuatorAccount,
  evacuatorYaml,
  ledger,
  ledgerPod,
  maintenanceName,
  maintenanceYaml,
  node,
  nodeAgent,
  queue,
  queueRelaxed,
  shop,
  spareNodes,
  tenantLines,
  tenantsYaml,
  workloads,
} from './cast.ts';
import { startDataMigration } from './evacuatorProgram.ts';
import { records, recordsIn } from './migration.ts';
import { type Evidence, type PodEvent, prove } from './proof.ts';
import { type Sightings, watchSightings } from './sightings.ts';
import { showTenants, type View } from './view.ts';

/** The Evacuation API: four applications leave one node, each in its own way. Returns what was proved. */
export async function tellStory(options: SettingOptions): Promise<Section[]> {
  const chapter = chapters(options.screen);
  chapter('Kubernetes and Temporal start on this machine');
  const setting = await createSetting(options, { nodes: 0, maintained: [node], workloads });
  chapter(`Four applications run on ${node}`);
  const refusedShop = await startTenants(setting);
  chapter('The worker starts, and beside it an evacuator that the team of the ledger wrote');
  const worker = startFirstWorker(setting);
  await startEvacuator(setting);
  chapter(`\`kubectl drain\` gets nothing off ${node}`);
  const refusedDrain = await drainInVain(setting);

  chapter('One NodeMaintenance does, and lets each application leave in its own way');
  const sightings = await watchSightings(setting);
  const before = await evictionsSoFar(setting);
  const { ledgerUid, refusedLedger } = await drain(setting, sightings);
  const events = await showEvents(setting, ledgerUid);
  const drained = await setting.kube.get(resources.nodeMaintenances, { name: maintenanceName });

  chapter(`The pod of the DaemonSet stays away from ${node}, whoever is dead`);
  const absence = await killWorker(setting, worker);
  chapter(`The firmware is changed: ${node} is given back, and the DaemonSet with it`);
  const end = await giveBack(setting);

  chapter('What the Kubernetes API and the history in Temporal prove');
  return prove({
    sightings,
    recording: setting.recording,
    refusals: { shop: refusedShop, drain: refusedDrain, ledger: refusedLedger },
    events,
    drained,
    absence,
    ...end,
    evictions: difference(await evictionsSoFar(setting), before),
    workflow: await readWorkflow(setting.sandbox, maintenanceName),
  });
}

async function startTenants(setting: Setting): Promise<string[]> {
  const { screen, sandbox, cluster, until } = setting;
  await sandbox.addNodes([node]);
  await applyFile(setting, 'applications.yaml', tenantsYaml());
  for (const text of tenantLines()) screen.say(`     ${text}`);
  await untilReady(setting);
  await until('the budgets to be counted', () => {
    const uncounted = cluster.budgets.list().find(({ status }) => !status?.currentHealthy);
    return uncounted && `${uncounted.metadata.name} is not`;
  });
  await show(setting, 'get', 'pdb', '--all-namespaces');
  screen.say(`   Neither budget will ever let a pod go:`);
  return evictInVain(setting, podOf(setting, shop));
}

function podOf({ cluster }: Setting, { name }: { name: string }): Readonly<Pod> {
  const pod = cluster.pods.list().find((one) => appOf(one) === name);
  if (pod === undefined) throw new Error(`no pod of ${name}`);
  return pod;
}

/** What `kubectl drain` asks for, of one pod. */
async function evictInVain(setting: Setting, { metadata }: Readonly<Pod>): Promise<string[]> {
  const { name, namespace = '', uid } = metadata;
  const eviction = {
    apiVersion: 'policy/v1',
    kind: 'Eviction',
    metadata: { name, namespace },
    deleteOptions: { preconditions: { uid } },
  };
  const file = `evict-${name}.json`;
  writeFileSync(join(setting.sandbox.dir, file), JSON.stringify(eviction));
  const path = `/api/v1/namespaces/${namespace}/pods/${name}/eviction`;
  return showRefusal(setting, ['create', '--raw', path, '--filename', file]);
}

async function startEvacuator(setting: Setting): Promise<void> {
  const { screen } = setting;
  await applyFile(setting, 'ledger-evacuator.yaml', evacuatorYaml());
  sayCommand(screen, `KUBECONFIG=${evacuatorAccount.name}.kubeconfig node demo/evacuators/dataMigration.ts`);
  const { pid } = await startDataMigration(setting);
  screen.say(`   Process ${pid}, with rights in namespace ${evacuatorAccount.namespace} only.`);
  await untilLeads(setting);
  await untilEvictionsAreRefused(setting);
}

/** The apiserver takes a moment to hear of the worker's webhook. */
function untilEvictionsAreRefused({ kubectl, sandbox, until }: Setting): Promise<void> {
  const path = `/api/v1/namespaces/${ledger.namespace}/pods/${ledgerPod}/eviction?dryRun=All`;
  const file = `try-${ledgerPod}.json`;
  const eviction = {
    apiVersion: 'policy/v1',
    kind: 'Eviction',
    metadata: { name: ledgerPod, namespace: ledger.namespace },
  };
  writeFileSync(join(sandbox.dir, file), JSON.stringify(eviction));
  return until('plain evictions to be refused', () =>
    kubectl('create', '--raw', path, '--filename', file).then(
      () => 'they are allowed',
      () => undefined,
    ),
  );
}

/** kubectl tries for ever by default, every five seconds: once is enough to see. */
async function drainInVain(setting: Setting): Promise<string[]> {
  const { sandbox } = setting;
  const command = ['drain', node, '--ignore-daemonsets', '--timeout', '1s'];
  const isTelling = (text: string) => text.includes('will retry');
  const [refusals] = await Promise.all([
    showRefusal(setting, command, isTelling),
    sandbox.addNodes([...spareNodes]),
  ]);
  await type(setting, 'uncordon', node);
  setting.screen.say(`   ${spareNodes.join(' and ')} have joined, with room for what leaves ${node}.`);
  return refusals;
}

async function drain(
  setting: Setting,
  sightings: Sightings,
): Promise<{ ledgerUid: string; refusedLedger: string[] }> {
  const { screen, cluster } = setting;
  const pod = podOf(setting, ledger);
  await showAndApply(setting, `${maintenanceName}.yaml`, maintenanceYaml());
  const view = showTenants(screen, cluster);
  setting.undo.push(async () => view.stop());
  await untilUnderWay(setting, sightings);
  await show(setting, 'get', 'evac', '--all-namespaces');
  const refusedLedger = await evictInVain(setting, pod);
  await relaxBudget(setting, view);
  await untilDrained(setting, maintenanceName);
  await untilReady(setting);
  await untilNoEvacuationIsLeft(setting);
  view.stop();
  return { ledgerUid: pod.metadata.uid ?? '', refusedLedger };
}

/** The shop has moved, a quarter of the ledger is migrated, and the queue says what blocks it. */
function untilUnderWay({ cluster, recording, until }: Setting, { sayings }: Sightings): Promise<void> {
  return until('the applications to be on their way', () => {
    const copied = Math.max(0, ...sayings.map(({ message }) => recordsIn(message) ?? 0));
    const blocked = cluster.evacuations.list().filter(({ status }) => isTrue(status?.conditions, 'Blocked'));
    const hasShopMoved = recording.departures.some(({ app }) => app === shop.name);
    return hasShopMoved && copied >= records / 4 && blocked.length === queue.replicas
      ? undefined
      : `shop moved: ${hasShopMoved}, ${copied} records copied, ${blocked.length} pods blocked`;
  });
}

async function relaxBudget(setting: Setting, view: View): Promise<void> {
  view.note(`Somebody reads which budget it is, and relaxes it`, setting.screen.colors.cyan);
  const patch = JSON.stringify({ spec: { minAvailable: queueRelaxed } });
  const { name, namespace } = queue;
  await type(setting, 'patch', 'pdb', name, '--namespace', namespace, '--type', 'merge', '-p', patch);
}

async function showEvents(setting: Setting, podUid: string): Promise<PodEvent[]> {
  const ofPod = ['--namespace', ledger.namespace, '--field-selector', `involvedObject.uid=${podUid}`];
  let events: PodEvent[] = [];
  await setting.until('the Events of the ledger', async () => {
    const answer = await setting.kubectl('get', 'events', ...ofPod, '-o', 'json');
    events = (JSON.parse(answer) as { items: PodEvent[] }).items;
    return events.some(({ reason }) => reason === 'Evicted') ? undefined : `${events.length} Events`;
  });
  const columns = 'REASON:.reason,MESSAGE:.message';
  const output = ['-o', `custom-columns=${columns}`, '--sort-by', '.metadata.resourceVersion'];
  await show(setting, 'get', 'events', ...ofPod, ...output);
  return events;
}

/** Nobody of ours is alive, and the pod that was held is deleted: its DaemonSet makes another. */
async function killWorker(setting: Setting, worker: DemoProcess): Promise<Evidence['absence']> {
  const { screen, startWorker } = setting;
  await showAgents(setting);
  const held = await heldAgent(setting);
  await worker.kill();
  screen.say(`   ${screen.colors.red(`✗ kill -9 ${worker.pid}: no worker is alive`)}`);
  const killedAt = await revisionNow(setting);
  await type(setting, 'delete', 'pod', held, '--namespace', nodeAgent.namespace);
  const successor = await heldAgent(setting, held);
  await showAgents(setting);
  const restartedAt = await revisionNow(setting);
  const { pid } = startWorker();
  screen.say(`   The apiserver itself holds ${successor}. Another worker starts, process ${pid}.`);
  return { killedAt, restartedAt };
}

function showAgents(setting: Setting): Promise<void> {
  const selector = ['--namespace', nodeAgent.namespace, '--selector', `app=${nodeAgent.name}`];
  return show(setting, 'get', 'pods', ...selector, '-o', 'wide');
}

/** Name of the pod that is held, when it is another than this. */
async function heldAgent({ cluster, until }: Setting, other?: string): Promise<string> {
  let held: Readonly<Pod> | undefined;
  await until(`a pod of ${nodeAgent.name} to be held`, () => {
    const agents = cluster.pods.list().filter((pod) => appOf(pod) === nodeAgent.name);
    held = agents.find(({ metadata, spec }) => spec.schedulingGates && metadata.name !== other);
    return held === undefined ? `${agents.length} pods, none of them held` : undefined;
  });
  return held?.metadata.name ?? '';
}

/** By etcd's own clock. */
async function revisionNow({ kube }: Setting): Promise<bigint> {
  return BigInt((await kube.list(resources.nodes)).resourceVersion);
}

async function giveBack(setting: Setting): Promise<Pick<Evidence, 'completedAt' | 'pods' | 'nodes'>> {
  const { cluster, kube, until } = setting;
  const completedAt = await revisionNow(setting);
  await complete(setting, maintenanceName);
  await until(`${nodeAgent.name} to be back`, () => {
    const back = cluster.pods.list().find((pod) => appOf(pod) === nodeAgent.name && isReadyOn(pod, node));
    return back === undefined ? 'it is not ready' : undefined;
  });
  await showAgents(setting);
  const [pods, nodes] = await Promise.all([kube.list(resources.pods), kube.list(resources.nodes)]);
  return { completedAt, pods: pods.items.map(slimPod), nodes: nodes.items.map(slimNode) };
}

function isReadyOn({ spec, status }: Readonly<Pod>, where: string): boolean {
  return status.ready && spec.nodeName === where;
}

async function evictionsSoFar({ kubectl }: Setting): Promise<Evictions> {
  return countEvictions(await kubectl('get', '--raw', '/metrics'));
}

function difference(after: Evictions, before: Evictions): Evictions {
  return {
    accepted: after.accepted - before.accepted,
    refused: after.refused - before.refused,
    cutOff: after.cutOff - before.cutOff,
  };
}
