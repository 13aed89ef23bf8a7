import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type BuildOptions, type Plugin } from 'esbuild';
import { withEmbeddedFiles } from './embeddedFiles.ts';
import { root } from './tools.ts';

const clientNode = join('node_modules', '@kubernetes', 'client-node');

/**
 * Lets esbuild drop the modules of the Kubernetes client that nothing uses: a thousand are generated, and their package does not say
 * that importing them has no effect. Loading them takes most of the time in which a command starts.
 */
const withoutUnusedModels: Plugin = {
  name: 'without-unused-models',
  setup: (esbuild) => {
    esbuild.onResolve({ filter: /^@kubernetes\/client-node$/ }, ({ path }) => ({
      path: fileURLToPath(import.meta.resolve(path)),
      sideEffects: false,
    }));
    esbuild.onResolve({ filter: /^\.\.?\/.*\.js$/ }, ({ resolveDir, path }) =>
      resolveDir.includes(clientNode) ? { path: join(resolveDir, path), sideEffects: false } : undefined,
    );
  },
};

/**
 * Gives a CommonJS package that is imported on demand the named exports that it has in Node. In esbuild it has only a default export
 * then.
 */
const withNamedExports: Plugin = {
  name: 'with-named-exports',
  setup: (esbuild) => {
    esbuild.onResolve({ filter: /^[^.]/ }, ({ kind, path }) =>
      kind === 'dynamic-import' ? { path, namespace: 'on-demand' } : undefined,
    );
    esbuild.onLoad({ filter: /./, namespace: 'on-demand' }, async ({ path }) => {
      const names = Object.keys((await import(path)) as object).filter(
        (name) => /^[a-z]\w*$/i.test(name) && name !== 'default',
      );
      return { contents: `export { ${names.join(', ')} } from '${path}';`, resolveDir: root };
    });
  },
};

/** How programs that run in Node are bundled. */
export const nodeOptions = {
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node22',
  logLevel: 'warning',
  // CommonJS packages require the modules of Node.
  banner: {
    js: "import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url);",
  },
  plugins: [withoutUnusedModels, withNamedExports],
} satisfies BuildOptions;

/** How the commands of cli/ are bundled. */
export const commandOptions = {
  ...nodeOptions,
  plugins: [withEmbeddedFiles, ...nodeOptions.plugins],
} satisfies BuildOptions;

/** Bundles the commands of cli/ with all they import: they start in a quarter of the time. */
export async function bundleCommands(directory: string) {
  return build({
    ...commandOptions,
    entryPoints: ['cli/main.ts', 'cli/completion/complete.ts'],
    outbase: 'cli',
    outdir: directory,
    splitting: true,
    metafile: true,
    chunkNames: 'chunks/[name]-[hash]',
  });
}

/** Bundles what `kube/` imports of the Kubernetes client into one module. Several processes may do so at a time. */
export async function bundleKubernetesClient(file: string): Promise<void> {
  const unfinished = `${file}.${process.pid}`;
  await build({
    ...nodeOptions,
    stdin: { contents: "export { KubeConfig } from '@kubernetes/client-node';", resolveDir: root },
    // Imported by kube/ too.
    external: ['undici'],
    outfile: unfinished,
  });
  await rename(unfinished, file);
}
