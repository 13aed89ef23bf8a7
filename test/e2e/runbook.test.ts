import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from '@jest/globals';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { eventually } from '../kit/eventually.ts';
import { isAsShown, type Listing, partsOf, type Step } from '../kit/transcript.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, type World } from './world.ts';

const document = new URL('../../docs/runbook.md', import.meta.url);
const parts = partsOf(readFileSync(document, 'utf8'));

let world: World;
let worker: WorkerProcess;
let desk: string;

beforeAll(async () => {
  world = await createWorld({ nodes: 4 });
  worker = startWorker(world.sandbox);
  await worker.ready();
  desk = join(world.sandbox.dir, 'desk');
  await mkdir(desk);
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

/** What the team of the runbook runs: `web` may lose one pod at a time, `db` on node-1 none. All of it is on rack 7 when the night begins. */
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

/** Whatever only looks may look again, until it sees what the runbook shows: a reader does not type as fast as a test. */
const looks =
  /^(kubectl (.* )?(get|events|describe|maintenance (plan|status|history|workers|windows))|temporal .*(query|show|describe|list))\b/;

function run(command: string): Promise<string> {
  const { env } = world.sandbox;
  return new Promise((resolve) => {
    // Both of its streams, as a terminal shows them; a code that is not 0 is part of what is seen.
    const shell = ['-c', `exec 2>&1\n${command}`];
    execFile('bash', shell, { cwd: desk, env: { ...env, HOME: desk } }, (error, stdout) =>
      resolve(error === null ? stdout : `${stdout}(exit code ${error.code})\n`),
    );
  });
}

async function performed({ command, output }: Step): Promise<void> {
  const seenOnce = looks.test(command) ? undefined : await run(command);
  const within = seenOnce === undefined ? 60_000 : 0;
  await eventually(
    'what the runbook shows',
    async () => {
      const seen = seenOnce ?? (await run(command));
      if (!isAsShown(output, seen)) throw new Error(`\n$ ${command}\n${seen}`);
    },
    { within },
  );
}

async function laidDown({ name, text }: Listing): Promise<void> {
  await writeFile(join(desk, name), text);
}

describe('each step of docs/runbook.md does what it shows:', () => {
  let isLost = false;
  const titled = parts.map((part) => ({
    title: 'step' in part ? `line ${part.step.line}: ${part.step.command}` : part.listing.name,
    part,
  }));
  test.each(titled)('$title', async ({ part }) => {
    // What comes after a step that has failed would tell nothing.
    if (isLost) throw new Error('an earlier step has failed');
    isLost = true;
    await ('step' in part ? performed(part.step) : laidDown(part.listing));
    isLost = false;
  });
});
