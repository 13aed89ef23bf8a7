import type { Node, Pod } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { WorkflowRecord } from '../history.ts';
import { evacuationsRow, type Evictions, evictionsRow, same, unschedulable } from '../verification.ts';
import { appOf, type Recording } from '../recording.ts';
import type { Row, Section } from '../table.ts';
import {
  instigators,
  ledger,
  node,
  nodeAgent,
  podsThatMove,
  queue,
  queueRelaxed,
  shop,
  spareNodes,
  workloads,
} from './fixtures.ts';
import { evacuatorClass, records, recordsIn } from './migration.ts';
import type { AgentVersion, Observations } from './observations.ts';

export interface PodEvent {
  reason: string;
  message: string;
}

/** The input of the verification, which comes from the Kubernetes API and from Temporal. */
export interface Evidence {
  observations: Observations;
  recording: Recording;
  /** Responses to evictions: of the shop without a worker, of all pods by kubectl drain, of the ledger during its evacuation. */
  rejections: { shop: readonly string[]; drain: readonly string[]; ledger: readonly string[] };
  /** Events of the ledger pod. */
  events: readonly PodEvent[];
  drained: NodeMaintenance | undefined;
  /** Revisions of etcd between which no worker was running. */
  outage: { killedAt: bigint; restartedAt: bigint };
  completedAt: bigint;
  /** Pods and nodes at the end. */
  pods: readonly Pod[];
  nodes: readonly Node[];
  /** Evictions since the maintenance was created. */
  evictions: Evictions;
  workflow: WorkflowRecord;
}

export function verify(evidence: Evidence): Section[] {
  return [
    { title: 'shop: a single replica is replaced without downtime', rows: shopRows(evidence) },
    { title: 'ledger: its data is copied before its eviction', rows: ledgerRows(evidence) },
    { title: 'queue: a budget blocks its eviction', rows: queueRows(evidence) },
    { title: 'node-agent: a DaemonSet pod stays off the node', rows: agentRows(evidence) },
    { title: 'At the end', rows: endRows(evidence) },
  ];
}

function shopRows({ rejections, observations }: Evidence): Row[] {
  const { endpoints, deployments } = observations;
  const serving = endpoints.slice(endpoints.findIndex((ready) => ready.length > 0));
  const fewest = Math.min(...serving.map((ready) => ready.length));
  const servers = distinct(serving.map((ready) => placesOf(ready, observations)));
  const successor = servers.at(-1) ?? '';
  const specs = deployments.map(({ replicas, generation }) => specText(replicas, generation));
  return [
    containsRow(
      'Before, the eviction API rejected its eviction',
      "Cannot evict pod as it would violate the pod's disruption budget.",
      rejections.shop,
    ),
    {
      fact: 'Ready endpoints of its Service in every version of its EndpointSlices',
      expected: 'at least 1',
      actual: `at least ${fewest}, in ${serving.length} versions`,
      holds: serving.length > 1 && fewest >= 1,
    },
    same(
      'Nodes of the ready endpoints: its replacement was ready before it was evicted',
      [node, `${node} + ${successor}`, successor].join(', then '),
      servers.join(', then '),
    ),
    same(
      `Its Deployment was not changed, in ${deployments.length} versions`,
      specText(shop.replicas, 1),
      distinct(specs).join(', then '),
    ),
  ];
}

function specText(replicas: number | undefined, generation: number | undefined): string {
  return `replicas ${replicas}, generation ${generation}`;
}

function placesOf(podUids: readonly string[], { nodes }: Observations): string {
  return podUids
    .map((uid) => nodes.get(uid) ?? 'nowhere')
    .toSorted()
    .join(' + ');
}

/** Removes texts that repeat the previous one. */
function distinct(texts: readonly string[]): string[] {
  return texts.filter((text, index) => text !== texts[index - 1]);
}

/** Builds the fact that one of several texts contains the expected text. */
function containsRow(fact: string, expected: string, texts: readonly string[]): Row {
  const match = texts.find((text) => text.includes(expected));
  const from = match?.slice(match.indexOf(expected));
  return {
    fact,
    expected,
    actual: short(from ?? (texts.join('; ') || 'nothing')),
    holds: match !== undefined,
  };
}

/** Limit of a message in the table, in characters. */
const maxLength = 150;

function short(text: string): string {
  return text.length > maxLength ? `${text.slice(0, maxLength)}…` : text;
}

function ledgerRows({ rejections, observations, events }: Evidence): Row[] {
  const { copied, messageVersions } = observations;
  const progress = messageVersions.flatMap(({ message, revision, expectedFinish }) => {
    const reported = recordsIn(message);
    return reported === undefined ? [] : [{ reported, revision, expectedFinish }];
  });
  const withFinish = progress.filter(({ expectedFinish }) => expectedFinish !== undefined);
  const complete = copied.find((disk) => disk.records === records)?.revision;
  const ahead = progress.filter(({ reported, revision }) => reported > copiedAt(observations, revision));
  return [
    containsRow(
      '`kubectl drain` was rejected with the name of its evacuator',
      `cannot be evicted because it has evacuators (${evacuatorClass})`,
      rejections.drain,
    ),
    containsRow(
      'An eviction during the evacuation was rejected with its progress',
      `is being evacuated by ${evacuatorClass} (`,
      rejections.ledger,
    ),
    progressRow(progress.map(({ reported }) => reported)),
    same(
      'Its progress contains the expected finish time',
      `${progress.length} times`,
      `${withFinish.length} times`,
    ),
    same('No message reported more records than the new disk had', '0 messages', `${ahead.length} messages`),
    afterRow(
      'Its pod was evicted after the last record was copied',
      complete,
      terminatedAt(observations, ledger),
    ),
    same(
      `Events on its pod that contain: for ${instigators}`,
      'EvacuatorActivated, Evicted',
      events
        .filter(({ message }) => message.includes(`for ${instigators}`))
        .map(({ reason }) => reason)
        .toSorted()
        .join(', '),
    ),
  ];
}

function copiedAt({ copied }: Observations, revision: bigint): number {
  return Math.max(0, ...copied.filter((disk) => disk.revision < revision).map((disk) => disk.records));
}

/** Minimum number of steps that shows progress during the migration. */
const minSteps = 5;

function progressRow(progress: readonly number[]): Row {
  const isMonotone = progress.every((reported, index) => reported >= (progress[index - 1] ?? 0));
  const steps = new Set(progress).size;
  return {
    fact: 'Progress in the status of its Evacuation, in records',
    expected: `at least ${minSteps} steps up to ${records}, never decreasing`,
    actual: `${steps} steps: ${progress.join(', ')}`,
    holds: isMonotone && steps >= minSteps && progress.at(-1) === records,
  };
}

/** Builds the fact that something happened after a revision of etcd. */
function afterRow(fact: string, bound: bigint | undefined, actual: bigint | undefined): Row {
  return {
    fact,
    expected: bound === undefined ? 'after an event that did not happen' : `after revision ${bound}`,
    actual: actual === undefined ? 'never' : `revision ${actual}`,
    holds: bound !== undefined && actual !== undefined && actual > bound,
  };
}

/** Returns the revision at which the first pod of an application was terminated. */
function terminatedAt({ terminations }: Observations, { name }: { name: string }): bigint | undefined {
  return terminations.find(({ app }) => app === name)?.revision;
}

/** Some rejections are expected, because an eviction may conflict with a change of its budget. */
const maxRejections = 5;
/** The eviction of the ledger that this scenario requests itself. */
const ownRejections = 1;

function queueRows({ observations, recording, evictions }: Evidence): Row[] {
  const { replicas } = queue;
  const blocked = `Blocked by PodDisruptionBudget ${queue.namespace}/${queue.name} (disruptionsAllowed 0, currentHealthy ${replicas}, desiredHealthy ${replicas}, expectedPods ${replicas}).`;
  const messages = observations.messageVersions
    .filter(({ app }) => app === queue.name)
    .map(({ message }) => message);
  const fewest = recording.readiness(queue).fewest ?? 0;
  const rejected = evictions.rejected - ownRejections;
  return [
    containsRow('Its Evacuations report the budget and its numbers', blocked, messages),
    afterRow(
      'Its first pod was evicted after the budget was relaxed',
      observations.relaxedAt(),
      terminatedAt(observations, queue),
    ),
    {
      fact: 'Rejected evictions during the drain, counted by the apiserver',
      expected: `at most ${maxRejections}`,
      actual: String(rejected),
      holds: rejected <= maxRejections,
    },
    {
      fact: 'Its budget was not violated: minimum of ready pods',
      expected: `at least ${queueRelaxed}`,
      actual: `at least ${fewest}`,
      holds: fewest >= queueRelaxed,
    },
  ];
}

function agentRows({ observations, recording, outage, completedAt, pods }: Evidence): Row[] {
  const versions = observations.agents.filter((agent) => agent.node === node);
  const first = versions[0]?.podUid;
  const leaving = observations.terminations.find(({ podUid }) => podUid === first)?.revision;
  const others = recording.deletedPods.filter(({ app }) => app !== nodeAgent.name);
  const away = versions.filter(({ podUid, revision }) => podUid !== first && revision <= completedAt);
  const duringOutage = namesOf(away).filter((name) => {
    const createdAt = away.find(({ pod }) => pod === name)?.revision ?? 0n;
    return createdAt > outage.killedAt && createdAt <= outage.restartedAt;
  });
  const gated = away.filter(({ isGated }) => isGated);
  const running = pods.filter((pod) => appOf(pod) === nodeAgent.name && pod.spec.nodeName === node);
  const elsewhere = observations.terminations.filter(
    ({ app, podUid }) => app === nodeAgent.name && spareNodes.includes(observations.nodes.get(podUid) ?? ''),
  );
  return [
    afterRow(
      'Its pod was evicted after all other pods were gone',
      latest(others.map(({ revision }) => revision)),
      leaving,
    ),
    {
      fact: `Its pods for ${node} were gated until Complete`,
      expected: 'in every version',
      actual: `${namesOf(away).length} pods, in ${gated.length} of ${away.length} versions`,
      holds: away.length > 0 && gated.length === away.length,
    },
    {
      fact: 'One of them was created while no worker was running',
      expected: '1 pod',
      actual: `${duringOutage.length} ${duringOutage.length === 1 ? 'pod' : 'pods'}: ${duringOutage.join(', ')}`,
      holds: duringOutage.length === 1,
    },
    same(
      'This pod is running',
      duringOutage.at(-1) ?? 'none',
      running
        .filter(({ status }) => status.ready)
        .map(({ metadata }) => metadata.name)
        .join(', ') || 'none',
    ),
    same('Its pods on other nodes were not evicted', '0 evicted', `${elsewhere.length} evicted`),
  ];
}

function namesOf(versions: readonly AgentVersion[]): string[] {
  return [...new Set(versions.map(({ pod }) => pod))];
}

function latest(revisions: readonly bigint[]): bigint | undefined {
  return revisions.reduce<bigint | undefined>(
    (last, one) => (last === undefined || one > last ? one : last),
    undefined,
  );
}

function endRows({ recording, drained, evictions, pods, nodes, workflow }: Evidence): Row[] {
  const condition = drained?.status?.conditions.find(({ type }) => type === 'Drained');
  const names = new Set(workloads.map(({ name }) => name));
  const moved = pods.filter(
    (pod) => names.has(appOf(pod)) && pod.status.ready && spareNodes.includes(pod.spec.nodeName ?? ''),
  );
  return [
    same(
      'Condition Drained before Complete',
      'True, AllPodsTerminated',
      condition === undefined ? 'none' : `${condition.status}, ${condition.reason}`,
    ),
    evacuationsRow(recording, podsThatMove + 1),
    evictionsRow({ ...evictions, rejected: 0 }, podsThatMove),
    same(`Pods that are ready on ${spareNodes.join(' and ')}`, `${podsThatMove}`, `${moved.length}`),
    same('Unschedulable nodes', 'none', unschedulable(nodes)),
    same('The workflow has ended', 'COMPLETED', workflow.status),
  ];
}
