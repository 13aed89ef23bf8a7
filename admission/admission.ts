import type { Server } from 'node:https';
import { FIELD_MANAGER } from '../api/names.ts';
import { type Lifetimes, nextCertificateStep, usualLifetimes } from '../domain/certificates.ts';
import type { FencedKube } from '../kube/client.ts';
import { wordsOf } from '../kube/errors.ts';
import { Informer } from '../kube/informer.ts';
import type { Log } from '../kube/log.ts';
import { WorkQueue } from '../kube/workQueue.ts';
import { issuedOf, type Material, sound, take } from './certificates.ts';
import { evacuationReviewer, evictionReviewer } from './evacuations.ts';
import {
  type Endpoint,
  hostsOf,
  mutating,
  paths,
  type PlainEvictions,
  registrationName,
  registrations,
  validating,
} from './registration.ts';
import { evacuationWebhook, evictionWebhook, maintenanceWebhook, readinessPolicyWebhook } from './review.ts';
import {
  type AdmissionView,
  authorizationReviewer,
  readinessPolicyReviewer,
  warningReviewer,
} from './reviewers.ts';
import {
  bundleOf,
  materialOf,
  type Secret,
  secretName,
  secrets,
  servingOf,
  storeMaterial,
} from './secret.ts';
import { createAdmissionServer } from './server.ts';

export interface AdmissionOptions {
  readonly view: AdmissionView;
  /** Of the Secret with the certificates. */
  readonly namespace: string;
  /** User name of the worker, which is not asked. */
  readonly worker: string;
  readonly plainEvictions: PlainEvictions;
  readonly lifetimes?: Lifetimes;
  readonly log: Log;
}

/** Longest time between two looks at certificates and registration. Milliseconds. */
const resyncEvery = 3_600_000;

/**
 * The admission server of NodeMaintenances, Evacuations, evictions and NodeReadinessPolicies. Contract:
 *
 * 1. Every process that has one may serve; all serve the same certificate, from the Secret, and take a new one at once.
 * 2. One of them at a time keeps certificates and registration (`keep`): both are made, renewed, and put back when
 *    somebody changes or deletes them.
 */
export class Admission {
  /** To be listened with, and closed, by the caller. */
  readonly server: Server;
  readonly #options: AdmissionOptions;
  readonly #secrets: Informer<Secret>;
  #isServing = false;

  constructor(options: AdmissionOptions) {
    const { view, namespace, log } = options;
    this.#options = options;
    this.server = createAdmissionServer(
      {
        [paths.authorization]: maintenanceWebhook(authorizationReviewer(view)),
        [paths.warnings]: maintenanceWebhook(warningReviewer(view)),
        [paths.evacuations]: evacuationWebhook(evacuationReviewer(view.kube)),
        [paths.evictions]: evictionWebhook(evictionReviewer(view.kube)),
        [paths.readinessPolicies]: readinessPolicyWebhook(readinessPolicyReviewer(view)),
      },
      log,
    );
    const fieldSelector = `metadata.name=${secretName}`;
    this.#secrets = new Informer({ kube: view.kube, resource: secrets, namespace, fieldSelector, log });
    this.#secrets.subscribe(({ type, object }) => {
      if (type !== 'Deleted') this.#serveWith(object);
    });
  }

  /** Whether it has a certificate to speak with. */
  get isServing(): boolean {
    return this.#isServing;
  }

  /** Follows the Secret until the signal aborts; returns at once. */
  start(signal: AbortSignal): void {
    this.#secrets.start(signal);
  }

  /** Keeps certificates and registration until the signal aborts, by this client. */
  async keep(kube: FencedKube, endpoint: Endpoint, signal: AbortSignal): Promise<void> {
    const { view, log } = this.#options;
    const queue = new WorkQueue();
    const fieldSelector = `metadata.name=${registrationName}`;
    const watching = [validating, mutating].map(
      (resource) => new Informer({ kube: view.kube, resource, fieldSelector, log }),
    );
    const look = () => queue.add(registrationName);
    const stop = [this.#secrets, ...watching].map((informer) => informer.subscribe(look));
    for (const informer of watching) informer.start(signal);
    look();
    try {
      await queue.run({ workers: 1, reconcile: () => this.#reconcile(kube, endpoint), signal, log });
    } finally {
      for (const unsubscribe of stop) unsubscribe();
    }
  }

  async #reconcile(kube: FencedKube, endpoint: Endpoint): Promise<{ requeueAfterMs: number }> {
    const { namespace } = this.#options;
    const secret = await kube.get(secrets, { namespace, name: secretName });
    const before = sound(materialOf(secret));
    const { material, until } = await this.#renewed(before, hostsOf(endpoint));
    if (material !== before) await storeMaterial(kube, namespace, secret, material);
    await this.#register(kube, endpoint, material);
    return { requeueAfterMs: Math.min(until - kube.now().getTime(), resyncEvery) };
  }

  async #renewed(before: Material, hosts: readonly string[]): Promise<{ material: Material; until: number }> {
    const { view, lifetimes = usualLifetimes, log } = this.#options;
    const now = view.kube.now().getTime();
    let material = before;
    for (;;) {
      const step = nextCertificateStep(issuedOf(material), hosts, lifetimes, now);
      if (step.kind === 'Rest') return { material, until: step.until };
      material = await take(step, material, { hosts, lifetimes, now });
      log.info('Certificates changed', { step: step.kind });
    }
  }

  #serveWith(secret: Secret): void {
    const serving = servingOf(secret);
    if (serving === undefined) return;
    const { log } = this.#options;
    try {
      this.server.setSecureContext({ cert: serving.certificate, key: serving.key });
      this.#isServing = true;
      log.info('Serving certificate loaded', { resourceVersion: secret.metadata.resourceVersion });
    } catch (error) {
      log.error('Serving certificate could not be loaded', { secret: secretName, error: wordsOf(error) });
    }
  }

  /** By server-side apply: what is as it should be is not written. */
  async #register(kube: FencedKube, endpoint: Endpoint, material: Material): Promise<void> {
    const { worker, plainEvictions } = this.#options;
    const caBundle = Buffer.from(bundleOf(material)).toString('base64');
    for (const [resource, object] of registrations({ endpoint, caBundle, worker, plainEvictions })) {
      await kube.apply(resource, object, { fieldManager: FIELD_MANAGER, force: true });
    }
  }
}
