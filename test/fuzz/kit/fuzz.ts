import { expect } from '@jest/globals';
import fc from 'fast-check';
import { escapeUnprintable } from '../../../api/text.ts';
import { unprintable } from '../../kit/hostileText.ts';

/**
 * Runs a property with a fixed number of inputs, the same ones in every run. `NM_FUZZ_SEED=2 NM_FUZZ_RUNS=10000` in the environment tries other
 * ones, and more. A failure names both.
 */
const seed = Number(process.env['NM_FUZZ_SEED'] ?? 1);
const runs = process.env['NM_FUZZ_RUNS'];

const defaultRuns = 200;
/** The search for a smaller input ends: each may be large. */
const maxTriesAfterFailure = 150;
/** An input may have megabytes. */
const maxShownLength = 1_500;

/** Fails with the seed, and with the smallest input that was found, if the property does not hold for an input. */
export async function fuzz<Input>(
  inputs: fc.Arbitrary<Input>,
  holds: (input: Input) => void | Promise<void>,
  numRuns = defaultRuns,
): Promise<void> {
  let triesAfterFailure = 0;
  let hasFailed = false;
  const property = fc.asyncProperty(inputs, async (input) => {
    if (hasFailed) triesAfterFailure += 1;
    if (triesAfterFailure > maxTriesAfterFailure) return;
    try {
      await holds(input);
    } catch (error) {
      hasFailed = true;
      throw error;
    }
  });
  const result = await fc.check(property, { seed, numRuns: runs === undefined ? numRuns : Number(runs) });
  if (!result.failed) return;
  const { counterexample, errorInstance, counterexamplePath } = result;
  const message = errorInstance instanceof Error ? errorInstance.message : String(errorInstance);
  throw new Error(
    `NM_FUZZ_SEED=${seed} (path ${counterexamplePath ?? ''}): ${cut(message)}; the input:  ${cut(fc.stringify(counterexample?.[0]))}`,
    { cause: errorInstance },
  );
}

function cut(text: string): string {
  const shown = escapeUnprintable(text.slice(0, maxShownLength));
  return text.length <= maxShownLength ? shown : `${shown}... (${text.length} characters)`;
}

/** The longest text about an input: a user reads it in a terminal, and an apiserver or Temporal stores it. */
export const maxProblemLength = 2_000;

/** Fails unless the text is one line, or several with `lines`, of printable characters, and not too long. */
export function expectReadable(text: string, { lines = false, max = maxProblemLength } = {}): void {
  expect(text.length).toBeLessThanOrEqual(max);
  for (const line of lines ? text.split('\n') : [text]) expect(unprintable.exec(line)?.[0]).toBeUndefined();
}

/** Returns what a function that may throw has thrown; undefined if it has returned. */
export function thrownBy(act: () => unknown): unknown {
  try {
    act();
    return undefined;
  } catch (error) {
    return error;
  }
}

/** Fails unless an error, if there is one, is a plain Error with a readable message: no TypeError or RangeError of our own code. */
export function expectClearError(error: unknown, options?: Parameters<typeof expectReadable>[1]): void {
  if (error === undefined) return;
  const { name, message } = error as Error;
  expect(`${name}: ${message}`).not.toMatch(/^(?:TypeError|RangeError|ReferenceError|SyntaxError):/);
  expect(message).toMatch(/\S/);
  expectReadable(message, options);
}
