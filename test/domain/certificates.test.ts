import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  authorityValidity,
  type CertificateStep,
  type Issued,
  nextCertificateStep,
  servingValidity,
  type Validity,
} from '../../domain/certificates.ts';

const lifetimes = { authorityMs: 900, servingMs: 30, settleMs: 10, skewMs: 0 };
const hosts = ['localhost', '127.0.0.1'];

const authority = (notBefore: number): Validity => ({ notBefore, notAfter: notBefore + 900 });
const serving = (notBefore: number, differs: Partial<NonNullable<Issued['serving']>> = {}) => ({
  notBefore,
  notAfter: notBefore + 30,
  issuer: 0,
  hosts,
  ...differs,
});

const step = (issued: Partial<Issued>, now: number) =>
  nextCertificateStep({ authorities: [], serving: undefined, ...issued }, hosts, lifetimes, now);

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
      want: { kind: 'Rest', until: 120 },
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
      want: { kind: 'Rest', until: 610 },
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
      want: { kind: 'Rest', until: 900 },
    },
    {
      when: 'the old authority has ended',
      issued: { authorities: [authority(0), authority(600)], serving: serving(890, { issuer: 1 }) },
      now: 900,
      want: { kind: 'DropAuthority', authority: 0 },
    },
    {
      when: 'nobody was there for so long that all has ended',
      issued: { authorities: [authority(0)], serving: serving(0) },
      now: 5_000,
      want: { kind: 'DropAuthority', authority: 0 },
    },
  ])('$when', ({ issued, now, want }) => {
    expect(step(issued, now)).toEqual(want);
  });

  test('a serving certificate does not outlive its authority', () => {
    expect(servingValidity(authority(0), lifetimes, 500)).toEqual({ notBefore: 500, notAfter: 530 });
    expect(servingValidity(authority(0), lifetimes, 890)).toEqual({ notBefore: 890, notAfter: 900 });
  });

  test('begins before it is issued, for clocks that are behind', () => {
    const skewed = { ...lifetimes, skewMs: 5 };
    expect(authorityValidity(skewed, 100)).toEqual({ notBefore: 95, notAfter: 1_000 });
    expect(servingValidity(authority(0), skewed, 100)).toEqual({ notBefore: 95, notAfter: 130 });
  });

  test('whenever one looks, some steps lead to rest with a certificate that is valid and of a trusted authority', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 2_000 }), { maxLength: 30 }), (pauses) => {
        let issued: Issued = { authorities: [], serving: undefined };
        let now = 0;
        for (const pause of pauses) {
          now += pause;
          issued = settled(issued, now);
          const issuer = issued.authorities[issued.serving?.issuer ?? -1];
          expect(issued.serving?.notAfter).toBeGreaterThan(now);
          expect(issuer?.notAfter).toBeGreaterThanOrEqual(issued.serving?.notAfter ?? 0);
        }
      }),
    );
  });
});

/** What the leader makes of it: steps until there is nothing left to do; more than five would be a loop. */
function settled(start: Issued, now: number): Issued {
  let issued = start;
  for (let steps = 0; steps < 6; steps++) {
    const next = step(issued, now);
    if (next.kind === 'Rest') return issued;
    issued = taken(issued, next, now);
  }
  throw new Error(`no rest at ${now}: ${JSON.stringify(issued)}`);
}

function taken(issued: Issued, next: Exclude<CertificateStep, { kind: 'Rest' }>, now: number): Issued {
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
      return { ...issued, authorities: [...authorities, authority(now)] };
    case 'IssueServing': {
      const validity = servingValidity(authorities[next.authority] as Validity, lifetimes, now);
      return { authorities, serving: { ...validity, issuer: next.authority, hosts } };
    }
  }
}
