import { symlink } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type Kubectl, kubectlOf, succeeds } from '../api/kubectl.ts';
import { ExecutedDocument, testParts } from '../kit/executedDocument.ts';
import { RebootingHost } from '../kit/rebootingHost.ts';
import { partsOf } from '../kit/transcript.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, type World } from '../kit/world.ts';

const guides = ['kubectl-drain', 'kured', 'system-upgrade-controller', 'node-maintenance-operator'].map(
  (peer) => {
    const path = `docs/how-to/migrate-from-${peer}.md`;
    const text = readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
    return { peer, path, text, parts: partsOf(text) };
  },
);

let world: World;
let worker: WorkerProcess;
let kubectl: Kubectl;
const hosts: RebootingHost[] = [];

beforeAll(async () => {
  // The guides change what is installed.
  world = await createWorld({ nodes: 6, ownServers: true });
  worker = startWorker(world.sandbox);
  await worker.ready();
  kubectl = kubectlOf(world.sandbox);
  await succeeds(kubectl(['label', 'node', 'node-1', 'node-2', 'rack=7']));
  const others = ['node-3', 'node-4', 'node-5', 'node-6'];
  await succeeds(kubectl(['cordon', ...others]));
  for (const object of web()) await succeeds(kubectl(['apply', '-f', '-'], object));
  await succeeds(kubectl(['rollout', 'status', 'deployment', 'web', '--namespace', 'default']));
  await succeeds(kubectl(['uncordon', ...others]));
});

afterAll(async () => {
  for (const host of hosts) await host.close();
  await worker?.kill();
  await world?.close();
});

/** The agents of two nodes run, and one of the hosts has a sentinel. */
async function startHosts(): Promise<void> {
  const { kube, sandbox } = world;
  for (const node of ['node-1', 'node-2'])
    hosts.push(await RebootingHost.start({ kube, node, env: sandbox.env }));
  await hosts[1]?.needsReboot('linux-image-6.12\n');
}

/** An application whose pods may be lost one at a time. */
function web(): object[] {
  const labels = { app: 'web' };
  const metadata = { name: 'web', namespace: 'default' };
  const template = {
    metadata: { labels },
    spec: { containers: [{ name: 'main', image: 'none' }] },
  };
  return [
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata,
      spec: { replicas: 4, selector: { matchLabels: labels }, template },
    },
    {
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      metadata,
      spec: { selector: { matchLabels: labels }, maxUnavailable: 1 },
    },
  ];
}

/** The CRD of node-maintenance-operator, by the names that matter. */
const nodeMaintenancesOfMedik8s = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'nodemaintenances.nodemaintenance.medik8s.io' },
  spec: {
    group: 'nodemaintenance.medik8s.io',
    scope: 'Cluster',
    names: {
      kind: 'NodeMaintenance',
      plural: 'nodemaintenances',
      singular: 'nodemaintenance',
      shortNames: ['nm'],
    },
    versions: [
      {
        name: 'v1beta1',
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
      },
    ],
  },
};

describe.each(guides)('each step of $path does what it shows:', ({ peer, text, parts }) => {
  let guide: ExecutedDocument;

  beforeAll(async () => {
    guide = await ExecutedDocument.in(world, peer);
    // Its commands are those of a checkout.
    await symlink(fileURLToPath(new URL('../../deploy', import.meta.url)), join(guide.directory, 'deploy'));
    if (peer === 'kured') await startHosts();
    // Its short name is the same: in the other guides it would be ambiguous.
    if (peer === 'node-maintenance-operator')
      await succeeds(kubectl(['apply', '-f', '-'], nodeMaintenancesOfMedik8s));
  });

  afterAll(() => succeeds(kubectl(['delete', 'maintenancewindows', '--all'])));

  testParts(parts, () => guide);

  test('every object of this project is applied', () => {
    const blocks = [...text.matchAll(/^```yaml\n# (\S+)/gm)].map(([, name = '']) => name);
    expect(text.match(/^```yaml$/gm) ?? []).toHaveLength(blocks.length);
    const names = blocks.filter((name) => name !== 'before');
    for (const name of names) expect(text).toContain(`$ kubectl apply -f ${name}\n`);
    expect(names.length).toBeGreaterThan(0);
  });
});
