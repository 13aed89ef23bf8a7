import type { Server } from 'node:https';
import { FIELD_MANAGER, WEBHOOK_CONFIGURATION } from '../api/names.ts';
import { type Lifetimes, nextCertificateStep, defaultLifetimes } from '../domain/admission/certificates.ts';
import type { FencedKube } from '../kube/client.ts';
import { errorMessage, isKubeError } from '../kube/errors.ts';
import { Informer } from '../kube/informer.ts';
import { WorkQueue, type WorkQueueObserver } from '../kube/workQueue.ts';
import { applyCertificateStep, issuedOf, type Material, validMaterial } from './certificates.ts';
import { type WebhookClients, watchClientCa } from './clientCa.ts';
import { evacuationReviewer, evictionReviewer, type DirectEvictions } from './evacuations.ts';
import type { KeyPair } from './keyPair.ts';
import { mutationWebhooks } from './mutations.ts';
import { type Endpoint, hostsOf, mutating, paths, registrationPatch, validating } from './registration.ts';
import { evacuationWebhook, evictionWebhook, maintenanceWebhook, readinessPolicyWebhook } from './review.ts';
import {
  type AdmissionView,
  authorizationReviewer,
  readinessPolicyReviewer,
  specReviewer,
} from './reviewers.ts';
import {
  authoritiesIn,
  bundleOf,
  materialOf,
  type Secret,
  secretName,
  secrets,
  servingOf,
  storeMaterial,
} from './secret.ts';
import { type AdmissionServerOptions, createAdmissionServer } from './server.ts';

export interface AdmissionOptions extends Omit<AdmissionServerOptions, 'clients'> {
  readonly view: AdmissionView;
  /** The namespace of the Secret with the certificates. */
  readonly namespace: string;
  readonly directEvictions: DirectEvictions;
  readonly lifetimes?: Lifetimes;
  /** managed: this server issues and renews its certificate; external: another program writes the Secret. managed by default. */
  readonly certificates?: 'managed' | 'external';
  /** The clients that are answered; undefined: all. */
  readonly clients?: WebhookClients | undefined;
  /** Observes the queue of the registration. */
  readonly queues?: WorkQueueObserver | undefined;
  /** How long a list of pods is used for warnings. */
  readonly podsMaxAgeMs?: number;
}

/** The maximum interval at which certificates and registration are reconciled. */
const resyncMs = 3_600_000;

/**
 * Serves admission of NodeMaintenances, Evacuations, evictions and NodeReadinessPolicies. Contract:
 *
 * 1. Any number of processes may serve. All serve the certificate from the Secret, and load a new one at once.
 * 2. One process at a time reconciles the certificates and the registration (`runRegistration`): it creates and renews the certificates, and
 *    restores them if they are changed or deleted. In the webhook configurations, which deploy/ installs, it maintains the
 *    `clientConfig`; it reports a configuration that is missing.
 */
export class Admission {
  /** The caller listens and closes. */
  readonly server: Server;
  readonly #options: AdmissionOptions;
  readonly #secrets: Informer<Secret>;
  #serving: KeyPair | undefined;
  #clientCa: string | undefined;
  #isServing = false;
  /** The problem with the certificate in the Secret. */
  #certificateProblem: string | undefined;
  /** The problem that keeps this process from registering the server. */
  #registrationProblem: string | undefined;

  constructor(options: AdmissionOptions) {
    const { view, namespace, directEvictions, clients, log, onRejection, limits, podsMaxAgeMs } = options;
    this.#options = options;
    this.#clientCa = clients?.ca;
    this.server = createAdmissionServer(
      {
        [paths.authorization]: maintenanceWebhook(authorizationReviewer(view, namespace)),
        [paths.warnings]: maintenanceWebhook(specReviewer(view, namespace, podsMaxAgeMs)),
        [paths.evacuations]: evacuationWebhook(evacuationReviewer(view.kube)),
        [paths.evictions]: evictionWebhook(evictionReviewer(view, directEvictions)),
        [paths.readinessPolicies]: readinessPolicyWebhook(readinessPolicyReviewer(view)),
        ...mutationWebhooks(view),
      },
      { log, onRejection, ...(limits && { limits }), clients },
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

  /** Returns what keeps the apiserver from asking this server, with the remedy; undefined if nothing does, as far as this process knows. */
  get problem(): string | undefined {
    if (this.#isServing) return this.#registrationProblem;
    const { certificates, namespace } = this.#options;
    const missing =
      certificates === 'external' ? missingCertificate(namespace) : 'admission is not served yet';
    return this.#certificateProblem ?? missing;
  }

  /** Watches the Secret, and the file of client authorities, until the signal aborts; returns at once. */
  start(signal: AbortSignal): void {
    const { clients, log } = this.#options;
    this.#secrets.start(signal);
    if (clients === undefined) return;
    const onChange = (ca: string) => {
      this.#loadContext({ ca });
      this.#clientCa = ca;
      // Every client has to authenticate again, because an authority may have been removed. A review in progress fails.
      this.server.closeAllConnections();
    };
    void watchClientCa(clients, { onChange, log }, signal);
  }

  /** Reconciles the certificates and the registration until the signal aborts. */
  async runRegistration(kube: FencedKube, endpoint: Endpoint, signal: AbortSignal): Promise<void> {
    const { view, log } = this.#options;
    const queue = new WorkQueue('admission-registration');
    const fieldSelector = `metadata.name=${WEBHOOK_CONFIGURATION}`;
    const informers = [validating, mutating].map(
      (resource) => new Informer({ kube: view.kube, resource, fieldSelector, log }),
    );
    const enqueue = () => queue.add(WEBHOOK_CONFIGURATION);
    const unsubscribe = [this.#secrets, ...informers].map((informer) => informer.subscribe(enqueue));
    for (const informer of informers) informer.start(signal);
    enqueue();
    try {
      await queue.run({
        workers: 1,
        reconcile: () => this.#reconcile(kube, endpoint),
        signal,
        log,
        observer: this.#options.queues,
      });
    } finally {
      for (const stop of unsubscribe) stop();
      this.#registrationProblem = undefined;
    }
  }

  async #reconcile(kube: FencedKube, endpoint: Endpoint): Promise<{ requeueAfterMs: number }> {
    const { namespace, certificates = 'managed', log } = this.#options;
    const secret = await kube.get(secrets, { namespace, name: secretName });
    if (certificates === 'external') {
      const authorities = authoritiesIn(secret);
      if (authorities !== undefined) await this.#register(kube, endpoint, authorities);
      // The certificate in memory is still the one that is registered.
      else if (secret === undefined && this.#isServing)
        log.warn('Secret of the serving certificate was deleted', { secret: secretName });
      else this.#reportRegistration([missingCertificate(namespace)]);
      return { requeueAfterMs: resyncMs };
    }
    const before = validMaterial(materialOf(secret));
    const { material, until } = await this.#renew(before, hostsOf(endpoint));
    if (material !== before) await storeMaterial(kube, namespace, secret, material);
    await this.#register(kube, endpoint, bundleOf(material));
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
      this.#loadContext({ serving });
      this.#serving = serving;
      this.#isServing = true;
      this.#certificateProblem = undefined;
      log.info('Serving certificate loaded', { resourceVersion: secret.metadata.resourceVersion });
    } catch (error) {
      const reason = errorMessage(error);
      this.#certificateProblem = `the certificate of Secret ${this.#options.namespace}/${secretName} could not be loaded: ${reason}`;
      log.error('Serving certificate could not be loaded', { secret: secretName, error: reason });
    }
  }

  /** Certificate and client authorities are always set together. */
  #loadContext({ serving = this.#serving, ca = this.#clientCa }: { serving?: KeyPair; ca?: string }): void {
    if (serving === undefined) return;
    this.server.setSecureContext({
      cert: serving.certificate,
      key: serving.key,
      ...(ca !== undefined && { ca }),
    });
  }

  async #register(kube: FencedKube, endpoint: Endpoint, authorities: string): Promise<void> {
    const caBundle = Buffer.from(authorities).toString('base64');
    const problems: string[] = [];
    for (const resource of [validating, mutating])
      problems.push(...(await this.#registerIn(resource, kube, endpoint, caBundle)));
    this.#reportRegistration(problems);
  }

  #reportRegistration(problems: readonly string[]): void {
    const problem = problems.length === 0 ? undefined : `requests are not checked: ${problems.join('; ')}`;
    if (problem !== undefined && problem !== this.#registrationProblem)
      this.#options.log.error('Admission server could not be registered', { problem });
    this.#registrationProblem = problem;
  }

  /** Returns a problem that only an administrator can solve. The server may not create configurations: RBAC could not restrict their content. */
  async #registerIn(
    resource: typeof validating,
    kube: FencedKube,
    endpoint: Endpoint,
    caBundle: string,
  ): Promise<string[]> {
    const key = { name: WEBHOOK_CONFIGURATION };
    const object = `${resource.kind} ${key.name}`;
    const installed = await kube.get(resource, key);
    if (installed === undefined)
      return [
        `${object} is missing: install it again with npm start -- --install, or with npm run -s manifests and kubectl apply`,
      ];
    const operations = registrationPatch(installed, endpoint, caBundle);
    if (operations.length === 0) return [];
    try {
      await kube.jsonPatch(resource, key, operations, { fieldManager: FIELD_MANAGER });
      return [];
    } catch (error) {
      if (!isKubeError(error, 'Forbidden')) throw error;
      return [`${object} was not changed: ${errorMessage(error)}`];
    }
  }
}

function missingCertificate(namespace: string): string {
  return `Secret ${namespace}/${secretName} has no ca.crt, tls.crt and tls.key: let cert-manager write it, or start the admission server with --webhook-certificates managed`;
}
