import type { Lease } from '../api/core.ts';
import type { COMPONENT_LABEL, HOSTNAME_LABEL, IdentityAnnotation } from '../api/names.ts';
import { isExpired } from './identityLease.ts';

/** One process of an installation, for people and scripts. Times are RFC 3339; what its Lease does not tell is left out. */
export interface ProcessSummary {
  readonly component: string;
  readonly host: string;
  /** Unique for every start of the process. */
  readonly holder: string;
  /** Silent: it has missed some renewals, or says a time to come. Expired: it is gone, and its Lease is soon to be collected. */
  readonly state: 'Live' | 'Silent' | 'Expired';
  /** Whether it runs the control loops. */
  readonly leader: boolean;
  readonly renewTime?: string;
  readonly version?: string;
  /** As whom Temporal knows it, of which task queue. */
  readonly temporal?: TemporalWorker;
}

export interface TemporalWorker {
  readonly identity: string;
  readonly namespace: string;
  readonly taskQueue: string;
}

/** Three renewals. Milliseconds. */
const quietAfter = 30_000;
const componentLabel: typeof COMPONENT_LABEL = 'k8s.io/component';
const hostnameLabel: typeof HOSTNAME_LABEL = 'kubernetes.io/hostname';
type Annotation = (typeof IdentityAnnotation)[keyof typeof IdentityAnnotation];

/** Total for every Lease that an apiserver stores. `leader` is the holder that runs the control loops. */
export function processOf(lease: Readonly<Lease>, leader: string | undefined, now: Date): ProcessSummary {
  const { labels = {}, annotations = {} } = lease.metadata;
  const { holderIdentity: holder = '', renewTime } = lease.spec;
  const told = (name: Annotation) => annotations[name];
  const host = told('nodemaintenance.k8s.io/hostname') ?? labels[hostnameLabel] ?? '';
  const version = told('nodemaintenance.k8s.io/version');
  const identity = told('nodemaintenance.k8s.io/temporal-identity');
  const namespace = told('nodemaintenance.k8s.io/temporal-namespace');
  const taskQueue = told('nodemaintenance.k8s.io/task-queue');
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
  };
}

function stateOf(lease: Readonly<Lease>, now: Date): ProcessSummary['state'] {
  if (isExpired(lease, now)) return 'Expired';
  const quiet = Math.abs(now.getTime() - Date.parse(lease.spec.renewTime ?? ''));
  return quiet <= quietAfter ? 'Live' : 'Silent';
}

/** Whom the Lease of the control loops names, if they are not gone: by the holder of their identity Lease. */
export function leaderOf(election: Readonly<Lease> | undefined, now: Date): string | undefined {
  const { holderIdentity = '', renewTime, leaseDurationSeconds = 0 } = election?.spec ?? {};
  const isHeld = Date.parse(renewTime ?? '') + leaseDurationSeconds * 1_000 >= now.getTime();
  return isHeld && holderIdentity !== '' ? holderIdentity : undefined;
}
