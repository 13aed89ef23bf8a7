import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './tools.ts';

/**
 * Checks what `npm ci` installs: every package has the digest of its content in the lock file, no URL leads elsewhere, and no install script
 * runs that package.json > allowScripts does not list. Prints each problem with its remedy, and exits 1 then.
 */

interface LockedPackage {
  version?: string;
  integrity?: string;
  resolved?: string;
  link?: boolean;
  hasInstallScript?: boolean;
}

interface PackageFile {
  name?: string;
  version?: string;
  scripts?: Record<string, string>;
}

/** The files that decide what `npm ci` installs. */
export interface Dependencies {
  lock: { packages: Record<string, LockedPackage> };
  allowScripts: Record<string, boolean>;
  /** Content of .npmrc. */
  npmrc: string;
  /** Path in node_modules -> its package.json, of the packages that are installed. */
  installed: ReadonlyMap<string, PackageFile & { hasGypFile: boolean }>;
}

/** Returns each problem with its remedy. */
export function dependencyProblems(dependencies: Dependencies): string[] {
  return [
    ...integrityProblems(dependencies),
    ...urlProblems(dependencies),
    ...scriptProblems(dependencies),
    ...settingProblems(dependencies),
  ];
}

/** Leaves out this project and its workspaces, which are not installed from a registry. */
function lockedPackages({ lock }: Dependencies): [path: string, LockedPackage][] {
  return Object.entries(lock.packages).filter(
    ([path, { link }]) => path.includes('node_modules/') && link !== true,
  );
}

/** A digest that cannot be forged: SHA-1 is not enough. */
const strongDigest = /^sha512-[A-Za-z0-9+/]{86}==$/;

function integrityProblems(dependencies: Dependencies): string[] {
  const missing = lockedPackages(dependencies).filter(
    ([, { integrity }]) => !strongDigest.test(integrity ?? ''),
  );
  return missing.map(
    ([path, { version }]) =>
      `package-lock.json: ${path} ${version} has no SHA-512 integrity: run node scripts/dependencies.ts --add-integrity`,
  );
}

function urlProblems(dependencies: Dependencies): string[] {
  return lockedPackages(dependencies).flatMap(([path, { resolved }]) =>
    resolved === undefined
      ? []
      : [
          `package-lock.json: ${path} is installed from ${resolved}: remove "resolved", so that the registry is used`,
        ],
  );
}

/** Scripts that npm runs when it installs a package from a registry. */
const installScripts = ['preinstall', 'install', 'postinstall'];

function scriptProblems({ lock, allowScripts, installed }: Dependencies): string[] {
  const locked = Object.entries(lock.packages).filter(
    ([, { hasInstallScript }]) => hasInstallScript === true,
  );
  // The lock file may omit that a package has a script.
  const onDisk = [...installed].filter(
    ([, { scripts = {}, hasGypFile }]) => hasGypFile || installScripts.some((name) => name in scripts),
  );
  const names = [...new Set([...locked, ...onDisk].map(([path]) => nameAt(path)))].toSorted();
  const unlisted = names.filter((name) => !(name in allowScripts));
  const stale = Object.keys(allowScripts).filter((name) => !names.includes(name));
  return [
    ...unlisted.map(
      (name) =>
        `package.json: ${name} has an install script that allowScripts does not list: review it, and add it with true or false`,
    ),
    ...stale.map(
      (name) => `package.json: allowScripts lists ${name}, which has no install script: remove it`,
    ),
  ];
}

function nameAt(path: string): string {
  return path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
}

/** Without it, npm 11 runs the scripts that are not listed, with a warning. */
const strictSetting = 'strict-allow-scripts=true';

function settingProblems({ npmrc }: Dependencies): string[] {
  return npmrc.split('\n').includes(strictSetting) ? [] : [`.npmrc: ${strictSetting} is missing: add it`];
}

function read(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

export function readDependencies(): Dependencies {
  const lock = JSON.parse(read('package-lock.json')) as Dependencies['lock'];
  const { allowScripts } = JSON.parse(read('package.json')) as Pick<Dependencies, 'allowScripts'>;
  const paths = Object.keys(lock.packages).filter((path) => existsSync(join(root, path, 'package.json')));
  const installed = paths
    .filter((path) => path !== '')
    .map((path) => {
      const file = JSON.parse(read(`${path}/package.json`)) as PackageFile;
      return [path, { ...file, hasGypFile: existsSync(join(root, path, 'binding.gyp')) }] as const;
    });
  return { lock, allowScripts, npmrc: read('.npmrc'), installed: new Map(installed) };
}

/** Adds the digests that the registry publishes of the locked versions, and changes nothing else. */
function addIntegrity(): void {
  const lock = JSON.parse(read('package-lock.json')) as Dependencies['lock'];
  for (const [path, entry] of Object.entries(lock.packages)) {
    if (!path.includes('node_modules/') || entry.link === true || entry.integrity !== undefined) continue;
    const { version, ...rest } = entry;
    const spec = `${nameAt(path)}@${version}`;
    const integrity = execFileSync('npm', ['view', spec, 'dist.integrity'], { cwd: root, encoding: 'utf8' });
    lock.packages[path] = { ...(version && { version }), integrity: integrity.trim(), ...rest };
    console.log(`${spec} ${integrity.trim()}`);
  }
  writeFileSync(join(root, 'package-lock.json'), `${JSON.stringify(lock, null, 2)}\n`);
}

if (import.meta.main) {
  if (process.argv.includes('--add-integrity')) addIntegrity();
  const problems = dependencyProblems(readDependencies());
  for (const problem of problems) console.log(problem);
  if (problems.length > 0) process.exitCode = 1;
}
