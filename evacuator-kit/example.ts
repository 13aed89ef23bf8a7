import { CoreV1Api, KubeConfig } from '@kubernetes/client-node';
import { runEvacuator } from '@node-maintenance/evacuator-kit';

const config = new KubeConfig();
config.loadFromDefault();
const api = config.makeApiClient(CoreV1Api);

/** Copies the data of a pod to the place where its replacement reads it, one record at a time. */
await runEvacuator({
  evacuatorClass: 'migrate.example.com',
  healthPort: Number(process.env['HEALTH_PORT'] ?? 8080),
  metricsPort: Number(process.env['METRICS_PORT'] ?? 9464),
  evacuate: async ({ metadata }, _evacuation, progress) => {
    const { namespace, name } = metadata;
    const { data: source = {} } = await api.readNamespacedConfigMap({ namespace, name: `${name}-data` });
    let target = await api.readNamespacedConfigMap({ namespace, name: 'migrated-data' });
    const missing = Object.keys(source).filter((key) => target.data?.[key] !== source[key]);
    for (const [done, key] of missing.entries()) {
      progress.signal.throwIfAborted();
      target.data = { ...target.data, [key]: source[key] ?? '' };
      target = await api.replaceNamespacedConfigMap({ namespace, name: 'migrated-data', body: target });
      const message = `Migrated ${done + 1} of ${missing.length} records`;
      progress.report({ message, expectedFinishTime: new Date(Date.now() + (missing.length - done) * 50) });
    }
    return `Migrated all ${missing.length} records`;
  },
});
