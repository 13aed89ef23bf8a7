import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { build } from 'esbuild';
import { nodeOptions } from '../bundle.ts';
import { root, toolEnvironment } from '../tools.ts';

interface PackageFile {
  dependencies?: Record<string, string>;
  peerDependencies?: Record<string, string>;
}

/**
 * Writes a library: its code with all that it shares with the rest of this repository in one module, which imports only the dependencies of its
 * package.json, and the declarations of its public types. Throws an Error if it imports another package, or if it does not import one that it lists.
 */
export async function writeLibrary(folder: string, dist: string): Promise<void> {
  const { dependencies = {}, peerDependencies = {} } = JSON.parse(
    readFileSync(join(root, folder, 'package.json'), 'utf8'),
  ) as PackageFile;
  const listed = Object.keys({ ...dependencies, ...peerDependencies });
  const { metafile } = await build({
    ...nodeOptions,
    entryPoints: [`${folder}/index.ts`],
    outfile: join(dist, 'index.js'),
    // Any package, also one that is not listed: those are reported below.
    packages: 'external',
    banner: {},
    plugins: [],
    metafile: true,
  });
  const imported = Object.values(metafile.outputs).flatMap(({ imports }) => imports.map(({ path }) => path));
  const declared = writeDeclarations(folder, dist);
  requireSame(
    folder,
    new Set([...imported, ...declared].filter((name) => !name.startsWith('node:'))),
    listed,
  );
}

function requireSame(folder: string, imported: ReadonlySet<string>, listed: readonly string[]): void {
  const unlisted = [...imported].filter((name) => !listed.includes(name));
  if (unlisted.length > 0)
    throw new Error(`${folder}/package.json lists no dependency ${unlisted.join(', ')}, which it imports`);
  const unused = listed.filter((name) => !imported.has(name));
  if (unused.length > 0)
    throw new Error(`${folder}/package.json lists ${unused.join(', ')}, which nothing in it imports`);
}

/** Writes the declarations that index.ts reaches, and no others. Returns the packages that they import. */
function writeDeclarations(folder: string, dist: string): string[] {
  const all = mkdtempSync(join(tmpdir(), 'declarations-'));
  try {
    const args = ['--project', 'tsconfig.build.json', '--outDir', all];
    const { status } = spawnSync('tsc', args, { cwd: root, env: toolEnvironment(), stdio: 'inherit' });
    if (status !== 0) throw new Error('tsc found errors in the sources of the packages');
    return copyReachable(join(all, folder, 'index.d.ts'), { from: all, to: dist });
  } finally {
    rmSync(all, { recursive: true, force: true });
  }
}

const specifier = /(from '|import\(')([^']+)'/g;

function copyReachable(entry: string, { from, to }: { from: string; to: string }): string[] {
  const packages = new Set<string>();
  const files = new Set([entry]);
  for (const file of files) {
    const target = join(to, relative(from, file));
    mkdirSync(dirname(target), { recursive: true });
    copyFileSync(file, target);
    const text = readFileSync(file, 'utf8').replaceAll(specifier, (_match, before: string, name: string) => {
      if (!name.startsWith('.')) packages.add(name);
      else files.add(join(dirname(file), name.replace(/\.[jt]s$/, '.d.ts')));
      return `${before}${name.startsWith('.') ? name.replace(/\.ts$/, '.js') : name}'`;
    });
    writeFileSync(target, text);
  }
  return [...packages];
}
