import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { eventually } from '../../kit/eventually.ts';
import { Requirement, testsWith } from '../../kit/requirements.ts';

// Types words into shells, as a user does. bash is tested with kubectl, in test/e2e/cli.test.ts. `npm run debian-packages` installs the shells.

/** The bundled commands start faster. */
const bundled = process.env['NM_TEST_COMMANDS'];
const main =
  bundled === undefined
    ? join(import.meta.dirname, '..', '..', '..', 'cli', 'main.ts')
    : join(bundled, 'main.js');

let dir: string;
/** The words of the last command that was executed. */
let record: string;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'nm-shells-'));
  record = join(dir, 'record');
  await mkdir(join(dir, 'bin'));
  await mkdir(join(dir, 'work'));
  await writeFile(join(dir, 'work', 'plan-of-rack-7.yaml'), '');
  const plugin = [
    '#!/bin/sh',
    `case $1 in __complete | completion) exec '${process.execPath}' '${main}' "$@" ;; esac`,
    `printf '%s\\n' "$@" >'${record}.new' && mv '${record}.new' '${record}'`,
    '',
  ];
  await writeFile(join(dir, 'bin', 'kubectl-maintenance'), plugin.join('\n'), { mode: 0o755 });
});
beforeEach(() => rm(record, { force: true }));
afterAll(() => rm(dir, { recursive: true, force: true }));

const environment = () => ({
  HOME: dir,
  TERM: 'xterm',
  // A terminal that shows every suggestion on one page.
  LINES: '50',
  COLUMNS: '120',
  PATH: `${join(dir, 'bin')}:${process.env['PATH']}`,
});

/** Returns a `test` that types into the shell. */
function shellTests(shell: string): (name: string, check: () => Promise<void>) => void {
  const isMissing = spawnSync(shell, ['--version']).error !== undefined;
  const tests = testsWith(Requirement.Shells, isMissing ? `${shell} is not installed` : undefined);
  return (name, check) => tests(`${shell}: ${name}`, check);
}

const withZsh = shellTests('zsh');
const withFish = shellTests('fish');

describe('completion in a terminal', () => {
  let terminal: ChildProcessWithoutNullStreams | undefined;
  let output = '';

  afterEach(async () => {
    if (terminal === undefined) return;
    const closed = once(terminal, 'close');
    terminal.kill('SIGKILL');
    await closed;
    terminal = undefined;
  });

  const shown = () => stripVTControlCharacters(output).replaceAll('\r', '');

  /** Starts zsh in a terminal, with the completion script. */
  async function startZsh(): Promise<void> {
    output = '';
    const child = spawn('script', ['--quiet', '--return', '--command', 'zsh -f -i', '/dev/null'], {
      cwd: join(dir, 'work'),
      env: environment(),
    });
    terminal = child;
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
    });
    child.stdin.write(
      'stty rows 50 cols 120; autoload -Uz compinit; compinit -u; source <(kubectl-maintenance completion zsh); print rea""dy\n',
    );
    await eventually('the shell to be ready', () => expect(shown()).toMatch(/^ready$/m));
    output = '';
  }

  const type = (text: string) => terminal?.stdin.write(text);

  /** Executes the line, and returns the words of the command. */
  async function executed(): Promise<string[]> {
    type('\n');
    await eventually('the command to be executed', () => expect(existsSync(record)).toBe(true));
    return (await readFile(record, 'utf8')).trimEnd().split('\n');
  }

  withZsh('a word is completed', async () => {
    await startZsh();
    type('kubectl-maintenance hist\t');
    await eventually('the word', () => expect(shown()).toContain('history'));
    expect(await executed()).toEqual(['history']);
  });

  withZsh('the values of an option are listed, and one is completed', async () => {
    await startZsh();
    type('kubectl-maintenance start --stage \t');
    await eventually('the stages', () => {
      for (const stage of ['Idle', 'Cordon', 'Drain', 'Complete']) expect(shown()).toContain(stage);
    });
    output = '';
    type('Dr\t');
    await eventually('the rest of the word', () => expect(shown()).toContain('ain'));
    expect(await executed()).toEqual(['start', '--stage', 'Drain']);
  });

  withZsh('commands have their descriptions', async () => {
    await startZsh();
    type('kubectl-maintenance lease \t');
    await eventually('the descriptions', () =>
      expect(shown()).toMatch(/release +-- release nodes that you hold/),
    );
  });

  withZsh('files are completed where they are expected', async () => {
    await startZsh();
    type('kubectl-maintenance plan --plan plan-\t');
    await eventually('the file', () => expect(shown()).toContain('plan-of-rack-7.yaml'));
    expect(await executed()).toEqual(['plan', '--plan', 'plan-of-rack-7.yaml']);
  });
});

describe('completion by fish', () => {
  /** Returns the suggestions of fish for a line, one a line, with their descriptions. */
  async function suggestions(line: string): Promise<string[]> {
    const script = `kubectl-maintenance completion fish | source; complete --do-complete '${line}'`;
    const child = spawn('fish', ['--no-config', '--command', script], {
      cwd: join(dir, 'work'),
      env: environment(),
    });
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    await once(child, 'close');
    expect(stderr).toBe('');
    return stdout.split('\n').filter((one) => one !== '');
  }

  withFish('a word is completed, with its description', async () => {
    expect(await suggestions('kubectl-maintenance hist')).toEqual([expect.stringMatching(/^history\t\w+/)]);
  });

  withFish('the values of an option are suggested', async () => {
    expect(await suggestions('kubectl-maintenance start --stage ')).toEqual([
      'Complete',
      'Cordon',
      'Drain',
      'Idle',
    ]);
    expect(await suggestions('kubectl-maintenance start --stage=D')).toEqual(['--stage=Drain']);
  });

  withFish('files are suggested where they are expected', async () => {
    expect(await suggestions('kubectl-maintenance plan --plan plan-')).toEqual(['plan-of-rack-7.yaml']);
  });
});
