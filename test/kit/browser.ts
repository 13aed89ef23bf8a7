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

/** A program and its environment. */
interface Program {
  executablePath: string;
  env?: Record<string, string>;
}

/** Switches off sandboxes, which root cannot have, GPUs, and all requests of its own. */
const quietOptions = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

const startTimeoutMs = 300_000;

/** Opens a headless browser: the Chromium that CHROMIUM names, one on PATH, or the one of the npm package (Linux on x64). */
export async function openBrowser(): Promise<Browser> {
  const { executablePath, env = {} } = installed() ?? (await unpacked());
  return chromium.launch({
    executablePath,
    args: quietOptions,
    env: { ...(process.env as Record<string, string>), ...env },
    timeout: startTimeoutMs,
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
 * Unpacks the browser of the npm package once, beside the other binaries of the sandbox. The package itself would unpack it under
 * a predictable name in /tmp, which another user may have taken.
 */
async function unpacked(): Promise<Program> {
  if (process.platform !== 'linux' || process.arch !== 'x64')
    throw new Error(
      'no Chromium on PATH, and the npm package has none for this machine: set CHROMIUM to the path of one',
    );
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

/** Unpacks completely or not at all; if several processes unpack at once, the first one wins. */
async function unpack(packed: string, target: string): Promise<void> {
  const staging = `${target}.unpacking-${process.pid}`;
  await mkdir(staging, { recursive: true });
  try {
    await decompress(join(packed, 'chromium.br'), join(staging, 'chromium'));
    await chmod(join(staging, 'chromium'), 0o755);
    // Libraries that a machine without a desktop lacks (lib/), and a font (fonts/).
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
