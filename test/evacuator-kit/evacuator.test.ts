import type { Pod } from '../../api/core.ts';
import type { Evacuation, EvacuationStatus } from '../../api/evacuation.ts';
import { Evacuator } from '../../evacuator-kit/evacuator.ts';
import type { EvacuatePod } from '../../evacuator-kit/protocol.ts';
import { EvacuationStopped, type Progress, StopReason } from '../../evacuator-kit/progress.ts';
import { EvacuationSession } from '../../evacuator-kit/session.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { silentLog, testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually, throughout } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

// The tests activate the evacuator, in place of the evacuation controller.

const longAgo = '2024-04-22T21:40:32Z';

let sandbox: Sandbox;
let c: TestCluster;
let node: string;
let stop: (() => Promise<void>) | undefined;
/** Unique for every test, so that a test does not act on the Evacuations of another one. */
let evacuatorClass = 'test.example.com';
let serial = 0;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'kit' });
  node = await c.nodeNamed('n');
});

beforeEach(() => {
  serial += 1;
  evacuatorClass = `test-${serial}.example.com`;
  c.requests.clear();
});

afterEach(async () => {
  await stop?.();
  stop = undefined;
});

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

function startEvacuator(evacuate: EvacuatePod, maxConcurrent?: number): void {
  const running = new AbortController();
  const evacuator = new Evacuator({
    evacuatorClass,
    evacuate,
    view: c.cluster,
    log: silentLog,
    maxConcurrent,
  });
  const ended = evacuator.run(running.signal);
  stop = async () => {
    running.abort();
    await ended;
  };
}

/** Creates an Evacuation of the pod with our class active. */
async function activated(pod: Pod, differs: Partial<EvacuationStatus> = {}): Promise<Evacuation> {
  const evacuation = await c.applied(c.evacuation(pod));
  return c.withStatus(evacuation, {
    activeEvacuatorClass: evacuatorClass,
    activeEvacuatorCompleted: false,
    evacuationProgressTimestamp: longAgo,
    message: 'Waiting',
    ...differs,
  });
}

async function statusOf(pod: Pod): Promise<EvacuationStatus> {
  const status = (await c.evacuationOf(pod))?.status;
  expect(status).toBeDefined();
  return status as EvacuationStatus;
}

async function eventuallyStatus(pod: Pod, status: object): Promise<void> {
  await eventually(`the status of the Evacuation of ${pod.metadata.name}`, async () =>
    expect(await statusOf(pod)).toMatchObject(status),
  );
}

/** Creates a function that runs until its signal aborts, and records its calls. */
function untilAborted(before: (progress: Progress) => void | Promise<void> = () => undefined) {
  const record = { calls: 0, reasons: [] as unknown[] };
  const evacuate: EvacuatePod = async (_pod, _evacuation, progress) => {
    record.calls += 1;
    await before(progress);
    await new Promise((resolve) => {
      progress.signal.addEventListener('abort', resolve);
    });
    const { reason } = progress.signal;
    record.reasons.push(reason instanceof EvacuationStopped ? reason.reason : reason);
  };
  return { record, evacuate };
}

const patches = () => c.requests.count('patch evacuations.evacuation.coordination.k8s.io');

describe('an evacuator', () => {
  test('is called with the full pod when its class is active, and has completed when it returns', async () => {
    const pod = await c.podOn(node);
    const calls: unknown[] = [];
    startEvacuator(async ({ metadata, spec }, { status }) => {
      calls.push({ uid: metadata.uid, containers: spec['containers'], message: status?.message });
      return 'All data copied';
    });
    await activated(pod);
    await eventuallyStatus(pod, {
      activeEvacuatorCompleted: true,
      message: 'All data copied',
      evacuationProgressTimestamp: longAgo,
    });
    const containers = [expect.objectContaining({ image: 'fake' })];
    expect(calls).toEqual([{ uid: pod.metadata.uid, containers, message: 'Waiting' }]);
  });

  test('responds for a function that reports nothing, without extending its deadline', async () => {
    const { record, evacuate } = untilAborted();
    startEvacuator(evacuate);
    const pod = await c.podOn(node);
    await activated(pod, {
      activeEvacuatorSince: longAgo,
      message: `Waiting for ${evacuatorClass} to respond; next: the eviction API.`,
    });
    await eventuallyStatus(pod, {
      message: `${evacuatorClass} has started`,
      evacuationProgressTimestamp: longAgo,
    });
    expect(record.calls).toBe(1);
  });

  test('is not called when another class is active, it has completed or the Evacuation is cancelled, nor for a terminating pod', async () => {
    const called: string[] = [];
    startEvacuator(async ({ metadata }) => void called.push(metadata.name));
    await activated(await c.podOn(node), { activeEvacuatorClass: 'other.example.com' });
    await activated(await c.podOn(node), { activeEvacuatorCompleted: true });
    const terminating = await c.podOn(node, { finalizers: ['example.com/held'] });
    await c.deleted(terminating);
    await activated(terminating);
    const cancelled = await c.applied(c.evacuation(await c.podOn(node)));
    await c.deleted(cancelled);
    await eventually('the cancellation in the informer', () => {
      const key = `${c.namespace}/${cancelled.metadata.name}`;
      expect(c.cluster.evacuations.get(key)?.metadata.deletionTimestamp).toBeDefined();
    });
    await c.withStatus(cancelled, { activeEvacuatorClass: evacuatorClass });
    const last = await c.podOn(node);
    await activated(last);
    await eventuallyStatus(last, { activeEvacuatorCompleted: true });
    expect(called).toEqual([last.metadata.name]);
  });

  test('reports progress by the clock of the apiserver, at most once a second, including the last report', async () => {
    const pod = await c.podOn(node);
    const expectedFinishTime = new Date('2030-01-01T00:00:00Z');
    const reported = Promise.withResolvers<void>();
    let reportedForMs = 0;
    const { evacuate } = untilAborted();
    startEvacuator(async (live, evacuation, progress) => {
      const startedAt = performance.now();
      for (let step = 1; performance.now() - startedAt < 1_500; step++) {
        progress.report({ message: `Step ${step}`, expectedFinishTime });
        await new Promise((resolve) => {
          setImmediate(resolve);
        });
      }
      progress.report({ message: 'The last step' });
      reportedForMs = performance.now() - startedAt;
      reported.resolve();
      await evacuate(live, evacuation, progress);
    });
    await activated(pod);
    await reported.promise;
    await eventuallyStatus(pod, {
      message: 'The last step',
      expectedEvacuationFinishTime: expectedFinishTime.toISOString(),
      activeEvacuatorCompleted: false,
    });
    const { evacuationProgressTimestamp = '' } = await statusOf(pod);
    const reportedAt = Date.parse(evacuationProgressTimestamp);
    expect(Math.abs(reportedAt - c.cluster.kube.now().getTime())).toBeLessThan(60_000);
    // The first report, one a second, and the last.
    expect(patches()).toBeLessThanOrEqual(2 + Math.floor(reportedForMs / 1_000));
  });

  test('does not extend the deadline by itself, nor by a note', async () => {
    const pod = await c.podOn(node);
    const { evacuate } = untilAborted((progress) => progress.reportWaiting('Waiting for the other side'));
    startEvacuator(evacuate);
    await activated(pod);
    await eventuallyStatus(pod, { message: 'Waiting for the other side' });
    // Counted when it is answered, which may be after the status shows it.
    await eventually('the note to be counted', () => expect(patches()).toBe(1));
    await throughout('the timestamp is unchanged', 1_500, async () =>
      expect((await statusOf(pod)).evacuationProgressTimestamp).toBe(longAgo),
    );
    expect(patches()).toBe(1);
  });

  test('that throws is called again while its class is active, and the Evacuation reports the error', async () => {
    const pod = await c.podOn(node);
    let calls = 0;
    startEvacuator(async () => {
      calls += 1;
      if (calls === 1) throw new Error('the disk\nis full');
    });
    await activated(pod);
    await eventuallyStatus(pod, {
      activeEvacuatorCompleted: false,
      evacuationProgressTimestamp: longAgo,
      message: `${evacuatorClass} failed and will be called again: the disk is full`,
    });
    await eventuallyStatus(pod, { activeEvacuatorCompleted: true });
    expect(calls).toBe(2);
  });

  test('evacuates at most maxConcurrent pods in parallel', async () => {
    const pods = await c.podsOn(node, 5);
    let running = 0;
    let most = 0;
    startEvacuator(async () => {
      running += 1;
      most = Math.max(most, running);
      await new Promise((resolve) => {
        setTimeout(resolve, 50);
      });
      running -= 1;
    }, 2);
    for (const pod of pods) await activated(pod);
    for (const pod of pods) await eventuallyStatus(pod, { activeEvacuatorCompleted: true });
    expect(most).toBeLessThanOrEqual(2);
  });

  test('is called again when its class becomes active again', async () => {
    const pod = await c.podOn(node);
    let calls = 0;
    startEvacuator(async () => void (calls += 1));
    const evacuation = await activated(pod, { activeEvacuatorSince: longAgo });
    await eventuallyStatus(pod, { activeEvacuatorCompleted: true });
    const activeEvacuatorSince = c.cluster.kube.now().toISOString();
    await c.withStatus(evacuation, { activeEvacuatorCompleted: false, activeEvacuatorSince });
    await eventuallyStatus(pod, { activeEvacuatorCompleted: true });
    expect(calls).toBe(2);
  });

  test('whose last message the apiserver rejects has failed, and the Evacuation reports it', async () => {
    const pod = await c.podOn(node);
    startEvacuator(async () => 7 as unknown as string);
    await activated(pod);
    await eventuallyStatus(pod, {
      activeEvacuatorCompleted: false,
      message: expect.stringMatching(/failed and will be called again: .*status\.message/),
    });
  });

  test.each([
    { when: 'an invalid Date', time: new Date(Number.NaN) },
    { when: 'too late to be stored', time: new Date('+010000-01-01T00:00:00Z') },
  ])('reports without a finish time when it is $when', async ({ time }) => {
    const pod = await c.podOn(node);
    const { evacuate } = untilAborted((progress) =>
      progress.report({ message: 'Started', expectedFinishTime: time }),
    );
    startEvacuator(evacuate);
    await activated(pod);
    await eventuallyStatus(pod, { message: 'Started' });
    expect((await statusOf(pod)).expectedEvacuationFinishTime).toBeUndefined();
  });

  test('is called again after a restart, with its previous status', async () => {
    const pod = await c.podOn(node);
    const first = untilAborted((progress) => progress.report({ message: 'Half of it is done' }));
    startEvacuator(first.evacuate);
    await activated(pod);
    await eventuallyStatus(pod, { message: 'Half of it is done' });
    await stop?.();
    expect(first.record.reasons).toEqual([StopReason.ShuttingDown]);
    await eventually('the informer to show the report', () => {
      const shown = c.cluster.evacuations.list().find(({ spec }) => spec.podRef.uid === pod.metadata.uid);
      expect(shown?.status?.message).toBe('Half of it is done');
    });
    const messages: unknown[] = [];
    startEvacuator(async (_pod, { status }) => void messages.push(status?.message));
    await eventuallyStatus(pod, { activeEvacuatorCompleted: true });
    expect(messages).toEqual(['Half of it is done']);
  });

  test.each(['Upper.example.com', 'under_score', '', '-dash', 'a'.repeat(55)])(
    'cannot have the class "%s"',
    (name) => {
      const options = { evacuate: async () => undefined, view: c.cluster, log: silentLog };
      expect(() => new Evacuator({ ...options, evacuatorClass: name })).toThrow(`evacuatorClass "${name}"`);
    },
  );
});

describe('the signal of an evacuator aborts with the reason', () => {
  async function started(pod: Pod, before?: (progress: Progress) => void | Promise<void>) {
    const { evacuate, record } = untilAborted(before);
    startEvacuator(evacuate);
    const evacuation = await activated(pod);
    await eventually('the evacuator to be called', () => expect(record.calls).toBe(1));
    return { evacuation, record };
  }

  test('Cancelled: the Evacuation was deleted', async () => {
    const { evacuation, record } = await started(await c.podOn(node));
    await c.deleted(evacuation);
    await eventually('the signal', () => expect(record.reasons).toEqual([StopReason.Cancelled]));
    expect(patches()).toBe(0);
  });

  test('DeadlineExceeded: the next evacuator is active, and reports of this one are not written any more', async () => {
    const pod = await c.podOn(node);
    let late: Progress | undefined;
    const { evacuation, record } = await started(pod, (progress) => {
      late = progress;
    });
    await c.withStatus(evacuation, { activeEvacuatorClass: 'next.example.com', message: 'Next' });
    await eventually('the signal', () => expect(record.reasons).toEqual([StopReason.DeadlineExceeded]));
    late?.report({ message: 'Too late' });
    await expect(late?.forbidCancellation()).rejects.toThrow('DeadlineExceeded');
    await throughout('the message of the next one is kept', 1_200, async () =>
      expect((await statusOf(pod)).message).toBe('Next'),
    );
  });

  test('and the call is abandoned when it does not end, so that other pods are evacuated', async () => {
    const [stuck, other] = [await c.podOn(node), await c.podOn(node)];
    const called: string[] = [];
    const end = Promise.withResolvers<void>();
    startEvacuator(async ({ metadata }) => {
      called.push(metadata.name);
      if (metadata.uid === stuck.metadata.uid) await end.promise;
    }, 1);
    const evacuation = await activated(stuck);
    await eventually('the evacuator to be called', () => expect(called).toEqual([stuck.metadata.name]));
    await activated(other);
    await c.withStatus(evacuation, { activeEvacuatorClass: 'next.example.com' });
    await eventuallyStatus(other, { activeEvacuatorCompleted: true });
    end.resolve();
  });

  test('PodGone: the pod no longer exists', async () => {
    const pod = await c.podOn(node);
    const { record } = await started(pod);
    await c.deleted(pod);
    await eventually('the signal', () => expect(record.reasons).toEqual([StopReason.PodGone]));
  });
});

describe('an evacuator that forbids cancellation', () => {
  test('blocks the deletion of its Evacuation until it allows cancellation again', async () => {
    const pod = await c.podOn(node);
    const past = Promise.withResolvers<void>();
    startEvacuator(async (_pod, _evacuation, progress) => {
      await progress.forbidCancellation();
      await past.promise;
      await progress.allowCancellation();
      return 'Past it';
    });
    const evacuation = await activated(pod);
    await eventuallyStatus(pod, { evacuationCancellationPolicy: 'Forbid' });
    await expect(c.deleted(evacuation)).rejects.toThrow('evacuationCancellationPolicy is Forbid');
    past.resolve();
    await eventuallyStatus(pod, { activeEvacuatorCompleted: true, evacuationCancellationPolicy: 'Allow' });
  });

  test('continues when its Evacuation is deleted anyway, also after a restart', async () => {
    const pod = await c.podOn(node);
    const evacuation = await c.applied(c.evacuation(pod));
    await c.deleted(evacuation);
    await c.withStatus(evacuation, {
      activeEvacuatorClass: evacuatorClass,
      evacuationCancellationPolicy: 'Forbid',
    });
    const first = untilAborted((progress) => progress.reportWaiting('Continuing'));
    startEvacuator(first.evacuate);
    await eventuallyStatus(pod, { message: 'Continuing' });
    await stop?.();
    expect(first.record.reasons).toEqual([StopReason.ShuttingDown]);
    startEvacuator(async () => 'Done');
    await eventuallyStatus(pod, { activeEvacuatorCompleted: true });
  });

  test('gets an error when the Evacuation is already cancelled', async () => {
    const pod = await c.podOn(node);
    const evacuation = await activated(pod);
    const session = new EvacuationSession({
      kube: c.cluster.kube,
      evacuation,
      evacuatorClass,
      log: silentLog,
    });
    await c.deleted(evacuation);
    await expect(session.forbidCancellation()).rejects.toThrow('the evacuation was cancelled or handed over');
    expect((await statusOf(pod)).evacuationCancellationPolicy).toBeUndefined();
  });
});

describe('an evacuator that is no longer active and has not observed it yet', () => {
  test.each([
    { when: 'that was replaced by the next evacuator', status: { activeEvacuatorClass: 'next.example.com' } },
    { when: 'that was replaced by the eviction API', status: { activeEvacuatorClass: null } },
  ])('$when overwrites nothing', async ({ status }) => {
    const pod = await c.podOn(node);
    const evacuation = await activated(pod);
    const session = new EvacuationSession({
      kube: c.cluster.kube,
      evacuation,
      evacuatorClass,
      log: silentLog,
    });
    await c.withStatus(evacuation, { ...status, message: 'Next' });
    expect(await session.complete('Too late')).toBeUndefined();
    expect(await statusOf(pod)).toMatchObject({ message: 'Next', activeEvacuatorCompleted: false });
  });

  test('of a previous Evacuation of the same name overwrites nothing', async () => {
    const pod = await c.podOn(node);
    const previous = await activated(pod);
    const session = new EvacuationSession({
      kube: c.cluster.kube,
      evacuation: previous,
      evacuatorClass,
      log: silentLog,
    });
    await c.patched(resources.evacuations, previous.metadata as { name: string }, {
      metadata: { finalizers: [] },
    });
    await c.deleted(previous);
    await activated(pod);
    expect(await session.fail('Too late')).toBeUndefined();
    expect(await statusOf(pod)).toMatchObject({ message: 'Waiting' });
  });
});
