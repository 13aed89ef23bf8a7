import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  authorityValidity,
  type CertificateStep,
  type Issued,
  type Lifetimes,
  nextCertificateStep,
  servingValidity,
  type Validity,
} from '../../../domain/admission/certificates.ts';

const lifetimes = { authorityMs: 900_000, servingMs: 30_000, settleMs: 10_000, skewMs: 0 };
const hosts = ['localhost', '127.0.0.1'];

// Times in the tables are in seconds.
const validity = (notBefore: number, notAfter: number): Validity => ({
  notBefore: notBefore * 1_000,
  notAfter: notAfter * 1_000,
});
const authority = (notBefore: number) => validity(notBefore, notBefore + 900);
const serving = (notBefore: number, differs: Partial<NonNullable<Issued['serving']>> = {}) => ({
  ...validity(notBefore, notBefore + 30),
  issuer: 0,
  hosts,
  ...differs,
});
const waitUntil = (until: number): CertificateStep => ({ kind: 'Wait', until: until * 1_000 });

const step = (issued: Partial<Issued>, now: number, during: Lifetimes = lifetimes) =>
  nextCertificateStep({ authorities: [], serving: undefined, ...issued }, hosts, during, now);

describe('the next step of certificate renewal', () => {
  test.each<{ when: string; issued: Partial<Issued>; now: number; want: CertificateStep }>([
    { when: 'there is no certificate', issued: {}, now: 0, want: { kind: 'IssueAuthority' } },
    {
      when: 'there is a first authority: it signs at once',
      issued: { authorities: [authority(0)] },
      now: 0,
      want: { kind: 'IssueServing', authority: 0 },
    },
    {
      when: 'all certificates are new: wait for two thirds of the lifetime of the serving certificate',
      issued: { authorities: [authority(0)], serving: serving(100) },
      now: 100,
      want: waitUntil(120),
    },
    {
      when: 'two thirds of the lifetime of the serving certificate are over',
      issued: { authorities: [authority(0)], serving: serving(100) },
      now: 120,
      want: { kind: 'IssueServing', authority: 0 },
    },
    {
      when: 'the server has another host',
      issued: { authorities: [authority(0)], serving: serving(100, { hosts: ['localhost'] }) },
      now: 100,
      want: { kind: 'IssueServing', authority: 0 },
    },
    {
      when: 'the issuer of the serving certificate is not trusted',
      issued: { authorities: [authority(0)], serving: serving(100, { issuer: undefined }) },
      now: 100,
      want: { kind: 'IssueServing', authority: 0 },
    },
    {
      when: 'two thirds of the lifetime of the authority are over',
      issued: { authorities: [authority(0)], serving: serving(590) },
      now: 600,
      want: { kind: 'IssueAuthority' },
    },
    {
      when: 'the new authority has not settled: the old one still signs',
      issued: { authorities: [authority(0), authority(600)], serving: serving(575) },
      now: 605,
      want: { kind: 'IssueServing', authority: 0 },
    },
    {
      when: 'the new authority has not settled, and nothing else is due',
      issued: { authorities: [authority(0), authority(600)], serving: serving(600) },
      now: 605,
      want: waitUntil(610),
    },
    {
      when: 'the new authority has settled: it signs',
      issued: { authorities: [authority(0), authority(600)], serving: serving(600) },
      now: 610,
      want: { kind: 'IssueServing', authority: 1 },
    },
    {
      when: 'both authorities are trusted until the old one expires',
      issued: { authorities: [authority(0), authority(600)], serving: serving(890, { issuer: 1 }) },
      now: 890,
      want: waitUntil(900),
    },
    {
      when: 'the old authority has expired',
      issued: { authorities: [authority(0), authority(600)], serving: serving(890, { issuer: 1 }) },
      now: 900,
      want: { kind: 'DropAuthority', authority: 0 },
    },
    {
      when: 'the old authority is too close to its expiry to sign',
      issued: { authorities: [authority(0), authority(890)], serving: undefined },
      now: 899.8,
      want: { kind: 'IssueServing', authority: 1 },
    },
    {
      when: 'the only authority is too close to its expiry to sign',
      issued: { authorities: [validity(890, 891)], serving: undefined },
      now: 890.7,
      want: { kind: 'IssueAuthority' },
    },
    {
      when: 'everything expired because no worker ran',
      issued: { authorities: [authority(0)], serving: serving(0) },
      now: 5_000,
      want: { kind: 'DropAuthority', authority: 0 },
    },
  ])('$when', ({ issued, now, want }) => {
    expect(step(issued, now * 1_000)).toEqual(want);
  });

  test('a serving certificate does not outlive its authority', () => {
    expect(servingValidity(authority(0), lifetimes, 500_000)).toEqual(validity(500, 530));
    expect(servingValidity(authority(0), lifetimes, 890_000)).toEqual(validity(890, 900));
  });

  test('a certificate is valid from before its issue, for clocks that are behind, in whole seconds', () => {
    const skewed = { ...lifetimes, skewMs: 5_000 };
    expect(authorityValidity(skewed, 100_900)).toEqual(validity(95, 1_000));
    expect(servingValidity(authority(0), skewed, 100_900)).toEqual(validity(95, 130));
  });

  test('at any time and after any change of lifetimes, a few steps lead to a valid certificate of a trusted authority', () => {
    const anyLifetimes = fc.record({
      authorityMs: fc.integer({ min: 60_000, max: 1_200_000 }),
      servingMs: fc.integer({ min: 20_000, max: 600_000 }),
      settleMs: fc.integer({ min: 0, max: 300_000 }),
      skewMs: fc.integer({ min: 0, max: 30_000 }),
    });
    const reconciliation = fc.record({
      pause: fc.integer({ min: 0, max: 600_000 }),
      lifetimes: anyLifetimes,
    });
    fc.assert(
      fc.property(fc.array(reconciliation, { maxLength: 30 }), (reconciliations) => {
        let issued: Issued = { authorities: [], serving: undefined };
        let now = 0;
        for (const { pause, lifetimes: during } of reconciliations) {
          now += pause;
          issued = settled(issued, now, during);
          const issuer = issued.authorities[issued.serving?.issuer ?? -1];
          expect(issued.serving?.notAfter).toBeGreaterThan(now);
          expect(issuer?.notAfter).toBeGreaterThanOrEqual(issued.serving?.notAfter ?? 0);
        }
      }),
    );
  });
});

/** Applies steps until the next one is Wait. More than one step per authority plus four would be an endless loop. */
function settled(start: Issued, now: number, during: Lifetimes): Issued {
  let issued = start;
  for (let steps = start.authorities.length + 4; steps > 0; steps--) {
    const next = step(issued, now, during);
    if (next.kind === 'Wait') return issued;
    issued = applied(issued, next, { now, during });
  }
  throw new Error(`no end of steps at ${now}: ${JSON.stringify(issued)}`);
}

function applied(
  issued: Issued,
  next: Exclude<CertificateStep, { kind: 'Wait' }>,
  { now, during }: { now: number; during: Lifetimes },
): Issued {
  const { authorities } = issued;
  switch (next.kind) {
    case 'DropAuthority': {
      const before = issued.serving?.issuer;
      const issuer = before === undefined || before === next.authority ? undefined : before - 1;
      return {
        authorities: authorities.toSpliced(next.authority, 1),
        serving: issued.serving && { ...issued.serving, issuer },
      };
    }
    case 'IssueAuthority':
      return { ...issued, authorities: [...authorities, authorityValidity(during, now)] };
    case 'IssueServing': {
      const dates = servingValidity(authorities[next.authority] as Validity, during, now);
      return { authorities, serving: { ...dates, issuer: next.authority, hosts } };
    }
  }
}
