import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Pod } from '../../../api/core.ts';
import { completeDrainPlan } from '../../../domain/drain/plan.ts';
import { BlockerReason } from '../../../domain/evacuation/blocker.ts';
import type { NodeSnapshot } from '../../../domain/drain/contention.ts';
import { type DrainSnapshot, decideDrain } from '../../../domain/drain/decide.ts';
import { podTypeOf } from '../../../domain/common/pod.ts';
import { daemonPod, liveAgent, mirrorPod, pod, pods, statics } from '../../kit/builders.ts';

const node = (name: string, living: Pod[], differs: Partial<NodeSnapshot> = {}): NodeSnapshot => ({
  name,
  pods: living.map((one) => ({ pod: one, evacuating: false })),
  reached: [],
  ...differs,
});
const plan = completeDrainPlan([pods(5000), pods(15000)]);
const drain = (nodes: NodeSnapshot[], position = 0): DrainSnapshot => ({
  maintenance: 'own',
  maintenances: [
    { name: 'own', createdAt: '2026-01-01T00:00:00Z', plan, position, nodes: nodes.map(({ name }) => name) },
  ],
  nodes,
  waiting: [],
  published: new Map(),
});

describe('the next step of a drain', () => {
  test('evacuates the targeted pods only, in a stable order', () => {
    const [late, b, a] = [pod({ priority: 6000 }), pod({ name: 'b', priority: 5000 }), pod({ name: 'a' })];
    const decision = decideDrain(drain([node('one', [late, b, a])]));
    expect(decision.evacuate).toEqual([a, b]);
    expect(decision.position).toBe(0);
  });

  test('a pod that has its Evacuation is not evacuated again, and holds the position until it is gone', () => {
    const one = node('one', [], { pods: [{ pod: pod(), evacuating: true }] });
    expect(decideDrain(drain([one]))).toMatchObject({ evacuate: [], position: 0 });
  });

  test('while others are about to cordon their nodes, targeted pods stay, and hold the position', () => {
    const living = pod();
    const snapshot = { ...drain([node('one', [living])]), awaitsCordons: true };
    expect(decideDrain(snapshot)).toMatchObject({ targeted: [living], evacuate: [], position: 0 });
    expect(decideDrain(snapshot).nodeStatuses[0]).toMatchObject({ podsPendingEvacuation: 1 });
  });

  test('positions without targeted pods are skipped', () => {
    expect(decideDrain(drain([node('one', [pod({ priority: 15000 })])])).position).toBe(1);
    expect(decideDrain(drain([node('one', [pod({ priority: 2_000_000_000 })])])).position).toBe(3);
    expect(decideDrain(drain([node('one', [])])).position).toBe(plan.length);
  });

  test('without nodes the position stays, so that nodes that are selected later are drained in order', () => {
    expect(decideDrain(drain([], 1))).toMatchObject({ position: 1, nodeStatuses: [], evacuate: [] });
  });

  test('"the next entry is selected once all the nodes have reached their drain targets"', () => {
    const decision = decideDrain(drain([node('one', [pod({ priority: 9000 })]), node('two', [pod()])]));
    expect(decision.position).toBe(0);
    expect(decision.nodeStatuses.map((status) => status.drainMessage)).toEqual([
      'Waiting for node two.',
      'Evacuating',
    ]);
  });

  test('"if a new pod appears that matches the previous entries, it will also be evacuated"', () => {
    const late = pod({ priority: 1 });
    expect(decideDrain(drain([node('one', [late])], 3)).evacuate).toEqual([late]);
  });

  test('static pods on a node without an agent do not hold the position, and are reported', () => {
    const mirror = mirrorPod({ name: 's' });
    const decision = decideDrain(drain([node('one', [mirror])]));
    const remaining = [{ pod: mirror, cause: { kind: 'None' } }];
    expect(decision).toMatchObject({ evacuate: [], position: plan.length, tiers: [], remaining });
    expect(decision.nodeStatuses[0]?.drainMessage).toBe('Drained, left running: default/s.');
    expect(decision.nodeStatuses[0]).not.toHaveProperty('agentVersion');
    expect(decision.nodeStatuses[0]).not.toHaveProperty('agentCapabilities');
  });

  test('static pods on a node with an agent leave after all others, and the status names the agent', () => {
    const [daemon, mirror] = [daemonPod({ priority: 2_000_001_000 }), mirrorPod({ priority: -5 })];
    const one = (...living: Pod[]) => node('one', living, { agent: liveAgent });
    const first = decideDrain(drain([one(daemon, mirror)]));
    expect(plan[first.position]?.podType).toBe('DaemonSet');
    expect(first.nodeStatuses[0]).toMatchObject({
      podsPendingEvacuation: 2,
      agentVersion: '1.2.3',
      agentCapabilities: ['reboot', 'static-pods'],
    });
    expect(decideDrain(drain([one(daemon, mirror)], first.position)).evacuate).toEqual([daemon]);
    const { position } = decideDrain(drain([one(mirror)], first.position));
    expect(plan[position]?.podType).toBe('Static');
    const last = decideDrain(drain([one(mirror)], position));
    expect(last).toMatchObject({ evacuate: [mirror], position, remaining: [] });
    expect(last.nodeStatuses[0]?.drainTargets).toContainEqual(statics(1_000_000_000));
  });

  test('continues without an agent that dies, and back when it returns', () => {
    const mirror = mirrorPod({ priority: 2_000_001_000 });
    const { position } = decideDrain(drain([node('one', [mirror], { agent: liveAgent })]));
    const agent = { kind: 'Silent', since: '2026-01-01T11:00:00.000Z' } as const;
    const dead = decideDrain(drain([node('one', [mirror], { agent })], position));
    expect(dead).toMatchObject({ position: plan.length, remaining: [{ cause: agent }], evacuate: [] });
    const back = decideDrain(drain([node('one', [mirror], { agent: liveAgent })], plan.length - 1));
    expect(back).toMatchObject({ position: plan.length - 1, remaining: [], evacuate: [mirror] });
  });

  test('a node that cannot be cordoned is not drained, even without pods: they can be scheduled to it', () => {
    const waiting = { name: 'two', rejection: 'on loan', hasCordonRecord: true, pods: [] };
    for (const nodes of [[], [node('one', [])]])
      expect(decideDrain({ ...drain(nodes), waiting: [waiting] })).toMatchObject({
        undrained: [{ name: 'two' }],
        nodeStatuses: [...nodes.map(() => ({})), { drainMessage: 'Not cordoned: on loan.' }],
      });
  });

  test('static pods of a node that someone else holds keep the drain waiting only if it has an agent', () => {
    const waiting = { name: 'two', because: 'held', hasCordonRecord: true };
    const living = [{ pod: mirrorPod(), evacuating: true }];
    const of = (differs: object) => ({
      ...drain([node('one', [])]),
      waiting: [{ ...waiting, pods: living, ...differs }],
    });
    expect(decideDrain(of({}))).toMatchObject({ position: plan.length, undrained: [] });
    expect(decideDrain(of({ agent: liveAgent }))).toMatchObject({
      position: plan.length - 1,
      undrained: [{ name: 'two' }],
      tiers: [plan.findIndex(({ podType }) => podType === 'Static')],
      nodeStatuses: [{}, { agentVersion: '1.2.3', podsEvacuating: 1 }],
    });
  });

  // KEP-4212 > kubelet: Static Pods: "the kubelet should not react to Evacuations of static pods with a priority greater than 7000".
  test('the targets of the KEP select static pods up to the priority of their entry', () => {
    const own = completeDrainPlan([statics(7000)]);
    const living = [
      mirrorPod({ name: 'a', priority: 7000 }),
      mirrorPod({ name: 'b', priority: 7001 }),
      mirrorPod(),
    ];
    const position = own.findIndex(({ podPriority }) => podPriority === 7000);
    const [only] = drain([node('one', living, { agent: liveAgent })]).nodes;
    const decision = decideDrain({
      ...drain([]),
      maintenances: [{ name: 'own', createdAt: '2026-01-01T00:00:00Z', plan: own, position, nodes: ['one'] }],
      nodes: [only as NodeSnapshot],
    });
    expect(decision.evacuate).toEqual([living[0], living[2]]);
    expect(decision.nodeStatuses[0]?.drainTargets).toEqual([
      pods(2_147_483_647),
      { podType: 'DaemonSet', podPriority: 2_147_483_647 },
      statics(7000),
    ]);
  });

  test('DaemonSet pods leave after all others, with any priority', () => {
    const [app, daemon] = [pod({ priority: 2_000_000_000 }), daemonPod({ priority: -5 })];
    const both = decideDrain(drain([node('one', [app, daemon])]));
    expect(decideDrain(drain([node('one', [app, daemon])], both.position)).evacuate).toEqual([app]);
    const { position } = decideDrain(drain([node('one', [daemon])]));
    expect(plan[position]?.podType).toBe('DaemonSet');
    expect(decideDrain(drain([node('one', [daemon])], position)).evacuate).toEqual([daemon]);
  });

  test('counts pods that have not yet started evacuation and those that have', () => {
    const living = [
      { pod: pod(), evacuating: true },
      { pod: pod({ priority: 9000 }), evacuating: false },
    ];
    expect(decideDrain(drain([node('one', [], { pods: living })])).nodeStatuses[0]).toMatchObject({
      podsPendingEvacuation: 1,
      podsEvacuating: 1,
    });
  });
});

describe('a pod that cannot leave', () => {
  const blocker = { reason: BlockerReason.DisruptionBudget, message: 'Blocked.' };

  test('is reported with its reason when it is targeted', () => {
    const [targeted, later] = [pod({ priority: 1 }), pod({ priority: 9000 })];
    const one = node('one', [], {
      pods: [
        { pod: targeted, evacuating: true, blocker },
        { pod: later, evacuating: false, blocker },
      ],
    });
    expect(decideDrain(drain([one])).blocked).toEqual([{ pod: targeted, blocker }]);
  });
});

describe('a whole drain', () => {
  const somePod = fc
    .record({
      make: fc.constantFrom(pod, daemonPod, mirrorPod),
      priority: fc.constantFrom(0, 5000, 9000, 20000, 2_000_000_000),
    })
    .map(({ make, priority }) => make({ priority }));
  /** Pods with a lower rank leave first: DaemonSet pods after all others, static pods after them. */
  const rankOfType = { Default: 0, DaemonSet: 1, Static: 2 };
  const rank = (one: Pod) => rankOfType[podTypeOf(one)] * 2 ** 32 + (one.spec.priority ?? 0);
  const cluster = fc.array(
    fc.record({ living: fc.array(somePod, { maxLength: 5 }), hasAgent: fc.boolean() }),
    { minLength: 1, maxLength: 4 },
  );

  test('ends with every evacuable pod gone, lower priorities never after higher ones of an earlier step', () => {
    fc.assert(
      fc.property(cluster, (all) => {
        const nodes = all.map(({ living, hasAgent }, i) => ({
          name: `n${i}`,
          living: [...living],
          differs: hasAgent ? { agent: liveAgent } : {},
        }));
        const steps: Pod[][] = [];
        let position = 0;
        for (let decisions = 0; position < plan.length; decisions++) {
          expect(decisions).toBeLessThan(100);
          const decision = decideDrain(
            drain(
              nodes.map((n) => node(n.name, n.living, n.differs)),
              position,
            ),
          );
          expect(decision.position).toBeGreaterThanOrEqual(position);
          if (decision.evacuate.length > 0) steps.push([...decision.evacuate]);
          for (const n of nodes) n.living = n.living.filter((p) => !decision.evacuate.includes(p));
          position = decision.position;
        }
        const left = (n: (typeof nodes)[number]) => new Set(n.living.map(podTypeOf));
        for (const n of nodes)
          expect([...left(n)]).toEqual('agent' in n.differs || left(n).size === 0 ? [] : ['Static']);
        for (const [i, step] of steps.entries()) {
          const previous = steps[i - 1];
          if (previous) expect(Math.min(...step.map(rank))).toBeGreaterThan(Math.max(...previous.map(rank)));
        }
      }),
    );
  });
});
