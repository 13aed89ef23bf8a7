import { readWorkflow, workflowLink } from '../history.ts';
import {
  applyFile,
  headings,
  complete,
  runAndPrint,
  printAndApply,
  startFirstWorker,
  runCommand,
} from '../steps.ts';
import { countEvictions } from '../verification.ts';
import { appOf, hasToLeave } from '../recording.ts';
import { createEnvironment, type Environment, type EnvironmentOptions } from '../environment.ts';
import type { Section } from '../table.ts';
import { untilDrained, untilLeaderElected, untilEvacuationsDeleted, untilPodsReady } from '../waiting.ts';
import type { DemoProcess } from '../program.ts';
import { identityOf } from '../worker.ts';
import { deletedPodsOf } from './progress.ts';
import { verify, type Snapshot, takeSnapshot } from './verification.ts';
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

/** Runs a complete maintenance of two nodes. Returns the verified facts. */
export async function runScenario(options: EnvironmentOptions): Promise<Section[]> {
  const heading = headings(options.screen);
  heading('Kubernetes and Temporal start on this machine');
  const environment = await createEnvironment(options, { nodes: nodeCount, maintained, workloads });
  heading('The worker starts, with the permissions of deploy/rbac and no others');
  const first = startFirstWorker(environment);
  heading(`${nodeCount} nodes run workloads; two of them are in rack 7`);
  await startWorkloads(environment);

  heading('Rack 7 needs new firmware: its nodes are drained');
  const view = await declareMaintenance(environment);
  const second = await killWorkerDuringTier(environment, view, first);
  const drained = await awaitDrained(environment, view);

  heading('The nodes are drained: the firmware can be updated');
  await runAndPrint(environment, 'get', 'nodemaintenance', maintenanceName);
  await runAndPrint(environment, 'get', 'nodes', '--label-columns', rackLabel.name);
  heading('The firmware is updated: the nodes are uncordoned');
  const uncordoned = await uncordonNodes(environment);

  heading('Verification against the Kubernetes API and the workflow history');
  return verify({
    recording: environment.recording,
    evictions: countEvictions(await environment.kubectl('get', '--raw', '/metrics')),
    drained,
    uncordoned,
    workflow: await readWorkflow(environment.sandbox, maintenanceName),
    killedWorker: identityOf(first),
    secondWorker: identityOf(second),
  });
}

async function startWorkloads(environment: Environment): Promise<void> {
  const { screen } = environment;
  await runCommand(environment, 'label', 'node', ...maintained, `${rackLabel.name}=${rackLabel.value}`);
  await applyFile(environment, 'workloads.yaml', workloadsYaml());
  for (const text of workloadLines()) screen.print(`     ${text}`);
  await untilPodsReady(environment);
  await untilLeaderElected(environment);
  screen.print(
    `   ${allReplicas} pods are ready; ${allLeavingPods} of them run on ${maintained.join(' and ')}.`,
  );
}

async function declareMaintenance(environment: Environment): Promise<View> {
  const { screen, sandbox, cluster, recording } = environment;
  await printAndApply(environment, `${maintenanceName}.yaml`, maintenanceYaml());
  const link = workflowLink(sandbox, maintenanceName);
  screen.print(
    '   One durable workflow runs the maintenance. While the demo runs, it is in the Temporal UI:',
  );
  screen.print(`   ${screen.colors.cyan(link)}`);
  screen.print();
  const view = showMaintenance(screen, { cluster, recording, link });
  environment.undo.push(async () => view.stop());
  return view;
}

/** The tier during which the worker is killed. Its pods are evicted one at a time. */
const killTier = tiers[1] as (typeof tiers)[number];

async function killWorkerDuringTier(
  environment: Environment,
  view: View,
  first: DemoProcess,
): Promise<DemoProcess> {
  const { screen, until, leader, startWorker } = environment;
  view.worker(`process ${first.pid}`);
  await until(`some pods of "${killTier.title}" to terminate`, () => tierProgressText(environment));
  const killed = leader();
  await first.kill();
  view.note(`✗ kill -9 ${first.pid}: the worker is killed while pods terminate`, screen.colors.red);
  const second = startWorker();
  view.note(
    `Another worker starts, process ${second.pid}. It takes over when the Lease of the killed worker has expired.`,
  );
  view.worker(`process ${second.pid}, waits until the Lease and the heartbeat of the killed worker expire`);
  await until('the other worker to be the leader', () => {
    const holder = leader();
    return holder === undefined || holder === killed ? `the leader is ${holder}` : undefined;
  });
  view.note(`✓ Process ${second.pid} continues the drain`, screen.colors.green);
  view.worker(`process ${second.pid}, has taken over`);
  return second;
}

/** Returns undefined when some pods of the tier are terminating or gone, and others are not evicted yet. */
function tierProgressText({ cluster, recording }: Environment): string | undefined {
  const gone = deletedPodsOf(killTier, recording.deletedPods).length;
  const names = new Set(killTier.workloads.map(({ name }) => name));
  const here = cluster.pods.list().filter((pod) => hasToLeave(pod, maintained) && names.has(appOf(pod)));
  const waiting = here.filter(({ metadata }) => metadata.deletionTimestamp === undefined).length;
  const leaving = here.length - waiting + gone;
  return leaving > 0 && waiting > 0 ? undefined : `${leaving} terminating or gone, ${waiting} waiting`;
}

async function awaitDrained(environment: Environment, view: View): Promise<Snapshot> {
  await untilDrained(environment, maintenanceName);
  await untilPodsReady(environment);
  await untilEvacuationsDeleted(environment);
  view.stop();
  return takeSnapshot(environment.kube);
}

async function uncordonNodes(environment: Environment): Promise<Snapshot> {
  await complete(environment, maintenanceName);
  await runAndPrint(environment, 'get', 'nodemaintenance', maintenanceName);
  await runAndPrint(environment, 'get', 'nodes', '--label-columns', rackLabel.name);
  return takeSnapshot(environment.kube);
}
