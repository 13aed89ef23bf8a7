import { describe, expect, test } from '@jest/globals';
import type { Lease } from '../../api/core.ts';
import { leaseProblemChangesAt, leaseProblemOf } from '../../domain/leases/abandoned.ts';
import {
  administratorHoldOf,
  decideAdministratorAcquisition,
  decideAdministratorRelease,
} from '../../domain/leases/administrator.ts';
import {
  hostnameLabel,
  isCollectable,
  isExpired,
  isTakenOver,
  processOf as processOfIdentity,
  renewIntervalSecondsOf,
  startIdOf,
} from '../../domain/leases/identityLease.ts';
import {
  decideAcquisition,
  isHeldBy,
  isRenewalDue,
  leaseClientProblem,
  leaseStateOf,
  otherHolderOf,
} from '../../domain/leases/lease.ts';
import { heldManifestsOf, nodeAgentOf } from '../../domain/leases/nodeAgent.ts';
import { heldByAnother, waitingMessage } from '../../domain/leases/nodeLease.ts';
import { leaderOf, processOf } from '../../domain/leases/processSummary.ts';
import { summaryOf } from '../../domain/leases/summary.ts';
import { expectReadable, fuzz } from './kit/fuzz.ts';
import { mutationsOf, textsLike } from './kit/mutations.ts';
import fc from 'fast-check';

/**
 * Any client may write a Lease. The apiserver stores only texts and integers in its spec, in their fields, and texts in its annotations: whatever
 * else a mutation made is left out here as it is there.
 */

const now = Date.parse('2026-01-01T12:00:00Z');
const at = new Date(now);

const samples: Lease[] = [
  {
    metadata: {
      name: 'node-1',
      creationTimestamp: '2026-01-01T00:00:00Z',
      labels: { 'k8s.io/component': 'node-agent', 'kubernetes.io/hostname': 'h' },
      annotations: {
        'nodemaintenance.k8s.io/renew-interval-seconds': '10',
        'nodemaintenance.k8s.io/version': '1.2.3',
        'nodemaintenance.k8s.io/capabilities': 'reboot,static-pods',
        'nodemaintenance.k8s.io/held-static-pods': '2',
        'nodemaintenance.k8s.io/hostname': 'h',
        'nodemaintenance.k8s.io/eviction-api': 'auto',
      },
    },
    spec: {
      holderIdentity: 'node-maintenance',
      leaseDurationSeconds: 900,
      acquireTime: '2026-01-01T11:00:00.000000Z',
      renewTime: '2026-01-01T11:59:00.000000Z',
      leaseTransitions: 3,
    },
  },
  {
    metadata: { name: 'node-1' },
    spec: {
      holderIdentity: 'kubeadm:jane@host: a new disk',
      leaseDurationSeconds: 3600,
      renewTime: '2020-01-01T00:00:00Z',
    },
  },
];

const int32 = (value: unknown) =>
  Number.isInteger(value) && Math.abs(value as number) < 2 ** 31 ? (value as number) : undefined;
const text = (value: unknown) => (typeof value === 'string' ? value : undefined);
/** A time is stored in the form of RFC 3339 with a year of four digits. */
const time = (value: unknown) =>
  typeof value === 'string' && /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z$/.test(value)
    ? value
    : undefined;

function texts(value: unknown): Record<string, string> {
  const entries = typeof value === 'object' && value !== null ? Object.entries(value) : [];
  return Object.fromEntries(
    entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
}

/** Returns the Lease that an apiserver would store. */
function stored(value: unknown): Lease {
  const { metadata, spec } = (value ?? {}) as {
    metadata?: Record<string, unknown>;
    spec?: Record<string, unknown>;
  };
  const defined = (fields: object) =>
    Object.fromEntries(Object.entries(fields).filter(([, one]) => one !== undefined));
  return {
    metadata: {
      name: 'node-1',
      labels: texts(metadata?.['labels']),
      annotations: texts(metadata?.['annotations']),
      ...defined({ creationTimestamp: time(metadata?.['creationTimestamp']) }),
    },
    spec: defined({
      holderIdentity: text(spec?.['holderIdentity']),
      leaseDurationSeconds: int32(spec?.['leaseDurationSeconds']),
      acquireTime: time(spec?.['acquireTime']),
      renewTime: time(spec?.['renewTime']),
      leaseTransitions: int32(spec?.['leaseTransitions']),
    }) as Lease['spec'],
  };
}

const leases = mutationsOf(samples).map(stored);

describe('any Lease', () => {
  test('is held by one client at most, and its state is the same to all', () =>
    fuzz(
      leases,
      (lease) => {
        const { holderIdentity: holder = '' } = lease.spec;
        const state = leaseStateOf(lease, now);
        if (state.kind === 'Held') expect(Number.isFinite(state.until)).toBe(true);
        expect(isHeldBy(lease, 'another client', now)).toBe(
          holder === 'another client' && isHeldBy(lease, holder, now),
        );
        isRenewalDue(lease, holder, now);
        const other = otherHolderOf(lease, 'another client', now);
        const decision = decideAcquisition(
          lease,
          { holder: 'another client', leaseDurationSeconds: 900 },
          now,
        );
        expect(decision.kind === 'HeldByAnother').toBe(other !== undefined);
        if (decision.kind !== 'HeldByAnother') {
          expect(decision.term.acquireTime.toISOString()).toMatch(/Z$/);
          expect(Number.isSafeInteger(decision.term.leaseTransitions)).toBe(true);
        }
      },
      100,
    ));

  test('is described by readable texts', () =>
    fuzz(
      leases,
      (lease) => {
        const problem = leaseProblemOf(lease, now);
        if (problem !== undefined) expectReadable(problem.message);
        const changesAt = leaseProblemChangesAt(lease, now);
        if (changesAt !== undefined) expect(changesAt).toBeGreaterThan(now);
        const { holderIdentity: holder = '' } = lease.spec;
        expectReadable(waitingMessage({ name: 'node-1', because: heldByAnother(holder) }));
        const { problem: shown, expireTime } = summaryOf('node-1', lease, now);
        if (shown !== undefined) expectReadable(shown.message);
        if (expireTime !== undefined) expect(new Date(expireTime).toISOString()).toBe(expireTime);
      },
      150,
    ));

  test('is acquired and released by administrators, or names its holder', () =>
    fuzz(
      leases,
      (lease) => {
        const hold = { user: 'jane', host: 'h', reason: 'disk' };
        for (const force of [false, true]) {
          const acquisition = decideAdministratorAcquisition(lease, hold, { force, now });
          if (force) expect(acquisition.kind).toBe('Acquire');
          if (acquisition.kind === 'Acquire') {
            expect(acquisition.term.acquireTime.toISOString()).toMatch(/Z$/);
            expect(Number.isSafeInteger(acquisition.term.leaseTransitions)).toBe(true);
          }
          const release = decideAdministratorRelease(lease, hold, { force, now });
          if (force) expect(release.kind).not.toBe('HeldByAnother');
        }
      },
      100,
    ));

  test('is the identity of a process that lives, or not', () =>
    fuzz(
      leases,
      (lease) => {
        expect(renewIntervalSecondsOf(lease)).toBeGreaterThan(0);
        expect(renewIntervalSecondsOf(lease)).toBeLessThanOrEqual(3_600);
        if (isExpired(lease, at)) expect(isCollectable(lease, { now: at, unchangedForMs: 0 })).toBe(true);
        isTakenOver(lease, 'me');
        leaderOf(lease, at);
        expect(['Live', 'Stale', 'Expired']).toContain(processOf(lease, 'me', at).state);
        const agent = nodeAgentOf(lease, at);
        if (agent.kind === 'Live') expectReadable(agent.version, { max: 63 });
        expect(heldManifestsOf(lease)).toBeGreaterThanOrEqual(0);
        expect(Number.isSafeInteger(heldManifestsOf(lease))).toBe(true);
      },
      150,
    ));
});

test('any text is the identity of a holder, or none', () =>
  fuzz(
    textsLike([
      'kubeadm:jane@host: a new disk',
      '17@host_0a1b2c3d',
      'host_0a1b2c3d-0000-4000-8000-000000000000',
    ]),
    (identity) => {
      const hold = administratorHoldOf(identity);
      if (hold !== undefined) expect(`kubeadm:${hold.user}@${hold.host}: ${hold.reason}`).toBe(identity);
      expect(startIdOf(identity) ?? '00000000').toMatch(/^[0-9a-f]{8}$/);
      expect(identity.startsWith(processOfIdentity(identity))).toBe(true);
      expect(hostnameLabel(identity)).toMatch(/^(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/);
    },
    400,
  ));

test('any client is accepted, or its problem names the field', () =>
  fuzz(
    fc.tuple(textsLike(['node-maintenance', 'kubeadm:x']), fc.oneof(fc.double(), fc.integer())),
    ([holder, leaseDurationSeconds]) => {
      const problem = leaseClientProblem({ holder, leaseDurationSeconds });
      if (problem === undefined) return;
      expect(problem).toMatch(/^(?:holder|leaseDurationSeconds): /);
      expectReadable(problem);
    },
  ));
