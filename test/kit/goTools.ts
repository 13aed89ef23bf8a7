import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { goBuild, requireGo } from '../../sandbox/go.ts';
import { cacheName, cacheRoot } from '../../sandbox/toolchain.ts';

interface GoTools {
  /** Name of the tools in the cache and in messages. */
  readonly name: string;
  /** Directory of the go.mod that pins them. */
  readonly source: string;
  readonly packages: string[];
  readonly flags: string[];
}

/** Returns the folder of programs that a Go module pins, each named as its package. Builds them once per user and version. */
export async function ensureGoTools({ name, source, packages, flags }: GoTools): Promise<string> {
  const target = join(cacheRoot(process.env), cacheName(source, flags).replace(/^servers/, name));
  if (existsSync(target)) return target;
  await requireGo(source, process.env);
  const staging = `${target}.building-${process.pid}`;
  mkdirSync(staging, { recursive: true });
  try {
    await goBuild({
      source,
      packages,
      log: `${target}.log`,
      env: process.env,
      flags,
      output: staging,
      name,
      onPackage: () => undefined,
    });
    if (!existsSync(target)) renameSync(staging, target);
    return target;
  } finally {
    rmSync(staging, { recursive: true, force: true });
  }
}
