import { hostname } from 'node:os';
import { Admission } from '../admission/admission.ts';
import type { Endpoint } from '../admission/registration.ts';
import type { AdmissionView } from '../admission/reviewers.ts';
import { WORKER_SERVICE, workerUser } from '../api/names.ts';
import { runWhenLeader } from '../kube/leaderElection.ts';
import type { Log } from '../kube/log.ts';
import type { Config } from './config.ts';
import { listenOn } from './http.ts';

export interface ServedAdmission {
  isServing(): boolean;
  /** Keeps certificates and registration, on one process of all, until the signal aborts. */
  keep(): Promise<void>;
  close(): void;
}

/** Serves admission, with what the informers of `view` have seen. */
export async function startAdmission(
  view: AdmissionView,
  config: Config,
  log: Log,
  signal: AbortSignal,
): Promise<ServedAdmission> {
  const { namespace, plainEvictions } = config;
  const worker = workerUser(namespace);
  const admission = new Admission({ view, namespace, worker, plainEvictions, log });
  const port = await listenOn(admission.server, config.webhookPort, '--webhook-port');
  admission.start(signal);
  const endpoint = endpointOf(config, port);
  log.info('Admission server started', { webhook: port, registeredAs: endpoint });
  const identity = `${hostname()}_${process.pid}_${crypto.randomUUID()}`;
  const election = { kube: view.kube, name: 'node-maintenance-admission', namespace, identity, log, signal };
  return {
    isServing: () => admission.isServing,
    keep: () => runWhenLeader(election, (leading, fenced) => admission.keep(fenced, endpoint, leading)),
    close: () => {
      admission.server.close();
      admission.server.closeAllConnections();
    },
  };
}

function endpointOf({ webhookHost, namespace }: Config, port: number): Endpoint {
  return webhookHost.kind === 'Service'
    ? { kind: 'Service', namespace, name: WORKER_SERVICE }
    : { kind: 'Url', host: webhookHost.host, port };
}
