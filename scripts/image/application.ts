import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { build, type BuildOptions, type Plugin } from 'esbuild';
import { bundleCommands, nodeOptions } from '../bundle.ts';
import { root } from '../tools.ts';

/**
 * `node scripts/image/application.ts FOLDER` writes what an image contains besides Node: the programs, each bundled with all that it imports, the
 * workflows, the native part of Temporal's SDK, and the files that the programs read. Development dependencies and the bundler stay behind. The
 * folders are those of the sources, because programs find their files relative to themselves.
 */

/** Leaves out the bundler of workflows, which an image never uses: webpack and all that it depends on. */
const withoutBundler: Plugin = {
  name: 'without-bundler',
  setup: (esbuild) => {
    esbuild.onResolve({ filter: /\/bundler$/ }, ({ importer }) =>
      importer.includes(join('@temporalio', 'worker')) ? { path: 'bundler', namespace: 'absent' } : undefined,
    );
    esbuild.onLoad({ filter: /./, namespace: 'absent' }, () => ({
      contents: 'exports.defaultWorkflowInterceptorModules = [];',
    }));
    const packaged = join(root, 'worker', 'packagedBundle.ts');
    esbuild.onResolve({ filter: /\/bundle\.ts$/ }, ({ importer }) =>
      importer.startsWith(join(root, 'worker')) ? { path: packaged } : undefined,
    );
  },
};

const options = {
  ...nodeOptions,
  splitting: true,
  metafile: true,
  // Beside the programs, so that the same relative paths are right in each file.
  chunkNames: '[name]-[hash]',
  // CommonJS packages find their files so.
  define: { __dirname: 'import.meta.dirname' },
  legalComments: 'external',
  // Each process keeps its source in memory, and as two bytes a character if a comment has one that is not ASCII.
  minifyWhitespace: true,
  lineLimit: 160,
  plugins: [withoutBundler, ...nodeOptions.plugins],
} satisfies BuildOptions;

/** Temporal's SDK starts its threads from the file of this name beside the program. */
const threadEntry = 'workflow-worker-thread';

/** Returns the packages that the programs contain, as folders relative to the root. */
export async function writeApplication(folder: string): Promise<string[]> {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const worker = join(folder, 'worker');
  const programs = build({
    ...options,
    entryPoints: {
      main: 'worker/main.ts',
      codecServer: 'worker/codecServer/main.ts',
      replay: 'worker/replay/main.ts',
      [threadEntry]: resolved(`@temporalio/worker/lib/workflow/${threadEntry}.js`),
    },
    outdir: worker,
  });
  const agent = build({
    ...options,
    entryPoints: ['agent/main.ts'],
    outdir: join(folder, 'agent'),
  });
  const configuration = build({
    ...options,
    entryPoints: ['temporal-config/main.ts', 'temporal-config/encodedFailures.ts'],
    outdir: join(folder, 'temporal-config'),
  });
  const commands = bundleCommands(join(folder, 'cli'));
  const built = [programs, agent, configuration, commands];
  const printed = workflowBundles.map(({ flags }) => printedBundle(flags));
  // Nothing writes to the folder any more when this fails.
  await Promise.allSettled([...built, ...printed]);
  const [results, codes] = [await Promise.all(built), await Promise.all(printed)];
  for (const [index, { file }] of workflowBundles.entries())
    writeFileSync(join(worker, file), codes[index] ?? '');
  const inputs = [
    ...results.flatMap(({ metafile }) => Object.keys(metafile.inputs)),
    ...codes.flatMap(inputsOf),
  ];
  copySdkFiles(worker);
  for (const path of ['deploy', 'temporal-config/namespace.yaml', 'temporal-config/schedules', 'LICENSE'])
    cpSync(join(root, path), join(folder, path), { recursive: true });
  writePackage(folder);
  return [...new Set(inputs.flatMap((path) => packagePattern.exec(path)?.[0] ?? []))].toSorted();
}

const workflowBundles = [
  { file: 'workflows.js', flags: [] },
  { file: 'workflows-traces.js', flags: ['--traces'] },
];

async function printedBundle(flags: readonly string[]): Promise<string> {
  const script = join(root, 'worker', 'printBundle.ts');
  const { stdout } = await promisify(execFile)(process.execPath, [script, ...flags], {
    maxBuffer: 64 * 1024 * 1024,
  });
  return stdout;
}

/** Returns the files that workflows were bundled from, which their bundle names. */
function inputsOf(code: string): string[] {
  const digests = /^\/\/# workflowInputs=(.*)$/m.exec(code)?.[1];
  if (digests === undefined)
    throw new Error('worker/printBundle.ts printed a bundle that does not name its inputs');
  return Object.keys(JSON.parse(digests) as Record<string, string>);
}

/** The folder of the package that a file belongs to, which may be inside of that of another one. */
const packagePattern = /^.*node_modules\/(?:@[^/]+\/)?[^/]+/;

/** Copies what Temporal's SDK looks for beside its own code: its library for this platform, and the decoder of source maps. */
function copySdkFiles(worker: string): void {
  const library = createRequire(import.meta.url)(resolved('@temporalio/core-bridge/common.js')) as {
    getPrebuiltPath(): string;
    getPrebuiltTargetName(): string;
  };
  cpSync(library.getPrebuiltPath(), join(worker, 'releases', library.getPrebuiltTargetName(), 'index.node'));
  cpSync(join(dirname(resolved('source-map')), 'lib', 'mappings.wasm'), join(worker, 'mappings.wasm'));
}

function resolved(specifier: string): string {
  return createRequire(import.meta.url).resolve(specifier);
}

/** Programs read their version from it. */
function writePackage(folder: string): void {
  const { name, version, license, type } = JSON.parse(
    readFileSync(join(root, 'package.json'), 'utf8'),
  ) as Record<string, string>;
  writeFileSync(
    join(folder, 'package.json'),
    `${JSON.stringify({ name, version, license, type }, null, 2)}\n`,
  );
}

if (import.meta.main) {
  const [folder] = process.argv.slice(2);
  if (folder === undefined) throw new Error('usage: node scripts/image/application.ts FOLDER');
  await writeApplication(resolve(folder));
}
