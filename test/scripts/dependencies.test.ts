import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { dependencyProblems, readDependencies } from '../../scripts/dependencies.ts';

const root = join(import.meta.dirname, '../..');
const integrity = `sha512-${'A'.repeat(86)}==`;

const sound = {
  lock: {
    packages: {
      '': { version: '1.0.0' },
      'node_modules/a': { version: '1.0.0', integrity },
      'node_modules/a/node_modules/@b/c': { version: '2.0.0', integrity, hasInstallScript: true },
      'node_modules/linked': { resolved: 'workspace', link: true },
      workspace: { version: '1.0.0' },
    },
  },
  allowScripts: { '@b/c': false },
  npmrc: 'fund=false\nstrict-allow-scripts=true\n',
  installed: new Map(),
};

describe('the check of the dependencies', () => {
  test('finds no problem in those of this project', () => {
    expect(dependencyProblems(readDependencies())).toEqual([]);
  });

  test('finds no problem in sound ones', () => {
    expect(dependencyProblems(sound)).toEqual([]);
  });

  const withPackage = (entry: object) => ({
    ...sound,
    lock: { packages: { ...sound.lock.packages, 'node_modules/x': entry } },
  });
  test.each([
    {
      when: 'a digest is missing',
      found: withPackage({ version: '1.0.0' }),
      problem: 'x 1.0.0 has no SHA-512',
    },
    {
      when: 'a digest is weak',
      found: withPackage({ version: '1.0.0', integrity: 'sha1-abc=' }),
      problem: 'has no SHA-512 integrity',
    },
    {
      when: 'a package has a URL',
      found: withPackage({ version: '1.0.0', integrity, resolved: 'https://registry.example/x.tgz' }),
      problem: 'is installed from https://registry.example/x.tgz: remove "resolved"',
    },
    {
      when: 'an install script is not listed',
      found: withPackage({ version: '1.0.0', integrity, hasInstallScript: true }),
      problem: 'package.json: x has an install script that allowScripts does not list',
    },
    {
      when: 'the lock file conceals an install script',
      found: {
        ...sound,
        installed: new Map([['node_modules/a', { scripts: { postinstall: 'x' }, hasGypFile: false }]]),
      },
      problem: 'package.json: a has an install script',
    },
    {
      when: 'a package would be compiled',
      found: { ...sound, installed: new Map([['node_modules/a', { hasGypFile: true }]]) },
      problem: 'package.json: a has an install script',
    },
    {
      when: 'a listed package has no script',
      found: { ...sound, allowScripts: { ...sound.allowScripts, gone: true } },
      problem: 'allowScripts lists gone, which has no install script: remove it',
    },
    {
      when: 'npm would only warn',
      found: { ...sound, npmrc: 'fund=false\n' },
      problem: '.npmrc: strict-allow-scripts=true is missing: add it',
    },
  ])('says so when $when', ({ found, problem }) => {
    expect(dependencyProblems(found)).toEqual([expect.stringContaining(problem)]);
  });
});

describe('npm, with the settings of this project,', () => {
  let dir: string;
  let isEnforced: boolean;
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'dependencies-'));
    await writePackage('fixture', {
      scripts: { postinstall: `node -e "fs.writeFileSync('${join(dir, 'ran')}', '')"` },
    });
    await npm('fixture', ['pack', '--pack-destination', dir]);
    // npm before 11.16 does not know the setting (CONTRIBUTING.md).
    const { stdout } = await npm('fixture', ['config', 'get', 'strict-allow-scripts']);
    isEnforced = stdout.trim() !== 'undefined';
  });
  afterAll(() => rm(dir, { recursive: true, force: true }));

  const fixture = () => `file:${join(dir, 'fixture-1.0.0.tgz')}`;

  async function writePackage(name: string, fields: object): Promise<void> {
    await mkdir(join(dir, name), { recursive: true });
    await writeFile(join(dir, name, 'package.json'), JSON.stringify({ name, version: '1.0.0', ...fields }));
  }

  async function npm(project: string, args: readonly string[]) {
    const child = spawn('npm', args, { cwd: join(dir, project), stdio: ['ignore', 'pipe', 'pipe'] });
    const [stdout, stderr, [code]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close') as Promise<[number]>,
    ]);
    return { code, stdout, stderr };
  }

  /** Installs the package with the script in a project with this list; resolves with whether the script ran. */
  async function install(project: string, allowScripts: Record<string, boolean>) {
    await rm(join(dir, 'ran'), { force: true });
    await writePackage(project, { dependencies: { fixture: fixture() }, allowScripts });
    await cp(join(root, '.npmrc'), join(dir, project, '.npmrc'));
    const installed = await npm(project, ['install', '--offline', '--loglevel=error']);
    const ran = await stat(join(dir, 'ran')).then(
      () => true,
      () => false,
    );
    return { ...installed, ran };
  }

  test('stops at an install script that is not listed', async () => {
    const { code, stderr, ran } = await install('unlisted', { other: false });
    expect({ ran, failed: code !== 0 }).toEqual({ ran: !isEnforced, failed: isEnforced });
    expect(stderr.includes('ESTRICTALLOWSCRIPTS')).toBe(isEnforced);
  });

  test('skips an install script that is listed with false', async () => {
    const { code, ran } = await install('denied', { [fixture()]: false });
    expect({ code, ran }).toEqual({ code: 0, ran: !isEnforced });
  });

  test('runs an install script that is listed with true', async () => {
    expect(await install('allowed', { [fixture()]: true })).toMatchObject({
      code: 0,
      ran: true,
    });
  });
});
