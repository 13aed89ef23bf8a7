import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { resources } from '../../kube/resources.ts';
import { createEnvironment, type Environment, type EnvironmentOptions } from '../environment.ts';
import { readWorkflow } from '../history.ts';
import {
  applyFile,
  complete,
  headings,
  type Note,
  notes,
  printAndApply,
  runAndPrint,
  startFirstWorker,
} from '../steps.ts';
import type { DemoProcess } from '../program.ts';
import type { Section } from '../table.ts';
import { countEvictions } from '../verification.ts';
import { untilDrained, untilEvacuationsDeleted, untilLeaderElected, untilPodsReady } from '../waiting.ts';
import {
  applicationLines,
  applicationsYaml,
  maintenanceName,
  maintenanceYaml,
  node,
  podsThatMove,
  spareNodes,
  workloads,
} from './fixtures.ts';
import { type Deletion, recordDeletions, recordDrained } from './observations.ts';
import { type PodEvent, verify } from './verification.ts';
import { attachVolume, detachVolume, letControllerAttach } from './volume.ts';

/** Drains a node that budgets block until the deadline, and a volume for longer than its pod. Returns the verified facts. */
export async function runScenario(options: EnvironmentOptions): Promise<Section[]> {
  const heading = headings(options.screen);
  heading('Kubernetes and Temporal start on this machine');
  const environment = await createEnvironment(options, { nodes: 0, maintained: [node], workloads });
  heading(`Two applications run on ${node}, and their budgets allow no disruption`);
  await startApplications(environment);
  heading('The worker starts');
  const worker = startFirstWorker(environment);
  await untilLeaderElected(environment);

  heading(`${node} has to be drained by a deadline`);
  await printAndApply(environment, `${maintenanceName}.yaml`, maintenanceYaml());
  const { note } = notes(environment.screen);
  const deletions = recordDeletions(environment, ({ pod, graceSeconds }) =>
    note(`${pod} is deleted with a grace period of ${graceSeconds} s`, environment.screen.colors.cyan),
  );
  const drainedRecord = recordDrained(environment);
  await untilBlocked(environment, note);
  await untilSteps(environment, 1);
  note('The owners of the pods are notified, and the time of the step is recorded');
  await showEvents(environment);
  await killWorker(environment, worker, note);
  await untilSteps(environment, 2);
  note('The owners are notified again');
  const drained = await awaitDrained(environment, { note, deletions });

  heading('The firmware is updated, on time: the node is uncordoned');
  const events = await eventsOfPods(environment);
  await complete(environment, maintenanceName);
  await untilPodsReady(environment);

  heading('Verification against the Kubernetes API and the workflow history');
  return verify({
    maintenance: drained,
    deletions,
    drainedRecord,
    deletedPods: environment.recording.deletedPods,
    events,
    evictions: countEvictions(await environment.kubectl('get', '--raw', '/metrics')),
    workflow: await readWorkflow(environment.sandbox, maintenanceName),
  });
}

async function startApplications(environment: Environment): Promise<void> {
  const { screen, sandbox } = environment;
  await sandbox.addNodes([node]);
  await letControllerAttach(environment);
  await applyFile(environment, 'applications.yaml', applicationsYaml());
  for (const text of applicationLines()) screen.print(`     ${text}`);
  await untilPodsReady(environment);
  await attachVolume(environment);
  await sandbox.addNodes([...spareNodes]);
  await runAndPrint(environment, 'get', 'pdb', '--all-namespaces');
}

async function untilBlocked({ cluster, until }: Environment, note: Note): Promise<void> {
  await until('every pod to be blocked', () => {
    const { podsBlocked = 0 } = cluster.maintenances.get(maintenanceName)?.status ?? {};
    return podsBlocked === podsThatMove ? undefined : `${podsBlocked} of ${podsThatMove} are blocked`;
  });
  note(`All ${podsThatMove} pods are blocked by their budgets`);
}

/** Waits until so many steps are recorded as done. */
function untilSteps({ cluster, until }: Environment, count: number): Promise<void> {
  return until(`${count} steps of the escalation`, () => {
    const { steps = [] } = cluster.maintenances.get(maintenanceName)?.status?.drainDeadline ?? {};
    const done = steps.filter(({ doneAt }) => doneAt !== undefined).length;
    return done >= count ? undefined : `${done} steps are done`;
  });
}

async function killWorker(environment: Environment, worker: DemoProcess, note: Note): Promise<void> {
  const { screen, startWorker } = environment;
  await worker.kill();
  note(`✗ kill -9 ${worker.pid}: the worker is killed between two steps`, screen.colors.red);
  const { pid } = startWorker();
  note(`Another worker starts, process ${pid}`);
}

async function awaitDrained(
  environment: Environment,
  { note, deletions }: { note: Note; deletions: readonly Deletion[] },
): Promise<NodeMaintenance | undefined> {
  const { screen, kube, until } = environment;
  await until('every pod to be deleted', () =>
    deletions.length === podsThatMove ? undefined : `${deletions.length} are deleted`,
  );
  note(await untilVolumeAwaited(environment));
  await detachVolume(environment);
  note('Its driver detaches the volume, late');
  await untilDrained(environment, maintenanceName);
  await untilEvacuationsDeleted(environment);
  note(`✓ ${node} is drained`, screen.colors.green);
  const columns =
    'custom-columns=NAME:.metadata.name,DEADLINE:.status.drainDeadline.time,DRAINED:.status.drainDeadline.drainedAt';
  await runAndPrint(environment, 'get', 'nodemaintenance', maintenanceName, '-o', columns);
  return kube.get(resources.nodeMaintenances, { name: maintenanceName });
}

/** Resolves with the message of the condition Drained. */
async function untilVolumeAwaited({ cluster, until }: Environment): Promise<string> {
  const drained = () =>
    cluster.maintenances.get(maintenanceName)?.status?.conditions.find(({ type }) => type === 'Drained');
  await until('the drain to wait for the volume', () =>
    drained()?.reason === 'VolumesAttached' ? undefined : (drained()?.message ?? 'no condition'),
  );
  return drained()?.message ?? '';
}

async function eventsOfPods({ kubectl }: Environment): Promise<PodEvent[]> {
  const output = await kubectl('get', 'events', '--all-namespaces', '-o', 'json');
  const { items } = JSON.parse(output) as { items: PodEvent[] };
  return items.filter(({ involvedObject }) => involvedObject.kind === 'Pod');
}

async function showEvents(environment: Environment): Promise<void> {
  await environment.until('the Events on the pods', async () => {
    const events = (await eventsOfPods(environment)).filter(({ reason }) => reason === 'DrainDeadline');
    return events.length >= podsThatMove ? undefined : `${events.length} Events`;
  });
  const columns = 'custom-columns=POD:.involvedObject.name,MESSAGE:.message';
  const ofDeadline = ['--field-selector', 'reason=DrainDeadline,involvedObject.kind=Pod'];
  await runAndPrint(environment, 'get', 'events', '--all-namespaces', ...ofDeadline, '-o', columns);
}
