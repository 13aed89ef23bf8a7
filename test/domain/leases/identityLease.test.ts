import { describe, expect, test } from '@jest/globals';
import type { Lease } from '../../../api/core.ts';
import {
  hostnameLabel,
  isCollectable,
  isExpired,
  isTakenOver,
  processOf,
  renewIntervalSecondsOf,
  startIdOf,
  temporalIdentity,
} from '../../../domain/leases/identityLease.ts';

const now = new Date('2026-01-02T12:00:00Z');
const lease = (spec: Lease['spec'], creationTimestamp = '2026-01-01T00:00:00Z'): Lease => ({
  metadata: { name: 'l', creationTimestamp },
  spec: { holderIdentity: 'holder', ...spec },
});

describe('an identity Lease has expired', () => {
  test.each<{ when: string; lease: Lease; expired: boolean }>([
    {
      when: 'renewed an hour ago',
      lease: lease({ renewTime: '2026-01-02T11:00:00.000000Z', leaseDurationSeconds: 3600 }),
      expired: false,
    },
    {
      when: 'renewed more than an hour ago',
      lease: lease({ renewTime: '2026-01-02T10:59:59.999000Z', leaseDurationSeconds: 3600 }),
      expired: true,
    },
    {
      when: 'of a shorter duration, which is over',
      lease: lease({ renewTime: '2026-01-02T11:59:00.000000Z', leaseDurationSeconds: 40 }),
      expired: true,
    },
    {
      when: 'without a duration: the default applies',
      lease: lease({ renewTime: '2026-01-02T11:30:00.000000Z' }),
      expired: false,
    },
    {
      when: 'renewed a little ahead of the clock',
      lease: lease({ renewTime: '2026-01-02T12:00:30.000000Z', leaseDurationSeconds: 1 }),
      expired: false,
    },
    {
      when: 'renewed in the year 9999',
      lease: lease({ renewTime: '9999-01-01T00:00:00.000000Z', leaseDurationSeconds: 3600 }),
      expired: false,
    },
    { when: 'empty, created by a user a day ago', lease: lease({}), expired: true },
    { when: 'empty, created by a user just now', lease: lease({}, '2026-01-02T11:59:59Z'), expired: false },
    { when: 'with an invalid renewTime', lease: lease({ renewTime: 'soon' }), expired: true },
    { when: 'without renewTime and creationTimestamp', lease: lease({}, ''), expired: false },
  ])('$when: $expired', ({ lease: identity, expired }) => {
    expect(isExpired(identity, now)).toBe(expired);
  });
});

describe('an identity Lease may be collected', () => {
  const old = '2026-01-01T00:00:00Z';
  const recent = '2026-01-02T11:59:59Z';
  test.each([
    { when: 'it has expired', renewTime: '2026-01-02T10:00:00Z', created: old, missed: 0, may: true },
    { when: 'it has not expired', renewTime: '2026-01-02T11:30:00Z', created: old, missed: 100, may: false },
    {
      when: 'it is a little ahead',
      renewTime: '2026-01-02T12:00:59Z',
      created: old,
      missed: 100,
      may: false,
    },
    {
      when: 'it is far ahead, first observed now',
      renewTime: '2026-01-02T12:05:00Z',
      created: old,
      missed: 0,
      may: false,
    },
    {
      when: 'it is far ahead, and renewed',
      renewTime: '2026-01-02T12:05:00Z',
      created: old,
      missed: 5,
      may: false,
    },
    {
      when: 'it is far ahead, unchanged',
      renewTime: '2026-01-02T12:05:00Z',
      created: old,
      missed: 6,
      may: true,
    },
    {
      when: 'it is far ahead, unchanged, and new',
      renewTime: '9999-01-01T00:00:00Z',
      created: recent,
      missed: 6,
      may: false,
    },
  ])('when $when: $may', ({ renewTime, created, missed, may }) => {
    expect(isCollectable(lease({ renewTime }, created), { now, unchangedForMs: missed * 10_000 })).toBe(may);
  });
});

test.each([
  { says: '60', want: 60 },
  { says: '3600', want: 3_600 },
  { says: '3601', want: 10 },
  { says: '0', want: 10 },
  { says: 'often', want: 10 },
  { says: undefined, want: 10 },
])('a Lease that says $says is renewed every $want seconds', ({ says, want }) => {
  const { metadata, spec } = lease({});
  const annotations = says === undefined ? {} : { 'nodemaintenance.k8s.io/renew-interval-seconds': says };
  expect(renewIntervalSecondsOf({ metadata: { ...metadata, annotations }, spec })).toBe(want);
});

test.each([
  { holderIdentity: 'me', taken: false },
  { holderIdentity: 'another', taken: true },
  { holderIdentity: '', taken: false },
])('a Lease held by "$holderIdentity" was taken over from "me": $taken', ({ holderIdentity, taken }) => {
  expect(isTakenOver(lease({ holderIdentity }), 'me')).toBe(taken);
});

test.each([
  { hostname: 'worker-7f9c-x2', label: 'worker-7f9c-x2' },
  { hostname: 'node_1.example.com', label: 'node_1.example.com' },
  { hostname: "Ada's Mac.local", label: 'Ada-s-Mac.local' },
  { hostname: '../..', label: '' },
  { hostname: 'knöpfe', label: 'kn-pfe' },
  { hostname: `${'a'.repeat(62)}.example.com`, label: 'a'.repeat(62) },
  { hostname: 'b'.repeat(64), label: 'b'.repeat(63) },
])('the label for host $hostname is "$label"', ({ hostname, label }) => {
  expect(hostnameLabel(hostname)).toBe(label);
});

describe('the identities of a process', () => {
  const uuid = '0f8fad5b-d9cb-469f-a165-70867728950e';

  test('in Temporal and in Leases show its start', () => {
    const identity = temporalIdentity('17@host-1', uuid);
    expect(identity).toBe('17@host-1_0f8fad5b');
    expect(startIdOf(identity)).toBe('0f8fad5b');
    expect(startIdOf(`node-maintenance-worker-0a1b_${uuid}`)).toBe('0f8fad5b');
    expect(processOf(identity)).toBe('17@host-1');
  });

  test.each(['', '17@host', 'jane@laptop', uuid, `17@host_${uuid}x`, `17@host_${uuid.toUpperCase()}`])(
    'of something else do not: "%s"',
    (identity) => {
      expect(startIdOf(identity)).toBeUndefined();
      expect(processOf(identity)).toBe(identity);
    },
  );
});
