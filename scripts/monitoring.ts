import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { goBuild, requireGo } from '../sandbox/go.ts';
import { cacheName, cacheRoot } from '../sandbox/toolchain.ts';
import { root } from './tools.ts';

/**
 * `npm run test:monitoring` tests deploy/monitoring with the Prometheus that test/monitoring/prometheus pins: it builds prometheus and promtool
 * from source, once per user and version, and runs the tests `test/monitoring/*.live.ts`. `npm test` does not need them.
 */

const source = join(root, 'test', 'monitoring', 'prometheus');
const commands = 'github.com/prometheus/prometheus/cmd';
const names = ['prometheus', 'promtool'];
/** Flags of Go that leave out service discovery of clouds, which is most of the code. */
const flags = ['-tags=remove_all_sd', '-trimpath', '-gcflags=all=-dwarf=false', '-ldflags=-s -w'];

/** Returns the directory of the binaries. */
async function ensureBinaries(): Promise<string> {
  const target = join(cacheRoot(process.env), cacheName(source, flags).replace(/^servers/, 'prometheus'));
  if (names.every((name) => existsSync(join(target, name)))) return target;
  const go = await requireGo(source, process.env);
  console.log(
    `Building ${names.join(' and ')} with ${go}, once per user and version; it is kept in ${target}`,
  );
  const staging = `${target}.building-${process.pid}`;
  mkdirSync(staging, { recursive: true });
  try {
    let packages = 0;
    await goBuild({
      source,
      packages: names.map((name) => `${commands}/${name}`),
      log: `${target}.log`,
      env: process.env,
      flags,
      output: staging,
      name: names.join(', '),
      onPackage: () => {
        packages += 1;
        if (packages % 100 === 0) console.log(`  ${packages} packages compiled`);
      },
    });
    mkdirSync(target, { recursive: true });
    for (const name of names) renameSync(join(staging, name), join(target, name));
    return target;
  } finally {
    rmSync(staging, { recursive: true, force: true });
  }
}

const binaries = await ensureBinaries();
const tests = spawn(
  process.execPath,
  [join(root, 'scripts', 'test.ts'), '--testMatch=<rootDir>/test/monitoring/*.live.ts'],
  { stdio: 'inherit', env: { ...process.env, NM_PROMETHEUS: binaries, NM_TEST_SHARDS: '1' } },
);
[process.exitCode] = (await once(tests, 'exit')) as [number];
