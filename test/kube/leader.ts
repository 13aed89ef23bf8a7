import { connectKube } from '../../kube/client.ts';
import { runWhenLeader } from '../../kube/leaderElection.ts';
import { type Resource } from '../../kube/resources.ts';

/**
 * `node leader.ts KUBECONFIG NAMESPACE IDENTITY`: as long as it leads it creates ConfigMaps `IDENTITY-<random>` as fast as the
 * apiserver takes them. Says on standard output what its leader election logs, and when what it led has ended.
 */

const configMaps: Resource = {
  group: '',
  version: 'v1',
  plural: 'configmaps',
  kind: 'ConfigMap',
  namespaced: true,
};
const lanes = 48;

const [kubeconfig = '', namespace = '', identity = ''] = process.argv.slice(2);
const say = (sentence: string) => process.stdout.write(`${sentence}\n`);
const log = { debug: say, info: say, warn: say, error: say };
const stop = new AbortController();
process.once('SIGTERM', () => stop.abort());
const kube = connectKube({ kubeconfig, userAgent: 'node-maintenance-test', log });
const name = 'elected';
// Long enough for a busy apiserver to have done what was in its sockets when the process was stopped.
const patience = { leaseDurationSeconds: 6, renewDeadlineSeconds: 4, retryPeriodSeconds: 0.2 };

await runWhenLeader(
  { kube, name, namespace, identity, ...patience, log, signal: stop.signal },
  async (leading, fenced) => {
    const metadata = { generateName: `${identity}-`, name: '', namespace };
    const write = async () => {
      while (!leading.aborted) await fenced.create(configMaps, { metadata }).catch(() => undefined);
    };
    await Promise.all(Array.from({ length: lanes }, write));
    say('The work has ended');
  },
);
await kube.close();
