import type { Server } from 'node:https';
import { FIELD_MANAGER } from '../api/names.ts';
import { type Lifetimes, nextCertificateStep, defaultLifetimes } from '../domain/admission/certificates.ts';
import type { FencedKube } from '../kube/client.ts';
import { errorMessage } from '../kube/errors.ts';
import { Informer } from '../kube/informer.ts';
import { WorkQueue } from '../kube/workQueue.ts';
import { applyCertificateStep, issuedOf, type Material, validMaterial } from './certificates.ts';
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
import { type AdmissionServerOptions, createAdmissionServer } from './server.ts';

export interface AdmissionOptions extends AdmissionServerOptions {
  readonly view: AdmissionView;
  /** The namespace of the Secret with the certificates. */
  readonly namespace: string;
  /** The user name of the worker, whose requests are not reviewed. */
  readonly worker: string;
  readonly plainEvictions: PlainEvictions;
  readonly lifetimes?: Lifetimes;
}

/** The maximum interval at which certificates and registration are reconciled. */
const resyncMs = 3_600_000;

/**
 * Serves admission of NodeMaintenances, Evacuations, evictions and NodeReadinessPolicies. Contract:
 *
 * 1. Any number of processes may serve. All serve the certificate from the Secret, and load a new one at once.
 * 2. One process at a time reconciles the certificates and the registration (`runRegistration`): it creates and renews both, and
 *    restores them if they are changed or deleted.
 */
export class Admission {
  /** The caller listens and closes. */
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
      options,
    );
    const fieldSelector = `metadata.name=${secretName}`;
    this.#secrets = new Informer({ kube: view.kube, resource: secrets, namespace, fieldSelector, log });
    this.#secrets.subscribe(({ type, object }) => {
      if (type !== 'Deleted') this.#loadCertificate(object);
    });
  }

  /** Reports whether a serving certificate is loaded. */
  get isServing(): boolean {
    return this.#isServing;
  }

  /** Watches the Secret until the signal aborts; returns at once. */
  start(signal: AbortSignal): void {
    this.#secrets.start(signal);
  }

  /** Reconciles the certificates and the registration until the signal aborts. */
  async runRegistration(kube: FencedKube, endpoint: Endpoint, signal: AbortSignal): Promise<void> {
    const { view, log } = this.#options;
    const queue = new WorkQueue();
    const fieldSelector = `metadata.name=${registrationName}`;
    const informers = [validating, mutating].map(
      (resource) => new Informer({ kube: view.kube, resource, fieldSelector, log }),
    );
    const enqueue = () => queue.add(registrationName);
    const unsubscribe = [this.#secrets, ...informers].map((informer) => informer.subscribe(enqueue));
    for (const informer of informers) informer.start(signal);
    enqueue();
    try {
      await queue.run({ workers: 1, reconcile: () => this.#reconcile(kube, endpoint), signal, log });
    } finally {
      for (const stop of unsubscribe) stop();
    }
  }

  async #reconcile(kube: FencedKube, endpoint: Endpoint): Promise<{ requeueAfterMs: number }> {
    const { namespace } = this.#options;
    const secret = await kube.get(secrets, { namespace, name: secretName });
    const before = validMaterial(materialOf(secret));
    const { material, until } = await this.#renew(before, hostsOf(endpoint));
    if (material !== before) await storeMaterial(kube, namespace, secret, material);
    await this.#register(kube, endpoint, material);
    return { requeueAfterMs: Math.min(until - kube.now().getTime(), resyncMs) };
  }

  async #renew(before: Material, hosts: readonly string[]): Promise<{ material: Material; until: number }> {
    const { view, lifetimes = defaultLifetimes, log } = this.#options;
    const now = view.kube.now().getTime();
    let material = before;
    for (;;) {
      const step = nextCertificateStep(issuedOf(material), hosts, lifetimes, now);
      if (step.kind === 'Wait') return { material, until: step.until };
      material = await applyCertificateStep(step, material, { hosts, lifetimes, now });
      log.info('Certificate step applied', { step: step.kind });
    }
  }

  #loadCertificate(secret: Secret): void {
    const serving = servingOf(secret);
    if (serving === undefined) return;
    const { log } = this.#options;
    try {
      this.server.setSecureContext({ cert: serving.certificate, key: serving.key });
      this.#isServing = true;
      log.info('Serving certificate loaded', { resourceVersion: secret.metadata.resourceVersion });
    } catch (error) {
      log.error('Serving certificate could not be loaded', {
        secret: secretName,
        error: errorMessage(error),
      });
    }
  }

  /** Uses server-side apply, which creates no new version of an unchanged object. */
  async #register(kube: FencedKube, endpoint: Endpoint, material: Material): Promise<void> {
    const { worker, plainEvictions } = this.#options;
    const caBundle = Buffer.from(bundleOf(material)).toString('base64');
    for (const [resource, object] of registrations({ endpoint, caBundle, worker, plainEvictions })) {
      await kube.apply(resource, object, { fieldManager: FIELD_MANAGER, force: true });
    }
  }
}
