import { spawn } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import { jestOptions, root, toolEnvironment } from '../tools.ts';
import { type Mutant, mutantKey, mutantsOf, mutatedText, sampleOf } from './mutants.ts';
import { type MutationRun, type Outcome, resultTable } from './report.ts';

/**
 * `npm run mutation -- domain/leases --sample 50 --seed 1` creates mutants of the sources of folders, one at a time, and reports which of them
 * no test of domain/ kills. Only domain/: its tests need no server.
 *
 * The tests run in a copy of the sources, so that the working tree is never changed. Results are kept in node_modules/.cache: a run that was
 * interrupted continues. `--afresh` forgets them, as is necessary when tests or other sources have changed.
 */

interface Options {
  sample: number;
  seed: number;
  json?: string;
  afresh?: boolean;
}

/** Results of another procedure are not used. */
const procedure = 'mirror, folder, related';
const resultsFile = join(root, 'node_modules', '.cache', 'mutation.json');

/** A copy of the sources. */
const copy = mkdtempSync(join(tmpdir(), 'nm-mutation-'));

/** A mutant that loops for ever is noticed. Many times longer than all tests of domain/, also on a machine that does something else. */
const timeoutMs = 300_000;

const wholeNumber = (text: string): number => {
  if (!/^\d{1,6}$/.test(text)) throw new InvalidArgumentError('expected a whole number');
  return Number(text);
};

const command = new Command('npm run mutation --')
  .argument('[folder...]', 'folders of domain/, such as domain/leases', ['domain'])
  .option('--sample <n>', 'number of mutants, chosen at random among all', wholeNumber, 50)
  .option('--seed <n>', 'seed of the choice', wholeNumber, 1)
  .option('--json <file>', 'also write the results to this file')
  .option('--afresh', 'test mutants again whose results are kept');

async function main(): Promise<void> {
  command.parse();
  const [folders, options] = [command.processedArgs[0] as string[], command.opts<Options>()];
  const files = folders.flatMap((folder) => globSync(`${folder}/**/*.ts`, { cwd: root })).toSorted();
  if (files.length === 0 || files.some((file) => !file.startsWith('domain/')))
    throw new Error(`expected folders of domain/ with sources (got ${folders.join(', ')})`);
  const all = files.flatMap((file) => mutantsOf(file, readFileSync(join(root, file), 'utf8')));
  const chosen = sampleOf(all, options.sample, options.seed).toSorted((a, b) =>
    mutantKey(a) < mutantKey(b) ? -1 : 1,
  );
  if (options.afresh === true) rmSync(resultsFile, { force: true });
  copySources();
  const passed = await test(['test/domain/']);
  if (passed !== 'Survived') throw new Error('the tests fail without a mutant: correct them first');
  const outcomes = await testAll(chosen);
  const run: MutationRun = {
    folders,
    seed: options.seed,
    mutants: all.length,
    sample: chosen.length,
    outcomes,
  };
  if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(run, null, 2)}\n`);
  console.log(resultTable(run));
}

/** Folders that the tests of domain/ import. */
const sources = ['domain', 'api', 'kube', 'test/domain', 'test/kit', 'http', 'process'];

function copySources(): void {
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
  for (const pattern of [
    ...sources.map((folder) => `${folder}/**/*`),
    'jest.config.mjs',
    'package.json',
    '*.ts',
  ])
    for (const file of globSync(pattern, { cwd: root, withFileTypes: true }))
      if (file.isFile()) copyIn(relative(root, join(file.parentPath, file.name)));
}

function copyIn(file: string): void {
  mkdirSync(dirname(join(copy, file)), { recursive: true });
  copyFileSync(join(root, file), join(copy, file));
}

type Results = Record<string, Outcome['result']>;

/** Tests the mutants one by one; those whose results are kept are skipped. */
async function testAll(mutants: readonly Mutant[]): Promise<Outcome[]> {
  const kept: Results = existsSync(resultsFile)
    ? (JSON.parse(readFileSync(resultsFile, 'utf8')) as Results)
    : {};
  const outcomes: Outcome[] = [];
  for (const [index, mutant] of mutants.entries()) {
    const text = readFileSync(join(root, mutant.file), 'utf8');
    const key = `${mutantKey(mutant)} ${text.length} ${procedure}`;
    const result = kept[key] ?? (await testMutant(mutant, text));
    kept[key] = result;
    writeFileSync(resultsFile, JSON.stringify(kept));
    outcomes.push({ ...mutant, result });
    const place = `${mutant.file}:${mutant.line}`;
    console.log(`${index + 1}/${mutants.length} ${result.padEnd(8)} ${place} ${mutant.operator}`);
  }
  return outcomes;
}

/** The test that mirrors the file runs first, because it notices most mutants; then those of its folder, and finally all that use the file. */
async function testMutant(mutant: Mutant, text: string): Promise<Outcome['result']> {
  const path = join(copy, mutant.file);
  const folder = `test/${dirname(mutant.file)}/`;
  const mirror = `${folder}${basename(mutant.file, '.ts')}.test.ts`;
  writeFileSync(path, mutatedText(text, mutant));
  try {
    const steps = [
      ...(existsSync(join(copy, mirror)) ? [[mirror]] : []),
      [folder],
      ['--passWithNoTests', '--findRelatedTests', path],
    ];
    for (const args of steps) {
      const result = await test(args);
      if (result !== 'Survived') return result;
    }
    return 'Survived';
  } finally {
    writeFileSync(path, text);
  }
}

/** Runs tests of the copy until the first one fails. */
function test(patterns: readonly string[]): Promise<Outcome['result']> {
  const args = ['--bail', '--silent', '--rootDir', copy, '--testTimeout', '20000', ...patterns];
  const child = spawn('jest', args, {
    cwd: copy,
    env: toolEnvironment(jestOptions),
    stdio: 'ignore',
    timeout: timeoutMs,
    killSignal: 'SIGKILL',
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => {
      if (signal !== null) resolve('TimedOut');
      else resolve(code === 0 ? 'Survived' : 'Killed');
    });
  });
}

try {
  await main();
} finally {
  rmSync(copy, { recursive: true, force: true });
}
