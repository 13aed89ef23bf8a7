import { createHash } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { Lease } from '../../api/core.ts';
import { Component, IdentityAnnotation } from '../../api/names.ts';
import type { Kube } from '../../kube/client.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { IdentityLease, type IdentityOptions } from '../../worker/identity.ts';
import { eventually, throughout } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { withMembers } from '../kit/withMembers.ts';
import { connect, dropNamespace, freshNamespace, type LogRecorder, recordedLog } from '../kube/fixtures.ts';

// Tests KEP-1965 > Test Plan for the processes of this project; test/e2e/identity.slow.test.ts tests real processes.

let sandbox: Sandbox;
let kube: Kube;
let namespace: string;
let log: LogRecorder;
const stop = new Set<() => Promise<void>>();

function secondsSinceRenewal({ renewedAtSeconds }: IdentityLease): number {
  return kube.now().getTime() / 1_000 - renewedAtSeconds;
}

beforeAll(async () => {
  sandbox = await testSandbox();
  kube = connect(sandbox.kubeconfig);
});

beforeEach(async () => {
  namespace = await freshNamespace(kube, 'identity');
  log = recordedLog();
});

afterEach(async () => {
  for (const end of stop) await end();
  stop.clear();
  await dropNamespace(kube, namespace);
});

afterAll(async () => {
  await kube?.close();
  await releaseSandbox(sandbox);
});

const process = (differs: Partial<IdentityOptions> = {}) =>
  new IdentityLease({
    kube,
    namespace,
    component: Component.Worker,
    host: 'host-a',
    renewEverySeconds: 0.2,
    collectEverySeconds: 0.2,
    log,
    ...differs,
  });

/** Publishes and renews the Lease, and deletes expired ones, until the returned function is called. */
async function start(identity: IdentityLease): Promise<() => Promise<void>> {
  const ended = new AbortController();
  await identity.publish();
  const running = identity.run(ended.signal);
  const end = async () => {
    ended.abort();
    await running;
  };
  stop.add(end);
  return end;
}

const nameOf = (component: string, text: string) =>
  `${component}-${createHash('sha256').update(text).digest('hex')}`;
const leaseNamed = (name: string) => kube.get(resources.leases, { namespace, name });
const leases = async () => (await kube.list(resources.leases, { namespace })).items;
const holders = async () => (await leases()).map(({ spec }) => spec.holderIdentity ?? '').toSorted();
const createLease = (name: string, spec: Lease['spec'], labels: Record<string, string>) =>
  kube.create(resources.leases, { metadata: { name, namespace, labels }, spec });

describe('a process', () => {
  test('publishes its identity and host, with all fields set', async () => {
    const identity = process({ annotations: { 'example.com/fact': 'one' } });
    await identity.publish();
    const name = nameOf('node-maintenance-worker', 'host-a');
    const lease = await leaseNamed(name);
    expect(lease?.metadata.labels).toEqual({
      'k8s.io/component': 'node-maintenance-worker',
      'kubernetes.io/hostname': 'host-a',
    });
    expect(lease?.metadata.annotations).toEqual({
      'example.com/fact': 'one',
      'nodemaintenance.k8s.io/renew-interval-seconds': '0.2',
    });
    const time = expect.stringMatching(/^20\d\d-.*\.\d{6}Z$/);
    expect(lease?.spec).toEqual({
      holderIdentity: expect.stringMatching(new RegExp(`^${name}_[-0-9a-f]{36}$`)),
      leaseDurationSeconds: 3600,
      acquireTime: time,
      renewTime: time,
      leaseTransitions: 0,
    });
    expect(secondsSinceRenewal(identity)).toBeLessThan(60);
  });

  test('with a hostname that is too long for a label has it in an annotation', async () => {
    const host = `${'h'.repeat(63)}.example.com`;
    await process({ host }).publish();
    const lease = await leaseNamed(nameOf('node-maintenance-worker', host));
    expect(lease?.metadata.labels?.['kubernetes.io/hostname']).toBe('h'.repeat(63));
    expect(lease?.metadata.annotations?.['nodemaintenance.k8s.io/hostname']).toBe(host);
  });

  test('that restarts takes over the Lease of its predecessor at once, with a new holder', async () => {
    const before = process();
    await before.publish();
    const after = process();
    await after.publish();
    expect(after.holder).not.toBe(before.holder);
    const [lease, ...others] = await leases();
    expect(others).toEqual([]);
    expect(lease?.spec).toMatchObject({ holderIdentity: after.holder, leaseTransitions: 1 });
  });

  test('removes what its predecessor said of itself, and keeps what others have written', async () => {
    const { EvictionApi, TaskQueue } = IdentityAnnotation;
    const before = process({ annotations: { [EvictionApi]: 'lifecycle', [TaskQueue]: 'a' } });
    await before.publish();
    const [{ metadata } = { metadata: { name: '' } }] = (await kube.list(resources.leases, { namespace }))
      .items;
    await kube.mergePatch(
      resources.leases,
      { namespace, name: metadata.name },
      {
        metadata: { annotations: { 'example.com/note': 'kept' } },
      },
    );
    await process({ annotations: { [TaskQueue]: 'b' } }).publish();
    const after = await kube.get(resources.leases, { namespace, name: metadata.name });
    expect(after?.metadata.annotations).toMatchObject({ [TaskQueue]: 'b', 'example.com/note': 'kept' });
    expect(after?.metadata.annotations).not.toHaveProperty([EvictionApi]);
  });

  test('on the same host as another one has a Lease too, and neither takes over that of the other', async () => {
    const [first, second] = [process(), process()];
    await start(first);
    await start(second);
    const both = [first.holder, second.holder].toSorted();
    await eventually('both to be listed', async () => expect(await holders()).toEqual(both));
    await throughout('both have their Lease', 1_000, async () => expect(await holders()).toEqual(both));
    const [host, own] = await Promise.all([
      leaseNamed(nameOf('node-maintenance-worker', 'host-a')),
      leaseNamed(nameOf('node-maintenance-worker', `host-a${first.holder}`)),
    ]);
    expect(host?.spec).toMatchObject({ holderIdentity: second.holder, leaseTransitions: 1 });
    expect(own?.spec).toMatchObject({ holderIdentity: first.holder, leaseTransitions: 0 });
    expect(own?.metadata.labels).toEqual(host?.metadata.labels);
  });

  test('recreates its Lease after a user deleted it, and restores it after a user edited it', async () => {
    const identity = process();
    await start(identity);
    const name = nameOf('node-maintenance-worker', 'host-a');
    const uid = (await leaseNamed(name))?.metadata.uid ?? '';
    await kube.delete(resources.leases, { namespace, name }, { uid });
    await eventually('another Lease', async () => {
      const lease = await leaseNamed(name);
      expect(lease).toBeDefined();
      expect(lease?.metadata.uid).not.toBe(uid);
    });
    const nonsense = { leaseDurationSeconds: 1, acquireTime: null, leaseTransitions: null };
    const patch = { metadata: { labels: null }, spec: nonsense };
    await kube.mergePatch(resources.leases, { namespace, name }, patch);
    await eventually('all fields to be restored', async () => {
      const lease = await leaseNamed(name);
      expect(lease?.metadata.labels?.['k8s.io/component']).toBe('node-maintenance-worker');
      expect(lease?.spec).toMatchObject({ holderIdentity: identity.holder, leaseDurationSeconds: 3600 });
      expect(lease?.spec.acquireTime).toBeDefined();
    });
  });

  test('continues if it cannot renew, logs each reason once, and counts the failures', async () => {
    let isUnavailable = false;
    const guarded = kube.guardedBy(() => (isUnavailable ? 'the apiserver is unavailable' : undefined));
    const identity = process({ kube: guarded });
    await start(identity);
    isUnavailable = true;
    await eventually('some failures', () => expect(identity.errors).toBeGreaterThan(5));
    isUnavailable = false;
    await eventually('a renewal', () => expect(secondsSinceRenewal(identity)).toBeLessThan(1));
    const renewals = log.lines.filter(({ message }) => message === 'Identity Lease could not be renewed');
    expect(renewals).toHaveLength(1);
    expect(renewals[0]?.fields).toMatchObject({
      reason: expect.stringContaining('the apiserver is unavailable'),
    });
  });
});

describe('garbage collection', () => {
  const ours = { 'k8s.io/component': 'node-maintenance-worker' };
  const ofHostB = nameOf('node-maintenance-worker', 'host-b');
  const longAgo = '2026-01-01T00:00:00.000000Z';
  const renewedAt = async (renewTime: string) => {
    const patch = { spec: { renewTime } };
    return (await kube.mergePatch(resources.leases, { namespace, name: ofHostB }, patch)).metadata;
  };

  test('"garbage collecting a Lease that isn\'t refreshed"', async () => {
    const gone = process({ host: 'gone', component: Component.Admission, leaseDurationSeconds: 1 });
    const end = await start(gone);
    await end();
    await createLease('expired', { leaseDurationSeconds: 1 }, ours);
    await createLease(
      'other-component',
      { leaseDurationSeconds: 1 },
      { 'k8s.io/component': 'kube-apiserver' },
    );
    await createLease('unlabelled', { leaseDurationSeconds: 1 }, {});
    const identity = process();
    await start(identity);
    await eventually('the expired Leases to be deleted', async () =>
      expect((await leases()).map(({ metadata: { name } }) => name)).toEqual([
        nameOf('node-maintenance-worker', 'host-a'),
        'other-component',
        'unlabelled',
      ]),
    );
  });

  test('"not garbage collecting a Lease that is refreshed"', async () => {
    const refreshed = process({ host: 'host-b' });
    await refreshed.publish();
    const { uid } = await renewedAt(longAgo);
    await refreshed.publish();
    await process().collect();
    expect((await leaseNamed(ofHostB))?.metadata.uid).toBe(uid);
  });

  test('keeps a Lease that is renewed with times in the future, and deletes it when it is no longer renewed', async () => {
    const spec = { leaseDurationSeconds: 1, renewTime: '9999-12-31T23:59:59.999999Z' };
    const annotations = { 'nodemaintenance.k8s.io/renew-interval-seconds': '0.05' };
    for (const name of ['refreshed', 'not-refreshed'])
      await kube.create(resources.leases, { metadata: { name, namespace, labels: ours, annotations }, spec });
    const uid = (await leaseNamed('refreshed'))?.metadata.uid;
    const collector = process();
    const refresh = async () => {
      const patch = { metadata: { annotations: { 'example.com/at': String(performance.now()) } } };
      await kube.mergePatch(resources.leases, { namespace, name: 'refreshed' }, patch);
    };
    await eventually('the Lease that is not renewed to be deleted', async () => {
      await refresh();
      await collector.collect();
      expect(await leaseNamed('not-refreshed')).toBeUndefined();
    });
    expect((await leaseNamed('refreshed'))?.metadata.uid).toBe(uid);
    await eventually('the other Lease to be deleted', async () => {
      await collector.collect();
      expect(await leaseNamed('refreshed')).toBeUndefined();
    });
  });

  test('keeps a Lease that is renewed between the list and the deletion', async () => {
    const slow = process({ host: 'host-b' });
    await slow.publish();
    await renewedAt(longAgo);
    const collector = process({ kube: afterEachList(kube, () => slow.publish()) });
    await collector.collect();
    expect((await leaseNamed(ofHostB))?.spec.holderIdentity).toBe(slow.holder);
    expect(log.lines.filter(({ message }) => message === 'Expired identity Lease deleted')).toEqual([]);
  });
});

/** Returns a client that runs `act` after each of its lists. */
function afterEachList(client: Kube, act: () => Promise<void>): Kube {
  const list: Kube['list'] = async (...args) => {
    const listed = await client.list(...args);
    await act();
    return listed;
  };
  return withMembers(client, { list });
}
