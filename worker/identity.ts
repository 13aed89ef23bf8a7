import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import type { Lease } from '../api/core.ts';
import { Component, COMPONENT_LABEL, HOSTNAME_LABEL, IdentityAnnotation } from '../api/names.ts';
import { hostnameLabel, isCollectable, isTakenOver } from '../domain/identityLease.ts';
import { rest } from '../kube/abort.ts';
import type { Kube, RequestOptions } from '../kube/client.ts';
import { isKubeError, wordsOf } from '../kube/errors.ts';
import { held, type Observation, observe } from '../kube/leaseRecord.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import { type Patience, untilItAnswers } from './patience.ts';

export interface IdentityOptions {
  readonly kube: Kube;
  /** Of the installation. */
  readonly namespace: string;
  readonly component: Component;
  /** Facts for whoever lists the Leases. */
  readonly annotations?: Readonly<Record<string, string>>;
  readonly log: Log;
  /** Default: the operating system's. */
  readonly host?: string;
  /** Default 10. */
  readonly renewEverySeconds?: number;
  /** When others may take the process for gone. Default 3600: the KEP prefers "that expired Leases remain". */
  readonly leaseDurationSeconds?: number;
  /** Between two looks for Leases of processes that are gone, with up to a fifth more. Default 600. */
  readonly collectEverySeconds?: number;
}

/** Seconds. */
const usualRenewal = 10;
/** Writers that get in each other's way so often are more than the few processes of a host. */
const attempts = 5;
const components = `${COMPONENT_LABEL} in (${Object.values(Component).join(',')})`;

/** Waits until the Lease is published, and renews it from then on, until the signal. */
export async function publishIdentity(options: IdentityOptions, patience: Patience): Promise<IdentityLease> {
  const { namespace } = options;
  // Once: an upgrade on disk does not change what runs.
  const annotations = { ...options.annotations, [IdentityAnnotation.Version]: await version() };
  const identity = new IdentityLease({ ...options, annotations });
  const remedy = `namespace ${namespace} must exist, and the Role node-maintenance-worker be bound in it, as npm start -- --install does for namespace node-maintenance`;
  await untilItAnswers({ what: 'the identity Lease', remedy, ...patience }, () =>
    identity.publish({ signal: patience.signal }),
  );
  void identity.keep(patience.signal);
  return identity;
}

/**
 * The Lease by which one process says that it lives (KEP-1965, for processes of ours). Contract:
 *
 * 1. Its name is of the component and the host: a process that is started again takes the Lease of its predecessor at once.
 * 2. Its holder is another one at every start.
 * 3. Of two that live on one host the later has that name. The other one notices when it renews, and has a name of its own
 *    from then on, of the host and its holder: they never take it from each other.
 * 4. What ends leaves its Lease behind. Every living process deletes those that have expired, and none that is renewed
 *    meanwhile, whatever times it tells.
 */
export class IdentityLease {
  /** `<name of the Lease>_<UUID>`: also as whom the process is a candidate for the control loops. */
  readonly holder: string;
  readonly #options: IdentityOptions;
  readonly #host: string;
  readonly #reported = new Map<string, string>();
  /** Since when the Leases of the last look are as they were then, by name. */
  #seen = new Map<string, Observation>();
  #name: string;
  /** Under the current name. */
  #isPublished = false;
  #renewedAtMs = Number.NaN;
  #errors = 0;

  constructor(options: IdentityOptions) {
    this.#options = options;
    this.#host = options.host ?? hostname();
    this.#name = this.#named(this.#host);
    this.holder = `${this.#name}_${crypto.randomUUID()}`;
  }

  /** Seconds; NaN before the first time. */
  get sinceRenewal(): number {
    return (performance.now() - this.#renewedAtMs) / 1_000;
  }

  /** Renewals and collections that failed. */
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
        // Another process of this host was faster.
        const isOvertaken = isKubeError(error, 'Conflict', 'AlreadyExists');
        if (!isOvertaken || attempt === attempts) throw error;
      }
    }
  }

  /** Renews the Lease, and collects those of others, until the signal. Never throws: the work of the process goes on without. */
  async keep(signal: AbortSignal): Promise<void> {
    const { renewEverySeconds = usualRenewal, collectEverySeconds = 600 } = this.#options;
    const renew = async () => {
      await rest(renewEverySeconds * 1_000, signal);
      await this.#tried('Identity Lease could not be renewed', () => this.publish({ signal }), signal);
    };
    const collect = async () => {
      await this.#tried('Identity Leases could not be collected', () => this.collect({ signal }), signal);
      await rest(collectEverySeconds * 1_000 * (1 + Math.random() / 5), signal);
    };
    await Promise.all([repeated(renew, signal), repeated(collect, signal)]);
  }

  /** Deletes the Leases of processes that are gone. Rejects with a KubeError. */
  async collect(request: RequestOptions = {}): Promise<void> {
    const { kube, namespace, log } = this.#options;
    const selection = { namespace, labelSelector: components, ...request };
    const { items } = await kube.list(resources.leases, selection);
    for (const { metadata } of this.#collectable(items)) {
      const { name, uid = '', resourceVersion } = metadata;
      const options = { uid, resourceVersion, ...request };
      const outcome = await kube.delete(resources.leases, { namespace, name }, options).catch(ifRenewed);
      if (outcome === 'Deleted') log.info('Identity Lease collected', { lease: `${namespace}/${name}` });
    }
  }

  #collectable(leases: readonly Lease[]): Lease[] {
    const { kube, renewEverySeconds = usualRenewal } = this.#options;
    const [now, nowMs] = [kube.now(), performance.now()];
    const before = this.#seen;
    this.#seen = new Map(
      leases.map((lease) => [lease.metadata.name, observe(before.get(lease.metadata.name), lease, nowMs)]),
    );
    return leases.filter((lease) => {
      const { changedAtMs } = this.#seen.get(lease.metadata.name) ?? { changedAtMs: nowMs };
      const missedRenewals = (nowMs - changedAtMs) / (renewEverySeconds * 1_000);
      return isCollectable(lease, { now, missedRenewals });
    });
  }

  async #write(request: RequestOptions): Promise<void> {
    const { kube, namespace, leaseDurationSeconds = 3_600 } = this.#options;
    const sentAtMs = performance.now();
    const urgent = { ...request, urgent: true };
    const key = { namespace, name: this.#name };
    const current = await kube.get(resources.leases, key, urgent);
    if (this.#isPublished && current && isTakenOver(current, this.holder)) this.#stepAside(current);
    if (this.#name !== key.name) return this.#write(request);
    const candidate = { identity: this.holder, leaseDurationSeconds };
    const spec = held(current?.spec, candidate, kube.now());
    const metadata = this.#metadata(current);
    if (current === undefined) await kube.create(resources.leases, { metadata, spec }, urgent);
    else await kube.mergePatch(resources.leases, key, { metadata, spec }, urgent);
    this.#isPublished = true;
    this.#renewedAtMs = sentAtMs;
  }

  #stepAside({ spec: { holderIdentity } }: Lease): void {
    const from = this.#name;
    this.#name = this.#named(this.#host + this.holder);
    if (this.#name === from) return;
    this.#isPublished = false;
    const fields = { from, to: this.#name, holder: holderIdentity };
    this.#options.log.info('Identity Lease was taken by a process that started later', fields);
  }

  #metadata(current: Lease | undefined): Lease['metadata'] {
    const { namespace, component, annotations } = this.#options;
    const label = hostnameLabel(this.#host);
    return {
      name: this.#name,
      namespace,
      ...(current?.metadata.resourceVersion && { resourceVersion: current.metadata.resourceVersion }),
      labels: { [COMPONENT_LABEL]: component, [HOSTNAME_LABEL]: label },
      annotations: {
        ...annotations,
        ...(label !== this.#host && { [IdentityAnnotation.Hostname]: this.#host }),
      },
    };
  }

  #named(what: string): string {
    return `${this.#options.component}-${createHash('sha256').update(what).digest('hex')}`;
  }

  /** Logs each reason once, until it works again. */
  async #tried(failure: string, act: () => Promise<void>, signal: AbortSignal): Promise<void> {
    try {
      await act();
      this.#reported.delete(failure);
    } catch (error) {
      if (signal.aborted) return;
      this.#errors++;
      const reason = wordsOf(error);
      if (this.#reported.get(failure) !== reason)
        this.#options.log.warn(failure, { holder: this.holder, reason });
      this.#reported.set(failure, reason);
    }
  }
}

async function repeated(act: () => Promise<void>, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) await act();
}

/** Its process lives after all. */
function ifRenewed(error: unknown): 'Gone' {
  if (isKubeError(error, 'Conflict')) return 'Gone';
  throw error;
}

async function version(): Promise<string> {
  const text = await readFile(new URL('../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
