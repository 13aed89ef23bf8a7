import { describe, expect, test } from '@jest/globals';
import { CommanderError } from 'commander';
import fc from 'fast-check';
import { agentSettingSources, parseAgentConfig, parseReturnPaths } from '../../agent/config.ts';
import type { SettingSource } from '../../process/settings.ts';
import { parseConfig, settingSources } from '../../worker/config.ts';
import { codecServerSettingSources, parseCodecServerConfig } from '../../worker/codecServer/settings.ts';
import { expectClearError, fuzz, thrownBy } from './kit/fuzz.ts';
import { textsLike } from './kit/mutations.ts';
import { withoutOutput } from './kit/output.ts';

/** Every setting has any text, as a flag or as a variable. */

const samples = [
  '8080',
  '127.0.0.1',
  'true',
  'off',
  '0.5',
  'a,b',
  '/etc/x',
  'https://example.com/x',
  'info',
  '*',
  'kube-system',
  '0:60,1000:120',
];
const values = textsLike(samples).map((text) => text.slice(0, 50_000));

interface Given {
  argv: string[];
  env: Record<string, string>;
}

/** Flags, variables and values, and words that are none. */
function settingsOf(sources: readonly SettingSource[]): fc.Arbitrary<Given> {
  const flags = sources.flatMap(({ flags: one }) => (one === undefined ? [] : [one.split(' ')[0] ?? '']));
  const variables = sources.flatMap(({ variable }) => variable ?? []);
  const argument = fc.oneof(
    {
      weight: 6,
      arbitrary: fc.tuple(fc.constantFrom(...flags), values).map(([flag, value]) => [`${flag}=${value}`]),
    },
    { weight: 3, arbitrary: fc.tuple(fc.constantFrom(...flags), values) },
    { weight: 1, arbitrary: values.map((value) => [value]) },
  );
  return fc.record({
    argv: fc.array(argument, { maxLength: 3 }).map((all) => all.flat()),
    env: fc.dictionary(fc.constantFrom(...variables), values, { maxKeys: 6 }),
  });
}

describe.each([
  { what: 'worker', sources: settingSources, parse: parseConfig },
  { what: 'node agent', sources: agentSettingSources, parse: parseAgentConfig },
  { what: 'node agent that returns manifests', sources: agentSettingSources, parse: parseReturnPaths },
  { what: 'codec server', sources: codecServerSettingSources, parse: parseCodecServerConfig },
])('any settings of the $what', ({ sources, parse }) => {
  test('are its configuration, or an error that names them', () =>
    fuzz(
      settingsOf(sources),
      async ({ argv, env }) => {
        const { result: error } = await withoutOutput(() => thrownBy(() => parse(argv, env)));
        if (error instanceof CommanderError) return;
        expectClearError(error, { lines: true, max: 10_000 });
        if (error !== undefined)
          for (const line of (error as Error).message.split('\n')) expect(line).toMatch(/^(?:--|[A-Z_]+:)/);
      },
      200,
    ));
});
