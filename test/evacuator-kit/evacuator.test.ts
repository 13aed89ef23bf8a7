import type { Pod } from '../../api/core.ts';
import type { Evacuation, EvacuationStatus } from '../../api/evacuation.ts';
import {
  type Evacuate,
  EvacuationStopped,
  Evacuator,
  type Progress,
  StopReason,
} from '../../evacuator-kit/index.ts';
import { Turn } from '../../evacuator-kit/turn.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { silentLog, testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually, throughout } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

// The evacuation controller gives turns; here the test does.

const longAgo = '2024-04-22T21:40:32Z';

let sandbox: Sandbox;
let c: TestCluster;
let node: string;
let stop: (() => Promise<void>) | undefined;
/** Another for every test: what one leaves behind is not the next one's. */
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

function started(evacuate: Evacuate, atOnce?: number): void {
  const running = new AbortController();
  const evacuator = new Evacuator({ evacuatorClass, evacuate, view: c.cluster, log: silentLog, atOnce });
  const ended = evacuator.run(running.signal);
  stop = async () => {
    running.abort();
    await ended;
  };
}

/** A pod whose evacuation is its class's turn. */
async function turnOf(pod: Pod, differs: Partial<EvacuationStatus> = {}): Promise<Evacuation> {
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

/** A function that runs until its signal aborts, and what became of it. */
function lasting(before: (progress: Progress) => void | Promise<void> = () => undefined) {
  const seen = { calls: 0, reasons: [] as unknown[] };
  const evacuate: Evacuate = async (_pod, _evacuation, progress) => {
    seen.calls += 1;
    await before(progress);
    await new Promise((resolve) => {
      progress.signal.addEventListener('abort', resolve);
    });
    const { reason } = progress.signal;
    seen.reasons.push(reason instanceof EvacuationStopped ? reason.reason : reason);
  };
  return { seen, evacuate };
}

const patches = () => c.requests.count('patch evacuations.evacuation.coordination.k8s.io');

describe('an evacuator', () => {
  test('is called with the whole pod when it is the turn of its class; its return completes the turn', async () => {
    const pod = await c.podOn(node);
    const calls: unknown[] = [];
    started(async ({ metadata, spec }, { status }) => {
      calls.push({ uid: metadata.uid, containers: spec['containers'], message: status?.message });
      return 'All data are elsewhere';
    });
    await turnOf(pod);
    await eventuallyStatus(pod, {
      activeEvacuatorCompleted: true,
      message: 'All data are elsewhere',
      evacuationProgressTimestamp: longAgo,
    });
    const containers = [expect.objectContaining({ image: 'fake' })];
    expect(calls).toEqual([{ uid: pod.metadata.uid, containers, message: 'Waiting' }]);
  });

  test('is not called when it is the turn of another class, is over, or is withdrawn, nor for a terminating pod', async () => {
    const called: string[] = [];
    started(async ({ metadata }) => void called.push(metadata.name));
    await turnOf(await c.podOn(node), { activeEvacuatorClass: 'other.example.com' });
    await turnOf(await c.podOn(node), { activeEvacuatorCompleted: true });
    const terminating = await c.podOn(node, { finalizers: ['example.com/held'] });
    await c.deleted(terminating);
    await turnOf(terminating);
    const withdrawn = await c.applied(c.evacuation(await c.podOn(node)));
    await c.deleted(withdrawn);
    await eventually('the withdrawal in the informer', () => {
      const key = `${c.namespace}/${withdrawn.metadata.name}`;
      expect(c.cluster.evacuations.get(key)?.metadata.deletionTimestamp).toBeDefined();
    });
    await c.withStatus(withdrawn, { activeEvacuatorClass: evacuatorClass });
    const last = await c.podOn(node);
    await turnOf(last);
    await eventuallyStatus(last, { activeEvacuatorCompleted: true });
    expect(called).toEqual([last.metadata.name]);
  });

  test('reports progress by the clock of the server, at most once a second, and always the last report', async () => {
    const pod = await c.podOn(node);
    const expectedFinishTime = new Date('2030-01-01T00:00:00Z');
    const reported = Promise.withResolvers<void>();
    const { evacuate } = lasting();
    started(async (live, evacuation, progress) => {
      const began = performance.now();
      for (let step = 1; performance.now() - began < 1_500; step++) {
        progress.report({ message: `Step ${step}`, expectedFinishTime });
        await new Promise((resolve) => {
          setImmediate(resolve);
        });
      }
      progress.report({ message: 'The last step' });
      reported.resolve();
      await evacuate(live, evacuation, progress);
    });
    await turnOf(pod);
    await reported.promise;
    await eventuallyStatus(pod, {
      message: 'The last step',
      expectedEvacuationFinishTime: expectedFinishTime.toISOString(),
      activeEvacuatorCompleted: false,
    });
    const { evacuationProgressTimestamp = '' } = await statusOf(pod);
    expect(Math.abs(Date.parse(evacuationProgressTimestamp) - c.cluster.kube.now().getTime())).toBeLessThan(
      10_000,
    );
    expect(patches()).toBeLessThanOrEqual(3);
  });

  test('never moves the timestamp by itself, nor by a note of what it waits for', async () => {
    const pod = await c.podOn(node);
    const { evacuate } = lasting((progress) => progress.note('Waiting for the other side'));
    started(evacuate);
    await turnOf(pod);
    await eventuallyStatus(pod, { message: 'Waiting for the other side' });
    await throughout('the timestamp stands', 1_500, async () =>
      expect((await statusOf(pod)).evacuationProgressTimestamp).toBe(longAgo),
    );
    expect(patches()).toBe(1);
  });

  test('that throws is called again while it is its turn, and the Evacuation says why', async () => {
    const pod = await c.podOn(node);
    let calls = 0;
    started(async () => {
      calls += 1;
      if (calls === 1) throw new Error('the disk\nis full');
    });
    await turnOf(pod);
    await eventuallyStatus(pod, {
      activeEvacuatorCompleted: false,
      evacuationProgressTimestamp: longAgo,
      message: `${evacuatorClass} failed, and is tried again: the disk is full`,
    });
    await eventuallyStatus(pod, { activeEvacuatorCompleted: true });
    expect(calls).toBe(2);
  });

  test('serves so many pods at once as it is told', async () => {
    const pods = await c.podsOn(node, 5);
    let running = 0;
    let most = 0;
    started(async () => {
      running += 1;
      most = Math.max(most, running);
      await new Promise((resolve) => {
        setTimeout(resolve, 50);
      });
      running -= 1;
    }, 2);
    for (const pod of pods) await turnOf(pod);
    for (const pod of pods) await eventuallyStatus(pod, { activeEvacuatorCompleted: true });
    expect(most).toBeLessThanOrEqual(2);
  });

  test('is called again when it is asked again', async () => {
    const pod = await c.podOn(node);
    let calls = 0;
    started(async () => void (calls += 1));
    const evacuation = await turnOf(pod, { activeEvacuatorSince: longAgo });
    await eventuallyStatus(pod, { activeEvacuatorCompleted: true });
    const activeEvacuatorSince = c.cluster.kube.now().toISOString();
    await c.withStatus(evacuation, { activeEvacuatorCompleted: false, activeEvacuatorSince });
    await eventuallyStatus(pod, { activeEvacuatorCompleted: true });
    expect(calls).toBe(2);
  });

  test('whose last message the apiserver does not take has failed, and says so', async () => {
    const pod = await c.podOn(node);
    started(async () => 7 as unknown as string);
    await turnOf(pod);
    await eventuallyStatus(pod, {
      activeEvacuatorCompleted: false,
      message: expect.stringMatching(/failed, and is tried again: .*status\.message/),
    });
  });

  test.each([
    { when: 'no date', time: new Date(Number.NaN) },
    { when: 'beyond what can be stored', time: new Date('+010000-01-01T00:00:00Z') },
  ])('reports without a finish time when it is $when', async ({ time }) => {
    const pod = await c.podOn(node);
    const { evacuate } = lasting((progress) =>
      progress.report({ message: 'Begun', expectedFinishTime: time }),
    );
    started(evacuate);
    await turnOf(pod);
    await eventuallyStatus(pod, { message: 'Begun' });
    expect((await statusOf(pod)).expectedEvacuationFinishTime).toBeUndefined();
  });

  test('is called again after a restart, with the status that it left', async () => {
    const pod = await c.podOn(node);
    const first = lasting((progress) => progress.report({ message: 'Half of it is done' }));
    started(first.evacuate);
    await turnOf(pod);
    await eventuallyStatus(pod, { message: 'Half of it is done' });
    await stop?.();
    expect(first.seen.reasons).toEqual([StopReason.Stopping]);
    const left: unknown[] = [];
    started(async (_pod, { status }) => void left.push(status?.message));
    await eventuallyStatus(pod, { activeEvacuatorCompleted: true });
    expect(left).toEqual(['Half of it is done']);
  });

  test.each(['Upper.example.com', 'under_score', '', '-dash', 'a'.repeat(55)])(
    'cannot have the class "%s"',
    (name) => {
      const options = { evacuate: async () => undefined, view: c.cluster, log: silentLog };
      expect(() => new Evacuator({ ...options, evacuatorClass: name })).toThrow(`evacuatorClass "${name}"`);
    },
  );
});

describe('the signal of an evacuator says that it is to stop', () => {
  async function begun(pod: Pod, before?: (progress: Progress) => void | Promise<void>) {
    const { evacuate, seen } = lasting(before);
    started(evacuate);
    const evacuation = await turnOf(pod);
    await eventually('the evacuator to be called', () => expect(seen.calls).toBe(1));
    return { evacuation, seen };
  }

  test('Cancelled: the Evacuation was withdrawn', async () => {
    const { evacuation, seen } = await begun(await c.podOn(node));
    await c.deleted(evacuation);
    await eventually('the signal', () => expect(seen.reasons).toEqual([StopReason.Cancelled]));
    expect(patches()).toBe(0);
  });

  test('TurnLost: the next evacuator was asked, and what this one says is not written any more', async () => {
    const pod = await c.podOn(node);
    let late: Progress | undefined;
    const { evacuation, seen } = await begun(pod, (progress) => {
      late = progress;
    });
    await c.withStatus(evacuation, { activeEvacuatorClass: 'next.example.com', message: 'Next' });
    await eventually('the signal', () => expect(seen.reasons).toEqual([StopReason.TurnLost]));
    late?.report({ message: 'Too late' });
    await expect(late?.forbidCancellation()).rejects.toThrow('TurnLost');
    await throughout('the next one has its word', 1_200, async () =>
      expect((await statusOf(pod)).message).toBe('Next'),
    );
  });

  test('and is left behind when it does not, so that others have their turn', async () => {
    const [deaf, other] = [await c.podOn(node), await c.podOn(node)];
    const called: string[] = [];
    const end = Promise.withResolvers<void>();
    started(async ({ metadata }) => {
      called.push(metadata.name);
      if (metadata.uid === deaf.metadata.uid) await end.promise;
    }, 1);
    const evacuation = await turnOf(deaf);
    await eventually('the evacuator to be called', () => expect(called).toEqual([deaf.metadata.name]));
    await turnOf(other);
    await c.withStatus(evacuation, { activeEvacuatorClass: 'next.example.com' });
    await eventuallyStatus(other, { activeEvacuatorCompleted: true });
    end.resolve();
  });

  test('PodGone: there is nothing left to evacuate', async () => {
    const pod = await c.podOn(node);
    const { seen } = await begun(pod);
    await c.deleted(pod);
    await eventually('the signal', () => expect(seen.reasons).toEqual([StopReason.PodGone]));
  });
});

describe('an evacuator that forbids cancellation', () => {
  test('keeps others from withdrawing its Evacuation, until it allows that again', async () => {
    const pod = await c.podOn(node);
    const past = Promise.withResolvers<void>();
    started(async (_pod, _evacuation, progress) => {
      await progress.forbidCancellation();
      await past.promise;
      await progress.allowCancellation();
      return 'Past it';
    });
    const evacuation = await turnOf(pod);
    await eventuallyStatus(pod, { evacuationCancellationPolicy: 'Forbid' });
    await expect(c.deleted(evacuation)).rejects.toThrow('evacuationCancellationPolicy is Forbid');
    past.resolve();
    await eventuallyStatus(pod, { activeEvacuatorCompleted: true, evacuationCancellationPolicy: 'Allow' });
  });

  test('goes on when its Evacuation was withdrawn all the same, after a restart too', async () => {
    const pod = await c.podOn(node);
    const evacuation = await c.applied(c.evacuation(pod));
    await c.deleted(evacuation);
    await c.withStatus(evacuation, {
      activeEvacuatorClass: evacuatorClass,
      evacuationCancellationPolicy: 'Forbid',
    });
    const first = lasting((progress) => progress.note('Going on'));
    started(first.evacuate);
    await eventuallyStatus(pod, { message: 'Going on' });
    await stop?.();
    expect(first.seen.reasons).toEqual([StopReason.Stopping]);
    started(async () => 'Done');
    await eventuallyStatus(pod, { activeEvacuatorCompleted: true });
  });

  test('is told when it is too late for that', async () => {
    const pod = await c.podOn(node);
    const evacuation = await turnOf(pod);
    const turn = new Turn({ kube: c.cluster.kube, evacuation, evacuatorClass, log: silentLog });
    await c.deleted(evacuation);
    await expect(turn.forbidCancellation()).rejects.toThrow('came too late');
    expect((await statusOf(pod)).evacuationCancellationPolicy).toBeUndefined();
  });
});

describe('whoever has lost the turn and does not know it yet', () => {
  test.each([
    { when: 'to the next evacuator', status: { activeEvacuatorClass: 'next.example.com' } },
    { when: 'to the eviction API', status: { activeEvacuatorClass: null } },
  ])('$when overwrites nothing', async ({ status }) => {
    const pod = await c.podOn(node);
    const evacuation = await turnOf(pod);
    const turn = new Turn({ kube: c.cluster.kube, evacuation, evacuatorClass, log: silentLog });
    await c.withStatus(evacuation, { ...status, message: 'Next' });
    expect(await turn.complete('Too late')).toBeUndefined();
    expect(await statusOf(pod)).toMatchObject({ message: 'Next', activeEvacuatorCompleted: false });
  });

  test('of a former Evacuation of the same name overwrites nothing', async () => {
    const pod = await c.podOn(node);
    const former = await turnOf(pod);
    const turn = new Turn({ kube: c.cluster.kube, evacuation: former, evacuatorClass, log: silentLog });
    await c.patched(resources.evacuations, former.metadata as { name: string }, {
      metadata: { finalizers: [] },
    });
    await c.deleted(former);
    await turnOf(pod);
    expect(await turn.fail('Too late')).toBeUndefined();
    expect(await statusOf(pod)).toMatchObject({ message: 'Waiting' });
  });
});
