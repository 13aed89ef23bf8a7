import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { resources } from '../../kube/resources.ts';
import { trimNode, trimPod } from '../../kube/transform.ts';
import { readWorkflow } from '../history.ts';
import { applyFile, headings, complete, runAndPrint, startFirstWorker, runCommand } from '../steps.ts';
import { countEvictions } from '../verification.ts';
import { createEnvironment, type Environment, type EnvironmentOptions } from '../environment.ts';
import type { Section } from '../table.ts';
import { untilDrained, untilLeaderElected, untilEvacuationsDeleted, untilPodsReady } from '../waiting.ts';
import {
  type KepMaintenance,
  kepMaintenances,
  allPods,
  entriesText,
  maintenanceA,
  maintenanceB,
  maintenanceC,
  maintenanceYaml,
  nodes,
  workloadLines,
  nodeWorkloads,
  workloadsYaml,
  spareNodes,
} from './fixtures.ts';
import { type Evidence, heldText, holdersOf, verify } from './verification.ts';
import { type Comparison, compare, recordTargets } from './published.ts';
import { type KepSnapshot, snapshots } from './snapshots.ts';
import { drawTables } from './tables.ts';
import { type ShowWhile, publishedView } from './view.ts';

/** Runs KEP-4212 > Pod Selection and DrainTargets Example, in which maintenances share a node. Returns the verified facts. */
export async function runScenario(options: EnvironmentOptions): Promise<Section[]> {
  const heading = headings(options.screen);
  heading('Kubernetes and Temporal start on this machine');
  const environment = await createEnvironment(options, {
    nodes: 0,
    maintained: nodes,
    workloads: nodeWorkloads,
  });
  heading('The worker starts, with the permissions of deploy/rbac and no others');
  startFirstWorker(environment);
  heading('Nodes one, two, three and four of KEP-4212 run their pods');
  await startWorkloads(environment);

  const targets = recordTargets(environment.cluster);
  environment.undo.push(async () => targets.stop());
  const showWhile = publishedView(environment.screen, environment.cluster);
  const comparisons: Comparison[][] = [];
  for (const snapshot of snapshots) {
    heading(`"${snapshot.quote}"`);
    comparisons.push(await runSnapshot(environment, showWhile, snapshot));
  }
  const fastForwarded = await showFastForwarded(environment);
  heading('The condition of node one lists its maintenances');
  const shared = await showNodes(environment, kepMaintenances);

  heading('The last budgets are relaxed: all three maintenances finish their drains');
  const drained = await drainAll(environment, showWhile);
  const completed = await completeAll(environment, heading);

  heading('Verification against the Kubernetes API and the workflow histories');
  const { recording, kubectl, sandbox } = environment;
  return verify({
    comparisons,
    fastForwarded,
    shared,
    drained,
    completed,
    targets: targets.record,
    recording,
    evictions: countEvictions(await kubectl('get', '--raw', '/metrics')),
    workflows: await Promise.all(kepMaintenances.map(({ name }) => readWorkflow(sandbox, name))),
  });
}

async function startWorkloads(environment: Environment): Promise<void> {
  const { screen, sandbox } = environment;
  await sandbox.addNodes([...nodes]);
  await applyFile(environment, 'nodeWorkloads.yaml', workloadsYaml());
  for (const text of workloadLines()) screen.print(`     ${text}`);
  await untilPodsReady(environment);
  await sandbox.addNodes([...spareNodes]);
  await untilLeaderElected(environment);
  const spare = spareNodes.join(' and ');
  screen.print(
    `   ${allPods} pods are ready. Nodes ${spare} have joined, with capacity for their replacements.`,
  );
}

const legend = '✓ identical to KEP-4212; nodes without a mark are not shown in this snapshot of KEP-4212.';

/** Performs the actions that lead to a snapshot, waits for it, and shows it. */
async function runSnapshot(
  environment: Environment,
  showWhile: ShowWhile,
  snapshot: KepSnapshot,
): Promise<Comparison[]> {
  const { screen, cluster, kube, until } = environment;
  await showWhile(async () => {
    await createMaintenances(environment, snapshot.create);
    await relaxBudgets(environment, snapshot.relax);
    await until(`the snapshot "${snapshot.quote}"`, () =>
      firstDifference(compare(snapshot, (name) => cluster.maintenances.get(name))),
    );
  });
  const { items } = await kube.list(resources.nodeMaintenances);
  const maintenanceOf = (wanted: string) => items.find(({ metadata }) => metadata.name === wanted);
  const comparisons = compare(snapshot, maintenanceOf);
  const isRight = (maintenance: string, node: string) => {
    const found = comparisons.find((one) => one.maintenance === maintenance && one.node === node);
    return found === undefined ? undefined : found.expected === found.actual;
  };
  const style = { colors: screen.colors, width: screen.width(), isRight };
  for (const text of drawTables(kepMaintenances, maintenanceOf, style)) screen.print(text);
  if (snapshot === snapshots[0]) screen.print(`\n   ${legend}`);
  return comparisons;
}

function firstDifference(comparisons: readonly Comparison[]): string | undefined {
  const other = comparisons.find(({ expected, actual }) => expected !== actual);
  return other && `${other.maintenance} on ${other.node} is "${other.actual}", expected "${other.expected}"`;
}

async function createMaintenances(
  environment: Environment,
  created: readonly KepMaintenance[],
): Promise<void> {
  if (created.length === 0) return;
  const { screen } = environment;
  for (const { name, nodes: own, drainPlan } of created)
    screen.print(`     ${name}: nodes ${own.join(', ')}; drain plan ${entriesText(drainPlan)}`);
  await applyFile(environment, `${created.map(({ name }) => name).join('-')}.yaml`, maintenanceYaml(created));
}

async function relaxBudgets(environment: Environment, names: readonly string[]): Promise<void> {
  if (names.length === 0) return;
  const patch = JSON.stringify({ spec: { maxUnavailable: '100%' } });
  await runCommand(
    environment,
    'patch',
    'pdb',
    ...names,
    '--namespace',
    'shop',
    '--type',
    'merge',
    '-p',
    patch,
  );
}

interface EventList {
  items: { type: string; message: string; involvedObject: { name: string } }[];
}

async function showFastForwarded(environment: Environment): Promise<string[]> {
  const ofReason = ['get', 'events', '--field-selector', 'reason=FastForwarded'];
  const columns = 'TYPE:.type,REASON:.reason,OBJECT:.involvedObject.name,MESSAGE:.message';
  let events: EventList = { items: [] };
  await environment.until('the Event FastForwarded', async () => {
    events = JSON.parse(await environment.kubectl(...ofReason, '-o', 'json')) as EventList;
    return events.items.length > 0 ? undefined : 'no such Event';
  });
  await runAndPrint(environment, ...ofReason, '-o', `custom-columns=${columns}`);
  return events.items.map((event) => `${event.type} on ${event.involvedObject.name}: ${event.message}`);
}

/** Waits until the conditions of the nodes list these maintenances, and shows them. */
async function showNodes(
  environment: Environment,
  holders: readonly KepMaintenance[],
): Promise<Evidence['shared']> {
  const { cluster, kube, until } = environment;
  await until('the conditions of the nodes to list their maintenances', () => {
    const wrong = nodes.find((name) => {
      const here = holders.filter((kepMaintenance) => kepMaintenance.nodes.includes(name));
      return holdersOf(cluster.nodes.list(), name) !== heldText(here);
    });
    return wrong && `node ${wrong}: ${holdersOf(cluster.nodes.list(), wrong)}`;
  });
  const message = '.status.conditions[?(@.type=="MaintenanceInProgress")].message';
  const columns = `NODE:.metadata.name,UNSCHEDULABLE:.spec.unschedulable,MAINTENANCEINPROGRESS:${message}`;
  await runAndPrint(environment, 'get', 'nodes', ...nodes, '-o', `custom-columns=${columns}`);
  return (await kube.list(resources.nodes)).items.map(trimNode);
}

async function drainAll(environment: Environment, showWhile: ShowWhile): Promise<Evidence['drained']> {
  const { kube } = environment;
  const relaxed = snapshots.flatMap(({ relax }) => relax);
  const blocking = nodeWorkloads.filter(({ name, guarded }) => guarded && !relaxed.includes(name));
  await showWhile(async () => {
    await relaxBudgets(
      environment,
      blocking.map(({ name }) => name),
    );
    for (const { name } of kepMaintenances) await untilDrained(environment, name);
    await untilPodsReady(environment);
    await untilEvacuationsDeleted(environment);
  });
  await runAndPrint(environment, 'get', 'nodemaintenances');
  const maintenances: NodeMaintenance[] = (await kube.list(resources.nodeMaintenances)).items;
  return { maintenances, pods: (await kube.list(resources.pods)).items.map(trimPod) };
}

/** The maintenance that cordoned node one completes first; the node stays cordoned for the others. */
const endings = [
  {
    kepMaintenance: maintenanceA,
    title: 'maintenance-a completes: node two is uncordoned, node one stays cordoned',
  },
  {
    kepMaintenance: maintenanceB,
    title: 'maintenance-b completes: node three is uncordoned, node one stays cordoned',
  },
  { kepMaintenance: maintenanceC, title: 'maintenance-c completes: nodes one and four are uncordoned' },
] as const;

async function completeAll(
  environment: Environment,
  heading: (title: string) => void,
): Promise<Evidence['completed']> {
  const completed: { name: string; nodes: Evidence['shared'] }[] = [];
  for (const [index, { kepMaintenance, title }] of endings.entries()) {
    heading(title);
    await complete(environment, kepMaintenance.name);
    const remaining = endings.slice(index + 1).map((ending) => ending.kepMaintenance);
    completed.push({ name: kepMaintenance.name, nodes: await showNodes(environment, remaining) });
  }
  return completed;
}
