import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, brotliDecompress, constants } from 'node:zlib';
import { root } from './tools.ts';

/**
 * `npm run previous-release -- COMMIT` keeps the worker and the manifests of a commit, from which test/e2e/release.slow.test.ts upgrades: a clone
 * without history lacks them. To be run when a release is made. `npm run previous-release -- --verify` compares the archive with
 * the commit that it names, if the clone has it.
 */

/** Files of a worker, without its packages. */
const paths =
  'activities admission api controllers deploy domain evacuator-kit http kube manifests node-lease package.json process temporal-config worker workflows'.split(
    ' ',
  );

const file = join(root, 'test', 'release', 'previous.tar.br');
const usage = 'Usage: npm run previous-release -- COMMIT | --verify';

async function main(args: readonly string[]): Promise<number> {
  const [argument] = args;
  if (args.length !== 1 || argument === undefined) {
    console.error(usage);
    return 2;
  }
  return argument === '--verify' ? verify() : write(argument);
}

async function write(commit: string): Promise<number> {
  if (commit.startsWith('-')) {
    console.error(`Unknown option ${commit}\n${usage}`);
    return 2;
  }
  const archive = await archiveOf(commit);
  const params = { [constants.BROTLI_PARAM_SIZE_HINT]: archive.length };
  await writeFile(file, await promisify(brotliCompress)(archive, { params }));
  console.log(
    `Wrote ${relative(root, file)} from ${await commitIn(archive)}. To undo: git checkout -- ${relative(root, file)}`,
  );
  return 0;
}

async function verify(): Promise<number> {
  const kept = await promisify(brotliDecompress)(await readFile(file));
  const commit = await commitIn(kept);
  if (kept.equals(await archiveOf(commit))) {
    console.log(`${relative(root, file)} is commit ${commit}.`);
    return 0;
  }
  console.error(
    `${relative(root, file)} differs from commit ${commit}: npm run previous-release -- ${commit}`,
  );
  return 1;
}

/** Returns a tar archive, which contains the id of its commit. The same commit gives the same bytes. */
async function archiveOf(commit: string): Promise<Buffer> {
  const options = { cwd: root, encoding: 'buffer', maxBuffer: 100_000_000 } as const;
  const revision = ['rev-parse', '--verify', '--quiet', `${commit}^{commit}`];
  const { stdout: id } = await promisify(execFile)('git', revision, { cwd: root }).catch(() => {
    throw new Error(`This clone has no commit ${commit}: git fetch origin ${commit}`);
  });
  return (await promisify(execFile)('git', ['archive', '--format=tar', id.trim(), ...paths], options)).stdout;
}

async function commitIn(archive: Buffer): Promise<string> {
  const git = promisify(execFile)('git', ['get-tar-commit-id'], { cwd: root });
  // It stops reading after the header.
  git.child.stdin?.on('error', () => undefined).end(archive);
  return (await git).stdout.trim();
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  const { stderr } = error as { stderr?: string | Buffer };
  console.error((stderr?.toString() || (error as Error).message).trim());
  process.exitCode = 1;
}
