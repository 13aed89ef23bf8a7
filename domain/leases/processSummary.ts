import type { Lease } from '../../api/core.ts';
import type { COMPONENT_LABEL, HOSTNAME_LABEL, IdentityAnnotation } from '../../api/names.ts';
import { type EvictionApi, evictionApis } from '../common/evictionApi.ts';
import { isExpired, renewIntervalSecondsOf } from './identityLease.ts';

/** One process of an installation, as the CLI shows it. Times are RFC 3339; fields that its Lease does not have are omitted. */
export interface ProcessSummary {
  readonly component: string;
  readonly host: string;
  /** Unique for every start of the process. */
  readonly holder: string;
  /** Stale: it missed renewals, or its renewTime is in the future. Expired: it no longer runs, and its Lease will be deleted. */
  readonly state: 'Live' | 'Stale' | 'Expired';
  /** Whether it runs the control loops. */
  readonly leader: boolean;
  readonly renewTime?: string;
  readonly version?: string;
  /** Identity and task queue of the worker in Temporal. */
  readonly temporal?: TemporalWorker;
  /** Its setting --deployment-registration. */
  readonly deploymentRegistration?: DeploymentRegistration;
  /** Its setting --eviction-api, unless that is evacuation. */
  readonly evictionApi?: EvictionApi;
}

/** Values of the setting: the evacuator of Deployments serves pods with its annotation only, or also some without evacuators (ADR 64). */
export const deploymentRegistrations = ['annotated', 'automatic'] as const;
export type DeploymentRegistration = (typeof deploymentRegistrations)[number];

export interface TemporalWorker {
  readonly identity: string;
  readonly namespace: string;
  readonly taskQueue: string;
}

/** A process that has missed more renewals is Stale. */
const staleRenewals = 3;
const componentLabel: typeof COMPONENT_LABEL = 'k8s.io/component';
const hostnameLabel: typeof HOSTNAME_LABEL = 'kubernetes.io/hostname';
type Annotation = (typeof IdentityAnnotation)[keyof typeof IdentityAnnotation];

/** Summarizes any identity Lease that an apiserver stores. `leader` is the holder that runs the control loops. */
export function processOf(lease: Readonly<Lease>, leader: string | undefined, now: Date): ProcessSummary {
  const { labels = {}, annotations = {} } = lease.metadata;
  const { holderIdentity: holder = '', renewTime } = lease.spec;
  const annotation = (name: Annotation) => annotations[name];
  const host = annotation('nodemaintenance.k8s.io/hostname') ?? labels[hostnameLabel] ?? '';
  const version = annotation('nodemaintenance.k8s.io/version');
  const identity = annotation('nodemaintenance.k8s.io/temporal-identity');
  const namespace = annotation('nodemaintenance.k8s.io/temporal-namespace');
  const taskQueue = annotation('nodemaintenance.k8s.io/task-queue');
  const registration = annotation('nodemaintenance.k8s.io/deployment-registration');
  const deploymentRegistration = deploymentRegistrations.find((one) => one === registration);
  const api = annotation('nodemaintenance.k8s.io/eviction-api');
  const evictionApi = evictionApis.find((one) => one === api);
  const isWorker = identity !== undefined && namespace !== undefined && taskQueue !== undefined;
  return {
    component: labels[componentLabel] ?? '',
    host,
    holder,
    state: stateOf(lease, now),
    leader: holder !== '' && holder === leader,
    ...(renewTime !== undefined && { renewTime }),
    ...(version !== undefined && { version }),
    ...(isWorker && { temporal: { identity, namespace, taskQueue } }),
    ...(deploymentRegistration !== undefined && { deploymentRegistration }),
    ...(evictionApi !== undefined && { evictionApi }),
  };
}

/** Returns the setting of the worker that leads, or of all that run if none leads; undefined if they do not say, or say different things. */
export function registrationOf(processes: readonly ProcessSummary[]): DeploymentRegistration | undefined {
  const settings = new Set(decidingOf(processes).map((one) => one.deploymentRegistration));
  return settings.size === 1 ? [...settings][0] : undefined;
}

/** Returns by which API these workers drain; undefined if they say different things, or none runs. */
export function evictionApiOf(processes: readonly ProcessSummary[]): EvictionApi | undefined {
  const settings = new Set(decidingOf(processes).map(({ evictionApi = 'evacuation' }) => evictionApi));
  return settings.size === 1 ? [...settings][0] : undefined;
}

function decidingOf(processes: readonly ProcessSummary[]): readonly ProcessSummary[] {
  const workers = processes.filter(({ state, temporal }) => state !== 'Expired' && temporal !== undefined);
  const leaders = workers.filter(({ leader }) => leader);
  return leaders.length > 0 ? leaders : workers;
}

function stateOf(lease: Readonly<Lease>, now: Date): ProcessSummary['state'] {
  if (isExpired(lease, now)) return 'Expired';
  const ageMs = Math.abs(now.getTime() - Date.parse(lease.spec.renewTime ?? ''));
  return ageMs <= staleRenewals * renewIntervalSecondsOf(lease) * 1_000 ? 'Live' : 'Stale';
}

/** A new leader takes over within this time. */
const handoverMs = 10_000;
/** Limit of `--leader-elect-lease-duration`. */
const maxElectionSeconds = 120;

/**
 * Returns since when no process leads; undefined if one does, if another may still take over, or if the installation is unknown.
 * `elections` are the leader election Leases of the controllers in all namespaces.
 */
export function leaderlessSince(elections: readonly Readonly<Lease>[], now: Date): Date | undefined {
  const ends = elections.flatMap(({ spec: { renewTime, leaseDurationSeconds = 0 } }) => {
    const renewedMs = Date.parse(renewTime ?? '');
    // A user may have created it in a namespace of his own.
    const isPlausible = renewedMs <= now.getTime() + handoverMs && leaseDurationSeconds <= maxElectionSeconds;
    return isPlausible ? [renewedMs + leaseDurationSeconds * 1_000] : [];
  });
  if (ends.length === 0) return undefined;
  const endMs = Math.max(...ends);
  return now.getTime() - endMs > handoverMs ? new Date(endMs) : undefined;
}

/** Returns the holder of the leader election Lease, unless it has expired. */
export function leaderOf(election: Readonly<Lease> | undefined, now: Date): string | undefined {
  const { holderIdentity = '', renewTime, leaseDurationSeconds = 0 } = election?.spec ?? {};
  const isHeld = Date.parse(renewTime ?? '') + leaseDurationSeconds * 1_000 >= now.getTime();
  return isHeld && holderIdentity !== '' ? holderIdentity : undefined;
}
