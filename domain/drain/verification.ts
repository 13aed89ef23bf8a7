import type { Job, Pod, VolumeAttachment } from '../../api/core.ts';
import { WindowAnnotation, WORK_NAMESPACE } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { isJobRunning } from '../common/job.ts';
import { compareNames, listed, shortened } from '../common/names.ts';
import { isFinished, isWork } from '../common/pod.ts';
import { stageOf } from '../common/stage.ts';
import type { NodeAgent } from '../leases/nodeAgent.ts';
import { remainingCause } from './remaining.ts';

/** A volume that is attached to a node although every pod that a drain evacuates has left it. */
export interface AttachedVolume {
  node: string;
  /** Name of the PersistentVolume, or of the VolumeAttachment if the volume has none. */
  volume: string;
  /** `namespace/name` of the PersistentVolumeClaim. Missing if it is not known. */
  claim?: string;
}

/** A Job of a window that works on a node for another maintenance. */
export interface NodeWork {
  node: string;
  job: string;
  /** Name of the NodeMaintenance that the Job works for. Missing if the Job is gone and only its pod is left. */
  maintenance?: string;
}

/**
 * Result of the verification of nodes on which the informers show no pod to evacuate. Informers may be behind, so that only `Verified` makes a
 * maintenance Drained.
 */
export type Verification =
  | { kind: 'Pending' }
  | { kind: 'Working'; work: readonly NodeWork[] }
  | { kind: 'Attached'; volumes: readonly AttachedVolume[] }
  | {
      kind: 'Verified';
      /** Volumes that are still attached although the deadline of the drain has passed. */
      volumes: readonly AttachedVolume[];
      /** Why VolumeAttachments could not be read. */
      volumesUnknown?: string | undefined;
    };

export const pendingVerification: Verification = { kind: 'Pending' };

/** The nodes of a maintenance, as one activity observes them. */
export interface NodesObservation {
  /** The Job that the maintenance itself may have. */
  ownJob: { readonly name: string; readonly ownerUid: string } | undefined;
  nodes: readonly string[];
  /** Every pod of the node, also those that a drain leaves running. */
  podsOn: (node: string) => readonly Pod[];
  /** The Jobs in the namespace of windows' Jobs. */
  jobs: readonly Job[];
}

/**
 * Returns the Jobs of other maintenances that work on the nodes, one for each node and Job. A Job works from its creation, before it has a
 * pod, until its last pod has ended, even if the Job is gone by then.
 */
export function workOfOthers({ ownJob, nodes, podsOn, jobs }: NodesObservation): NodeWork[] {
  const selected = new Set(nodes);
  const isOwn = (job: Job) =>
    job.metadata.ownerReferences?.some(({ uid }) => uid === ownJob?.ownerUid) === true;
  const byUid = new Map(jobs.map((job) => [job.metadata.uid, job] as const));
  const found = new Map<string, NodeWork>();
  const add = (node: string, job: string, known: Job | undefined) => {
    const by = known?.metadata.ownerReferences?.[0]?.name;
    found.set(`${node} ${job}`, { node, job, ...(by !== undefined && { maintenance: by }) });
  };
  for (const node of nodes) {
    for (const pod of podsOn(node)) {
      const owner = isWork(pod) && !isFinished(pod) ? controllerOf(pod) : undefined;
      if (owner === undefined) continue;
      const job = byUid.get(owner.uid);
      // The list of Jobs may be older than the pod.
      const isOurs = job === undefined ? owner.name === ownJob?.name : isOwn(job);
      if (!isOurs) add(node, owner.name, job);
    }
  }
  for (const job of jobs.filter(isJobRunning)) {
    const node = job.metadata.annotations?.[WindowAnnotation.Node];
    if (node !== undefined && selected.has(node) && !isOwn(job)) add(node, job.metadata.name, job);
  }
  return [...found.values()].toSorted((a, b) => compareNames(a.node, b.node) || compareNames(a.job, b.job));
}

function controllerOf({ metadata }: Pod) {
  return metadata.ownerReferences?.find(({ controller }) => controller === true);
}

/** The state of the apiserver, read in this order after the nodes were cordoned. */
export interface ApiserverObservation extends NodesObservation {
  /** The maintenance that the informers showed, and for which the drain was decided. */
  decided: NodeMaintenance;
  /** Undefined if it is gone. */
  maintenance: NodeMaintenance;
  /** Names of the nodes that the selector matches in the apiserver. */
  selected: readonly string[];
  /** The agents of the nodes, on which it depends whether static pods stay. */
  agentOf: (node: string) => NodeAgent;
  /** Returns true for pods that every drain leaves running. */
  isLeftRunning: (pod: Pod) => boolean;
}

/**
 * Reports whether the apiserver contradicts the informers, according to which no pod is left: the object, a selected node or a pod is newer
 * than what they show. The next decision sees it.
 */
export function isContradicted(observation: ApiserverObservation): boolean {
  return contradictions.some((check) => check(observation));
}

const contradictions: readonly ((observation: ApiserverObservation) => boolean)[] = [
  isOtherObject,
  hasNewNode, // it may have pods, and is not cordoned
  hasPodToEvacuate,
];

function isOtherObject({ decided, maintenance }: ApiserverObservation): boolean {
  return (
    maintenance.metadata.uid !== decided.metadata.uid ||
    maintenance.metadata.generation !== decided.metadata.generation ||
    stageOf(maintenance) !== 'Drain'
  );
}

function hasNewNode({ nodes, selected }: ApiserverObservation): boolean {
  const known = new Set(nodes);
  return selected.some((node) => !known.has(node));
}

function hasPodToEvacuate({ nodes, podsOn, agentOf, isLeftRunning }: ApiserverObservation): boolean {
  return nodes.some((node) =>
    podsOn(node).some((pod) => !isLeftRunning(pod) && remainingCause(pod, agentOf(node)) === undefined),
  );
}

/** A pod that stays on a node, with what it mounts. */
export interface VolumeUser {
  /** `namespace/name` of PersistentVolumeClaims. */
  claims: readonly string[];
  /** It has volumes in the pod itself that the attach-detach controller attaches. */
  hasInlineVolumes: boolean;
}

/**
 * Returns the attachments to a node that count: every one, except those of volumes that a pod which stays uses. An attachment that never
 * succeeded counts, because nobody knows whether the volume is attached; so does one without any pod, because its volume is. `claimOf` returns
 * the PersistentVolumeClaim of a PersistentVolume, if it is known.
 */
export function pendingDetachments(
  attachments: readonly VolumeAttachment[],
  staying: readonly VolumeUser[],
  claimOf: (volume: string) => string | undefined,
): AttachedVolume[] {
  const claims = new Set(staying.flatMap((pod) => pod.claims));
  const hasInlineVolumes = staying.some((pod) => pod.hasInlineVolumes);
  return attachments
    .flatMap(({ metadata, spec: { nodeName, source } }) => {
      const volume = source.persistentVolumeName;
      // An inline volume: the attachment does not name its pod.
      if (volume === undefined) return hasInlineVolumes ? [] : [{ node: nodeName, volume: metadata.name }];
      const claim = claimOf(volume);
      if (claim !== undefined && claims.has(claim)) return [];
      return [{ node: nodeName, volume, ...(claim !== undefined && { claim }) }];
    })
    .toSorted((a, b) => compareNames(a.node, b.node) || compareNames(a.volume, b.volume));
}

/** Formats `pv-1 (shop/data-db-0), pv-2 and 3 more`. */
export function volumesText(volumes: readonly AttachedVolume[]): string {
  return listed(
    volumes.map(({ volume, claim }) =>
      claim === undefined ? shortened(volume) : `${shortened(volume)} (${shortened(claim)})`,
    ),
  );
}

/** Formats `node-maintenance-work/firmware-rack-7 of NodeMaintenance rack-7`. */
export function workText(work: readonly NodeWork[]): string {
  return listed(
    work.map(({ job, maintenance }) => {
      const name = `${WORK_NAMESPACE}/${shortened(job)}`;
      return maintenance === undefined ? name : `${name} of NodeMaintenance ${shortened(maintenance)}`;
    }),
  );
}
