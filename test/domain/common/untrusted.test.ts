import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { unverifiedIdentity } from '../../../domain/common/temporalIdentity.ts';
import { isGeneration, isNameOrUid, isStage, shown } from '../../../domain/common/untrusted.ts';
import { allowedPosition, completeDrainPlan } from '../../../domain/drain/plan.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';
import { cloudEventProblem } from '../../../domain/notifications/cloudEvent.ts';
import { isDetailsSnapshot } from '../../../domain/maintenance/detailsSnapshot.ts';
import {
  isWindowStep,
  plausibleSignals,
  plausibleWaitingSince,
} from '../../../domain/windows/windowState.ts';
import { anyText } from '../../kit/anyText.ts';

/** Values that a client of Temporal may send: any JSON, and what JSON cannot express. */
const anything = fc.oneof(
  fc.jsonValue(),
  fc.anything({ maxDepth: 4 }),
  fc.constantFrom(Number.MAX_SAFE_INTEGER, Number.NaN, -1, 1e308, Infinity, '', 'x'.repeat(1_048_576)),
);
const property = (holds: (value: unknown) => void) => () => fc.assert(fc.property(anything, holds));

const maintenance = (drainPosition: number) => ({
  spec: { nodeSelector: { nodeSelectorTerms: [] }, stage: 'Drain' as const },
  status: { ...emptyStatus, drainPosition },
});

describe('whatever arrives through Temporal,', () => {
  test(
    'no guard throws, or accepts what is not of its form',
    property((value) => {
      if (isGeneration(value)) expect(value).toBeGreaterThanOrEqual(0);
      if (isNameOrUid(value)) expect(value.length).toBeLessThanOrEqual(253);
      expect(isStage(value)).toBe(['Idle', 'Cordon', 'Drain', 'Complete'].includes(value as string));
      expect(isDetailsSnapshot(value)).toBe(false);
      expect(isWindowStep(value)).toBe((value as { kind?: unknown } | null)?.kind === 'Gone');
      expect(cloudEventProblem(value)).toMatch(/^event/);
    }),
  );

  test('a drain starts at no position that the object has not reached', () => {
    const reached = fc.integer({ min: 0, max: 20 });
    fc.assert(
      fc.property(anything, reached, (requested, drainPosition) => {
        const position = allowedPosition(requested, maintenance(drainPosition));
        expect(Number.isSafeInteger(position)).toBe(true);
        expect(position).toBeGreaterThanOrEqual(0);
        expect(position).toBeLessThanOrEqual(Math.min(drainPosition, completeDrainPlan().length - 1));
      }),
    );
  });

  test('a node does not wait since before its window opened, or since the future', () => {
    const time = { openedAtMs: 1_000, nowMs: 5_000 };
    const states = fc.oneof(anything, fc.record({ waitingSince: fc.dictionary(fc.string(), anything) }));
    fc.assert(
      fc.property(states, (previous) => {
        for (const at of Object.values(plausibleWaitingSince(previous, time))) {
          expect(at).toBeGreaterThanOrEqual(time.openedAtMs);
          expect(at).toBeLessThanOrEqual(time.nowMs);
        }
      }),
    );
    const waitingSince = { early: 999, since: 2_000, late: 5_001, never: Number.NaN };
    expect(plausibleWaitingSince({ waitingSince }, time)).toEqual({ since: 2_000 });
  });

  test('only signals count as sent signals', () => {
    const lists = fc.oneof(anything, fc.array(anything));
    fc.assert(
      fc.property(lists, (signals) => {
        for (const { signal } of plausibleSignals(signals)) expect(['pause', 'resume']).toContain(signal);
      }),
    );
    const sent = { workflowId: 'w', signal: 'pause' };
    expect(plausibleSignals([sent, { workflowId: 1, signal: 'pause' }, null])).toEqual([sent]);
  });

  test(
    'a message shows at most 80 characters of it',
    property((value) => {
      if (typeof value !== 'bigint' && typeof value !== 'object')
        expect(shown(value).length).toBeLessThanOrEqual(80);
    }),
  );
});

describe('the identity that a Temporal client declares', () => {
  test('is marked as unverified, printable and short', () => {
    fc.assert(
      fc.property(anyText({ maxLength: 600 }), (identity) => {
        const recorded = unverifiedIdentity(identity);
        expect(recorded).toMatch(/^unverified Temporal identity: /);
        expect(recorded).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
        expect(recorded.length).toBeLessThanOrEqual(240);
      }),
    );
  });

  test('cannot take the form of a Kubernetes user', () => {
    expect(unverifiedIdentity('user system:admin')).toBe('unverified Temporal identity: user system:admin');
    expect(unverifiedIdentity('jane\u001B[2K\nuser root')).toBe(
      'unverified Temporal identity: jane?[2K?user root',
    );
  });
});
