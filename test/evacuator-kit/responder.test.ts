import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Pod } from '../../api/core.ts';
import type { LifecycleEviction, ResponderState, ResponderStatus } from '../../api/lifecycle.ts';
import { LIFECYCLE_EVICTION } from '../../api/names.ts';
import { Evacuator } from '../../evacuator-kit/evacuator.ts';
import { EvacuationStopped, StopReason } from '../../evacuator-kit/progress.ts';
import type { EvacuatePod } from '../../evacuator-kit/protocol.ts';
import { Responder } from '../../evacuator-kit/responder.ts';
import { runEvacuator } from '../../evacuator-kit/run.ts';
import { aborted } from '../../kube/abort.ts';
import { watchEvictions } from '../../kube/cluster.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { silentLog, testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

// The tests write the states of the responders, in place of a controller of EvictionRequests.

const other = 'example.com/other';

let sandbox: Sandbox;
let c: TestCluster;
let node: string;
let responderName = '';
let serial = 0;
let running: AbortController;
let ended: Promise<unknown>;

beforeAll(async () => {
  sandbox = await testSandbox({ evictionRequest: true, nodes: 0 });
  c = await testCluster(sandbox, { prefix: 'respond' });
  node = await c.nodeNamed('n');
});

beforeEach(() => {
  serial += 1;
  responderName = `test-${serial}.example.com/mover`;
  running = new AbortController();
  ended = Promise.resolve();
});

afterEach(async () => {
  running.abort();
  await ended;
});

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

async function start(evacuate: EvacuatePod): Promise<void> {
  const evictions = watchEvictions({ kube: c.cluster.kube, log: silentLog });
  evictions.start(running.signal);
  await evictions.synced(running.signal);
  const view = { ...c.cluster, evictions };
  const [evacuatorClass = ''] = responderName.split('/');
  ended = Promise.all([
    new Responder({ responderName, evacuate, view, log: silentLog }).run(running.signal),
    new Evacuator({ evacuatorClass, evacuate, view, log: silentLog }).run(running.signal),
  ]);
}

/** Creates an Eviction of the pod whose responder is Active. */
async function activated(pod: Pod): Promise<LifecycleEviction> {
  const { apiVersion, kind } = LIFECYCLE_EVICTION;
  const { name, namespace = '', uid = '' } = pod.metadata;
  const eviction = await c.admin.create(resources.evictions, {
    apiVersion,
    kind,
    metadata: { name: c.named('eviction'), namespace },
    spec: { target: { pod: { name, uid } } },
  });
  const startTime = c.admin.now().toISOString();
  return written(eviction, {
    targetResponders: [
      { name: responderName, priority: 10_000, state: 'Active' },
      { name: other, priority: 1_000, state: 'Inactive' },
    ],
    responders: [{ name: responderName, startTime }, { name: other }],
  });
}

function written({ metadata }: LifecycleEviction, status: object): Promise<LifecycleEviction> {
  const { namespace, name } = metadata;
  return c.admin.mergePatch(
    resources.evictions,
    { namespace, name },
    { status },
    { subresource: 'status', fieldManager: 'kube-controller-manager' },
  );
}

async function current({ metadata }: LifecycleEviction): Promise<LifecycleEviction> {
  const { namespace, name } = metadata;
  const found = await c.admin.get(resources.evictions, { namespace, name });
  if (found === undefined) throw new Error('the Eviction is gone');
  return found;
}

async function reportOf(eviction: LifecycleEviction): Promise<ResponderStatus | undefined> {
  const { status } = await current(eviction);
  return status?.responders?.find(({ name }) => name === responderName);
}

/** Ends the Eviction, with the state of the responder. */
async function concluded(
  eviction: LifecycleEviction,
  state: ResponderState,
  end: { type: string; reason: string } = { type: 'Failed', reason: 'CanceledDueToNoRequesters' },
): Promise<void> {
  const { status } = await current(eviction);
  await written(eviction, {
    targetResponders: status?.targetResponders?.map((one) =>
      one.name === responderName ? { ...one, state } : one,
    ),
    conditions: [
      {
        ...end,
        status: 'True',
        message: '',
        lastTransitionTime: c.admin.now().toISOString(),
      },
    ],
  });
}

describe('one function', () => {
  test('serves Evictions and Evacuations, with the same arguments', async () => {
    const [first, second] = await c.podsOn(node, 2);
    if (first === undefined || second === undefined) throw new Error('unreachable');
    const served: unknown[] = [];
    await start(async ({ metadata }, { spec, status }) => {
      served.push({ uid: metadata.uid, podRef: spec.podRef, active: status?.activeEvacuatorClass });
      return 'All data copied';
    });
    const eviction = await activated(first);
    await eventually('the completion of the Eviction', async () => {
      const report = await reportOf(eviction);
      expect(report).toMatchObject({ message: 'All data copied' });
      expect(report?.completionTime).toBeDefined();
    });
    const [evacuatorClass = ''] = responderName.split('/');
    const evacuation = await c.applied(c.evacuation(second));
    await c.withStatus(evacuation, { activeEvacuatorClass: evacuatorClass, activeEvacuatorCompleted: false });
    await eventually('the completion of the Evacuation', async () =>
      expect((await c.evacuationOf(second))?.status).toMatchObject({
        activeEvacuatorCompleted: true,
        message: 'All data copied',
      }),
    );
    const expected = (pod: Pod, active: string) => {
      const { name, uid } = pod.metadata;
      return { uid, podRef: { name, uid }, active };
    };
    expect(served).toEqual([expected(first, responderName), expected(second, evacuatorClass)]);
  });
});

describe('runEvacuator', () => {
  const options = (evacuatorClass: string) => ({
    evacuatorClass,
    evacuate: async () => Promise.resolve('moved'),
    kubeconfig: sandbox.kubeconfig,
    namespace: c.namespace,
    log: silentLog,
    signal: running.signal,
  });

  // A process of its own: the Kubernetes client of the tests lacks what converts a pod for the function.
  test('serves both APIs with responderName', async () => {
    const [evacuatorClass = ''] = responderName.split('/');
    const { kubeconfig, namespace } = options(evacuatorClass);
    const kit = import.meta.resolve('../../evacuator-kit/index.ts');
    const program = `
      import { runEvacuator } from '${kit}';
      const options = ${JSON.stringify({ evacuatorClass, responderName, kubeconfig, namespace })};
      await runEvacuator({ ...options, evacuate: async ({ spec }) => 'moved from ' + spec.nodeName });`;
    const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
      env: { ...process.env, NODE_OPTIONS: '' },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const exited = once(child, 'exit');
    try {
      const [first, second] = await c.podsOn(node, 2);
      if (first === undefined || second === undefined) throw new Error('unreachable');
      const eviction = await activated(first);
      const evacuation = await c.applied(c.evacuation(second));
      await c.withStatus(evacuation, {
        activeEvacuatorClass: evacuatorClass,
        activeEvacuatorCompleted: false,
      });
      const message = `moved from ${node}`;
      await eventually('both completions', async () => {
        expect(await reportOf(eviction)).toMatchObject({ message, completionTime: expect.any(String) });
        expect((await c.evacuationOf(second))?.status).toMatchObject({
          message,
          activeEvacuatorCompleted: true,
        });
      });
    } finally {
      child.kill();
      await exited;
    }
  });

  test('names the permissions that are missing', async () => {
    const kubeconfig = sandbox.admissionKubeconfig;
    await expect(runEvacuator({ ...options('test.example.com'), kubeconfig, responderName })).rejects.toThrow(
      /evictions\/status/,
    );
  });

  test('rejects a reserved name', async () => {
    await expect(
      runEvacuator({ ...options('test.example.com'), responderName: 'a.k8s.io/mover' }),
    ).rejects.toThrow('responderName "a.k8s.io/mover" is reserved for Kubernetes');
  });
});

describe('a responder', () => {
  test('reports progress as heartbeats that the apiserver accepts', async () => {
    await start(async (_pod, _evacuation, progress) => {
      progress.report({ message: 'half', expectedFinishTime: new Date(Date.now() + 60_000) });
      await aborted(progress.signal);
    });
    const eviction = await activated(await c.podOn(node));
    await eventually('the heartbeat', async () => {
      const report = await reportOf(eviction);
      expect(report).toMatchObject({ message: 'half' });
      expect(report?.heartbeatTime).toBeDefined();
      expect(report?.expectedCompletionTime).toBeDefined();
    });
  });

  test.each([
    { when: 'its Eviction is cancelled', state: 'Canceled', end: undefined, reason: StopReason.Cancelled },
    {
      when: 'it has exceeded its deadline',
      state: 'Interrupted',
      end: undefined,
      reason: StopReason.DeadlineExceeded,
    },
    {
      when: 'its pod has terminated by itself',
      state: 'Interrupted',
      end: { type: 'TargetEvicted', reason: 'PodTerminal' },
      reason: StopReason.PodGone,
    },
  ] as const)('is stopped when $when', async ({ state, end, reason }) => {
    const reasons: unknown[] = [];
    await start(async (_pod, _evacuation, progress) => {
      progress.report({ message: 'started' });
      await aborted(progress.signal);
      const stopped = progress.signal.reason as unknown;
      reasons.push(stopped instanceof EvacuationStopped ? stopped.reason : stopped);
    });
    const eviction = await activated(await c.podOn(node));
    await eventually('the call', async () =>
      expect(await reportOf(eviction)).toMatchObject({ message: 'started' }),
    );
    await concluded(eviction, state, end);
    await eventually('the reason', () => expect(reasons).toEqual([reason]));
  });

  test('that throws is called again, and says why', async () => {
    let calls = 0;
    await start(async () => {
      calls += 1;
      if (calls === 1) throw new Error('the target is full');
      return 'done';
    });
    const eviction = await activated(await c.podOn(node));
    await eventually('the completion', async () =>
      expect((await reportOf(eviction))?.completionTime).toBeDefined(),
    );
    expect(calls).toBe(2);
  });

  test('that returns no text is called again, and says why', async () => {
    let calls = 0;
    await start(async () => {
      calls += 1;
      return calls === 1 ? ({ moved: true } as unknown as string) : 'done';
    });
    const eviction = await activated(await c.podOn(node));
    await eventually('the completion', async () =>
      expect((await reportOf(eviction))?.completionTime).toBeDefined(),
    );
    expect(calls).toBe(2);
  });

  test('reports the expected time of a report that another one follows at once', async () => {
    await start(async (_pod, _evacuation, progress) => {
      progress.report({ message: 'first', expectedFinishTime: new Date(Date.now() + 60_000) });
      progress.report({ message: 'second', expectedFinishTime: new Date(Number.NaN) });
      progress.reportWaiting('third');
      await aborted(progress.signal);
    });
    const eviction = await activated(await c.podOn(node));
    await eventually('the heartbeat', async () => {
      const report = await reportOf(eviction);
      expect(report).toMatchObject({ message: 'third' });
      expect(report?.expectedCompletionTime).toBeDefined();
    });
  });

  test('cannot forbid the cancellation', async () => {
    const rejected = Promise.withResolvers<unknown>();
    await start(async (_pod, _evacuation, progress) => {
      rejected.resolve(await progress.forbidCancellation().catch((error: unknown) => error));
    });
    await activated(await c.podOn(node));
    expect(await rejected.promise).toEqual(
      new Error('an Eviction of lifecycle.k8s.io can always be cancelled'),
    );
  });

  test.each(['mover', 'a.k8s.io/mover', 'kubernetes.io/mover', 'example.com/'])(
    'cannot have the name %s',
    (name) => {
      const view = { ...c.cluster, evictions: watchEvictions({ kube: c.cluster.kube, log: silentLog }) };
      const evacuate = () => Promise.resolve();
      expect(() => new Responder({ responderName: name, evacuate, view, log: silentLog })).toThrow(
        `responderName "${name}"`,
      );
    },
  );
});
