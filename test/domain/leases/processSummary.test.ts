import { describe, expect, test } from '@jest/globals';
import type { Lease } from '../../../api/core.ts';
import {
  evictionApiOf,
  leaderlessSince,
  leaderOf,
  processOf,
  registrationOf,
} from '../../../domain/leases/processSummary.ts';

const now = new Date('2026-01-01T12:00:00Z');
const at = (seconds: number) => new Date(now.getTime() + seconds * 1_000).toISOString().replace('Z', '000Z');

const identity = (renewedSecondsAgo: number, differs: Record<string, string> = {}): Lease => ({
  metadata: {
    name: 'node-maintenance-worker-2f0c',
    labels: { 'k8s.io/component': 'node-maintenance-worker', 'kubernetes.io/hostname': 'host-1' },
    annotations: {
      'nodemaintenance.k8s.io/version': '0.1.0',
      'nodemaintenance.k8s.io/temporal-identity': '17@host-1',
      'nodemaintenance.k8s.io/temporal-namespace': 'default',
      'nodemaintenance.k8s.io/task-queue': 'node-maintenance',
      ...differs,
    },
  },
  spec: { holderIdentity: 'w_1', leaseDurationSeconds: 3_600, renewTime: at(-renewedSecondsAgo) },
});
const election = (holderIdentity: string, renewedSecondsAgo = 2): Lease => ({
  metadata: { name: 'node-maintenance-controllers' },
  spec: { holderIdentity, leaseDurationSeconds: 8, renewTime: at(-renewedSecondsAgo) },
});

test('a hostname that is no valid label value is read from the annotation', () => {
  const lease = identity(1, { 'nodemaintenance.k8s.io/hostname': "Ada's Mac" });
  expect(processOf(lease, undefined, now).host).toBe("Ada's Mac");
});

test('a process is summarized from its identity Lease', () => {
  expect(processOf(identity(10), undefined, now)).toEqual({
    component: 'node-maintenance-worker',
    host: 'host-1',
    holder: 'w_1',
    state: 'Live',
    leader: false,
    renewTime: at(-10),
    version: '0.1.0',
    temporal: { identity: '17@host-1', namespace: 'default', taskQueue: 'node-maintenance' },
  });
});

test.each([
  { renewTime: at(-30), state: 'Live' },
  { renewTime: at(-31), state: 'Stale' },
  { renewTime: at(-3_601), state: 'Expired' },
  { renewTime: '9999-12-31T23:59:59.999999Z', state: 'Stale' },
])('renewed at $renewTime it is $state at 12:00', ({ renewTime, state }) => {
  const lease = identity(0);
  const renewed = { ...lease, spec: { ...lease.spec, renewTime } };
  expect(processOf(renewed, undefined, now).state).toBe(state);
});

test.each([
  { every: '60', ago: 180, state: 'Live' },
  { every: '60', ago: 181, state: 'Stale' },
  { every: '1', ago: 4, state: 'Stale' },
  { every: 'often', ago: 30, state: 'Live' },
  { every: '-1', ago: 31, state: 'Stale' },
  { every: '1e9', ago: 31, state: 'Stale' },
])('renewed $ago s ago, with an interval of $every s, it is $state', ({ every, ago, state }) => {
  const lease = identity(ago, { 'nodemaintenance.k8s.io/renew-interval-seconds': every });
  expect(processOf(lease, undefined, now).state).toBe(state);
});

describe('the leader', () => {
  test.each([
    { when: 'is this process', holder: 'w_1', leader: true },
    { when: 'is another process, of the same host and the same pid', holder: 'w_2', leader: false },
    { when: 'is unknown', holder: '', leader: false },
    {
      when: 'was this process, and the election Lease has expired',
      holder: 'w_1',
      renewed: 9,
      leader: false,
    },
  ])('$when', ({ holder, renewed, leader }) => {
    const leading = leaderOf(election(holder, renewed), now);
    expect(processOf(identity(1), leading, now).leader).toBe(leader);
  });

  test.each([
    { when: 'has no Lease', of: undefined, named: undefined },
    { when: 'leads', of: election('w_1'), named: 'w_1' },
    { when: 'released its Lease', of: election(''), named: undefined },
    { when: 'stopped renewing', of: election('w_1', 9), named: undefined },
    {
      when: 'was set by a user',
      of: { metadata: { name: 'y' }, spec: { holderIdentity: 'me' } },
      named: undefined,
    },
  ])('that $when is $named', ({ of, named }) => {
    expect(leaderOf(of, now)).toBe(named);
  });
});

describe('nobody leads', () => {
  test.each([
    { when: 'a process leads', of: [election('w_1')], since: undefined },
    { when: 'another may still take over', of: [election('w_1', 9)], since: undefined },
    { when: 'the leader has ended', of: [election('w_1', 60)], since: 52 },
    { when: 'the leader has released its Lease', of: [election('', 60)], since: 52 },
    {
      when: 'another installation was removed',
      of: [election('w_1', 600), election('w_1')],
      since: undefined,
    },
    { when: 'the namespace of the installation is unknown', of: [], since: undefined },
  ])('$when', ({ of, since }) => {
    const expected = since === undefined ? undefined : new Date(now.getTime() - since * 1_000);
    expect(leaderlessSince(of, now)).toEqual(expected);
  });

  test.each([
    { what: 'was never renewed', spec: {} },
    { what: 'lasts for years', spec: { renewTime: at(-60), leaseDurationSeconds: 2_147_483_647 } },
    { what: 'is renewed in the future', spec: { renewTime: at(3_600), leaseDurationSeconds: 8 } },
    { what: 'has no valid time', spec: { renewTime: 'soon', leaseDurationSeconds: 8 } },
  ])('a Lease of a user that $what hides nothing', ({ spec }) => {
    const foreign = { metadata: { name: 'node-maintenance-controllers' }, spec };
    expect(leaderlessSince([foreign], now)).toBeUndefined();
    expect(leaderlessSince([foreign, election('w_1', 60)], now)).toEqual(new Date(now.getTime() - 52_000));
  });
});

test('a Lease created by a user is summarized without the missing fields', () => {
  expect(processOf({ metadata: { name: 'x' }, spec: {} }, undefined, now)).toEqual({
    component: '',
    host: '',
    holder: '',
    state: 'Stale',
    leader: false,
  });
});

describe('how workers register the evacuator of Deployments', () => {
  const says = (deploymentRegistration: string | undefined, holder: string, renewedSecondsAgo = 1) => {
    const lease = identity(renewedSecondsAgo, {
      ...(deploymentRegistration !== undefined && {
        'nodemaintenance.k8s.io/deployment-registration': deploymentRegistration,
      }),
    });
    return processOf({ ...lease, spec: { ...lease.spec, holderIdentity: holder } }, 'leader', now);
  };
  test.each([
    { when: 'no worker runs', all: [], want: undefined },
    { when: 'all agree', all: [says('automatic', 'a'), says('automatic', 'b')], want: 'automatic' },
    { when: 'they disagree', all: [says('automatic', 'a'), says('annotated', 'b')], want: undefined },
    {
      when: 'the leader decides',
      all: [says('automatic', 'a'), says('annotated', 'leader')],
      want: 'annotated',
    },
    {
      when: 'the leader does not say',
      all: [says('automatic', 'a'), says(undefined, 'leader')],
      want: undefined,
    },
    { when: 'it says something else', all: [says('always', 'a')], want: undefined },
    {
      when: 'one no longer runs',
      all: [says('automatic', 'a'), says('annotated', 'b', 4_000)],
      want: 'automatic',
    },
  ])('when $when', ({ all, want }) => {
    expect(registrationOf(all)).toBe(want);
  });
});

test('the API by which workers drain is that of the leader, Evacuations unless it says so, and unknown if they disagree', () => {
  const says = (api: string | undefined, holder: string) => {
    const lease = identity(1, { ...(api !== undefined && { 'nodemaintenance.k8s.io/eviction-api': api }) });
    return processOf({ ...lease, spec: { ...lease.spec, holderIdentity: holder } }, 'leader', now);
  };
  expect(evictionApiOf([says('auto', 'leader'), says(undefined, 'b')])).toBe('auto');
  expect(evictionApiOf([says(undefined, 'a'), says(undefined, 'b')])).toBe('evacuation');
  expect(evictionApiOf([says('auto', 'a'), says('lifecycle', 'b')])).toBeUndefined();
  expect(evictionApiOf([])).toBeUndefined();
});
