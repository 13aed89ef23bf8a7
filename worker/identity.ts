import { createHash } from 'node:crypto';
import { hostname } from 'node:os';
import type { Lease } from '../api/core.ts';
import { Component, COMPONENT_LABEL, HOSTNAME_LABEL, IdentityAnnotation } from '../api/names.ts';
import { hostnameLabel, isCollectable, isTakenOver } from '../domain/leases/identityLease.ts';
import { sleep } from '../kube/abort.ts';
import type { Kube, RequestOptions } from '../kube/client.ts';
import { isKubeError, errorMessage } from '../kube/errors.ts';
import { heldSpec, type Observation, observe } from '../kube/leaseRecord.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import type { IdentityLeaseSettings } from './config.ts';
import { packageVersion } from '../process/packageVersion.ts';
import { retryUntilAvailable, type WaitOptions } from './startupRetry.ts';

export interface IdentityOptions {
  readonly kube: Kube;
  /** Namespace of the installation. */
  readonly namespace: string;
  readonly component: Component;
  /** Shown to users who list the Leases. */
  readonly annotations?: Readonly<Record<string, string>>;
  /** UUID of the start of this process. Default: a new one. */
  readonly uuid?: string;
  readonly log: Log;
  /** Default: the hostname of the operating system. */
  readonly host?: string;
  /** Default 10. */
  readonly renewEverySeconds?: number;
  /** Time after which other processes may consider this one dead. Default 3600: the KEP prefers "that expired Leases remain". */
  readonly leaseDurationSeconds?: number;
  /** Interval of the garbage collection of expired Leases, plus a jitter of up to a fifth. Default: a sixth of leaseDurationSeconds. */
  readonly collectEverySeconds?: number;
}

const defaultRenewSeconds = 10;
const defaultDurationSeconds = 3_600;
/** The few processes of a host do not conflict more often than this. */
const maxAttempts = 5;
const componentSelector = `${COMPONENT_LABEL} in (${Object.values(Component).join(',')})`;

/**
 * Waits until the Lease is published, and renews it from then on until the signal aborts. An identity that is not enabled is not published,
 * and its process deletes no Leases.
 */
export async function publishIdentity(
  { enabled, ...options }: IdentityOptions & Pick<IdentityLeaseSettings, 'enabled'>,
  wait: WaitOptions,
): Promise<IdentityLease> {
  const { namespace } = options;
  if (!enabled) return new IdentityLease(options);
  // Read once: an upgrade on disk does not change the running process.
  const annotations = { ...options.annotations, [IdentityAnnotation.Version]: packageVersion() };
  const identity = new IdentityLease({ ...options, annotations });
  const remedy = `namespace ${namespace} must exist and have a RoleBinding for Role ${options.component}; npm start -- --install --namespace ${namespace} creates both`;
  await retryUntilAvailable({ name: 'the identity Lease', remedy, ...wait }, () =>
    identity.publish({ signal: wait.signal }),
  );
  void identity.run(wait.signal);
  return identity;
}

/**
 * Identity Lease that shows that one process is alive (KEP-1965, for the processes of this project). Contract:
 *
 * 1. Component and host determine its name: a process that restarts takes over the Lease of its predecessor at once.
 * 2. The holder is unique for each start.
 * 3. If two processes run on one host, the later one has that name. The earlier one notices when it renews, and uses a name made of
 *    host and holder from then on, so that they never take the Lease from each other.
 * 4. A process that ends does not delete its Lease. Every running process deletes expired Leases, and never one that is still
 *    renewed, whatever its times are.
 */
export class IdentityLease {
  /** `<name of the Lease>_<UUID>`; also the identity of the process in the leader election of the control loops. */
  readonly holder: string;
  readonly #options: IdentityOptions;
  readonly #host: string;
  readonly #reported = new Map<string, string>();
  /** The Leases of the last collection, and since when they have not changed, by name. */
  #observed = new Map<string, Observation>();
  #name: string;
  /** The Lease exists under the current name. */
  #isPublished = false;
  #renewedAtMs = Number.NaN;
  #errors = 0;

  constructor(options: IdentityOptions) {
    this.#options = options;
    this.#host = options.host ?? hostname();
    this.#name = this.#nameFor(this.#host);
    this.holder = `${this.#name}_${options.uuid ?? crypto.randomUUID()}`;
  }

  /** Time of the last renewal in seconds since 1970, by the clock of the apiserver; NaN before the first renewal. */
  get renewedAtSeconds(): number {
    return this.#renewedAtMs / 1_000;
  }

  /** Number of failed renewals and collections. */
  get errors(): number {
    return this.#errors;
  }

  /** Writes the Lease once. Rejects with a KubeError. */
  async publish(request: RequestOptions = {}): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#write(request);
        return;
      } catch (error) {
        // Another process of this host wrote at the same time.
        const isConflict = isKubeError(error, 'Conflict', 'AlreadyExists');
        if (!isConflict || attempt === maxAttempts) throw error;
      }
    }
  }

  /** Renews this Lease and deletes expired ones until the signal aborts. Never throws: the process works without it. */
  async run(signal: AbortSignal): Promise<void> {
    const { leaseDurationSeconds = defaultDurationSeconds } = this.#options;
    const { renewEverySeconds = defaultRenewSeconds, collectEverySeconds = leaseDurationSeconds / 6 } =
      this.#options;
    const renew = async () => {
      await sleep(renewEverySeconds * 1_000, signal);
      await this.#logFailure('Identity Lease could not be renewed', () => this.publish({ signal }), signal);
    };
    const collect = async () => {
      await this.#logFailure(
        'Expired identity Leases could not be deleted',
        () => this.collect({ signal }),
        signal,
      );
      await sleep(collectEverySeconds * 1_000 * (1 + Math.random() / 5), signal);
    };
    await Promise.all([repeat(renew, signal), repeat(collect, signal)]);
  }

  /** Deletes the Leases of processes that have ended. Rejects with a KubeError. */
  async collect(request: RequestOptions = {}): Promise<void> {
    const { kube, namespace, log } = this.#options;
    const selection = { namespace, labelSelector: componentSelector, ...request };
    const { items } = await kube.list(resources.leases, selection);
    for (const { metadata } of this.#collectable(items)) {
      const { name, uid = '', resourceVersion } = metadata;
      const options = { uid, resourceVersion, ...request };
      const outcome = await kube.delete(resources.leases, { namespace, name }, options).catch(ignoreRenewed);
      if (outcome === 'Deleted')
        log.info('Expired identity Lease deleted', { lease: `${namespace}/${name}` });
    }
  }

  #collectable(leases: readonly Lease[]): Lease[] {
    const [now, nowMs] = [this.#options.kube.now(), performance.now()];
    const known = this.#observed;
    this.#observed = new Map(
      leases.map((lease) => [lease.metadata.name, observe(known.get(lease.metadata.name), lease, nowMs)]),
    );
    return leases.filter((lease) => {
      const { changedAtMs } = this.#observed.get(lease.metadata.name) ?? { changedAtMs: nowMs };
      return isCollectable(lease, { now, unchangedForMs: nowMs - changedAtMs });
    });
  }

  async #write(request: RequestOptions): Promise<void> {
    const { kube, namespace, leaseDurationSeconds = defaultDurationSeconds } = this.#options;
    const urgent = { ...request, urgent: true };
    const key = { namespace, name: this.#name };
    const current = await kube.get(resources.leases, key, urgent);
    if (this.#isPublished && current && isTakenOver(current, this.holder)) this.#useOwnName(current);
    if (this.#name !== key.name) return this.#write(request);
    const candidate = { identity: this.holder, leaseDurationSeconds };
    const renewedAt = kube.now();
    const spec = heldSpec(current?.spec, candidate, renewedAt);
    const metadata = this.#metadata(current);
    if (current === undefined) await kube.create(resources.leases, { metadata, spec }, urgent);
    else await kube.mergePatch(resources.leases, key, { metadata, spec }, urgent);
    this.#isPublished = true;
    this.#renewedAtMs = renewedAt.getTime();
  }

  #useOwnName({ spec: { holderIdentity } }: Lease): void {
    const from = this.#name;
    this.#name = this.#nameFor(this.#host + this.holder);
    if (this.#name === from) return;
    this.#isPublished = false;
    const fields = { from, to: this.#name, holder: holderIdentity };
    this.#options.log.info('Identity Lease was taken by a process that started later', fields);
  }

  #metadata(current: Lease | undefined): Lease['metadata'] {
    const { namespace, component, annotations, renewEverySeconds = defaultRenewSeconds } = this.#options;
    const label = hostnameLabel(this.#host);
    return {
      name: this.#name,
      namespace,
      ...(current?.metadata.resourceVersion && { resourceVersion: current.metadata.resourceVersion }),
      labels: { [COMPONENT_LABEL]: component, [HOSTNAME_LABEL]: label },
      annotations: {
        ...formerAnnotations(current),
        ...annotations,
        [IdentityAnnotation.RenewIntervalSeconds]: String(renewEverySeconds),
        ...(label !== this.#host && { [IdentityAnnotation.Hostname]: this.#host }),
      },
    };
  }

  #nameFor(key: string): string {
    return `${this.#options.component}-${createHash('sha256').update(key).digest('hex')}`;
  }

  /** Logs each reason once, until the operation succeeds again. */
  async #logFailure(failure: string, act: () => Promise<void>, signal: AbortSignal): Promise<void> {
    try {
      await act();
      this.#reported.delete(failure);
    } catch (error) {
      if (signal.aborted) return;
      this.#errors++;
      const reason = errorMessage(error);
      if (this.#reported.get(failure) !== reason)
        this.#options.log.warn(failure, { holder: this.holder, reason });
      this.#reported.set(failure, reason);
    }
  }
}

/** Returns what removes the annotations of a predecessor, which may have had other settings. */
function formerAnnotations(current: Lease | undefined): Record<string, string> {
  const { annotations = {} } = current?.metadata ?? {};
  const former = Object.values(IdentityAnnotation).filter((key) => annotations[key] !== undefined);
  return Object.fromEntries(former.map((key) => [key, null as unknown as string]));
}

async function repeat(act: () => Promise<void>, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) await act();
}

/** Ignores that the Lease was renewed in between: its process is alive. */
function ignoreRenewed(error: unknown): 'Gone' {
  if (isKubeError(error, 'Conflict')) return 'Gone';
  throw error;
}
