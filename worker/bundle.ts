import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { bundleWorkflowCode, DefaultLogger, type WorkflowBundle } from '@temporalio/worker';
import { errorMessage } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
/** Folder beside the packages, of which the kept bundles contain parts: `npm ci` deletes both. */
const keptFolder = resolve(root, 'node_modules', '.cache', 'node-maintenance');
const maxBundleBytes = 64 * 1024 * 1024;

/** Source of what a bundle with traces contains. */
const tracesSource = 'workflows/traces.ts';

interface BundleOptions {
  /** The workflows add their spans to traces. Every run evaluates the modules for it: without traces it has nothing of OpenTelemetry. */
  traces: boolean;
}

export interface LoadOptions extends BundleOptions {
  /** File that printBundle.ts wrote; undefined: the one that an earlier start has kept. */
  file: string | undefined;
}

/** Files of which a bundle was made: path, relative to the root, -> digest. It is part of the bundle. */
type Inputs = Readonly<Record<string, string>>;

const inputsComment = '//# workflowInputs=';
const sourceMapComment = '//# sourceMappingURL=';

/** Starts to load the workflows. Returns a function that resolves with them, or rejects; the next call then loads them again. */
export function startLoading(options: LoadOptions, log: Log): () => Promise<WorkflowBundle> {
  let loading: Promise<WorkflowBundle> | undefined;
  const load = () => {
    loading ??= loadWorkflows(options, log);
    loading.catch(() => {
      loading = undefined;
    });
    return loading;
  };
  void load().catch(() => undefined);
  return load;
}

/**
 * Reads the workflows from a file that printBundle.ts wrote, or else from the one that an earlier start has kept. A bundle of other
 * sources or packages is never used: the file is rejected, or the workflows are bundled again.
 */
export async function loadWorkflows(
  { file, traces }: LoadOptions,
  log: Log,
  keptFile = keptFileOf({ traces }),
): Promise<WorkflowBundle> {
  if (file !== undefined) return readNamed(file, { traces });
  const kept = await readKept(keptFile);
  if (kept !== undefined) return { code: kept };
  const code = await bundleInChildProcess({ traces }, log);
  await keep(code, keptFile).catch((error: unknown) => {
    const remedy =
      'run node scripts/prebuild.ts as a user who may write to node_modules, such as when the image is built';
    log.warn('Bundled workflows could not be kept: every start bundles them', {
      reason: errorMessage(error),
      remedy,
    });
  });
  return { code };
}

/** Bundles the workflows for later starts, unless that was done. Rejects if the bundle cannot be kept. */
export async function keepWorkflows(
  { traces }: BundleOptions,
  log: Log,
  keptFile = keptFileOf({ traces }),
): Promise<void> {
  if ((await readKept(keptFile)) !== undefined) return;
  // What cannot be deleted cannot be replaced either, which is known before the workflows are bundled.
  await rm(keptFile, { force: true });
  await keep(await bundleInChildProcess({ traces }, log), keptFile);
}

/** Returns undefined if there is none of the present sources. */
async function readKept(file: string): Promise<string | undefined> {
  const kept = await readFile(file, 'utf8').catch(() => undefined);
  return kept !== undefined && (await staleness(kept)) === undefined ? kept : undefined;
}

/** Bundles the workflows into one script for Temporal's sandbox, which contains what it was made of. */
export async function bundleWorkflows(
  { traces }: BundleOptions = { traces: false },
): Promise<{ code: string }> {
  const workflowsPath = fileURLToPath(new URL('../workflows/index.ts', import.meta.url));
  const payloadConverterPath = fileURLToPath(new URL('../workflows/payloadConverter.ts', import.meta.url));
  const failureConverterPath = fileURLToPath(new URL('../workflows/failureConverter.ts', import.meta.url));
  // The bundler is of the same version as @temporalio/worker, and this file has its options.
  const files = new Set([
    createRequire(import.meta.url).resolve('@temporalio/worker/package.json'),
    import.meta.filename,
  ]);
  const { code } = await bundleWorkflowCode({
    workflowsPath,
    payloadConverterPath,
    failureConverterPath,
    workflowInterceptorModules: traces ? [resolve(root, tracesSource)] : [],
    // All runs share these modules and what they import, which has no state (ADR 73). Those of OpenTelemetry have.
    preloadModules: [workflowsPath, payloadConverterPath, failureConverterPath],
    // The bundler's report does not help an operator; it throws its errors.
    logger: new DefaultLogger('ERROR'),
    webpackConfigHook: (config) => {
      // Each thread keeps the source map: stack traces need the lines, and neither columns nor the sources.
      config.devtool = 'inline-nosources-cheap-module-source-map';
      config.plugins = [
        ...(config.plugins ?? []),
        (compiler) =>
          compiler.hooks.done.tap('inputs', ({ compilation }) => {
            for (const path of compilation.fileDependencies) files.add(path);
          }),
      ];
      return config;
    },
  });
  const inputs = await digestsOf([...files].map((path) => relative(root, path)).toSorted());
  const end = code.lastIndexOf(sourceMapComment);
  return {
    code: inAscii(`${code.slice(0, end)}${inputsComment}${JSON.stringify(inputs)}\n${code.slice(end)}`),
  };
}

/** One other character doubles the memory of the whole text, of which the threads of a worker keep several copies. */
function inAscii(code: string): string {
  return code.replaceAll(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

async function readNamed(file: string, { traces }: BundleOptions): Promise<WorkflowBundle> {
  const command = `node worker/printBundle.ts${traces ? ' --traces' : ''}`;
  try {
    const code = await readFile(file, 'utf8');
    const problem = await staleness(code);
    if (problem !== undefined) throw new Error(`${file} was bundled from other sources: ${problem}`);
    const hasTraces = tracesSource in (inputsOf(code) ?? {});
    if (hasTraces !== traces)
      throw new Error(`${file} was bundled ${hasTraces ? 'with' : 'without'} --traces`);
    return { code };
  } catch (error) {
    const remedy = `write it with ${command}, or leave the option out`;
    throw new Error(`--workflow-bundle (WORKFLOW_BUNDLE): ${errorMessage(error)}; ${remedy}`, {
      cause: error,
    });
  }
}

function keptFileOf({ traces }: BundleOptions): string {
  return resolve(keptFolder, traces ? 'workflows-traces.js' : 'workflows.js');
}

/** Returns which input of the bundle has changed since; undefined if none has. */
async function staleness(code: string): Promise<string | undefined> {
  const inputs = inputsOf(code);
  if (inputs === undefined) return 'it does not say from which';
  const current = await digestsOf(Object.keys(inputs));
  const changed = Object.keys(inputs).find((path) => inputs[path] !== current[path]);
  return changed && `${changed} has changed`;
}

function inputsOf(code: string): Inputs | undefined {
  const start = code.lastIndexOf(inputsComment);
  if (start === -1) return undefined;
  const text = code.slice(start + inputsComment.length, code.indexOf('\n', start));
  try {
    return JSON.parse(text) as Inputs;
  } catch {
    return undefined;
  }
}

/** Leaves out files that do not exist: the entry point, which the SDK generates, and sources that a package does not contain. */
async function digestsOf(paths: readonly string[]): Promise<Inputs> {
  const digests = await Promise.all(
    paths.map(async (path) => {
      const content = await readFile(resolve(root, path)).catch(() => undefined);
      return content && ([path, createHash('sha256').update(content).digest('base64url')] as const);
    }),
  );
  return Object.fromEntries(digests.filter((entry) => entry !== undefined));
}

/**
 * Bundles the workflows in a child process, because the bundler needs three times the memory that a worker needs afterwards,
 * and the end of the process frees it.
 */
async function bundleInChildProcess({ traces }: BundleOptions, log: Log): Promise<string> {
  const startedAt = performance.now();
  const script = fileURLToPath(new URL('printBundle.ts', import.meta.url));
  const command = [script, ...(traces ? ['--traces'] : [])];
  const { stdout } = await promisify(execFile)(process.execPath, command, { maxBuffer: maxBundleBytes });
  log.info('Workflows bundled', { seconds: Math.round((performance.now() - startedAt) / 100) / 10 });
  return stdout;
}

/** Keeps the bundle for the next start. Several processes may do so at a time. */
async function keep(code: string, file: string): Promise<void> {
  const unfinished = `${file}.${process.pid}`;
  await mkdir(dirname(file), { recursive: true });
  await writeFile(unfinished, code);
  await rename(unfinished, file);
}
