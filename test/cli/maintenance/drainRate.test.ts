import { describe, expect, test } from '@jest/globals';
import { DrainRates } from '../../../cli/maintenance/drainRate.ts';

describe('the current drain rate', () => {
  test('needs samples of five seconds, and ignores samples older than a minute', () => {
    const rates = new DrainRates();
    rates.record('rack-7', 0, 0);
    rates.record('rack-7', 1, 1_000);
    expect(rates.rateOf('rack-7')).toBeUndefined();
    rates.record('rack-7', 30, 30_000);
    expect(rates.rateOf('rack-7')).toEqual({ pods: 30, ms: 30_000 });
    rates.record('rack-7', 40, 100_000);
    expect(rates.rateOf('rack-7')).toEqual({ pods: 10, ms: 70_000 });
    expect(rates.rateOf('other')).toBeUndefined();
  });
});
