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
} from '../../domain/certificates.ts';

const lifetimes = { authorityMs: 900_000, servingMs: 30_000, settleMs: 10_000, skewMs: 0 };
const hosts = ['localhost', '127.0.0.1'];

// Times of the tables are seconds.
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
const restUntil = (until: number): CertificateStep => ({ kind: 'Rest', until: until * 1_000 });

const step = (issued: Partial<Issued>, now: number, during: Lifetimes = lifetimes) =>
  nextCertificateStep({ authorities: [], serving: undefined, ...issued }, hosts, during, now);

describe('the next step towards certificates that everybody trusts', () => {
  test.each<{ when: string; issued: Partial<Issued>; now: number; want: CertificateStep }>([
    { when: 'nothing is there', issued: {}, now: 0, want: { kind: 'IssueAuthority' } },
    {
      when: 'the first authority is there: it signs at once',
      issued: { authorities: [authority(0)] },
      now: 0,
      want: { kind: 'IssueServing', authority: 0 },
    },
    {
      when: 'all is fresh: the serving certificate lives for two thirds of its life',
      issued: { authorities: [authority(0)], serving: serving(100) },
      now: 100,
      want: restUntil(120),
    },
    {
      when: 'two thirds of the life of the serving certificate are over',
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
      when: 'the serving certificate is of nobody that is trusted',
      issued: { authorities: [authority(0)], serving: serving(100, { issuer: undefined }) },
      now: 100,
      want: { kind: 'IssueServing', authority: 0 },
    },
    {
      when: 'two thirds of the life of the authority are over',
      issued: { authorities: [authority(0)], serving: serving(590) },
      now: 600,
      want: { kind: 'IssueAuthority' },
    },
    {
      when: 'the new authority is not known everywhere yet: the old one goes on signing',
      issued: { authorities: [authority(0), authority(600)], serving: serving(575) },
      now: 605,
      want: { kind: 'IssueServing', authority: 0 },
    },
    {
      when: 'the new authority is not known everywhere yet, and nothing else is to be done',
      issued: { authorities: [authority(0), authority(600)], serving: serving(600) },
      now: 605,
      want: restUntil(610),
    },
    {
      when: 'the new authority has settled: it signs',
      issued: { authorities: [authority(0), authority(600)], serving: serving(600) },
      now: 610,
      want: { kind: 'IssueServing', authority: 1 },
    },
    {
      when: 'both are trusted until the old one ends',
      issued: { authorities: [authority(0), authority(600)], serving: serving(890, { issuer: 1 }) },
      now: 890,
      want: restUntil(900),
    },
    {
      when: 'the old authority has ended',
      issued: { authorities: [authority(0), authority(600)], serving: serving(890, { issuer: 1 }) },
      now: 900,
      want: { kind: 'DropAuthority', authority: 0 },
    },
    {
      when: 'the old authority signs no more: what it signs would be due at once',
      issued: { authorities: [authority(0), authority(890)], serving: undefined },
      now: 899.8,
      want: { kind: 'IssueServing', authority: 1 },
    },
    {
      when: 'the only authority can sign no more',
      issued: { authorities: [validity(890, 891)], serving: undefined },
      now: 890.7,
      want: { kind: 'IssueAuthority' },
    },
    {
      when: 'nobody was there for so long that all has ended',
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

  test('begins before it is issued, for clocks that are behind, and knows whole seconds only', () => {
    const skewed = { ...lifetimes, skewMs: 5_000 };
    expect(authorityValidity(skewed, 100_900)).toEqual(validity(95, 1_000));
    expect(servingValidity(authority(0), skewed, 100_900)).toEqual(validity(95, 130));
  });

  test('whenever one looks, whatever the lifetimes were before, some steps lead to rest with a certificate that is valid and of a trusted authority', () => {
    const lives = fc.record({
      authorityMs: fc.integer({ min: 60_000, max: 1_200_000 }),
      servingMs: fc.integer({ min: 20_000, max: 600_000 }),
      settleMs: fc.integer({ min: 0, max: 300_000 }),
      skewMs: fc.integer({ min: 0, max: 30_000 }),
    });
    const look = fc.record({ pause: fc.integer({ min: 0, max: 600_000 }), lifetimes: lives });
    fc.assert(
      fc.property(fc.array(look, { maxLength: 30 }), (looks) => {
        let issued: Issued = { authorities: [], serving: undefined };
        let now = 0;
        for (const { pause, lifetimes: during } of looks) {
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

/** What the leader makes of it: steps until there is nothing left to do; more than one for each authority and four would be a loop. */
function settled(start: Issued, now: number, during: Lifetimes): Issued {
  let issued = start;
  for (let steps = start.authorities.length + 4; steps > 0; steps--) {
    const next = step(issued, now, during);
    if (next.kind === 'Rest') return issued;
    issued = taken(issued, next, { now, during });
  }
  throw new Error(`no rest at ${now}: ${JSON.stringify(issued)}`);
}

function taken(
  issued: Issued,
  next: Exclude<CertificateStep, { kind: 'Rest' }>,
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
