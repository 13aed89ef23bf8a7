import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { resources } from '../../kube/resources.ts';
import { slimNode, slimPod } from '../../kube/slim.ts';
import { readWorkflow } from '../history.ts';
import { applyFile, chapters, complete, show, startFirstWorker, type } from '../narration.ts';
import { countEvictions } from '../proof.ts';
import { createSetting, type Setting, type SettingOptions } from '../setting.ts';
import type { Section } from '../table.ts';
import { untilDrained, untilLeads, untilNoEvacuationIsLeft, untilReady } from '../waiting.ts';
import {
  type Actor,
  actors,
  allPods,
  entriesText,
  maintenanceA,
  maintenanceB,
  maintenanceC,
  maintenanceYaml,
  nodes,
  residentLines,
  residents,
  residentsYaml,
  spareNodes,
} from './cast.ts';
import { type Evidence, heldText, holdersOf, prove } from './proof.ts';
import { type Comparison, compare, recordTargets } from './published.ts';
import { type KepSnapshot, snapshots } from './snapshots.ts';
import { drawTables } from './tables.ts';
import { type During, publishedView } from './view.ts';

/** KEP-4212 > Pod Selection and DrainTargets Example, played: maintenances that share a node. Returns what was proved. */
export async function tellStory(options: SettingOptions): Promise<Section[]> {
  const chapter = chapters(options.screen);
  chapter('Kubernetes and Temporal start on this machine');
  const setting = await createSetting(options, { nodes: 0, maintained: nodes, workloads: residents });
  chapter('The worker starts, with the permissions of deploy/worker-rbac.yaml and no others');
  startFirstWorker(setting);
  chapter('Nodes one, two, three and four of KEP-4212, with as many pods as it counts');
  await startResidents(setting);

  const targets = recordTargets(setting.cluster);
  setting.undo.push(async () => targets.stop());
  const during = publishedView(setting.screen, setting.cluster);
  const comparisons: Comparison[][] = [];
  for (const snapshot of snapshots) {
    chapter(`"${snapshot.words}"`);
    comparisons.push(await playSnapshot(setting, during, snapshot));
  }
  const fastForwarded = await showFastForwarded(setting);
  chapter('Node one says who holds it');
  const shared = await showNodes(setting, actors);

  chapter('The last budgets are opened: all three maintenances go on to the end');
  const drained = await drainAll(setting, during);
  const completed = await completeAll(setting, chapter);

  chapter('What the Kubernetes API and the histories in Temporal prove');
  const { recording, kubectl, sandbox } = setting;
  return prove({
    comparisons,
    fastForwarded,
    shared,
    drained,
    completed,
    targets: targets.record,
    recording,
    evictions: countEvictions(await kubectl('get', '--raw', '/metrics')),
    workflows: await Promise.all(actors.map(({ name }) => readWorkflow(sandbox, name))),
  });
}

async function startResidents(setting: Setting): Promise<void> {
  const { screen, sandbox } = setting;
  await sandbox.addNodes([...nodes]);
  await applyFile(setting, 'residents.yaml', residentsYaml());
  for (const text of residentLines()) screen.say(`     ${text}`);
  await untilReady(setting);
  await sandbox.addNodes([...spareNodes]);
  await untilLeads(setting);
  const spare = spareNodes.join(' and ');
  screen.say(`   ${allPods} pods are ready. Nodes ${spare} have joined, with room for their replacements.`);
}

const legend =
  '✓ as KEP-4212 prints it, letter for letter; without it, KEP-4212 does not print it at this moment.';

/** Does what leads to a snapshot, waits until it is there, and shows it. */
async function playSnapshot(setting: Setting, during: During, snapshot: KepSnapshot): Promise<Comparison[]> {
  const { screen, cluster, kube, until } = setting;
  await during(async () => {
    await declare(setting, snapshot.declare);
    await openBudgets(setting, snapshot.open);
    await until(`the KEP's "${snapshot.words}"`, () =>
      firstDifference(compare(snapshot, (name) => cluster.maintenances.get(name))),
    );
  });
  const { items } = await kube.list(resources.nodeMaintenances);
  const maintenanceOf = (wanted: string) => items.find(({ metadata }) => metadata.name === wanted);
  const comparisons = compare(snapshot, maintenanceOf);
  const isRight = (maintenance: string, node: string) => {
    const found = comparisons.find((one) => one.maintenance === maintenance && one.node === node);
    return found === undefined ? undefined : found.expected === found.seen;
  };
  const style = { colors: screen.colors, width: screen.width(), isRight };
  for (const text of drawTables(actors, maintenanceOf, style)) screen.say(text);
  if (snapshot === snapshots[0]) screen.say(`\n   ${legend}`);
  return comparisons;
}

function firstDifference(comparisons: readonly Comparison[]): string | undefined {
  const other = comparisons.find(({ expected, seen }) => expected !== seen);
  return other && `${other.maintenance} on ${other.node} says "${other.seen}", not "${other.expected}"`;
}

async function declare(setting: Setting, declared: readonly Actor[]): Promise<void> {
  if (declared.length === 0) return;
  const { screen } = setting;
  for (const { name, nodes: own, drainPlan } of declared)
    screen.say(`     ${name}: nodes ${own.join(', ')}; drain plan ${entriesText(drainPlan)}`);
  await applyFile(setting, `${declared.map(({ name }) => name).join('-')}.yaml`, maintenanceYaml(declared));
}

async function openBudgets(setting: Setting, names: readonly string[]): Promise<void> {
  if (names.length === 0) return;
  const patch = JSON.stringify({ spec: { maxUnavailable: '100%' } });
  await type(setting, 'patch', 'pdb', ...names, '--namespace', 'shop', '--type', 'merge', '-p', patch);
}

interface EventList {
  items: { type: string; message: string; involvedObject: { name: string } }[];
}

async function showFastForwarded(setting: Setting): Promise<string[]> {
  const ofReason = ['get', 'events', '--field-selector', 'reason=FastForwarded'];
  const columns = 'TYPE:.type,REASON:.reason,OBJECT:.involvedObject.name,MESSAGE:.message';
  let events: EventList = { items: [] };
  await setting.until('the Event FastForwarded', async () => {
    events = JSON.parse(await setting.kubectl(...ofReason, '-o', 'json')) as EventList;
    return events.items.length > 0 ? undefined : 'no such Event';
  });
  await show(setting, ...ofReason, '-o', `custom-columns=${columns}`);
  return events.items.map((event) => `${event.type} on ${event.involvedObject.name}: ${event.message}`);
}

/** Waits until the nodes say that these maintenances hold them, and shows it. */
async function showNodes(setting: Setting, holders: readonly Actor[]): Promise<Evidence['shared']> {
  const { cluster, kube, until } = setting;
  await until('the nodes to say who holds them', () => {
    const wrong = nodes.find((name) => {
      const here = holders.filter((actor) => actor.nodes.includes(name));
      return holdersOf(cluster.nodes.list(), name) !== heldText(here);
    });
    return wrong && `node ${wrong}: ${holdersOf(cluster.nodes.list(), wrong)}`;
  });
  const held = '.status.conditions[?(@.type=="MaintenanceInProgress")].message';
  const columns = `NODE:.metadata.name,UNSCHEDULABLE:.spec.unschedulable,MAINTENANCEINPROGRESS:${held}`;
  await show(setting, 'get', 'nodes', ...nodes, '-o', `custom-columns=${columns}`);
  return (await kube.list(resources.nodes)).items.map(slimNode);
}

async function drainAll(setting: Setting, during: During): Promise<Evidence['drained']> {
  const { kube } = setting;
  const opened = snapshots.flatMap(({ open }) => open);
  const closed = residents.filter(({ name, guarded }) => guarded && !opened.includes(name));
  await during(async () => {
    await openBudgets(
      setting,
      closed.map(({ name }) => name),
    );
    for (const { name } of actors) await untilDrained(setting, name);
    await untilReady(setting);
    await untilNoEvacuationIsLeft(setting);
  });
  await show(setting, 'get', 'nodemaintenances');
  const maintenances: NodeMaintenance[] = (await kube.list(resources.nodeMaintenances)).items;
  return { maintenances, pods: (await kube.list(resources.pods)).items.map(slimPod) };
}

/** The one that cordoned node one goes first: whoever still holds the node keeps it. */
const endings = [
  { actor: maintenanceA, title: 'maintenance-a completes: node two is given back, node one is still held' },
  { actor: maintenanceB, title: 'maintenance-b completes: node three is given back, node one is still held' },
  { actor: maintenanceC, title: 'maintenance-c completes: nobody holds node one any more' },
] as const;

async function completeAll(
  setting: Setting,
  chapter: (title: string) => void,
): Promise<Evidence['completed']> {
  const completed: { name: string; nodes: Evidence['shared'] }[] = [];
  for (const [index, { actor, title }] of endings.entries()) {
    chapter(title);
    await complete(setting, actor.name);
    const left = endings.slice(index + 1).map((ending) => ending.actor);
    completed.push({ name: actor.name, nodes: await showNodes(setting, left) });
  }
  return completed;
}
