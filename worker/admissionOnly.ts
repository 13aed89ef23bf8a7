import type { Logger } from 'pino';
import { Component } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { connectKube } from '../kube/client.ts';
import { Informer } from '../kube/informer.ts';
import { resources } from '../kube/resources.ts';
import { slimNode } from '../kube/slim.ts';
import { type ServedAdmission, startAdmission } from './admission.ts';
import type { Config } from './config.ts';
import { type Answer, serve } from './http.ts';
import { publishIdentity } from './identity.ts';
import { toLog } from './log.ts';
import { createMetrics, scraped } from './metrics.ts';
import { patienceOf, type Waits } from './patience.ts';
import { prepareCluster } from './run.ts';

interface Parts extends Waits {
  admission?: ServedAdmission;
}

/** Serves admission until the signal, and does nothing else: for more of it, or for a cluster whose Temporal is elsewhere. */
export async function runAdmissionOnly(config: Config, logger: Logger, signal: AbortSignal): Promise<void> {
  const log = toLog(logger);
  const metrics = createMetrics();
  const parts: Parts = {};
  const health = await serve(
    {
      '/healthz': () => ({ status: 200, type: 'text/plain', body: 'ok\n' }),
      '/readyz': () => readinessOf(parts),
    },
    config.healthPort,
    '--health-port',
  );
  const prometheus = await serve(
    { '/metrics': () => scraped(metrics) },
    config.metricsPort,
    '--metrics-port',
  );
  const ports = { health: health.port, metrics: prometheus.port };
  log.info('Admission started, without the rest of the worker', ports);
  const { onRequest } = metrics;
  const kube = connectKube({ userAgent: 'node-maintenance-admission', log, onRequest });
  try {
    const patience = patienceOf(parts, log, signal);
    await prepareCluster(kube, config, patience);
    const { namespace } = config;
    const published = publishIdentity({ kube, namespace, component: Component.Admission, log }, patience);
    metrics.observeIdentity(await published);
    const nodes = new Informer({ kube, resource: resources.nodes, transform: slimNode, log });
    const maintenances = new Informer<NodeMaintenance>({ kube, resource: resources.nodeMaintenances, log });
    for (const informer of [nodes, maintenances]) informer.start(signal);
    await Promise.all([nodes.synced(signal), maintenances.synced(signal)]);
    const admission = await startAdmission({ kube, nodes, maintenances }, config, log, signal);
    parts.admission = admission;
    await admission.keep().finally(() => admission.close());
  } finally {
    await kube.close();
    for (const { server } of [health, prometheus]) server.close();
  }
}

function readinessOf({ waiting = 'admission is not served yet', admission }: Parts): Answer {
  return admission?.isServing() === true
    ? { status: 200, type: 'text/plain', body: 'ok\n' }
    : { status: 503, type: 'text/plain', body: `${waiting}\n` };
}
