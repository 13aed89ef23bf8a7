import { describe, expect, test } from '@jest/globals';
import { parseOptions } from '../../demo/options.ts';

/** Parses the arguments, and collects what is printed. */
function parsed(...args: string[]) {
  const printed: string[] = [];
  const write = (text: string) => void printed.push(text);
  return { ...parseOptions(args, { writeOut: write, writeErr: write }), printed: printed.join('') };
}

describe('npm run demo', () => {
  test.each([
    { args: [], want: { scenario: 'drain', keep: false } },
    { args: ['--scenario', 'overlap', '--keep'], want: { scenario: 'overlap', keep: true } },
  ])('$args', ({ args, want }) => {
    expect(parsed(...args)).toEqual({ kind: 'Options', options: want, printed: '' });
  });

  test.each([
    {
      args: ['--scenario', 'dead'],
      message:
        "error: option '--scenario <name>' argument 'dead' is invalid. Allowed choices are drain, overlap, evacuators, deadline.\n",
    },
  ])('$args is a usage error', ({ args, message }) => {
    expect(parsed(...args)).toEqual({ kind: 'Exit', code: 2, printed: message });
  });

  test('--help names the scenarios', () => {
    expect(parsed('--help')).toMatchObject({ kind: 'Exit', code: 0 });
    expect(parsed('--help').printed).toContain('  deadline   drains a node that budgets block');
  });
});
