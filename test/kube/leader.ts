import { connectKube } from '../../kube/client.ts';
import { runWhenLeader } from '../../kube/leaderElection.ts';
import { type Resource } from '../../kube/resources.ts';

/**
 * `node leader.ts KUBECONFIG NAMESPACE IDENTITY`: while it is the leader, it creates ConfigMaps `IDENTITY-<random>` as fast as
 * the apiserver accepts them. Prints the log of its leader election, and a line when its work has ended.
 */

const configMaps: Resource = {
  group: '',
  version: 'v1',
  plural: 'configmaps',
  kind: 'ConfigMap',
  namespaced: true,
};
const concurrentWrites = 48;

const [kubeconfig = '', namespace = '', identity = ''] = process.argv.slice(2);
const printLine = (sentence: string) => process.stdout.write(`${sentence}\n`);
const log = { debug: printLine, info: printLine, warn: printLine, error: printLine };
const stop = new AbortController();
process.once('SIGTERM', () => stop.abort());
const kube = connectKube({ kubeconfig, userAgent: 'node-maintenance-test', log });
const name = 'elected';
// Long enough for a busy apiserver to have done what was in its sockets when the process was stopped.
const timing = { leaseDurationSeconds: 6, renewDeadlineSeconds: 4, retryPeriodSeconds: 0.2 };

await runWhenLeader(
  { kube, name, namespace, identity, ...timing, log, signal: stop.signal },
  async (leading, fenced) => {
    const metadata = { generateName: `${identity}-`, name: '', namespace };
    const write = async () => {
      while (!leading.aborted) await fenced.create(configMaps, { metadata }).catch(() => undefined);
    };
    await Promise.all(Array.from({ length: concurrentWrites }, write));
    printLine('The work has ended');
  },
);
await kube.close();
