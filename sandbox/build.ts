import { mkdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { binarySources, buildFlags, type ToolchainPart } from './binaries.ts';
import { BuildProgress, type BuildStep } from './buildProgress.ts';
import { goBuild, type GoPackage, type GoRun, listPackages } from './go.ts';

export interface BuildOptions {
  env: NodeJS.ProcessEnv;
  /** Receives messages for the user. */
  report: (line: string) => void;
  /** Receives the progress every second, each line replacing the last; by default `report` gets some of them. */
  progress?: ((line: string) => void) | undefined;
  signal?: AbortSignal | undefined;
}

/** Builds binaries from source and moves them to the target directory when all are complete. */
export async function buildBinaries(
  { source, names }: ToolchainPart,
  target: string,
  go: string,
  { env, report, progress, signal }: BuildOptions,
): Promise<void> {
  const staging = `${target}.building-${process.pid}`;
  const list = names.join(', ');
  report(`Building ${list} with ${go}, once per user and version`);
  report(`The binaries are kept in ${target}; docs/how-to/first-run.md says how to use your own`);
  // Go builds in this order. Temporal comes first, so that the end of its build, which uses one CPU, overlaps with the rest.
  const packages = names.map((name) => binarySources[name].package).toReversed();
  const run = { source, packages, log: `${target}.log`, env, signal };
  const display = new ProgressDisplay(progress ?? report, progress ? 1_000 : 15_000);
  try {
    rmSync(run.log, { force: true });
    mkdirSync(staging, { recursive: true });
    const steps = await download(run, display);
    report(
      `Compiling ${steps.length} packages: about ${spell(expectedSeconds(steps))}, less if Go has some in its cache`,
    );
    await compile({ ...run, flags: buildFlags(source), output: staging, name: list }, steps, display);
    for (const name of names) {
      const file = outputName(binarySources[name].package);
      renameSync(join(staging, file), join(target, name));
    }
    report(`Built ${list} in ${spell(display.seconds())}`);
  } finally {
    display.stop();
    rmSync(staging, { recursive: true, force: true });
  }
}

/** Downloads the sources, and returns the packages of the build. */
async function download(run: GoRun, display: ProgressDisplay): Promise<BuildStep[]> {
  let modules = 0;
  display.show(() => `downloaded ${modules} Go modules`);
  return stepsOf(await listPackages({ ...run, onDownload: () => modules++ }));
}

async function compile(
  build: Omit<Parameters<typeof goBuild>[0], 'onPackage'>,
  steps: readonly BuildStep[],
  display: ProgressDisplay,
): Promise<void> {
  const progress = new BuildProgress(steps, expectedSeconds(steps));
  const startedAt = display.seconds();
  const elapsed = () => display.seconds() - startedAt;
  display.show(() => progressText(progress, elapsed()));
  await goBuild({ ...build, onPackage: (path) => progress.compiling(path, elapsed()) });
}

function progressText(progress: BuildProgress, elapsed: number): string {
  const percent = Math.floor(progress.fraction * 100);
  const packages = `${progress.finishedPackages} of ${progress.packages} packages`;
  const left = progress.secondsLeft(elapsed);
  return `${percent} % (${packages}), ${left > 0 ? `about ${spell(left)} left` : 'almost done'}`;
}

/** Returns the name that `go build -o DIRECTORY/` gives a binary: the last element of its path that is no major version. */
function outputName(path: string): string {
  const elements = path.split('/').filter((element) => !/^v\d+$/.test(element));
  return elements.at(-1) as string;
}

/** Returns the expected duration of a build with an empty Go cache, on CPUs like those of the measurement. */
function expectedSeconds(steps: readonly BuildStep[]): number {
  const cost = steps.reduce((sum, step) => sum + step.cost, 0);
  return (cost * cpuSecondsPerByte) / availableParallelism();
}

/**
 * Returns the packages of a build with their cost in bytes of source. The compiler's time is proportional to the source and to
 * the number of packages whose types it reads: the factors are a fit to the measured times of all packages.
 */
function stepsOf(packages: readonly GoPackage[]): BuildStep[] {
  const mains = new Set(Object.values(binarySources).map((source) => source.package));
  return packages.map(({ path, dir, files, imports, dependencies }) => {
    const bytes = files.reduce((sum, file) => sum + sizeOf(join(dir, file)), 0);
    const link = mains.has(path) ? bytesPerLink : 0;
    return { path, imports, cost: bytes + dependencies * bytesPerDependency + link };
  });
}

const bytesPerDependency = 350;
const bytesPerLink = 2_000_000;
const cpuSecondsPerByte = 1.74e-6;

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

/** Prints the progress of a build at regular intervals. */
class ProgressDisplay {
  readonly #startedAt = performance.now();
  readonly #timer: NodeJS.Timeout;
  #text: () => string = () => '';

  constructor(print: (line: string) => void, intervalMs: number) {
    const tick = () => print(`  ${spell(this.seconds())}: ${this.#text()}`);
    this.#timer = setInterval(tick, intervalMs);
  }

  show(text: () => string): void {
    this.#text = text;
  }

  /** Returns the seconds since the start. */
  seconds(): number {
    return (performance.now() - this.#startedAt) / 1000;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

function spell(seconds: number): string {
  return seconds < 90 ? `${Math.ceil(seconds)} s` : `${Math.ceil(seconds / 60)} min`;
}
