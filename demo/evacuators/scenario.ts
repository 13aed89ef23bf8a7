import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Pod } from '../../api/core.ts';
import { isTrue } from '../../domain/common/conditions.ts';
import { resources } from '../../kube/resources.ts';
import { trimNode, trimPod } from '../../kube/transform.ts';
import { readWorkflow } from '../history.ts';
import {
  applyFile,
  headings,
  complete,
  printCommand,
  runAndPrint,
  printAndApply,
  runRejectedCommand,
  startFirstWorker,
  runCommand,
} from '../steps.ts';
import type { DemoProcess } from '../program.ts';
import { countEvictions, type Evictions } from '../verification.ts';
import { appOf } from '../recording.ts';
import { createEnvironment, type Environment, type EnvironmentOptions } from '../environment.ts';
import type { Section } from '../table.ts';
import { untilDrained, untilLeaderElected, untilEvacuationsDeleted, untilPodsReady } from '../waiting.ts';
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
  applicationLines,
  applicationsYaml,
  workloads,
} from './fixtures.ts';
import { startDataMigration } from './evacuatorProgram.ts';
import { records, recordsIn } from './migration.ts';
import { type Evidence, type PodEvent, verify } from './verification.ts';
import { type Observations, recordObservations } from './observations.ts';
import { showApplications, type View } from './view.ts';

/** Evacuates four applications from one node in different ways. Returns the verified facts. */
export async function runScenario(options: EnvironmentOptions): Promise<Section[]> {
  const heading = headings(options.screen);
  heading('Kubernetes and Temporal start on this machine');
  const environment = await createEnvironment(options, { nodes: 0, maintained: [node], workloads });
  heading(`Four applications run on ${node}`);
  const rejectedShop = await startApplications(environment);
  heading('The worker starts, and an evacuator of the team that owns the ledger');
  const worker = startFirstWorker(environment);
  await startEvacuator(environment);
  heading(`\`kubectl drain\` cannot evict the pods of ${node}`);
  const rejectedDrain = await tryKubectlDrain(environment);

  heading('A NodeMaintenance evacuates each application in its own way');
  const observations = await recordObservations(environment);
  const before = await evictionsSoFar(environment);
  const { ledgerUid, rejectedLedger } = await drain(environment, observations);
  const events = await showEvents(environment, ledgerUid);
  const drained = await environment.kube.get(resources.nodeMaintenances, { name: maintenanceName });

  heading(`The DaemonSet pod stays off ${node}, even without a worker`);
  const outage = await killWorker(environment, worker);
  heading(`The firmware is updated: ${node} is uncordoned, and its DaemonSet pod starts`);
  const end = await uncordonNodes(environment);

  heading('Verification against the Kubernetes API and the workflow history');
  return verify({
    observations,
    recording: environment.recording,
    rejections: { shop: rejectedShop, drain: rejectedDrain, ledger: rejectedLedger },
    events,
    drained,
    outage,
    ...end,
    evictions: difference(await evictionsSoFar(environment), before),
    workflow: await readWorkflow(environment.sandbox, maintenanceName),
  });
}

async function startApplications(environment: Environment): Promise<string[]> {
  const { screen, sandbox, cluster, until } = environment;
  await sandbox.addNodes([node]);
  await applyFile(environment, 'applications.yaml', applicationsYaml());
  for (const text of applicationLines()) screen.print(`     ${text}`);
  await untilPodsReady(environment);
  await until('the status of the budgets to be computed', () => {
    const uncounted = cluster.budgets.list().find(({ status }) => !status?.currentHealthy);
    return uncounted && `${uncounted.metadata.name} is not computed`;
  });
  await runAndPrint(environment, 'get', 'pdb', '--all-namespaces');
  screen.print(`   Neither budget allows any eviction:`);
  return tryEviction(environment, podOf(environment, shop));
}

function podOf({ cluster }: Environment, { name }: { name: string }): Readonly<Pod> {
  const pod = cluster.pods.list().find((one) => appOf(one) === name);
  if (pod === undefined) throw new Error(`no pod of ${name}`);
  return pod;
}

/** Requests the eviction of one pod like `kubectl drain`, and prints the rejection. */
async function tryEviction(environment: Environment, { metadata }: Readonly<Pod>): Promise<string[]> {
  const { name, namespace = '', uid } = metadata;
  const eviction = {
    apiVersion: 'policy/v1',
    kind: 'Eviction',
    metadata: { name, namespace },
    deleteOptions: { preconditions: { uid } },
  };
  const file = `evict-${name}.json`;
  writeFileSync(join(environment.sandbox.dir, file), JSON.stringify(eviction));
  const path = `/api/v1/namespaces/${namespace}/pods/${name}/eviction`;
  return runRejectedCommand(environment, ['create', '--raw', path, '--filename', file]);
}

async function startEvacuator(environment: Environment): Promise<void> {
  const { screen } = environment;
  await applyFile(environment, 'ledger-evacuator.yaml', evacuatorYaml());
  printCommand(
    screen,
    `KUBECONFIG=${evacuatorAccount.name}.kubeconfig node demo/evacuators/dataMigration.ts`,
  );
  const { pid } = await startDataMigration(environment);
  screen.print(`   Process ${pid}, with permissions in namespace ${evacuatorAccount.namespace} only.`);
  await untilLeaderElected(environment);
  await untilEvictionsRejected(environment);
}

/** Waits until the apiserver calls the webhook of the worker. */
function untilEvictionsRejected({ kubectl, sandbox, until }: Environment): Promise<void> {
  const path = `/api/v1/namespaces/${ledger.namespace}/pods/${ledgerPod}/eviction?dryRun=All`;
  const file = `try-${ledgerPod}.json`;
  const eviction = {
    apiVersion: 'policy/v1',
    kind: 'Eviction',
    metadata: { name: ledgerPod, namespace: ledger.namespace },
  };
  writeFileSync(join(sandbox.dir, file), JSON.stringify(eviction));
  return until('evictions of pods with evacuators to be rejected', () =>
    kubectl('create', '--raw', path, '--filename', file).then(
      () => 'they are allowed',
      () => undefined,
    ),
  );
}

/** Runs `kubectl drain` with a timeout, because it retries every five seconds without a limit by default. */
async function tryKubectlDrain(environment: Environment): Promise<string[]> {
  const { sandbox } = environment;
  const command = ['drain', node, '--ignore-daemonsets', '--timeout', '1s'];
  const isRelevant = (text: string) => text.includes('will retry');
  const [rejections] = await Promise.all([
    runRejectedCommand(environment, command, isRelevant),
    sandbox.addNodes([...spareNodes]),
  ]);
  await runCommand(environment, 'uncordon', node);
  environment.screen.print(
    `   ${spareNodes.join(' and ')} have joined, with capacity for the pods of ${node}.`,
  );
  return rejections;
}

async function drain(
  environment: Environment,
  observations: Observations,
): Promise<{ ledgerUid: string; rejectedLedger: string[] }> {
  const { screen, cluster } = environment;
  const pod = podOf(environment, ledger);
  await printAndApply(environment, `${maintenanceName}.yaml`, maintenanceYaml());
  const view = showApplications(screen, cluster);
  environment.undo.push(async () => view.stop());
  await untilInProgress(environment, observations);
  await runAndPrint(environment, 'get', 'evac', '--all-namespaces');
  const rejectedLedger = await tryEviction(environment, pod);
  await relaxBudget(environment, view);
  await untilDrained(environment, maintenanceName);
  await untilPodsReady(environment);
  await untilEvacuationsDeleted(environment);
  view.stop();
  return { ledgerUid: pod.metadata.uid ?? '', rejectedLedger };
}

/** Waits until the shop is replaced, a quarter of the ledger is copied, and the queue is blocked. */
function untilInProgress(
  { cluster, recording, until }: Environment,
  { messageVersions }: Observations,
): Promise<void> {
  return until('the evacuations to be in progress', () => {
    const copied = Math.max(0, ...messageVersions.map(({ message }) => recordsIn(message) ?? 0));
    const blocked = cluster.evacuations.list().filter(({ status }) => isTrue(status?.conditions, 'Blocked'));
    const isShopGone = recording.deletedPods.some(({ app }) => app === shop.name);
    return isShopGone && copied >= records / 4 && blocked.length === queue.replicas
      ? undefined
      : `shop gone: ${isShopGone}, ${copied} records copied, ${blocked.length} pods blocked`;
  });
}

async function relaxBudget(environment: Environment, view: View): Promise<void> {
  view.note(`An operator relaxes the budget that blocks the queue`, environment.screen.colors.cyan);
  const patch = JSON.stringify({ spec: { minAvailable: queueRelaxed } });
  const { name, namespace } = queue;
  await runCommand(
    environment,
    'patch',
    'pdb',
    name,
    '--namespace',
    namespace,
    '--type',
    'merge',
    '-p',
    patch,
  );
}

async function showEvents(environment: Environment, podUid: string): Promise<PodEvent[]> {
  const ofPod = ['--namespace', ledger.namespace, '--field-selector', `involvedObject.uid=${podUid}`];
  let events: PodEvent[] = [];
  await environment.until('the Events of the ledger', async () => {
    const output = await environment.kubectl('get', 'events', ...ofPod, '-o', 'json');
    events = (JSON.parse(output) as { items: PodEvent[] }).items;
    return events.some(({ reason }) => reason === 'Evicted') ? undefined : `${events.length} Events`;
  });
  const columns = 'REASON:.reason,MESSAGE:.message';
  const output = ['-o', `custom-columns=${columns}`, '--sort-by', '.metadata.resourceVersion'];
  await runAndPrint(environment, 'get', 'events', ...ofPod, ...output);
  return events;
}

/** Kills the worker and deletes the gated pod, so that the DaemonSet creates another one. */
async function killWorker(environment: Environment, worker: DemoProcess): Promise<Evidence['outage']> {
  const { screen, startWorker } = environment;
  await showAgents(environment);
  const gated = await gatedAgent(environment);
  await worker.kill();
  screen.print(`   ${screen.colors.red(`✗ kill -9 ${worker.pid}: no worker is running`)}`);
  const killedAt = await revisionNow(environment);
  await runCommand(environment, 'delete', 'pod', gated, '--namespace', nodeAgent.namespace);
  const successor = await gatedAgent(environment, gated);
  await showAgents(environment);
  const restartedAt = await revisionNow(environment);
  const { pid } = startWorker();
  screen.print(`   A policy in the apiserver has gated ${successor}. Another worker starts, process ${pid}.`);
  return { killedAt, restartedAt };
}

function showAgents(environment: Environment): Promise<void> {
  const selector = ['--namespace', nodeAgent.namespace, '--selector', `app=${nodeAgent.name}`];
  return runAndPrint(environment, 'get', 'pods', ...selector, '-o', 'wide');
}

/** Waits for a gated pod other than `other`, and returns its name. */
async function gatedAgent({ cluster, until }: Environment, other?: string): Promise<string> {
  let gated: Readonly<Pod> | undefined;
  await until(`a pod of ${nodeAgent.name} to be gated`, () => {
    const agents = cluster.pods.list().filter((pod) => appOf(pod) === nodeAgent.name);
    gated = agents.find(({ metadata, spec }) => spec.schedulingGates && metadata.name !== other);
    return gated === undefined ? `${agents.length} pods, none of them gated` : undefined;
  });
  return gated?.metadata.name ?? '';
}

/** Returns the current revision of etcd. */
async function revisionNow({ kube }: Environment): Promise<bigint> {
  return BigInt((await kube.list(resources.nodes)).resourceVersion);
}

async function uncordonNodes(
  environment: Environment,
): Promise<Pick<Evidence, 'completedAt' | 'pods' | 'nodes'>> {
  const { cluster, kube, until } = environment;
  const completedAt = await revisionNow(environment);
  await complete(environment, maintenanceName);
  await until(`a pod of ${nodeAgent.name} to run on ${node}`, () => {
    const running = cluster.pods.list().find((pod) => appOf(pod) === nodeAgent.name && isReadyOn(pod, node));
    return running === undefined ? 'it is not ready' : undefined;
  });
  await showAgents(environment);
  const [pods, nodes] = await Promise.all([kube.list(resources.pods), kube.list(resources.nodes)]);
  return { completedAt, pods: pods.items.map(trimPod), nodes: nodes.items.map(trimNode) };
}

function isReadyOn({ spec, status }: Readonly<Pod>, where: string): boolean {
  return status.ready && spec.nodeName === where;
}

async function evictionsSoFar({ kubectl }: Environment): Promise<Evictions> {
  return countEvictions(await kubectl('get', '--raw', '/metrics'));
}

function difference(after: Evictions, before: Evictions): Evictions {
  return {
    accepted: after.accepted - before.accepted,
    rejected: after.rejected - before.rejected,
    interrupted: after.interrupted - before.interrupted,
  };
}
