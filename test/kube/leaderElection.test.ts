import type { Lease } from '../../api/core.ts';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { FencedKube, Kube } from '../../kube/client.ts';
import { runWhenLeader } from '../../kube/leaderElection.ts';
import { LeaseObserver } from '../../kube/leaseObserver.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { UnreliableApiserver } from '../chaos/unreliableApiserver.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { withMembers } from '../kit/withMembers.ts';
import { connect, dropNamespace, eventually, freshNamespace, recordedLog } from './fixtures.ts';
import { UnreliableNetwork } from './unreliableNetwork.ts';

let sandbox: Sandbox;
let kube: Kube;
let namespace: string;
const name = 'elected';
const configMaps: Resource = {
  group: '',
  version: 'v1',
  plural: 'configmaps',
  kind: 'ConfigMap',
  namespaced: true,
};
/** Long enough that a busy machine renews in time. */
const short = { leaseDurationSeconds: 4, renewDeadlineSeconds: 2.7, retryPeriodSeconds: 0.3 };

beforeAll(async () => {
  sandbox = await testSandbox();
  kube = connect(sandbox.kubeconfig);
});

beforeEach(async () => {
  namespace = await freshNamespace(kube, 'leader');
});

afterEach(() => dropNamespace(kube, namespace));

afterAll(async () => {
  await kube?.close();
  await releaseSandbox(sandbox);
});

/** Creates candidates that record when they lead; `maxLeaders` is the maximum number at the same time. */
function contest() {
  const timeline: string[] = [];
  let leading = 0;
  const observed = { maxLeaders: 0 };
  const candidate = (identity: string, client: Kube = kube, periods = short) => {
    const stop = new AbortController();
    const log = recordedLog();
    const options = { kube: client, name, namespace, identity, ...periods, log, signal: stop.signal };
    const done = runWhenLeader(options, async (signal) => {
      timeline.push(`${identity} leads`);
      observed.maxLeaders = Math.max(observed.maxLeaders, ++leading);
      await untilAborted(signal);
      leading--;
      timeline.push(`${identity} ends`);
    });
    return { done, log, stop: () => stop.abort() };
  };
  const eventuallyHappened = (line: string) =>
    eventually(line, () => (timeline.includes(line) ? undefined : `${timeline}`));
  return { timeline, observed, candidate, eventuallyHappened };
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** Counts the requests of a client by verb. */
function counted() {
  const counts = new Map<string, number>();
  return {
    onRequest: ({ verb }: { verb: string }) => void counts.set(verb, (counts.get(verb) ?? 0) + 1),
    of: (verb: string) => counts.get(verb) ?? 0,
  };
}

/** Returns a client of which one method is replaced; the replacement can call it. */
function intercepted(
  client: Kube,
  method: 'list' | 'mergePatch',
  replacement: (original: () => Promise<unknown>) => Promise<unknown>,
): Kube {
  const original = client[method].bind(client) as (...args: unknown[]) => Promise<unknown>;
  const replaced = (...args: unknown[]) => replacement(() => original(...args));
  return withMembers(client, { [method]: replaced } as Partial<Kube>);
}

const leaseNow = () => kube.get(resources.leases, { namespace, name });

test('one of two candidates leads; when it stops, the other leads immediately', async () => {
  const { candidate, eventuallyHappened, timeline, observed } = contest();
  const first = candidate('first');
  await eventuallyHappened('first leads');
  // Without the watch it would try again only after five minutes, longer than the test waits.
  const slow = { leaseDurationSeconds: 600, renewDeadlineSeconds: 400, retryPeriodSeconds: 300 };
  const asked = new Set<string>();
  const waiting = connect(sandbox.kubeconfig, { onRequest: ({ verb }) => asked.add(verb) });
  const second = candidate('second', waiting, slow);
  await eventually('the second to wait', () =>
    asked.has('get') && asked.has('watch') ? undefined : [...asked].join(),
  );
  first.stop();
  await first.done;
  await eventuallyHappened('second leads');
  expect(timeline).toEqual(['first leads', 'first ends', 'second leads']);
  expect((await leaseNow())?.spec).toMatchObject({ holderIdentity: 'second', leaseDurationSeconds: 600 });
  second.stop();
  await second.done;
  await waiting.close();
  expect(observed.maxLeaders).toBe(1);
  expect((await leaseNow())?.spec).toMatchObject({
    holderIdentity: '',
    leaseDurationSeconds: 1,
    leaseTransitions: 1,
  });
});

test('a holder that does not renew a Lease of decades is logged once', async () => {
  const spec = { holderIdentity: 'x', leaseDurationSeconds: 2_147_483_647 };
  await kube.create(resources.leases, { metadata: { namespace, name }, spec });
  const { candidate } = contest();
  const periods = { leaseDurationSeconds: 0.7, renewDeadlineSeconds: 0.6, retryPeriodSeconds: 0.1 };
  let reads = 0;
  const client = connect(sandbox.kubeconfig, { onRequest: ({ verb }) => (reads += verb === 'get' ? 1 : 0) });
  const { done, log, stop } = candidate('heir', client, periods);
  await eventually('the log line', () => (log.lines.length > 0 ? undefined : 'nothing was logged'));
  const before = reads;
  await eventually('more reads', () => (reads > before + 3 ? undefined : `${reads - before}`));
  stop();
  await done;
  await client.close();
  expect(log.lines).toEqual([
    {
      level: 'warn',
      message: 'Lease has not been renewed for a long time: delete it if its holder no longer exists',
      fields: {
        lease: `${namespace}/${name}`,
        identity: 'heir',
        holder: 'x',
        freeInSeconds: expect.any(Number),
      },
    },
  ]);
});

test('a leader that loses the apiserver stops before another one leads, and may lead again later', async () => {
  const { network, kubeconfig, close } = await UnreliableNetwork.before(sandbox.kubeconfig);
  const far = connect(kubeconfig);
  const { candidate, eventuallyHappened, timeline, observed } = contest();
  const first = candidate('first', far);
  await eventuallyHappened('first leads');
  const second = candidate('second');
  network.down();
  await eventuallyHappened('second leads');
  expect(timeline).toEqual(['first leads', 'first ends', 'second leads']);
  network.up();
  second.stop();
  await second.done;
  await eventually('first to lead again', () => (timeline.length >= 5 ? undefined : `${timeline}`));
  // On a busy machine it may lose it again.
  expect(timeline.slice(3, 5)).toEqual(['second ends', 'first leads']);
  first.stop();
  await first.done;
  expect(observed.maxLeaders).toBe(1);
  await far.close();
  await close();
});

test('a leader whose requests are throttled stops before another one leads', async () => {
  const { candidate, eventuallyHappened, observed } = contest();
  const { apiserver, kubeconfig, close } = await UnreliableApiserver.before(sandbox.kubeconfig);
  const throttled = connect(kubeconfig);
  const leader = candidate('throttled', throttled);
  await eventuallyHappened('throttled leads');
  const other = candidate('other');
  apiserver.begin('CutWatches');
  apiserver.begin('Answer429');
  await eventuallyHappened('throttled ends');
  await eventuallyHappened('other leads');
  expect(observed.maxLeaders).toBe(1);
  for (const { stop } of [leader, other]) stop();
  await Promise.all([leader.done, other.done]);
  await throttled.close();
  await close();
});

test('a leader without a response stops at its deadline', async () => {
  const { network, kubeconfig, close } = await UnreliableNetwork.before(sandbox.kubeconfig);
  const far = connect(kubeconfig);
  const { candidate, eventuallyHappened, timeline, observed } = contest();
  const first = candidate('first', far);
  await eventuallyHappened('first leads');
  network.swallow();
  network.freeze();
  const second = candidate('second');
  await eventuallyHappened('second leads');
  expect(timeline).toEqual(['first leads', 'first ends', 'second leads']);
  first.stop();
  second.stop();
  await Promise.all([first.done, second.done]);
  expect(observed.maxLeaders).toBe(1);
  await far.close();
  await close();
});

describe('a leader whose Lease', () => {
  // Without the watch it would notice only after minutes, longer than the test waits.
  const slow = { leaseDurationSeconds: 600, renewDeadlineSeconds: 400, retryPeriodSeconds: 300 };

  test.each([
    {
      what: 'is deleted',
      change: async (lease: Lease) =>
        void (await kube.delete(resources.leases, { namespace, name }, { uid: lease.metadata.uid ?? '' })),
    },
    { what: 'is cleared', change: () => withHolder('') },
    { what: 'is given to another holder', change: () => withHolder('second') },
  ])('$what stops at once', async ({ change }) => {
    const { candidate, eventuallyHappened, timeline, observed } = contest();
    const first = candidate('first', kube, slow);
    await eventuallyHappened('first leads');
    const lease = await leaseNow();
    if (lease === undefined) throw new Error('a leader has a Lease');
    await change(lease);
    await eventuallyHappened('first ends');
    const second = candidate('second');
    await eventuallyHappened('second leads');
    expect(timeline).toEqual(['first leads', 'first ends', 'second leads']);
    expect(observed.maxLeaders).toBe(1);
    first.stop();
    second.stop();
    await Promise.all([first.done, second.done]);
  });

  async function withHolder(holderIdentity: string): Promise<void> {
    await kube.mergePatch(resources.leases, { namespace, name }, { spec: { holderIdentity } });
  }

  test('is deleted between two renewals does not take it back', async () => {
    const { candidate, eventuallyHappened, timeline } = contest();
    // It renews so often that the renewal finds the Lease gone before the watch reports it.
    const first = candidate('first', kube, { ...short, retryPeriodSeconds: 0.01 });
    await eventuallyHappened('first leads');
    const { uid = '' } = (await leaseNow())?.metadata ?? {};
    await kube.delete(resources.leases, { namespace, name }, { uid });
    await eventuallyHappened('first ends');
    expect(timeline.slice(0, 2)).toEqual(['first leads', 'first ends']);
    first.stop();
    await first.done;
  });
});

test('a dead leader is replaced when its Lease has expired', async () => {
  const spec = { holderIdentity: 'dead', leaseDurationSeconds: 2, leaseTransitions: 3 };
  await kube.create(resources.leases, { metadata: { namespace, name }, spec });
  const { candidate, eventuallyHappened } = contest();
  const started = performance.now();
  const heir = candidate('heir');
  await eventuallyHappened('heir leads');
  expect(performance.now() - started).toBeGreaterThanOrEqual(2_000 - 50);
  expect((await leaseNow())?.spec.leaseTransitions).toBe(4);
  heir.stop();
  await heir.done;
});

test('a candidate that has observed a dead leader while it started leads with its first attempt', async () => {
  const spec = { holderIdentity: 'dead', leaseDurationSeconds: 2, leaseTransitions: 3 };
  await kube.create(resources.leases, { metadata: { namespace, name }, spec });
  const stop = new AbortController();
  const log = recordedLog();
  const observer = new LeaseObserver({ kube, namespace, name, log, signal: stop.signal });
  const silentForMs = () => performance.now() - (observer.current?.changedAtMs ?? Infinity);
  await eventually('the Lease to have been observed for its duration', () =>
    silentForMs() > 2_000 ? undefined : `${silentForMs()} ms`,
  );
  const requests = counted();
  const client = connect(sandbox.kubeconfig, requests);
  const options = { kube: client, name, namespace, identity: 'heir', ...short, log, signal: stop.signal };
  await runWhenLeader({ ...options, observer }, async () => {
    expect(requests.of('get')).toBe(1);
    expect((await leaseNow())?.spec.holderIdentity).toBe('heir');
  });
  stop.abort();
  await client.close();
});

test('a leader renews with one request, and a candidate that sees the renewals sends none', async () => {
  const { candidate, eventuallyHappened, timeline } = contest();
  const [ofFirst, ofSecond] = [counted(), counted()];
  const clients = [connect(sandbox.kubeconfig, ofFirst), connect(sandbox.kubeconfig, ofSecond)] as const;
  // So long that a slow machine renews in time.
  const periods = { leaseDurationSeconds: 60, renewDeadlineSeconds: 40, retryPeriodSeconds: 0.15 };
  const first = candidate('first', clients[0], periods);
  await eventuallyHappened('first leads');
  const second = candidate('second', clients[1], periods);
  const renewals = 20;
  await eventually(`${renewals} renewals`, () =>
    ofFirst.of('patch') >= renewals ? undefined : `${ofFirst.of('patch')}`,
  );
  // A busy machine may delay a few of them.
  expect(ofFirst.of('get')).toBeLessThan(renewals / 4);
  expect(ofSecond.of('get')).toBeLessThan(renewals / 4);
  expect(ofSecond.of('patch')).toBe(0);
  expect(timeline).toEqual(['first leads']);
  first.stop();
  second.stop();
  await Promise.all([first.done, second.done]);
  await Promise.all(clients.map((client) => client.close()));
});

test('a candidate whose watch fails leads once the Lease is released or has expired', async () => {
  const { candidate, eventuallyHappened, timeline } = contest();
  const blind = intercepted(kube, 'list', () => Promise.reject(new Error('no list, no watch')));
  const first = candidate('first');
  await eventuallyHappened('first leads');
  const second = candidate('second', blind);
  first.stop();
  await first.done;
  await eventuallyHappened('second leads');
  expect(timeline).toEqual(['first leads', 'first ends', 'second leads']);
  second.stop();
  await second.done;
});

test('a renewal that succeeded before the Lease was cleared gives no write to the leader when its response is late', async () => {
  const stop = new AbortController();
  const log = recordedLog();
  const isLost = () => log.lines.some(({ message }) => message === 'Leadership was lost');
  const late = intercepted(kube, 'mergePatch', async (patch) => {
    const renewed = await patch();
    if (isLost()) return renewed;
    await kube.mergePatch(resources.leases, { namespace, name }, { spec: { holderIdentity: '' } });
    await eventually('the loss', () => (isLost() ? undefined : 'none'));
    return renewed;
  });
  const options = { kube: late, name, namespace, identity: 'first', ...short, log, signal: stop.signal };
  const written = Promise.withResolvers<unknown>();
  const write = (fenced: FencedKube) => fenced.create(configMaps, { metadata: { name: 'late', namespace } });
  const done = runWhenLeader(options, async (leading, fenced) => {
    await untilAborted(leading);
    // Until the response has arrived and the renewal has ended.
    for (let attempt = 0; attempt < 20; attempt++) await new Promise((resolve) => setTimeout(resolve, 10));
    written.resolve(await write(fenced).catch((error: unknown) => error));
    stop.abort();
  });
  expect(String(await written.promise)).toContain('was lost');
  await done;
  expect(await kube.get(configMaps, { namespace, name: 'late' })).toBeUndefined();
});

test('an error of the leader is logged, the Lease is released, and it leads again', async () => {
  const stop = new AbortController();
  const log = recordedLog();
  let runs = 0;
  const options = { kube, name, namespace, identity: 'only', ...short, log, signal: stop.signal };
  await runWhenLeader(options, async () => {
    runs++;
    if (runs === 1) throw new Error('the first run failed');
  });
  expect(runs).toBe(2);
  expect(log.lines).toContainEqual({
    level: 'error',
    message: 'Leader failed',
    fields: { lease: `${namespace}/${name}`, identity: 'only', error: 'the first run failed' },
  });
});

describe('a leader that was stopped for longer than its lease duration, and resumes', () => {
  const program = fileURLToPath(new URL('leader.ts', import.meta.url));
  const children: ChildProcess[] = [];

  afterEach(() => {
    for (const child of children.splice(0)) child.kill('SIGKILL');
  });

  function candidate(identity: string) {
    const env = { ...process.env, NODE_OPTIONS: '' };
    const args = [program, sandbox.kubeconfig, namespace, identity];
    const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
    children.push(child);
    const exited = once(child, 'exit');
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
    });
    const eventuallyLogged = (line: string, times = 1) =>
      eventually(`${identity} to log: ${line}`, () =>
        output.split(line).length > times ? undefined : `${identity} output ${output}`,
      );
    return {
      output: () => output.trim().split('\n'),
      eventuallyLogged,
      signal: (sent: NodeJS.Signals) => child.kill(sent),
      exited,
    };
  }

  /** Returns the creators of the ConfigMaps, in the order in which the apiserver stored them. */
  async function writers(): Promise<string[]> {
    const { items } = await kube.list(configMaps, { namespace });
    return items
      .toSorted(({ metadata: a }, { metadata: b }) => Number(a.resourceVersion) - Number(b.resourceVersion))
      .flatMap(({ metadata: { generateName } }) => generateName?.replace(/-$/, '') ?? []);
  }

  const hasWritten = (identity: string, least: number) =>
    eventually(`${least} writes of ${identity}`, async () => {
      const count = (await writers()).filter((writer) => writer === identity).length;
      return count >= least ? undefined : `${count}`;
    });

  test('writes nothing once another leads, except the request in flight when it was stopped; its work ends, and it can lead again later', async () => {
    const first = candidate('first');
    await hasWritten('first', 20);
    const second = candidate('second');
    await second.eventuallyLogged('Kubernetes client configured');
    first.signal('SIGSTOP');
    await hasWritten('second', 20);
    first.signal('SIGCONT');
    await first.eventuallyLogged('The work has ended');
    second.signal('SIGTERM');
    expect(await second.exited).toEqual([0, null]);
    const before = (await writers()).filter((writer) => writer === 'first').length;
    await first.eventuallyLogged('Leadership was acquired', 2);
    await hasWritten('first', before + 1);
    first.signal('SIGTERM');
    expect(await first.exited).toEqual([0, null]);
    const all = await writers();
    const [start, end] = [all.indexOf('second'), all.lastIndexOf('second')];
    // The process may be stopped between the clock check and the system call.
    expect(all.slice(start, end).filter((writer) => writer === 'first').length).toBeLessThanOrEqual(1);
    expect([all[0], all.at(-1)]).toEqual(['first', 'first']);
    const timeline = first.output().filter((line) => /^(Leadership|The work) /.test(line));
    // On a slow machine it also loses the Lease at other times, and may release it after that.
    const lost =
      'Leadership was acquired, Leadership was lost, The work has ended(, Leadership was released)?, ';
    const last = 'Leadership was acquired, The work has ended, Leadership was released';
    expect(timeline.join(', ')).toMatch(new RegExp(`^(${lost})+${last}$`));
  });
});

test('periods that would permit two leaders are rejected', async () => {
  const options = { kube, name, namespace, identity: 'odd', log: recordedLog(), signal: AbortSignal.abort() };
  await expect(
    runWhenLeader({ ...options, renewDeadlineSeconds: 10 }, async () => undefined),
  ).rejects.toThrow('retryPeriodSeconds < renewDeadlineSeconds < leaseDurationSeconds');
});
