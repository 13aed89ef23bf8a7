import { execFile } from 'node:child_process';
import { accessSync, constants, createReadStream, createWriteStream, existsSync } from 'node:fs';
import { chmod, mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { delimiter, dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { createBrotliDecompress } from 'node:zlib';
import { type Browser, chromium } from 'playwright-core';
import { cacheRoot } from '../../sandbox/toolchain.ts';

/** A program, and what it needs in its environment. */
interface Program {
  executablePath: string;
  env?: Record<string, string>;
}

/** What headless Chromium is to leave alone: sandboxes that root cannot have, GPUs, and the world outside. */
const quietly = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** Milliseconds. */
const startsWithin = 120_000;

/** A headless browser: the Chromium that CHROMIUM names, one on PATH, or the one of the npm package (Linux on x64). */
export async function openBrowser(): Promise<Browser> {
  const { executablePath, env = {} } = installed() ?? (await unpacked());
  return chromium.launch({
    executablePath,
    args: quietly,
    env: { ...(process.env as Record<string, string>), ...env },
    timeout: startsWithin,
  });
}

function installed(): Program | undefined {
  const named = process.env['CHROMIUM'];
  if (named) return { executablePath: named };
  const directories = (process.env['PATH'] ?? '').split(delimiter);
  const names = ['chromium', 'chromium-browser', 'google-chrome'];
  const paths = names.flatMap((name) => directories.map((directory) => join(directory, name)));
  const executablePath = paths.find(isExecutable);
  return executablePath === undefined ? undefined : { executablePath };
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * Unpacked once, beside the other binaries that are made for the sandbox. Not by the package itself, which keeps it under a name in /tmp
 * that anybody may take.
 */
async function unpacked(): Promise<Program> {
  const require = createRequire(import.meta.url);
  const packed = join(dirname(require.resolve('@sparticuz/chromium')), '..', '..', 'bin');
  const { version } = require('../../node_modules/@sparticuz/chromium/package.json') as { version: string };
  const target = join(cacheRoot(process.env), `chromium-${version}`);
  if (!existsSync(target)) await unpack(packed, target);
  return {
    executablePath: join(target, 'chromium'),
    env: { FONTCONFIG_FILE: join(target, 'fonts.conf'), LD_LIBRARY_PATH: join(target, 'lib') },
  };
}

/** Whole or not at all: of several that unpack at once, the first one's is used. */
async function unpack(packed: string, target: string): Promise<void> {
  const staging = `${target}.unpacking-${process.pid}`;
  await mkdir(staging, { recursive: true });
  try {
    await decompress(join(packed, 'chromium.br'), join(staging, 'chromium'));
    await chmod(join(staging, 'chromium'), 0o755);
    // The libraries that a machine without any desktop lacks (lib/), and a font (fonts/).
    for (const name of ['al2023.tar', 'fonts.tar']) {
      await decompress(join(packed, `${name}.br`), join(staging, name));
      await promisify(execFile)('tar', ['-xf', name], { cwd: staging });
    }
    await writeFile(join(staging, 'fonts.conf'), fontsConf(target));
    await rename(staging, target);
  } catch (error) {
    if (!existsSync(target)) throw error;
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

function decompress(from: string, to: string): Promise<void> {
  return pipeline(createReadStream(from), createBrotliDecompress(), createWriteStream(to));
}

function fontsConf(directory: string): string {
  return `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>/usr/share/fonts</dir>
  <dir>${directory}/fonts</dir>
  <cachedir>${directory}/fonts-cache</cachedir>
</fontconfig>
`;
}
