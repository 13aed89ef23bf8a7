import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/**
 * Tests the lint rules for what types cannot express: import directions, and mistakes that lose an evacuation. Each row is
 * written as a file of its folder, in a directory outside of the repository with the same settings.
 */

const repository = fileURLToPath(new URL('../../', import.meta.url));

interface Sample {
  folder: string;
  /** The content of the file; the names in it need not exist. */
  code: string;
  /** Returns the content of `peer.ts` beside the file of this name. */
  peer?: (file: string) => string;
}

const allowed: Sample[] = [
  { folder: 'api', code: "export { a } from './b.ts';\nexport { z } from 'zod';" },
  { folder: 'domain', code: "export { a } from './b.ts';\nexport type { Pod } from '../api/core.ts';" },
  { folder: 'domain', code: 'export const shown = (at: number) => new Date(at).toISOString();' },
  {
    folder: 'workflows',
    code: [
      "export { a } from '../domain/b.ts';",
      "export { proxyActivities } from '@temporalio/workflow';",
      "export { ApplicationFailure } from '@temporalio/common';",
      "export type { Activities } from '../activities/contract.ts';",
      "export type { Pod } from '../api/core.ts';",
    ].join('\n'),
  },
  {
    folder: 'activities',
    code: [
      "export { a } from '../domain/b.ts';",
      "export { b } from '../kube/c.ts';",
      "export { NODE_MAINTENANCE } from '../api/names.ts';",
      "export { Context } from '@temporalio/activity';",
    ].join('\n'),
  },
  {
    folder: 'controllers/evacuation/evacuators',
    code: [
      "export { a } from '../evacuation.ts';",
      "export { b } from '../../../domain/drain/c.ts';",
      "export { c } from '../../../kube/d.ts';",
      "export { d } from '../../../evacuator-kit/e.ts';",
    ].join('\n'),
  },
  { folder: 'controllers', code: "export { a } from '../evacuator-kit/b.ts';" },
  { folder: 'domain', code: "export { NODE_MAINTENANCE } from '../api/names.ts';" },
  { folder: 'workflows', code: "export { NODE_MAINTENANCE } from '../api/names.ts';" },
  { folder: 'worker/notifications', code: "export { a } from '../../domain/notifications/b.ts';" },
  {
    folder: 'evacuator-kit',
    code: [
      "export { a } from './b.ts';",
      "export { b } from '../domain/c.ts';",
      "export { c } from '../kube/d.ts';",
      "export { d } from '../http/e.ts';",
      "export type { Pod } from '../api/core.ts';",
      "export type { Evacuation } from '@node-maintenance/api';",
    ].join('\n'),
  },
  {
    folder: 'node-lease',
    code: [
      "export { a } from './b.ts';",
      "export { b } from '../domain/c.ts';",
      "export { c } from '../kube/d.ts';",
      "export type { Node } from '../api/core.ts';",
    ].join('\n'),
  },
  {
    folder: 'cli',
    code: "export { a } from '../node-lease/b.ts';\nexport { b } from '../kube/c.ts';\nexport { c } from '../manifests/render.ts';",
  },
  {
    folder: 'kube',
    code: [
      "export { KubeConfig } from '@kubernetes/client-node';",
      "export { Agent } from 'undici';",
      "export { setTimeout } from 'node:timers/promises';",
    ].join('\n'),
  },
  {
    folder: 'admission',
    code: [
      "export { a } from '../domain/b.ts';",
      "export { b } from '../kube/c.ts';",
      "export { createServer } from 'node:https';",
      "export * from '@peculiar/x509';",
    ].join('\n'),
  },
  {
    folder: 'http',
    code: "export { createServer } from 'node:http';\nexport { errorMessage } from '../kube/errors.ts';",
  },
  { folder: 'admission', code: "export { a } from '../http/b.ts';" },
  {
    folder: 'worker',
    code: "export { a } from '../controllers/b.ts';\nexport const home = process.env['HOME'];",
  },
  { folder: 'worker', code: "export { a } from '../evacuator-kit/b.ts';" },
  {
    folder: 'agent',
    code: [
      "export { a } from '../domain/b.ts';",
      "export { b } from '../kube/c.ts';",
      "export { c } from '../process/d.ts';",
      "export { readFile } from 'node:fs/promises';",
    ].join('\n'),
  },
  { folder: 'process', code: "export { pino } from 'pino';\nexport { z } from 'zod';" },
  {
    folder: 'test',
    code: "export { a } from '../worker/run.ts';\nexport { b } from '../sandbox/sandbox.ts';",
  },
];

const direction = 'imports(directions)';

const forbidden: (Sample & { rule?: string })[] = [
  { folder: 'api', code: "export { a } from '../domain/b.ts';" },
  { folder: 'api', code: "export { a } from 'node:fs';" },
  { folder: 'domain', code: "export { kinds } from '../api/core.ts';" },
  { folder: 'domain', code: "export * from '../api/core.ts';" },
  { folder: 'domain', code: "export type { Kube } from '../kube/client.ts';" },
  { folder: 'domain', code: "import '../activities/b.ts';" },
  { folder: 'domain', code: "export const a = await import('../kube/client.ts');" },
  { folder: 'domain', code: "export { a } from '../api/../kube/client.ts';" },
  { folder: 'domain', code: "export { a } from 'node:util';" },
  { folder: 'domain', code: "export { z } from 'zod';" },
  {
    folder: 'domain',
    code: "export type A = import('../kube/client.ts').Kube;",
    rule: 'typescript(consistent-type-imports)',
  },
  { folder: 'domain', code: 'export const now = () => Date.now();', rule: 'pure(no-clock)' },
  { folder: 'domain', code: 'export const now = () => new Date();', rule: 'pure(no-clock)' },
  {
    folder: 'domain',
    code: 'export const luck = () => Math.random();',
    rule: 'eslint(no-restricted-properties)',
  },
  {
    folder: 'domain',
    code: "export const home = () => process.env['HOME'];",
    rule: 'eslint(no-restricted-globals)',
  },
  { folder: 'workflows', code: "export { FailureType } from '../activities/contract.ts';" },
  { folder: 'workflows', code: "export type { Deps } from '../activities/deps.ts';" },
  { folder: 'workflows', code: "export { kinds } from '../api/core.ts';" },
  { folder: 'workflows', code: "export { Kube } from '../kube/client.ts';" },
  { folder: 'workflows', code: "export { z } from 'zod';" },
  { folder: 'workflows', code: "export { setTimeout } from 'node:timers/promises';" },
  { folder: 'workflows', code: 'export const now = () => new Date();', rule: 'pure(no-clock)' },
  ...['api', 'domain', 'workflows'].flatMap((folder) =>
    [
      'let runs = 0;\nexport const next = () => runs++;',
      'export const seen = new Map<string, string>();',
    ].map((code) => ({
      folder,
      code,
      rule: 'pure(no-module-state)',
    })),
  ),
  { folder: 'activities', code: "export { a } from '../controllers/b.ts';" },
  { folder: 'activities', code: "export { a } from '../workflows/b.ts';" },
  { folder: 'activities', code: "export { a } from '../worker/config.ts';" },
  { folder: 'activities', code: "export { Client } from '@temporalio/client';" },
  { folder: 'activities', code: "export { KubeConfig } from '@kubernetes/client-node';" },
  { folder: 'controllers', code: "export { a } from '../activities/b.ts';" },
  { folder: 'controllers', code: "export { a } from '../sandbox/sandbox.ts';" },
  { folder: 'controllers/evacuation', code: "export { a } from '../windows/b.ts';" },
  { folder: 'domain/common', code: "export { a } from '../drain/b.ts';" },
  { folder: 'domain/windows', code: "export { a } from '../maintenance/b.ts';" },
  { folder: 'domain/reboot', code: "export { a } from '../windows/b.ts';" },
  { folder: 'domain/unlisted', code: "export { a } from '../common/b.ts';" },
  { folder: 'domain/drain', code: "export { a } from '../unlisted/b.ts';" },
  { folder: 'activities/leases', code: "export { a } from '../drain/b.ts';" },
  { folder: 'agent/shutdown', code: "export { a } from '../reboot/b.ts';" },
  { folder: 'workflows/windows', code: "export { a } from '../maintenance/b.ts';" },
  { folder: 'cli/maintenance', code: "export { a } from '../windows/b.ts';" },
  { folder: 'controllers/evacuation/evacuators', code: "export { a } from '../../leases/b.ts';" },
  { folder: 'evacuator-kit', code: "export { a } from '../controllers/b.ts';" },
  { folder: 'evacuator-kit', code: "export { a } from '../worker/run.ts';" },
  { folder: 'evacuator-kit', code: "export { a } from '../activities/b.ts';" },
  { folder: 'evacuator-kit', code: "export { KubeConfig } from '@kubernetes/client-node';" },
  { folder: 'evacuator-kit', code: "export { program } from 'commander';" },
  { folder: 'node-lease', code: "export { a } from '../evacuator-kit/b.ts';" },
  { folder: 'node-lease', code: "export { a } from '../worker/run.ts';" },
  { folder: 'node-lease', code: "export { a } from '../http/b.ts';" },
  { folder: 'node-lease', code: "export { KubeConfig } from '@kubernetes/client-node';" },
  { folder: 'domain', code: "export { a } from '../node-lease/b.ts';" },
  { folder: 'kube', code: "export { a } from '../node-lease/b.ts';" },
  { folder: 'evacuator-kit', code: "export { a } from '../node-lease/b.ts';" },
  { folder: 'domain', code: "export { a } from '../evacuator-kit/b.ts';" },
  { folder: 'activities', code: "export { a } from '../evacuator-kit/b.ts';" },
  { folder: 'admission', code: "export { a } from '../evacuator-kit/b.ts';" },
  { folder: 'scripts', code: "export { a } from '../evacuator-kit/b.ts';" },
  { folder: 'kube', code: "export { a } from '../evacuator-kit/b.ts';" },
  { folder: 'kube', code: "export { a } from '../domain/b.ts';" },
  { folder: 'kube', code: "export { a } from '../activities/b.ts';" },
  { folder: 'kube', code: "export { pino } from 'pino';" },
  { folder: 'kube', code: "export { env } from 'node:process';" },
  {
    folder: 'kube',
    code: "export const home = process.env['HOME'];",
    rule: 'eslint(no-restricted-properties)',
  },
  { folder: 'kube', code: "console.log('hello');", rule: 'eslint(no-console)' },
  { folder: 'http', code: "export { Kube } from '../kube/client.ts';" },
  { folder: 'http', code: "export { a } from '../admission/b.ts';" },
  { folder: 'http', code: "export { z } from 'zod';" },
  { folder: 'kube', code: "export { a } from '../http/b.ts';" },
  { folder: 'admission', code: "export { a } from '../controllers/b.ts';" },
  { folder: 'admission', code: "export { a } from '../worker/run.ts';" },
  { folder: 'admission', code: "export { a } from '../activities/b.ts';" },
  { folder: 'admission', code: "export { Client } from '@temporalio/client';" },
  { folder: 'agent', code: "export { a } from '../worker/run.ts';" },
  { folder: 'agent', code: "export { a } from '../controllers/b.ts';" },
  { folder: 'agent', code: "export { Client } from '@temporalio/client';" },
  {
    folder: 'agent',
    code: "export const home = process.env['HOME'];",
    rule: 'eslint(no-restricted-properties)',
  },
  { folder: 'process', code: "export { a } from '../worker/run.ts';" },
  { folder: 'process', code: "export { Kube } from '../kube/client.ts';" },
  { folder: 'temporal-config', code: "export { a } from '../worker/run.ts';" },
  { folder: 'cli', code: "export { a } from '../worker/run.ts';" },
  { folder: 'cli', code: "export { a } from '../workflows/messages.ts';" },
  { folder: 'worker', code: "export { a } from '../sandbox/sandbox.ts';" },
  { folder: 'worker', code: "export { a } from '../test/kit/builders.ts';" },
  { folder: 'worker', code: "export { a } from '../scripts/generate.ts';" },
  { folder: 'worker', code: "export { Agent } from 'undici';" },
  { folder: 'sandbox', code: "export { a } from '../worker/run.ts';" },
  { folder: 'sandbox', code: "export { a } from '../kube/client.ts';" },
  { folder: 'manifests', code: "export { a } from '../kube/client.ts';" },
  { folder: 'manifests', code: "export { a } from '../worker/install.ts';" },
  { folder: 'cli', code: "export { a } from '../admission/registration.ts';" },
  { folder: 'scripts', code: "export { a } from '../worker/run.ts';" },
  { folder: 'scripts', code: "export { a } from '../admission/drainPlanPolicy.ts';" },
  { folder: 'conformance', code: "export { a } from '../controllers/b.ts';" },
  { folder: 'conformance', code: "export { a } from '../domain/b.ts';" },
  { folder: 'conformance', code: "export { KubeConfig } from '@kubernetes/client-node';" },
  { folder: 'bench', code: "export { KubeConfig } from '@kubernetes/client-node';" },
  { folder: 'demo', code: "export { a } from '../test/kit/builders.ts';" },
];

/** Returns the same sample two folders further down. */
function nested({ folder, code, ...sample }: Sample & { rule?: string }): Sample & { rule?: string } {
  return { ...sample, folder: `${folder}/deep/down`, code: code.replaceAll("'../", "'../../../") };
}

const everywhere = forbidden.flatMap((sample) => [sample, nested(sample)]);

const evacuate = [
  "import { proxyActivities } from '@temporalio/workflow';",
  'interface Activities { evacuate(pod: string): Promise<void> }',
  "const { evacuate } = proxyActivities<Activities>({ startToCloseTimeout: '1 minute' });",
].join('\n');

const mistakes: (Sample & { when: string; rule: string })[] = [
  {
    when: 'an activity is started and not awaited',
    folder: 'workflows',
    code: `${evacuate}\nexport function drain(pod: string): void {\n  evacuate(pod);\n}`,
    rule: 'typescript(no-floating-promises)',
  },
  {
    when: 'forEach is given an async function',
    folder: 'workflows',
    code: `${evacuate}\nexport function drain(pods: string[]): void {\n  pods.forEach(async (pod) => evacuate(pod));\n}`,
    rule: 'typescript(no-misused-promises)',
  },
  {
    when: 'the validator of an update is async: it would accept everything',
    folder: 'workflows',
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
    when: 'two files import types of each other',
    folder: 'domain/cycle',
    code: "import type { B } from './peer.ts';\nexport interface A { b?: B }",
    peer: (file) => `import type { A } from './${file}';\nexport interface B { a?: A }`,
    rule: 'import(no-cycle)',
  },
  {
    when: 'a switch leaves out a stage',
    folder: 'domain',
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
    folder: 'test',
    code: "test.skip('drains', () => { expect(1).toBe(1); });",
    rule: 'jest(no-disabled-tests)',
  },
  {
    when: 'a test is the only one',
    folder: 'test',
    code: "test.only('drains', () => { expect(1).toBe(1); });",
    rule: 'jest(no-focused-tests)',
  },
];

/** The rules that the linter reports for each sample, such as `eslint(no-restricted-imports)`. */
let reported: Map<Sample, string[]>;

beforeAll(async () => {
  const root = await realpath(await mkdtemp(join(tmpdir(), 'nm-lint-')));
  try {
    reported = await lint(root, [...allowed, ...everywhere, ...mistakes]);
  } finally {
    await rm(root, { recursive: true, force: true });
  }
});

async function lint(root: string, samples: readonly Sample[]): Promise<Map<Sample, string[]>> {
  for (const name of [
    '.oxlintrc.json',
    'tsconfig.json',
    'package.json',
    'scripts/lint/pure.mjs',
    'scripts/lint/imports.mjs',
  ])
    await place(join(root, name), (path) => copyFile(join(repository, name), path));
  await symlink(join(repository, 'node_modules'), join(root, 'node_modules'), 'dir');
  for (const [index, { folder, code, peer }] of samples.entries()) {
    const file = fileName(index);
    await place(join(root, folder, file), (path) => writeFile(path, `${code}\n`));
    if (peer !== undefined) await writeFile(join(root, folder, 'peer.ts'), `${peer(file)}\n`);
  }
  const diagnostics = await diagnosticsOf(root, new Set(samples.map(({ folder }) => folder)));
  return new Map(
    samples.map((sample, index) => {
      const own = diagnostics.filter(({ filename }) => filename.endsWith(`/${fileName(index)}`));
      return [sample, own.map(({ code }) => code)];
    }),
  );
}

/** Names every sample as a test file: the linter checks the rules for tests only there. */
function fileName(index: number): string {
  return `sample-${index}.test.ts`;
}

async function place(path: string, write: (path: string) => Promise<void>): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await write(path);
}

interface Diagnostic {
  filename: string;
  code: string;
}

/** Lints only the given folders: the linter would follow the link to node_modules. */
async function diagnosticsOf(root: string, folders: ReadonlySet<string>): Promise<Diagnostic[]> {
  const oxlint = join(repository, 'node_modules', '.bin', 'oxlint');
  const run = promisify(execFile)(process.execPath, [oxlint, '--format=json', ...folders], { cwd: root });
  // It exits 1 when it reports a violation, which the tests expect.
  const { stdout } = await run.catch((error: { stdout: string }) => error);
  return (JSON.parse(stdout) as { diagnostics: Diagnostic[] }).diagnostics;
}

describe('the linter allows', () => {
  test.each(allowed)('$folder: $code', (sample) => {
    expect(reported.get(sample)).toEqual([]);
  });
});

describe('the linter rejects', () => {
  test.each(everywhere)('$folder: $code', (sample) => {
    expect(reported.get(sample)).toContain(sample.rule ?? direction);
  });

  test.each(mistakes)('$folder: $when', (sample) => {
    expect(reported.get(sample)).toContain(sample.rule);
  });
});
