import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { kubernetesVersions, pinnedVersion, toolchainParts } from '../../sandbox/binaries.ts';
import { root } from '../tools.ts';
import { type Feature, featuresOf } from './features.ts';
import { type Outcome, type Results, resultsFile } from './results.ts';

/**
 * `npm run matrix [-- [--failed] VERSION...]` runs the tests of the features with each version of Kubernetes, all by default, prints a table, and updates
 * the results in scripts/matrix/results.json, from which `npm run generate` writes docs/reference/compatibility.md. `--failed` repeats only the
 * features that have failed. Exits 1 if a test failed.
 */

interface FileResult {
  name: string;
  assertionResults: { status: string }[];
}

async function testsOf(version: string, files: readonly string[]): Promise<Map<string, Outcome>> {
  const dir = await mkdtemp(join(tmpdir(), 'nm-matrix-'));
  const report = join(dir, 'report.json');
  try {
    const child = spawn(process.execPath, [join(root, 'scripts', 'test.ts'), ...files], {
      cwd: root,
      env: {
        ...process.env,
        NM_TEST_KUBERNETES: version,
        NM_TEST_REPORT: report,
        // A test that is skipped counts as failed, and this says why.
        NM_TEST_REQUIRE: 'bus,clocks,containers,shells,systemd',
      },
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    await new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('close', resolve);
    });
    if (!existsSync(report)) throw new Error(`Kubernetes ${version}: the tests ended without a result`);
    const { testResults } = JSON.parse(await readFile(report, 'utf8')) as { testResults: FileResult[] };
    return new Map(
      testResults.map(({ name, assertionResults }) => [name.slice(root.length + 1), count(assertionResults)]),
    );
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** A file that could not be run has no tests, and counts as a failed one. */
function count(tests: readonly { status: string }[]): Outcome {
  const passed = tests.filter(({ status }) => status === 'passed').length;
  return { passed, failed: tests.length === 0 ? 1 : tests.length - passed };
}

async function outcomesOf(version: string, tested: readonly Feature[]): Promise<Record<string, Outcome>> {
  const files = await testsOf(
    version,
    tested.flatMap((feature) => feature.files),
  );
  const sum = (names: readonly string[]) =>
    names
      .map((name) => files.get(name) ?? { passed: 0, failed: 1 })
      .reduce((a, b) => ({ passed: a.passed + b.passed, failed: a.failed + b.failed }));
  return Object.fromEntries(tested.map((feature) => [feature.name, sum(feature.files)]));
}

/** The release of a minor version that the sandbox runs, without the leading v. */
function releaseOf(version: string): string {
  const [part] = toolchainParts({ kubernetes: version });
  return pinnedVersion('kube-apiserver', part?.source).slice(1);
}

function print(results: Results, versions: readonly string[]): void {
  const names = [...new Set(versions.flatMap((version) => Object.keys(results[version]?.features ?? {})))];
  const width = Math.max(...names.map((name) => name.length));
  console.log(`\n${''.padEnd(width)}  ${versions.map((version) => version.padEnd(10)).join('')}`);
  for (const name of names) {
    const cells = versions.map((version) => cell(results[version]?.features[name]).padEnd(10));
    console.log(`${name.padEnd(width)}  ${cells.join('')}`.trimEnd());
  }
}

function cell(outcome: Outcome | undefined): string {
  if (outcome === undefined) return '-';
  return outcome.failed === 0 ? `${outcome.passed} ok` : `${outcome.failed} failed`;
}

async function main(args: readonly string[]): Promise<number> {
  const known = kubernetesVersions();
  const repeats = args.includes('--failed');
  const named = args.filter((arg) => arg !== '--failed');
  const versions = named.length === 0 ? known : named;
  const unknown = versions.filter((version) => !known.includes(version));
  if (unknown.length > 0) {
    console.error(`Kubernetes ${unknown.join(', ')} is not supported: choose among ${known.join(', ')}`);
    return 2;
  }
  const stored = JSON.parse(await readFile(resultsFile, 'utf8').catch(() => '{}')) as Results;
  for (const version of versions) {
    const release = releaseOf(version);
    console.log(`Kubernetes ${release}`);
    const before = stored[version]?.release === release ? stored[version].features : {};
    const tested = featuresOf(version).filter(({ name }) => !repeats || before[name]?.failed !== 0);
    if (tested.length === 0) continue;
    stored[version] = { release, features: { ...before, ...(await outcomesOf(version, tested)) } };
    const sorted = Object.fromEntries(known.flatMap((one) => (stored[one] ? [[one, stored[one]]] : [])));
    await writeFile(resultsFile, `${JSON.stringify(sorted, null, 2)}\n`);
  }
  print(stored, versions);
  const failed = versions.some((version) =>
    Object.values(stored[version]?.features ?? {}).some((outcome) => outcome.failed > 0),
  );
  return failed ? 1 : 0;
}

process.exitCode = await main(process.argv.slice(2));
