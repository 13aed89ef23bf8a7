import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import type { Kube } from '../../kube/client.ts';
import { Informer } from '../../kube/informer.ts';
import { silentLog } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { connect, failureOf } from '../kube/fixtures.ts';
import { UnreliableApiserver } from './unreliableApiserver.ts';

let sandbox: Sandbox;
let proxy: Awaited<ReturnType<typeof UnreliableApiserver.before>>;
let direct: Kube;
let kube: Kube;
let serial = 0;

beforeAll(async () => {
  sandbox = await testSandbox();
  proxy = await UnreliableApiserver.before(sandbox.kubeconfig);
  direct = connect(sandbox.kubeconfig);
  kube = connect(proxy.kubeconfig);
});
afterEach(() => proxy.apiserver.end());
afterAll(async () => {
  for (const namespace of Array.from({ length: serial }, (_, index) => `chaos-proxy-${index + 1}`)) {
    const found = await direct.get(resources.namespaces, { name: namespace });
    if (found)
      await direct.delete(resources.namespaces, { name: namespace }, { uid: found.metadata.uid ?? '' });
  }
  await kube?.close();
  await direct?.close();
  await proxy?.close();
  await releaseSandbox(sandbox);
});

const nextName = () => `chaos-proxy-${(serial += 1)}`;
const created = (name: string) => kube.create(resources.namespaces, { metadata: { name } });
const exists = async (name: string) => (await direct.get(resources.namespaces, { name })) !== undefined;
const listed = () => kube.list(resources.namespaces, { timeoutMs: 1_000 });

describe('a proxy in front of an apiserver', () => {
  test('forwards reads, writes and watches', async () => {
    const [name, stop] = [nextName(), new AbortController()];
    const informer = new Informer({ kube, resource: resources.namespaces, log: silentLog });
    informer.start(stop.signal);
    await informer.synced();
    await created(name);
    await eventually('the namespace in the watch', () => expect(informer.get(name)).toBeDefined());
    proxy.apiserver.begin('CutWatches');
    const later = nextName();
    await created(later);
    await eventually('the next one in a new watch', () => expect(informer.get(later)).toBeDefined());
    stop.abort();
  });

  test.each([
    { fault: 'Answer401', kind: 'Unauthorized' },
    { fault: 'Answer409', kind: 'Conflict' },
    { fault: 'Answer500', kind: 'Unavailable' },
    { fault: 'Answer503', kind: 'Unavailable' },
  ] as const)('answers writes itself: $fault', async ({ fault, kind }) => {
    const name = nextName();
    proxy.apiserver.begin(fault);
    expect((await failureOf(created(name))).kind).toBe(kind);
    expect(await exists(name)).toBe(false);
  });

  test('presents an expired certificate, and a valid one again', async () => {
    await listed();
    proxy.apiserver.begin('ExpiredCertificate');
    expect(await failureOf(listed())).toMatchObject({
      kind: 'Unavailable',
      message: expect.stringContaining('certificate has expired'),
    });
    proxy.apiserver.end();
    await listed();
  });

  test('loses the answer of a request that was performed', async () => {
    const name = nextName();
    proxy.apiserver.begin('LoseAnswers');
    expect((await failureOf(created(name))).kind).toBe('Unavailable');
    await eventually('the namespace', async () => expect(await exists(name)).toBe(true));
  });

  test('ends answers in their middle', async () => {
    proxy.apiserver.begin('Truncate');
    expect((await failureOf(listed())).kind).toBe('Unavailable');
  });

  test('repeats a write, whose second answer arrives', async () => {
    const name = nextName();
    proxy.apiserver.begin('Repeat');
    expect((await failureOf(created(name))).kind).toBe('AlreadyExists');
  });

  test.each(['Refuse', 'Swallow', 'Freeze'] as const)('is not reachable, and is again: %s', async (fault) => {
    await listed();
    proxy.apiserver.begin(fault);
    // Only existing connections are frozen.
    if (fault !== 'Freeze') expect((await failureOf(listed())).kind).toBe('Unavailable');
    proxy.apiserver.end();
    await eventually('an answer', () => listed());
  });
});
