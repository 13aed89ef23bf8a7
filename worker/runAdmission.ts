import type { Logger } from 'pino';
import { Component } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import type { Answer } from '../http/server.ts';
import { connectKube } from '../kube/client.ts';
import { Informer } from '../kube/informer.ts';
import { resources } from '../kube/resources.ts';
import { trimNode } from '../kube/transform.ts';
import { type ServedAdmission, startAdmission } from './admission.ts';
import type { Config } from './config.ts';
import { serve } from './http.ts';
import { publishIdentity } from './identity.ts';
import { type InstallationState, watchInstallation } from './installationWatch.ts';
import { toLog } from '../process/log.ts';
import { createMetrics, metricsAnswer } from './metrics/metrics.ts';
import { checkWebhooks, prepareCluster } from './prepare.ts';
import { type StartupState, waitOptionsOf } from './startupRetry.ts';

interface State extends StartupState, InstallationState {
  admission?: ServedAdmission;
}

/** Serves admission and nothing else until the signal aborts: with an identity of its own, and without Temporal. */
export async function runAdmission(config: Config, logger: Logger, signal: AbortSignal): Promise<void> {
  const log = toLog(logger);
  const metrics = createMetrics();
  const state: State = {};
  const { onRequest, onRejection, elections, queues } = metrics;
  const pages = {
    healthz: () => ({ status: 200, type: 'text/plain', body: 'ok\n' }),
    readyz: () => readinessOf(state),
    metrics: () => metricsAnswer(metrics),
  };
  const listening = await serve(pages, config, { log, onRejection });
  log.info('Admission process started', listening.ports);
  const { admissionKubeconfig: kubeconfig } = config;
  const kube = connectKube({ kubeconfig, userAgent: 'node-maintenance-admission', log, onRequest });
  try {
    const wait = waitOptionsOf(state, log, signal);
    const { check, review } = await prepareCluster(kube, { config, component: Component.Admission }, wait);
    void watchInstallation(check, { review, state, metrics, log, signal });
    const { namespace } = config;
    await checkWebhooks(kube, config, wait);
    const component = Component.Admission;
    const identity = { kube, namespace, component, ...config.identityLeases, log };
    const published = await publishIdentity(identity, wait);
    if (config.identityLeases.enabled) metrics.observeIdentity(published);
    const nodes = new Informer({ kube, resource: resources.nodes, transform: trimNode, log });
    const maintenances = new Informer<NodeMaintenance>({ kube, resource: resources.nodeMaintenances, log });
    for (const informer of [nodes, maintenances]) informer.start(signal);
    await Promise.all([nodes.synced(signal), maintenances.synced(signal)]);
    const view = { kube, nodes, maintenances };
    const admission = await startAdmission(view, config, { log, onRejection, elections, queues }, signal);
    state.admission = admission;
    try {
      await admission.maintainRegistration();
    } finally {
      await admission.close();
    }
  } finally {
    await kube.close();
    listening.close();
  }
}

function readinessOf({ waiting, admission, installation }: State): Answer {
  const problem = admission === undefined ? (waiting ?? 'admission is not served yet') : admission.problem();
  const detail = installation === undefined ? '' : `, but ${installation}`;
  return problem === undefined
    ? { status: 200, type: 'text/plain', body: `ok${detail}\n` }
    : { status: 503, type: 'text/plain', body: `${problem}\n` };
}
