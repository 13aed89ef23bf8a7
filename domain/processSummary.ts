import type { Lease } from '../api/core.ts';
import type { COMPONENT_LABEL, HOSTNAME_LABEL, IdentityAnnotation } from '../api/names.ts';
import { isExpired } from './identityLease.ts';

/** One process of an installation, for people and scripts. Times are RFC 3339; what its Lease does not tell is left out. */
export interface ProcessSummary {
  readonly component: string;
  readonly host: string;
  /** Unique for every start of the process. */
  readonly holder: string;
  /** Silent: it has missed some renewals. Expired: it is gone, and its Lease is soon to be collected. */
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

/** Total for every Lease that an apiserver stores. `election` is the Lease that the leader of the control loops has. */
export function processOf(
  lease: Readonly<Lease>,
  election: Readonly<Lease> | undefined,
  now: Date,
): ProcessSummary {
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
    leader: isLeader({ host, identity }, election, now),
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

/** Candidates call themselves `<host>_<pid>_<unique>`, and Temporal knows them as `<pid>@<host>`. */
function isLeader(
  { host, identity }: { readonly host: string; readonly identity: string | undefined },
  election: Readonly<Lease> | undefined,
  now: Date,
): boolean {
  const { holderIdentity = '', renewTime, leaseDurationSeconds = 0 } = election?.spec ?? {};
  const pid = identity?.split('@')[0];
  const isHeld = Date.parse(renewTime ?? '') + leaseDurationSeconds * 1_000 >= now.getTime();
  return isHeld && pid !== undefined && holderIdentity.startsWith(`${host}_${pid}_`);
}
