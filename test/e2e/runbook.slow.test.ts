import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from '@jest/globals';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { eventually } from '../kit/eventually.ts';
import { isAsShown, type Listing, partsOf, type Step } from '../kit/transcript.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, type World } from '../kit/world.ts';

const document = new URL('../../docs/how-to/runbook.md', import.meta.url);
const parts = partsOf(readFileSync(document, 'utf8'));

let world: World;
let worker: WorkerProcess;
let directory: string;

beforeAll(async () => {
  world = await createWorld({ nodes: 4 });
  worker = startWorker(world.sandbox);
  await worker.ready();
  directory = join(world.sandbox.dir, 'runbook');
  await mkdir(directory);
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

/** Commands that only read are repeated until they print what the runbook shows: a reader types slower than a test. */
const reads =
  /^(kubectl (.* )?(get|events|describe|maintenance (plan|status|history|workers|windows))|temporal .*(query|show|describe|list))\b/;

function run(command: string): Promise<string> {
  const { env } = world.sandbox;
  return new Promise((resolve) => {
    // Both streams, as a terminal shows them, and the exit code if it is not 0.
    const shell = ['-c', `exec 2>&1\n${command}`];
    execFile('bash', shell, { cwd: directory, env: { ...env, HOME: directory } }, (error, stdout) =>
      resolve(error === null ? stdout : `${stdout}(exit code ${error.code})\n`),
    );
  });
}

async function performed({ command, output }: Step): Promise<void> {
  const onlyOutput = reads.test(command) ? undefined : await run(command);
  const options = onlyOutput === undefined ? {} : { timeoutMs: 0 };
  await eventually(
    'the output that the runbook shows',
    async () => {
      const observed = onlyOutput ?? (await run(command));
      if (!isAsShown(output, observed)) throw new Error(`\n$ ${command}\n${observed}`);
    },
    options,
  );
}

async function saved({ name, text }: Listing): Promise<void> {
  await writeFile(join(directory, name), text);
}

describe('each step of docs/how-to/runbook.md does what it shows:', () => {
  let hasFailed = false;
  const titled = parts.map((part) => ({
    title: 'step' in part ? `line ${part.step.line}: ${part.step.command}` : part.listing.name,
    part,
  }));
  test.each(titled)('$title', async ({ part }) => {
    // The steps build on each other.
    if (hasFailed) throw new Error('an earlier step has failed');
    hasFailed = true;
    await ('step' in part ? performed(part.step) : saved(part.listing));
    hasFailed = false;
  });
});
