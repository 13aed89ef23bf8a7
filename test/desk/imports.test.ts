import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/**
 * The linter guards what no type can say: who may import whom, and the mistakes that lose an evacuation. Each row is
 * planted as a file of that folder, in a directory outside of the repository with the same settings.
 */

const repository = fileURLToPath(new URL('../..', import.meta.url));

interface Plant {
  room: string;
  /** The text of the file; it names things that need not exist. */
  code: string;
}

const allowed: Plant[] = [
  { room: 'api', code: "export { a } from './b.ts';\nexport { z } from 'zod';" },
  { room: 'domain', code: "export { a } from './b.ts';\nexport type { Pod } from '../api/core.ts';" },
  { room: 'domain', code: 'export const shown = (at: number) => new Date(at).toISOString();' },
  {
    room: 'workflows',
    code: [
      "export { a } from '../domain/b.ts';",
      "export { proxyActivities } from '@temporalio/workflow';",
      "export { ApplicationFailure } from '@temporalio/common';",
      "export type { Activities } from '../activities/contract.ts';",
      "export type { Pod } from '../api/core.ts';",
    ].join('\n'),
  },
  {
    room: 'activities',
    code: [
      "export { a } from '../domain/b.ts';",
      "export { b } from '../kube/c.ts';",
      "export { TASK_QUEUE } from '../api/names.ts';",
      "export { Context } from '@temporalio/activity';",
    ].join('\n'),
  },
  {
    room: 'controllers/evacuators',
    code: [
      "export { a } from '../evacuation.ts';",
      "export { b } from '../../domain/c.ts';",
      "export { c } from '../../kube/d.ts';",
      "export { d } from '../../evacuator-kit/e.ts';",
    ].join('\n'),
  },
  { room: 'controllers', code: "export { a } from '../evacuator-kit/b.ts';" },
  {
    room: 'evacuator-kit',
    code: [
      "export { a } from './b.ts';",
      "export { b } from '../domain/c.ts';",
      "export { c } from '../kube/d.ts';",
      "export type { Pod } from '../api/core.ts';",
    ].join('\n'),
  },
  {
    room: 'node-lease',
    code: [
      "export { a } from './b.ts';",
      "export { b } from '../domain/c.ts';",
      "export { c } from '../kube/d.ts';",
      "export type { Node } from '../api/core.ts';",
    ].join('\n'),
  },
  { room: 'cli', code: "export { a } from '../node-lease/b.ts';\nexport { b } from '../kube/c.ts';" },
  {
    room: 'kube',
    code: [
      "export { KubeConfig } from '@kubernetes/client-node';",
      "export { Agent } from 'undici';",
      "export { setTimeout } from 'node:timers/promises';",
    ].join('\n'),
  },
  {
    room: 'admission',
    code: [
      "export { a } from '../domain/b.ts';",
      "export { b } from '../kube/c.ts';",
      "export { createServer } from 'node:https';",
      "export * from '@peculiar/x509';",
    ].join('\n'),
  },
  {
    room: 'worker',
    code: "export { a } from '../controllers/b.ts';\nexport const home = process.env['HOME'];",
  },
  { room: 'worker', code: "export { a } from '../evacuator-kit/b.ts';" },
  { room: 'test', code: "export { a } from '../worker/run.ts';\nexport { b } from '../sandbox/sandbox.ts';" },
];

const direction = 'eslint(no-restricted-imports)';

const forbidden: (Plant & { rule?: string })[] = [
  { room: 'api', code: "export { a } from '../domain/b.ts';" },
  { room: 'api', code: "export { a } from 'node:fs';" },
  { room: 'domain', code: "export { kinds } from '../api/core.ts';" },
  { room: 'domain', code: "export * from '../api/core.ts';" },
  { room: 'domain', code: "export type { Kube } from '../kube/client.ts';" },
  { room: 'domain', code: "import '../activities/b.ts';" },
  { room: 'domain', code: "export const a = await import('../kube/client.ts');" },
  { room: 'domain', code: "export { a } from '../api/../kube/client.ts';" },
  { room: 'domain', code: "export { a } from 'node:util';" },
  { room: 'domain', code: "export { z } from 'zod';" },
  {
    room: 'domain',
    code: "export type A = import('../kube/client.ts').Kube;",
    rule: 'typescript(consistent-type-imports)',
  },
  { room: 'domain', code: 'export const now = () => Date.now();', rule: 'pure(no-clock)' },
  { room: 'domain', code: 'export const now = () => new Date();', rule: 'pure(no-clock)' },
  {
    room: 'domain',
    code: 'export const luck = () => Math.random();',
    rule: 'eslint(no-restricted-properties)',
  },
  {
    room: 'domain',
    code: "export const home = () => process.env['HOME'];",
    rule: 'eslint(no-restricted-globals)',
  },
  { room: 'workflows', code: "export { FailureType } from '../activities/contract.ts';" },
  { room: 'workflows', code: "export type { Deps } from '../activities/deps.ts';" },
  { room: 'workflows', code: "export { TASK_QUEUE } from '../api/names.ts';" },
  { room: 'workflows', code: "export { Kube } from '../kube/client.ts';" },
  { room: 'workflows', code: "export { z } from 'zod';" },
  { room: 'workflows', code: "export { setTimeout } from 'node:timers/promises';" },
  { room: 'workflows', code: 'export const now = () => new Date();', rule: 'pure(no-clock)' },
  { room: 'activities', code: "export { a } from '../controllers/b.ts';" },
  { room: 'activities', code: "export { a } from '../workflows/b.ts';" },
  { room: 'activities', code: "export { a } from '../worker/config.ts';" },
  { room: 'activities', code: "export { Client } from '@temporalio/client';" },
  { room: 'activities', code: "export { KubeConfig } from '@kubernetes/client-node';" },
  { room: 'controllers', code: "export { a } from '../activities/b.ts';" },
  { room: 'controllers', code: "export { a } from '../sandbox/sandbox.ts';" },
  { room: 'controllers/evacuators', code: "export { a } from '../../activities/b.ts';" },
  { room: 'controllers/evacuators', code: "export { a } from '../../worker/run.ts';" },
  { room: 'evacuator-kit', code: "export { a } from '../controllers/b.ts';" },
  { room: 'evacuator-kit', code: "export { a } from '../worker/run.ts';" },
  { room: 'evacuator-kit', code: "export { a } from '../activities/b.ts';" },
  { room: 'evacuator-kit', code: "export { KubeConfig } from '@kubernetes/client-node';" },
  { room: 'evacuator-kit', code: "export { pino } from 'pino';" },
  { room: 'node-lease', code: "export { a } from '../evacuator-kit/b.ts';" },
  { room: 'node-lease', code: "export { a } from '../worker/run.ts';" },
  { room: 'node-lease', code: "export { KubeConfig } from '@kubernetes/client-node';" },
  { room: 'domain', code: "export { a } from '../node-lease/b.ts';" },
  { room: 'kube', code: "export { a } from '../node-lease/b.ts';" },
  { room: 'evacuator-kit', code: "export { a } from '../node-lease/b.ts';" },
  { room: 'domain', code: "export { a } from '../evacuator-kit/b.ts';" },
  { room: 'activities', code: "export { a } from '../evacuator-kit/b.ts';" },
  { room: 'admission', code: "export { a } from '../evacuator-kit/b.ts';" },
  { room: 'scripts', code: "export { a } from '../evacuator-kit/b.ts';" },
  { room: 'kube', code: "export { a } from '../evacuator-kit/b.ts';" },
  { room: 'kube', code: "export { a } from '../domain/b.ts';" },
  { room: 'kube', code: "export { a } from '../activities/b.ts';" },
  { room: 'kube', code: "export { pino } from 'pino';" },
  { room: 'kube', code: "export { env } from 'node:process';" },
  {
    room: 'kube',
    code: "export const home = process.env['HOME'];",
    rule: 'eslint(no-restricted-properties)',
  },
  { room: 'kube', code: "console.log('hello');", rule: 'eslint(no-console)' },
  { room: 'admission', code: "export { a } from '../controllers/b.ts';" },
  { room: 'admission', code: "export { a } from '../worker/run.ts';" },
  { room: 'admission', code: "export { a } from '../activities/b.ts';" },
  { room: 'admission', code: "export { Client } from '@temporalio/client';" },
  { room: 'temporal-config', code: "export { a } from '../worker/run.ts';" },
  { room: 'cli', code: "export { a } from '../worker/run.ts';" },
  { room: 'cli', code: "export { a } from '../workflows/messages.ts';" },
  { room: 'worker', code: "export { a } from '../sandbox/sandbox.ts';" },
  { room: 'worker', code: "export { a } from '../test/kit/builders.ts';" },
  { room: 'worker', code: "export { a } from '../scripts/generate.ts';" },
  { room: 'worker', code: "export { Agent } from 'undici';" },
  { room: 'sandbox', code: "export { a } from '../worker/run.ts';" },
  { room: 'sandbox', code: "export { a } from '../kube/client.ts';" },
  { room: 'scripts', code: "export { a } from '../worker/run.ts';" },
  { room: 'scripts', code: "export { a } from '../admission/drainPlanPolicy.ts';" },
  { room: 'bench', code: "export { KubeConfig } from '@kubernetes/client-node';" },
  { room: 'demo', code: "export { a } from '../test/kit/builders.ts';" },
];

const evacuate = [
  "import { proxyActivities } from '@temporalio/workflow';",
  'interface Activities { evacuate(pod: string): Promise<void> }',
  "const { evacuate } = proxyActivities<Activities>({ startToCloseTimeout: '1 minute' });",
].join('\n');

const mistakes: (Plant & { when: string; rule: string })[] = [
  {
    when: 'an activity is started and not awaited',
    room: 'workflows',
    code: `${evacuate}\nexport function drain(pod: string): void {\n  evacuate(pod);\n}`,
    rule: 'typescript(no-floating-promises)',
  },
  {
    when: 'forEach is given an async function',
    room: 'workflows',
    code: `${evacuate}\nexport function drain(pods: string[]): void {\n  pods.forEach(async (pod) => evacuate(pod));\n}`,
    rule: 'typescript(no-misused-promises)',
  },
  {
    when: 'the validator of an update is async: it would accept everything',
    room: 'workflows',
    code: [
      "import { defineUpdate, setHandler } from '@temporalio/workflow';",
      "const advance = defineUpdate<void, [string]>('advance');",
      'const check = (stage: string) => Promise.reject(new Error(stage));',
      'export const handle = () =>',
      '  setHandler(advance, () => undefined, { validator: async (stage) => { await check(stage); } });',
    ].join('\n'),
    rule: 'typescript(no-misused-promises)',
  },
  {
    when: 'a switch leaves out a stage',
    room: 'domain',
    code: [
      "export function rank(stage: 'Idle' | 'Cordon' | 'Drain'): number {",
      '  switch (stage) {',
      "    case 'Idle': return 0;",
      "    case 'Cordon': return 1;",
      '  }',
      '  return 2;',
      '}',
    ].join('\n'),
    rule: 'typescript(switch-exhaustiveness-check)',
  },
  {
    when: 'a test is skipped',
    room: 'test',
    code: "test.skip('drains', () => { expect(1).toBe(1); });",
    rule: 'jest(no-disabled-tests)',
  },
  {
    when: 'a test is the only one',
    room: 'test',
    code: "test.only('drains', () => { expect(1).toBe(1); });",
    rule: 'jest(no-focused-tests)',
  },
];

/** Every plant, and the rules that the linter found broken in it, such as `eslint(no-restricted-imports)`. */
let broken: Map<Plant, string[]>;

beforeAll(async () => {
  const root = await realpath(await mkdtemp(join(tmpdir(), 'nm-lint-')));
  try {
    broken = await lint(root, [...allowed, ...forbidden, ...mistakes]);
  } finally {
    await rm(root, { recursive: true, force: true });
  }
});

async function lint(root: string, plants: readonly Plant[]): Promise<Map<Plant, string[]>> {
  for (const name of ['.oxlintrc.json', 'tsconfig.json', 'package.json', 'scripts/lint/pure.mjs'])
    await place(join(root, name), (path) => copyFile(join(repository, name), path));
  await symlink(join(repository, 'node_modules'), join(root, 'node_modules'), 'dir');
  for (const [index, { room, code }] of plants.entries())
    await place(join(root, room, fileName(index)), (path) => writeFile(path, `${code}\n`));
  const diagnostics = await diagnosticsOf(root, new Set(plants.map(({ room }) => room)));
  return new Map(
    plants.map((plant, index) => {
      const own = diagnostics.filter(({ filename }) => filename.endsWith(`/${fileName(index)}`));
      return [plant, own.map(({ code }) => code)];
    }),
  );
}

/** Only in test files does the linter look for mistakes of tests. */
function fileName(index: number): string {
  return `plant-${index}.test.ts`;
}

async function place(path: string, write: (path: string) => Promise<void>): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await write(path);
}

interface Diagnostic {
  filename: string;
  code: string;
}

/** Of the rooms alone: the linter would follow the link to node_modules. */
async function diagnosticsOf(root: string, rooms: ReadonlySet<string>): Promise<Diagnostic[]> {
  const oxlint = join(repository, 'node_modules', '.bin', 'oxlint');
  const run = promisify(execFile)(process.execPath, [oxlint, '--format=json', ...rooms], { cwd: root });
  // It ends with 1 when it has found something, which is the point.
  const { stdout } = await run.catch((error: { stdout: string }) => error);
  return (JSON.parse(stdout) as { diagnostics: Diagnostic[] }).diagnostics;
}

describe('the linter has nothing against', () => {
  test.each(allowed)('$room: $code', (plant) => {
    expect(broken.get(plant)).toEqual([]);
  });
});

describe('the linter refuses', () => {
  test.each(forbidden)('$room: $code', (plant) => {
    expect(broken.get(plant)).toContain(plant.rule ?? direction);
  });

  test.each(mistakes)('$room: $when', (plant) => {
    expect(broken.get(plant)).toContain(plant.rule);
  });
});
