import type { Node, Pod } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { WorkflowRecord } from '../history.ts';
import { evacuationsRow, type Evictions, evictionsRow, same, unschedulable } from '../proof.ts';
import { appOf, type Recording } from '../recording.ts';
import type { Row, Section } from '../table.ts';
import {
  account,
  ledger,
  node,
  nodeAgent,
  podsThatMove,
  queue,
  queueRelaxed,
  shop,
  spareNodes,
  workloads,
} from './cast.ts';
import { evacuatorClass, records, recordsIn } from './migration.ts';
import type { AgentVersion, Sightings } from './sightings.ts';

export interface PodEvent {
  reason: string;
  message: string;
}

/** Everything that the proof is made from: all of it comes from the API and from Temporal. */
export interface Evidence {
  sightings: Sightings;
  recording: Recording;
  /** What was answered to evictions: of the shop without the worker, of all by kubectl drain, of the ledger on its way. */
  refusals: { shop: readonly string[]; drain: readonly string[]; ledger: readonly string[] };
  /** Of the ledger's pod. */
  events: readonly PodEvent[];
  drained: NodeMaintenance | undefined;
  /** When no worker was alive, by etcd's clock. */
  absence: { killedAt: bigint; restartedAt: bigint };
  completedAt: bigint;
  /** At the end. */
  pods: readonly Pod[];
  nodes: readonly Node[];
  /** Since the maintenance was declared. */
  evictions: Evictions;
  workflow: WorkflowRecord;
}

export function prove(evidence: Evidence): Section[] {
  return [
    { title: 'shop: a single replica moves without downtime', rows: shopRows(evidence) },
    { title: 'ledger: its data leave before it does', rows: ledgerRows(evidence) },
    { title: 'queue: a budget blocks, and is named', rows: queueRows(evidence) },
    { title: 'node-agent: a DaemonSet stays away', rows: agentRows(evidence) },
    { title: 'In the end', rows: endRows(evidence) },
  ];
}

function shopRows({ refusals, sightings }: Evidence): Row[] {
  const { endpoints, deployments } = sightings;
  const serving = endpoints.slice(endpoints.findIndex((ready) => ready.length > 0));
  const fewest = Math.min(...serving.map((ready) => ready.length));
  const servers = distinct(serving.map((ready) => placesOf(ready, sightings)));
  const successor = servers.at(-1) ?? '';
  const specs = deployments.map(({ replicas, generation }) => specText(replicas, generation));
  return [
    says(
      'Before, the eviction API refused to let it go',
      "Cannot evict pod as it would violate the pod's disruption budget.",
      refusals.shop,
    ),
    {
      fact: 'Ready endpoints of its Service, in every version of its EndpointSlices',
      expected: 'at least 1',
      seen: `at least ${fewest}, in ${serving.length} versions`,
      holds: serving.length > 1 && fewest >= 1,
    },
    same(
      'Who served: its replacement began before it ended',
      [node, `${node} + ${successor}`, successor].join(', then '),
      servers.join(', then '),
    ),
    same(
      `Its Deployment was not edited, in ${deployments.length} versions`,
      specText(shop.replicas, 1),
      distinct(specs).join(', then '),
    ),
  ];
}

function specText(replicas: number | undefined, generation: number | undefined): string {
  return `replicas ${replicas}, generation ${generation}`;
}

function placesOf(podUids: readonly string[], { nodes }: Sightings): string {
  return podUids
    .map((uid) => nodes.get(uid) ?? 'nowhere')
    .toSorted()
    .join(' + ');
}

/** Without what repeats the one before. */
function distinct(texts: readonly string[]): string[] {
  return texts.filter((text, index) => text !== texts[index - 1]);
}

/** Somebody was told something, among other words. */
function says(fact: string, expected: string, told: readonly string[]): Row {
  const telling = told.find((text) => text.includes(expected));
  const from = telling?.slice(telling.indexOf(expected));
  return {
    fact,
    expected,
    seen: short(from ?? (told.join('; ') || 'nothing')),
    holds: telling !== undefined,
  };
}

/** Characters of a message that the table has room for. */
const longest = 150;

function short(text: string): string {
  return text.length > longest ? `${text.slice(0, longest)}…` : text;
}

function ledgerRows({ refusals, sightings, events }: Evidence): Row[] {
  const { copied, sayings } = sightings;
  const progress = sayings.flatMap(({ message, revision, expectedFinish }) => {
    const said = recordsIn(message);
    return said === undefined ? [] : [{ said, revision, expectedFinish }];
  });
  const withFinish = progress.filter(({ expectedFinish }) => expectedFinish !== undefined);
  const complete = copied.find((disk) => disk.records === records)?.revision;
  const ahead = progress.filter(({ said, revision }) => said > copiedAt(sightings, revision));
  return [
    says(
      '`kubectl drain` was refused, and told by whom it is evacuated',
      `is not evicted but evacuated, by ${evacuatorClass}`,
      refusals.drain,
    ),
    says(
      'So was an eviction half-way, and told how far it is',
      `is being evacuated by ${evacuatorClass} (`,
      refusals.ledger,
    ),
    progressRow(progress.map(({ said }) => said)),
    same('It says when it expects to be done', `${progress.length} times`, `${withFinish.length} times`),
    same('No message ran ahead of the data on the new disk', '0 messages', `${ahead.length} messages`),
    afterRow('Its pod was asked to go when the last record was there', complete, leftAt(sightings, ledger)),
    same(
      `Events on its pod that say: for ${account}`,
      'EvacuatorAsked, Evicted',
      events
        .filter(({ message }) => message.includes(`for ${account}`))
        .map(({ reason }) => reason)
        .toSorted()
        .join(', '),
    ),
  ];
}

function copiedAt({ copied }: Sightings, revision: bigint): number {
  return Math.max(0, ...copied.filter((disk) => disk.revision < revision).map((disk) => disk.records));
}

/** As few steps as prove that it was shown on the way. */
const fewestSteps = 5;

function progressRow(progress: readonly number[]): Row {
  const isMonotone = progress.every((said, index) => said >= (progress[index - 1] ?? 0));
  const steps = new Set(progress).size;
  return {
    fact: 'Progress in the status of its Evacuation, in records',
    expected: `in ${fewestSteps} steps or more to ${records}, never back`,
    seen: `${steps} steps: ${progress.join(', ')}`,
    holds: isMonotone && steps >= fewestSteps && progress.at(-1) === records,
  };
}

/** Something happened after a revision of etcd. */
function afterRow(fact: string, bound: bigint | undefined, seen: bigint | undefined): Row {
  return {
    fact,
    expected: bound === undefined ? 'after what never was' : `after revision ${bound}`,
    seen: seen === undefined ? 'never' : `revision ${seen}`,
    holds: bound !== undefined && seen !== undefined && seen > bound,
  };
}

/** When the first pod of an application was asked to go. */
function leftAt({ leavings }: Sightings, { name }: { name: string }): bigint | undefined {
  return leavings.find(({ app }) => app === name)?.revision;
}

/** An eviction may cross a change of the budget that it was asked for. */
const fewRefusals = 5;
/** Of ours: the eviction of the ledger half-way. */
const ownRefusals = 1;

function queueRows({ sightings, recording, evictions }: Evidence): Row[] {
  const { replicas } = queue;
  const blocked = `Blocked by PodDisruptionBudget ${queue.namespace}/${queue.name} (disruptionsAllowed 0, currentHealthy ${replicas}, desiredHealthy ${replicas}, expectedPods ${replicas}).`;
  const messages = sightings.sayings.filter(({ app }) => app === queue.name).map(({ message }) => message);
  const fewest = recording.readiness(queue).fewest ?? 0;
  const refused = evictions.refused - ownRefusals;
  return [
    says('Its Evacuations name the budget and its numbers', blocked, messages),
    afterRow(
      'Its first pod was asked to go when somebody had relaxed the budget',
      sightings.relaxedAt(),
      leftAt(sightings, queue),
    ),
    {
      fact: 'Refused evictions during the drain, by the count of the apiserver',
      expected: `at most ${fewRefusals}`,
      seen: String(refused),
      holds: refused <= fewRefusals,
    },
    {
      fact: 'Its budget was kept: ready pods at any moment',
      expected: `at least ${queueRelaxed}`,
      seen: `at least ${fewest}`,
      holds: fewest >= queueRelaxed,
    },
  ];
}

function agentRows({ sightings, recording, absence, completedAt, pods }: Evidence): Row[] {
  const versions = sightings.agents.filter((agent) => agent.node === node);
  const first = versions[0]?.podUid;
  const leaving = sightings.leavings.find(({ podUid }) => podUid === first)?.revision;
  const others = recording.departures.filter(({ app }) => app !== nodeAgent.name);
  const away = versions.filter(({ podUid, revision }) => podUid !== first && revision <= completedAt);
  const inAbsence = namesOf(away).filter((name) => {
    const made = away.find(({ pod }) => pod === name)?.revision ?? 0n;
    return made > absence.killedAt && made <= absence.restartedAt;
  });
  const held = away.filter(({ isHeld }) => isHeld);
  const back = pods.filter((pod) => appOf(pod) === nodeAgent.name && pod.spec.nodeName === node);
  const elsewhere = sightings.leavings.filter(
    ({ app, podUid }) => app === nodeAgent.name && spareNodes.includes(sightings.nodes.get(podUid) ?? ''),
  );
  return [
    afterRow(
      'Its pod was asked to go when all others were gone',
      latest(others.map(({ revision }) => revision)),
      leaving,
    ),
    {
      fact: `What its DaemonSet made for ${node} from then on was held, until Complete`,
      expected: 'in every version',
      seen: `${namesOf(away).length} pods, in ${held.length} of ${away.length} versions`,
      holds: away.length > 0 && held.length === away.length,
    },
    {
      fact: 'One of them was made while no worker was alive',
      expected: '1 pod',
      seen: `${inAbsence.length} ${inAbsence.length === 1 ? 'pod' : 'pods'}: ${inAbsence.join(', ')}`,
      holds: inAbsence.length === 1,
    },
    same(
      'That one runs now',
      inAbsence.at(-1) ?? 'none',
      back
        .filter(({ status }) => status.ready)
        .map(({ metadata }) => metadata.name)
        .join(', ') || 'none',
    ),
    same('Its pods on other nodes were left alone', '0 left', `${elsewhere.length} left`),
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
      'Condition Drained, while it was',
      'True, AllPodsTerminated',
      condition === undefined ? 'none' : `${condition.status}, ${condition.reason}`,
    ),
    evacuationsRow(recording, podsThatMove + 1),
    evictionsRow({ ...evictions, refused: 0 }, podsThatMove),
    same(`Pods that are ready on ${spareNodes.join(' and ')} instead`, `${podsThatMove}`, `${moved.length}`),
    same('Nodes that are unschedulable', 'none', unschedulable(nodes)),
    same('The workflow has ended', 'COMPLETED', workflow.status),
  ];
}
