import { execFileSync } from 'node:child_process';
import { chmodSync, copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'esbuild';
import { commandOptions } from '../bundle.ts';
import { toolEnvironment } from '../tools.ts';

/** Node.js looks for its program by this name and this mark, which stands in its file exactly once. */
const blobName = 'NODE_SEA_BLOB';
const fuse = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';

const configuration = {
  // The executable contains this path: an absolute one would not be the same from one time to the next.
  main: 'program.cjs',
  output: 'program.blob',
  disableExperimentalSEAWarning: true,
  // Nor is what V8 compiles.
  useCodeCache: false,
  // The options of a user's own programs, in NODE_OPTIONS, are not for this one.
  execArgvExtension: 'none',
};

/**
 * Writes the program of an entry point as one executable for the platform of this process: the Node.js that runs it, and the bundled program. Returns the
 * files that were bundled, relative to the root.
 */
export async function writeExecutable(file: string, entryPoint: string): Promise<string[]> {
  const dir = mkdtempSync(join(tmpdir(), 'plugin-'));
  try {
    const { metafile } = await build({
      ...commandOptions,
      // The only format that Node.js accepts here.
      format: 'cjs',
      banner: {},
      target: `node${process.versions.node.split('.')[0]}`,
      entryPoints: [entryPoint],
      outfile: join(dir, configuration.main),
      minify: true,
      keepNames: true,
      metafile: true,
    });
    writeFileSync(join(dir, 'sea.json'), JSON.stringify(configuration));
    execFileSync(process.execPath, ['--experimental-sea-config', 'sea.json'], { cwd: dir, stdio: 'pipe' });
    copyFileSync(process.execPath, file);
    chmodSync(file, 0o755);
    const injection = [file, blobName, join(dir, configuration.output), '--sentinel-fuse', fuse];
    execFileSync('postject', injection, { stdio: 'pipe', env: toolEnvironment() });
    return Object.keys(metafile.inputs);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
