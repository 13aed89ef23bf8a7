import { hostname } from 'node:os';
import { Admission, type AdmissionOptions } from '../admission/admission.ts';
import { readClientCa } from '../admission/clientCa.ts';
import type { Endpoint } from '../admission/registration.ts';
import type { AdmissionView } from '../admission/reviewers.ts';
import { ADMISSION_SERVICE, ElectionLease } from '../api/names.ts';
import { closeGracefully } from '../http/closing.ts';
import { type LeaderElectionMetrics, runWhenLeader } from '../kube/leaderElection.ts';
import type { Config } from './config.ts';
import { listenOn } from './http.ts';

export interface ServedAdmission {
  /** Returns what keeps the apiserver from asking this server, with the remedy. */
  problem(): string | undefined;
  /** Maintains certificates and registration until the signal aborts; one process at a time does so. */
  maintainRegistration(): Promise<void>;
  /** Answers the requests in progress. */
  close(): Promise<void>;
}

interface AdmissionObservers extends Pick<AdmissionOptions, 'log' | 'onRejection' | 'queues'> {
  elections: LeaderElectionMetrics;
}

/** Time for requests in progress, which the apiserver waits for up to 10 s. */
const closeWithinMs = 10_000;

/** Serves admission from the informers of `view`. */
export async function startAdmission(
  view: AdmissionView,
  config: Config,
  { elections, ...options }: AdmissionObservers,
  signal: AbortSignal,
): Promise<ServedAdmission> {
  const { namespace, directEvictions, webhookClients, leaderElection, webhookCertificates } = config;
  const { log } = options;
  const clients = webhookClients && { ...webhookClients, ca: await readClientCa(webhookClients.caFile) };
  const admission = new Admission({
    ...options,
    view,
    namespace,
    directEvictions,
    clients,
    certificates: webhookCertificates,
  });
  const port = await listenOn(admission.server, config.webhookPort, 'webhook');
  admission.start(signal);
  const endpoint = endpointOf(config, port);
  log.info('Admission server started', { webhook: port, registeredAs: endpoint });
  const identity = `${hostname()}_${process.pid}_${crypto.randomUUID()}`;
  const name = ElectionLease.Admission;
  const election = {
    kube: view.kube,
    name,
    namespace,
    identity,
    ...leaderElection,
    metrics: elections,
    log,
    signal,
  };
  return {
    problem: () => admission.problem,
    maintainRegistration: () =>
      runWhenLeader(election, (leading, fenced) => admission.runRegistration(fenced, endpoint, leading)),
    close: () => closeGracefully(admission.server, closeWithinMs),
  };
}

function endpointOf({ webhookHost, namespace }: Config, port: number): Endpoint {
  return webhookHost.kind === 'Service'
    ? { kind: 'Service', namespace, name: ADMISSION_SERVICE }
    : { kind: 'Url', host: webhookHost.host, port };
}
