import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { issueAuthority, issueServing } from '../../admission/issue.ts';
import type { KubeObject } from '../../api/core.ts';
import { until } from '../../sandbox/until.ts';
import type { Operator } from './operator.ts';

interface NodeMaintenance extends KubeObject {
  spec: { nodeName: string; reason: string };
  status?: { phase?: string };
}

/** github.com/medik8s/node-maintenance-operator: a NodeMaintenance names one node. */
export const nodeMaintenanceOperator: Operator<NodeMaintenance> = {
  name: 'node-maintenance-operator',
  resource: {
    group: 'nodemaintenance.medik8s.io',
    version: 'v1beta1',
    plural: 'nodemaintenances',
    kind: 'NodeMaintenance',
    namespaced: false,
  },
  changes: [
    'no leader election, which it only supports in a cluster',
    'its webhook is not registered, so the apiserver does not ask it whether a maintenance is valid',
    'no limits of CPU and memory (its deployment has 0.2 CPUs and 100 MiB)',
    'a maintenance of each node, because it knows no larger ones; nodes of two maintenances have one',
  ],
  async prepare({ dir, healthPort }) {
    const taken = async () => ((await isFree(webhookPort)) ? undefined : 'another process listens on it');
    await until(`port ${webhookPort}, its only one,`, taken, { timeoutMs: portTimeoutMs });
    await writeServingCertificate(join(dir, 'k8s-webhook-server', 'serving-certs'));
    return [`--health-probe-bind-address=127.0.0.1:${healthPort}`, '--metrics-bind-address=0'];
  },
  objectsOf: ({ nodes }, prefix) =>
    nodes.map((nodeName) => ({
      metadata: { name: `${prefix}-${nodeName}` },
      spec: { nodeName, reason: 'benchmark' },
    })),
  isDone(objects, nodes) {
    const done = new Set(
      objects.flatMap(({ spec, status }) => (status?.phase === 'Succeeded' ? [spec.nodeName] : [])),
    );
    return nodes.every((node) => done.has(node));
  },
};

/** The port of its webhook, for which it has no setting. The workers of other sandboxes use it too. */
const webhookPort = 9443;
const portTimeoutMs = 300_000;

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(port, () => server.close(() => resolve(true)));
  });
}

/** Writes the certificate of the webhook of the operator, which does not start without one, although nobody calls the webhook here. */
async function writeServingCertificate(dir: string): Promise<void> {
  const dayMs = 86_400_000;
  const validity = { notBefore: Date.now() - dayMs, notAfter: Date.now() + 365 * dayMs };
  const { certificate, key } = await issueServing(await issueAuthority(validity), ['127.0.0.1'], validity);
  mkdirSync(dir, { recursive: true });
  writeFileSync(join(dir, 'tls.crt'), certificate);
  writeFileSync(join(dir, 'tls.key'), key, { mode: 0o600 });
}
