import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe } from '@jest/globals';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { ExecutedDocument, testParts } from '../kit/executedDocument.ts';
import { partsOf } from '../kit/transcript.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, type World } from '../kit/world.ts';

const document = new URL('../../docs/how-to/runbook.md', import.meta.url);
const parts = partsOf(readFileSync(document, 'utf8'));

let world: World;
let worker: WorkerProcess;
let runbook: ExecutedDocument;

beforeAll(async () => {
  world = await createWorld({ nodes: 4 });
  worker = startWorker(world.sandbox);
  await worker.ready();
  runbook = await ExecutedDocument.in(world, 'runbook');
  const kubectl = kubectlOf(world.sandbox);
  await succeeds(kubectl(['label', 'node', 'node-1', 'node-2', 'rack=7']));
  await succeeds(kubectl(['create', 'namespace', 'shop']));
  await succeeds(kubectl(['apply', '-f', '-'], { apiVersion: 'v1', kind: 'List', items: shop() }));
  for (const name of ['web', 'db'])
    await succeeds(kubectl(['--namespace', 'shop', 'rollout', 'status', 'deployment', name]));
});
afterAll(async () => {
  await worker?.kill();
  await world?.close();
});

/** The applications of the runbook: `web` may lose one pod at a time, `db` on node-1 none. Both start on rack 7. */
function shop(): object[] {
  return [
    ...application('web', 4, { maxUnavailable: 1 }, ['node-1', 'node-2']),
    ...application('db', 1, { minAvailable: 1 }, ['node-1']),
  ];
}

function application(name: string, replicas: number, budget: object, nodes: string[]): object[] {
  const labels = { app: name };
  const metadata = { name, namespace: 'shop' };
  const preferred = { key: 'kubernetes.io/hostname', operator: 'In', values: nodes };
  const nodeAffinity = {
    preferredDuringSchedulingIgnoredDuringExecution: [
      { weight: 100, preference: { matchExpressions: [preferred] } },
    ],
  };
  const template = {
    metadata: { labels },
    spec: { containers: [{ name: 'main', image: 'none' }], affinity: { nodeAffinity } },
  };
  return [
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata,
      spec: { replicas, selector: { matchLabels: labels }, template },
    },
    {
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      metadata,
      spec: { selector: { matchLabels: labels }, ...budget },
    },
  ];
}

describe('each step of docs/how-to/runbook.md does what it shows:', () => {
  testParts(parts, () => runbook);
});
