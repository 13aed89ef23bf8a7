import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { run } from '../../cli/program.ts';
import { readDocument, readDrainPlan } from '../../cli/maintenance/files.ts';
import { duration } from '../../cli/options.ts';
import { clusterAccess, contextNames, defaultNamespace, loadKubeConfig } from '../../kube/config.ts';
import { expectClearError, expectReadable, fuzz, thrownBy } from './kit/fuzz.ts';
import { jsonTextsLike, textsLike } from './kit/mutations.ts';
import { withoutOutput } from './kit/output.ts';

/** Arguments and files of `kubectl maintenance`. It has a kubeconfig of a cluster that no port serves: nothing is sent. */

let dir: string;
let kubeconfig: string;

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'nm-fuzz-'));
  kubeconfig = join(dir, 'missing');
});

afterAll(() => rmSync(dir, { recursive: true, force: true }));

const verbs = [
  ['plan'],
  ['start'],
  ['status'],
  ['advance'],
  ['cancel'],
  ['pause'],
  ['resume'],
  ['history'],
  ['report'],
  ['windows'],
  ['window', 'open'],
  ['window', 'pause'],
  ['window', 'approve'],
  ['window', 'skip'],
  ['lease', 'list'],
  ['lease', 'acquire'],
  ['lease', 'release'],
  ['lease', 'run'],
  ['agent', 'token'],
  ['workers'],
  ['uninstall'],
  ['doctor'],
  ['completion'],
  ['__complete'],
  [],
];
const flags = [
  '-l',
  '-f',
  '--plan',
  '-o',
  '-n',
  '--stage',
  '--reason',
  '--timeout',
  '--wait',
  '--holder',
  '--duration',
  '--grace-period',
  '--drain-deadline',
  '--on-deadline',
  '--force',
  '--context',
  '--to',
  '--from',
  '--node',
  '--until',
];
const texts = textsLike([
  'n1',
  'nm/rack-7',
  'mw/os',
  'pool=gpu',
  '10m',
  '1h30m',
  'Drain',
  'json',
  '2026-12-24',
  '--',
]).map(
  // An operating system passes at most 128 KiB.
  (text) => text.replaceAll('\0', '').slice(0, 100_000),
);
const argument = fc.oneof(
  texts.map((text) => [text]),
  fc.tuple(fc.constantFrom(...flags), texts),
  fc.tuple(fc.constantFrom(...flags), texts).map(([flag, text]) => [`${flag}=${text}`]),
);
const commands = fc.tuple(fc.constantFrom(...verbs), fc.array(argument, { maxLength: 4 }));

/** Reads standard input, which a test has not. */
const readsInput = (words: readonly string[]) => words.some((word) => /^-$|^-f-$|=-$/.test(word));

test('any arguments are a usage error, or an error that says that no cluster is there', () =>
  fuzz(
    commands,
    async ([verb, given]) => {
      const words = given.flat();
      if (readsInput(words)) return;
      const { result, output, errors } = await withoutOutput(() =>
        run([...verb, `--kubeconfig=${kubeconfig}`, ...words]),
      );
      expect([0, 1, 2, 125]).toContain(result);
      process.exitCode = undefined;
      for (const stream of [process.stdout, process.stderr]) stream.removeAllListeners('error');
      if (result !== 0) expect(errors).toMatch(/\S/);
      expectReadable(errors, { lines: true, max: 4_000 });
      expectReadable(output, { lines: true, max: 40_000 });
      expect(errors).not.toMatch(/TypeError|RangeError|is not a function|Cannot read|is not iterable/);
    },
    200,
  ));

test('any text is a duration, or an error', () =>
  fuzz(textsLike(['90s', '10m', '1h30m', '0']), (text) => {
    const error = thrownBy(() => duration(text));
    expectClearError(error);
    if (error === undefined) expect(Number.isSafeInteger(duration(text))).toBe(true);
  }));

const yamlTexts = [
  'drainPlan: [{ podPriority: 1000, podType: Default }]\n',
  '- podPriority: 1000\n  podType: Default\n',
  'a: &a [x, x]\nb: &b [*a, *a]\nspec: { drainPlan: *b }\n',
  'base: &base { podType: Default }\ndrainPlan:\n  - <<: *base\n    podPriority: 5\n',
];

/** Each name stands for ten of the one before it: a billion of the first. */
const aliases = Array.from({ length: 9 }, (_, level) => {
  const before = level === 0 ? 'x' : `*a${level - 1}`;
  return `a${level}: &a${level} [${Array.from({ length: 10 }, () => before).join(', ')}]`;
}).join('\n');

describe('any file', () => {
  const path = () => join(dir, 'file.yaml');

  async function expectDocument(content: string): Promise<void> {
    writeFileSync(path(), content);
    for (const read of [readDocument, readDrainPlan]) {
      const error: unknown = await read(path()).then(
        () => undefined,
        (reason: unknown) => reason,
      );
      expectClearError(error);
      if (error !== undefined) expect((error as Error).message).toContain(path());
    }
  }

  test('is a document, or an error that names the file', () =>
    fuzz(
      fc.oneof(
        textsLike(yamlTexts),
        jsonTextsLike([
          { kind: 'NodeMaintenance', spec: { drainPlan: [{ podPriority: 1, podType: 'Default' }] } },
        ]),
      ),
      (content) => expectDocument(content.slice(0, 8_000)),
      60,
    ));

  test('whose aliases expand to a billion items is an error', () => expectDocument(aliases));

  test('whose lists nest by the thousand is an error, or a document', () => expectDocument('['.repeat(500)));
});

describe('any kubeconfig', () => {
  const sample = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'a',
    contexts: [{ name: 'a', context: { cluster: 'c', user: 'u', namespace: 'n' } }],
    clusters: [
      { name: 'c', cluster: { server: 'http://127.0.0.1:1', 'certificate-authority-data': 'eA==' } },
    ],
    users: [{ name: 'u', user: { token: 'x' } }],
  };

  test('is a cluster, or an error that names the file', () =>
    fuzz(
      jsonTextsLike([sample]),
      (content) => {
        const path = join(dir, 'config');
        writeFileSync(path, content);
        const choice = { kubeconfig: path };
        for (const read of [loadKubeConfig, clusterAccess, contextNames, defaultNamespace]) {
          const error = thrownBy(() => read(choice));
          expectClearError(error);
          if (error !== undefined) expect((error as Error).message).toContain('kubeconfig');
        }
        expectClearError(thrownBy(() => loadKubeConfig({ ...choice, context: 'nothing\u001b[2J' })));
      },
      100,
    ));
});
