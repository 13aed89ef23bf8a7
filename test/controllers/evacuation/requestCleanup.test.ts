import type { Pod } from '../../../api/core.ts';
import type { EvictionRequest } from '../../../api/lifecycle.ts';
import { MAINTENANCE_REQUESTER } from '../../../api/names.ts';
import { EvictionRequestCleanup } from '../../../controllers/evacuation/requestCleanup.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { evictionRequestFor, pods } from '../../kit/builders.ts';
import { silentLog, testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually, throughout } from '../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
const running = new AbortController();
let ended: Promise<void>;
const ends: string[] = [];

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'requestcleanup' });
  c.cluster.lifecycle.use();
  await c.cluster.lifecycle.synced();
  const cleanup = new EvictionRequestCleanup({
    cluster: c.cluster,
    log: silentLog,
    onEnd: (end) => ends.push(end),
  });
  ended = cleanup.run(running.signal);
});

afterAll(async () => {
  running.abort();
  await ended;
  await c?.close();
  await releaseSandbox(sandbox);
});

async function requested(
  pod: Pod,
  differs: Partial<Pick<EvictionRequest['spec'], 'requester' | 'intent'>> = {},
): Promise<EvictionRequest> {
  const request = { name: c.named('er'), requester: MAINTENANCE_REQUESTER, ...differs };
  return c.admin.create(resources.evictionRequests, evictionRequestFor(pod, request));
}

const current = ({ metadata: { namespace, name } }: EvictionRequest) =>
  c.admin.get(resources.evictionRequests, { namespace, name });

const eventuallyDeleted = (request: EvictionRequest) =>
  eventually('the EvictionRequest to be deleted', async () => expect(await current(request)).toBeUndefined());

/** A pod on a node that a maintenance drains. */
async function drainedPod(): Promise<Pod> {
  const node = await c.nodeNamed('n');
  await c.applied(c.maintenance({ nodes: [node], stage: 'Drain', drainPlan: [pods(1000)] }));
  return c.podOn(node);
}

test('an EvictionRequest goes with its pod', async () => {
  const pod = await drainedPod();
  const request = await requested(pod);
  await throughout('it stays', 500, async () =>
    expect((await current(request))?.spec.intent).toBe('Eviction'),
  );
  ends.length = 0;
  await c.podsDeleted([pod]);
  await eventuallyDeleted(request);
  await eventually('its end to be counted', () => expect(ends).toEqual(['Gone']));
});

test('an EvictionRequest that changes while it is deleted is counted once', async () => {
  const pod = await drainedPod();
  const request = await requested(pod);
  const { namespace, name } = request.metadata;
  ends.length = 0;
  const labelled = (value: string) =>
    c.admin.mergePatch(resources.evictionRequests, { namespace, name }, { metadata: { labels: { value } } });
  const changes = Array.from({ length: 20 }, (_, i) => labelled(`v${i}`).catch(() => undefined));
  await Promise.all([c.podsDeleted([pod]), ...changes]);
  await eventuallyDeleted(request);
  await eventually('its end to be counted', () => expect(ends).toHaveLength(1));
  await throughout('it is counted once', 500, () => expect(ends).toHaveLength(1));
});

test('one that names a pod that never existed is deleted, and no namesake of the pod is touched', async () => {
  const pod = await drainedPod();
  const request = await requested({ ...pod, metadata: { ...pod.metadata, uid: crypto.randomUUID() } });
  await eventuallyDeleted(request);
  expect(c.podsOf(pod.spec.nodeName ?? '').map(({ metadata }) => metadata.uid)).toEqual([pod.metadata.uid]);
});

test('one that was withdrawn is deleted', async () => {
  const pod = await drainedPod();
  await eventuallyDeleted(await requested(pod, { intent: 'Withdrawn' }));
});

test('one of a pod with an Evacuation is withdrawn: nothing leaves by both', async () => {
  const pod = await drainedPod();
  const request = await requested(pod);
  await c.applied(c.evacuation(pod));
  await eventuallyDeleted(request);
  expect(await c.evacuationOf(pod)).toBeDefined();
});

test('an Evacuation in another namespace that names the UID of its pod changes nothing', async () => {
  const pod = await drainedPod();
  const request = await requested(pod);
  const namespace = await c.namespaceNamed(c.named('tenant'));
  const forged = c.evacuation(pod);
  await c.applied({ ...forged, metadata: { ...forged.metadata, namespace } });
  await throughout('the request stays', 500, async () =>
    expect((await current(request))?.spec.intent).toBe('Eviction'),
  );
});

test('those of other requesters stay', async () => {
  const pod = await drainedPod();
  const request = await requested(pod, { requester: 'example.com/descheduler', intent: 'Withdrawn' });
  await throughout('it stays', 500, async () => expect(await current(request)).toBeDefined());
  await c.podsDeleted([pod]);
  await throughout('it stays without its pod', 500, async () => expect(await current(request)).toBeDefined());
});
