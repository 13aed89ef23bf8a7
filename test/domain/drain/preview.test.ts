import { describe, expect, test } from '@jest/globals';
import type { Pod, PodDisruptionBudget } from '../../../api/core.ts';
import type { Evacuation } from '../../../api/evacuation.ts';
import { activationMessage } from '../../../domain/evacuation/evacuatorSelection.ts';
import { completeDrainPlan } from '../../../domain/drain/plan.ts';
import { isStuck, previewDrain } from '../../../domain/drain/preview.ts';
import { daemonPod, labelled, liveAgent, mirrorPod, pod, pods as upTo } from '../../kit/builders.ts';

const now = new Date('2026-01-01T12:00:00Z');
const plan = completeDrainPlan();
const observed = (...all: Pod[]) => all.map((one) => ({ pod: one, emptyDirs: [] }));
const web = { app: 'web' };

const replicas = [{ apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'web', uid: 'web', controller: true }];
const webPod = (differs: Parameters<typeof pod>[0] = {}) =>
  pod({ labels: web, ownerReferences: replicas, ...differs });

function budget(
  disruptionsAllowed: number,
  differs: Partial<PodDisruptionBudget['status']> = {},
): PodDisruptionBudget {
  const expectedPods = 3;
  return {
    metadata: { name: 'web', namespace: 'default' },
    spec: { selector: { matchLabels: web }, minAvailable: 2 },
    status: {
      disruptionsAllowed,
      currentHealthy: 2 + disruptionsAllowed,
      desiredHealthy: 2,
      expectedPods,
      ...differs,
    },
  };
}

const preview = (pods: Pod[], budgets: PodDisruptionBudget[] = [], of = plan) =>
  previewDrain({ plan: of, pods: observed(...pods), budgets, now });

const namesOf = (tiers: ReturnType<typeof previewDrain>['tiers']) =>
  tiers.map(({ tier, selects, pods }) => [tier, selects, pods.map((one) => one.pod.replace('default/', ''))]);

describe('the tiers of a drain', () => {
  const low = pod({ name: 'low' });
  const system = pod({ name: 'system', priority: 2_000_000_000 });
  const node = pod({ name: 'node', priority: 2_000_001_000 });
  const daemon = daemonPod({ name: 'daemon' });
  const kubelet = mirrorPod({ name: 'static' });

  test('follow the priorities with the plan of the KEP, with DaemonSets after all others and static pods remaining', () => {
    const { tiers, remaining, blocked } = preview([kubelet, daemon, node, system, low]);
    expect(namesOf(tiers)).toEqual([
      [1, 'Default pods with priority up to 1000000000', ['low']],
      [2, 'Default pods with priority up to 2000000000', ['system']],
      [3, 'Default pods with priority up to 2000001000', ['node']],
      [4, 'DaemonSet pods with priority up to 1000000000', ['daemon']],
    ]);
    expect(remaining.map((one) => one.pod)).toEqual(['default/static']);
    expect(blocked).toBe(false);
  });

  test('end with the static pods of nodes with an agent, except of the control plane without consent', () => {
    const etcd = mirrorPod({ name: 'etcd', labels: { component: 'etcd' } });
    const agents = new Map([['node-1', liveAgent]]);
    const observedPods = observed(kubelet, etcd, daemon);
    const { tiers, remaining } = previewDrain({ plan, pods: observedPods, budgets: [], agents, now });
    expect(namesOf(tiers)).toEqual([
      [1, 'DaemonSet pods with priority up to 1000000000', ['daemon']],
      [2, 'Static pods with priority up to 1000000000', ['static']],
    ]);
    expect(tiers[1]?.pods[0]).toMatchObject({
      evacuators: [{ evacuatorClass: 'kubelet.k8s.io' }],
      blockers: [],
      notes: [{ reason: 'Recreated', message: 'the node agent starts it again after Complete' }],
    });
    expect(remaining).toMatchObject([
      { pod: 'default/etcd', notes: [{ reason: 'Remains', message: expect.stringContaining('consent') }] },
    ]);
  });

  test("start with the entries of the user's plan", () => {
    const db = pod({ name: 'db', labels: { app: 'db' }, priority: 5_000 });
    const own = completeDrainPlan([labelled(upTo(10_000), { app: 'db' }), upTo(10_000)]);
    expect(namesOf(preview([low, db], [], own).tiers)).toEqual([
      [1, 'Default pods with app=db and priority up to 10000', ['db']],
      [2, 'Default pods with priority up to 10000', ['low']],
    ]);
  });

  test('are numbered without the empty tiers of the plan', () => {
    expect(namesOf(preview([system, daemon]).tiers)).toEqual([
      [1, 'Default pods with priority up to 2000000000', ['system']],
      [2, 'DaemonSet pods with priority up to 1000000000', ['daemon']],
    ]);
  });

  test('of a maintenance in progress include late pods in the current tier, and continue its numbers', () => {
    const input = { plan, from: 2, fromTier: { number: 2, total: 3 }, budgets: [], now };
    expect(namesOf(previewDrain({ ...input, pods: observed(low, daemon) }).tiers)).toEqual([
      [2, 'Default pods with priority up to 2000001000', ['low']],
      [3, 'DaemonSet pods with priority up to 1000000000', ['daemon']],
    ]);
    expect(namesOf(previewDrain({ ...input, pods: observed(daemon) }).tiers)).toEqual([
      [3, 'DaemonSet pods with priority up to 1000000000', ['daemon']],
    ]);
  });
});

describe('a blocker of the drain', () => {
  test.each([
    {
      when: 'a budget allows all evictions',
      pods: 1,
      of: budget(1),
      allows: undefined,
      blocked: false,
    },
    { when: 'a budget allows fewer', pods: 2, of: budget(1), allows: 'Gradually', blocked: false },
    { when: 'a budget allows none now', pods: 1, of: budget(0), allows: 'NotNow', blocked: false },
    {
      when: 'a budget can never allow one',
      pods: 1,
      of: budget(0, { desiredHealthy: 3, currentHealthy: 3 }),
      allows: 'Never',
      blocked: true,
    },
  ])('$when', ({ pods, of, allows, blocked }) => {
    const webPods = Array.from({ length: pods }, () => webPod());
    const result = preview(webPods, [of]);
    expect(result.blocked).toBe(blocked);
    expect(result.budgets.map((one) => one.allows)).toEqual(allows === undefined ? [] : [allows]);
    expect(result.tiers[0]?.pods[0]?.blockers).toHaveLength(
      allows === 'Never' || allows === 'NotNow' ? 1 : 0,
    );
  });

  test('is a second budget for the same pod', () => {
    const other = { ...budget(1), metadata: { name: 'other', namespace: 'default' } };
    const { tiers, blocked } = preview([webPod()], [budget(1), other]);
    expect(tiers[0]?.pods[0]?.blockers).toEqual([
      { reason: 'MultipleDisruptionBudgets', message: expect.stringContaining('default/other, default/web') },
    ]);
    expect(blocked).toBe(true);
  });

  test.each([
    { of: 'deployment.apps.k8s.io', blocks: true },
    { of: 'statefulset.apps.k8s.io', blocks: true },
    { of: 'migrate.example.com', blocks: false },
  ])('is a second budget for a pod with evacuator $of: $blocks', ({ of, blocks }) => {
    const other = { ...budget(1), metadata: { name: 'other', namespace: 'default' } };
    const annotations = { [`evacuation.coordination.k8s.io/priority_${of}`]: '10000/controller' };
    expect(preview([webPod({ annotations })], [budget(1), other]).blocked).toBe(blocks);
  });

  test('is not a second budget for a pod that does not run', () => {
    const other = { ...budget(1), metadata: { name: 'other', namespace: 'default' } };
    expect(preview([webPod({ phase: 'Pending' })], [budget(1), other])).toMatchObject({ blocked: false });
  });

  test.each([
    { where: 'beside a pod of its tier that leaves', priority: 0 },
    { where: 'in a tier before those that leave', priority: 2_000_000_000 },
  ])('blocks the drain with one pod $where', ({ priority }) => {
    const never = budget(0, { desiredHealthy: 3, currentHealthy: 3 });
    const { tiers, blocked } = preview([webPod({ name: 'a' }), pod({ name: 'b', priority })], [never]);
    expect(tiers.flatMap((tier) => tier.pods.map(isStuck))).toEqual([true, false]);
    expect(blocked).toBe(true);
  });

  test('is not a budget for pods that are not evicted, that terminate, or that are not ready while enough others are', () => {
    const never = budget(0, { desiredHealthy: 3, currentHealthy: 3 });
    const unguarded = [
      daemonPod({ labels: web }),
      webPod({ deletionTimestamp: '2026-01-01T12:00:00Z' }),
      webPod({ phase: 'Pending' }),
      webPod({ ready: false }),
    ];
    expect(preview(unguarded, [never])).toMatchObject({ blocked: false, budgets: [] });
  });

  test('is not a budget for a pod that has an evacuator', () => {
    const annotations = {
      'evacuation.coordination.k8s.io/priority_deployment.apps.k8s.io': '10000/controller',
    };
    const never = budget(0, { desiredHealthy: 3, currentHealthy: 3 });
    const { tiers, blocked } = preview([webPod({ annotations })], [never]);
    expect(blocked).toBe(false);
    expect(tiers[0]?.pods[0]).toMatchObject({
      evacuators: [{ evacuatorClass: 'deployment.apps.k8s.io', priority: 10_000, role: 'controller' }],
      blockers: [{ reason: 'DisruptionBudgetNeverAllows' }],
    });
  });

  test.each([
    { of: 'daemonset.apps.k8s.io', differs: {}, why: 'no DaemonSet controls the pod' },
    { of: 'kubelet.k8s.io', differs: {}, why: 'it is not a static pod' },
    {
      of: 'deployment.apps.k8s.io',
      differs: { ownerReferences: [] },
      why: 'no ReplicaSet controls the pod',
    },
  ])('is a budget if the only evacuator is $of, and cannot serve the pod', ({ of, differs, why }) => {
    const annotations = { [`evacuation.coordination.k8s.io/priority_${of}`]: '10000/controller' };
    const never = budget(0, { desiredHealthy: 3, currentHealthy: 3 });
    const { tiers, blocked } = preview([webPod({ annotations, ...differs })], [never]);
    expect(blocked).toBe(true);
    expect(tiers[0]?.pods[0]?.evacuators).toEqual([]);
    expect(tiers[0]?.pods[0]?.notes).toContainEqual({
      reason: 'EvacuatorIgnored',
      message: `${of} cannot evacuate it: ${why}`,
    });
  });

  describe('is a budget that never allows a disruption of a pod without evacuators', () => {
    const never = budget(0, { expectedPods: 1, desiredHealthy: 1, currentHealthy: 1 });
    const annotation = 'evacuation.coordination.k8s.io/priority_move.example.com';
    const previewOf = (
      one: Pod,
      registration: 'annotated' | 'automatic' | undefined,
      { hasClaims = false, budgets = [never] } = {},
    ) => {
      const pods = [{ pod: one, emptyDirs: [], hasClaims }];
      const { blocked, tiers } = previewDrain({ plan, pods, budgets, registration, now });
      const [first] = tiers.flatMap((tier) => tier.pods);
      const notes = first?.notes.filter(({ reason }) => reason === 'Registered') ?? [];
      const evacuators = first?.evacuators.map(({ evacuatorClass }) => evacuatorClass);
      return { blocked, evacuators, notes: notes.map(({ message }) => message) };
    };

    test('unless workers register the evacuator of Deployments for it, if its Deployment permits that', () => {
      expect(previewOf(webPod(), 'automatic')).toEqual({
        blocked: false,
        evacuators: ['deployment.apps.k8s.io'],
        notes: [expect.stringMatching(/^replaced first .* unless its Deployment creates no additional pod/)],
      });
      expect(previewOf(webPod(), 'annotated')).toEqual({ blocked: true, evacuators: [], notes: [] });
    });

    test('and says so if it is not known whether they do', () => {
      expect(previewOf(webPod(), undefined)).toEqual({
        blocked: true,
        evacuators: [],
        notes: [expect.stringContaining('is not known')],
      });
    });

    test.each([
      { of: 'a pod without a ReplicaSet', one: pod({ labels: web }) },
      { of: 'a pod with a claim', one: webPod(), hasClaims: true },
      {
        of: 'a pod of two budgets',
        one: webPod(),
        budgets: [never, { ...never, metadata: { name: 'b', namespace: 'default' } }],
      },
    ])('also of $of, which they leave to the eviction API', ({ one, ...differs }) => {
      expect(previewOf(one, 'automatic', differs)).toEqual({ blocked: true, evacuators: [], notes: [] });
      expect(previewOf(one, undefined, differs).notes).toEqual([]);
    });

    test.each([
      { of: 'has ended', one: webPod({ phase: 'Succeeded', ready: false }) },
      { of: 'terminates', one: webPod({ deletionTimestamp: '2026-01-01T12:00:00Z' }) },
    ])('but not of a pod that $of, which nobody has to replace first', ({ one }) => {
      expect(previewOf(one, 'automatic')).toEqual({ blocked: false, evacuators: [], notes: [] });
      expect(previewOf(one, undefined).notes).toEqual([]);
    });

    test('but not of a pod with an evacuator of its owner, which they leave alone', () => {
      const annotated = webPod({ annotations: { [annotation]: '10000/controller' } });
      expect(previewOf(annotated, 'automatic')).toEqual({
        blocked: false,
        evacuators: ['move.example.com'],
        notes: [],
      });
    });
  });

  describe('that its Evacuation shows', () => {
    const evacuator = { evacuatorClass: 'data.io', priority: 1, role: 'x' };
    const asked = (of: Pod, evacuatorClass: string, differs: Partial<Evacuation['status']> = {}) => {
      const since = '2026-01-01T11:59:00Z';
      const { name, uid = '' } = of.metadata;
      const spec = { podRef: { name, uid }, progressDeadlineSeconds: 1800, evacuators: [evacuator] };
      const status = {
        activeEvacuatorClass: evacuatorClass,
        activeEvacuatorSince: since,
        evacuationProgressTimestamp: since,
        activeEvacuatorCompleted: false,
        failedEvictionCounter: 0,
        message: activationMessage({ spec }, evacuatorClass, of),
        conditions: [],
        ...differs,
      };
      return new Map([[uid, { metadata: { name: 'e' }, spec, status } as Evacuation]]);
    };
    const during = (of: Pod, evacuations: ReadonlyMap<string, Evacuation>) => {
      const { tiers, blocked } = previewDrain({ plan, pods: observed(of), budgets: [], evacuations, now });
      return { blocked, reasons: tiers[0]?.pods[0]?.blockers.map(({ reason }) => reason) };
    };

    test('is an evacuator that does not respond, after which the pod is evicted', () => {
      const given = pod();
      expect(during(given, asked(given, 'data.io'))).toEqual({
        blocked: false,
        reasons: ['EvacuatorNotResponding'],
      });
    });

    test('is not the evacuator of DaemonSets that waits for its tier', () => {
      const given = daemonPod();
      expect(during(given, asked(given, 'daemonset.apps.k8s.io'))).toEqual({ blocked: false, reasons: [] });
    });

    test('is a deletion that is rejected', () => {
      const given = daemonPod();
      const rejected = {
        type: 'Blocked',
        status: 'True' as const,
        reason: 'DeletionRejected',
        message: 'no',
        lastTransitionTime: '2026-01-01T11:59:00Z',
      };
      expect(
        during(given, asked(given, 'daemonset.apps.k8s.io', { message: 'no', conditions: [rejected] })),
      ).toEqual({
        blocked: true,
        reasons: ['DeletionRejected'],
      });
    });
  });

  test('is a pod that is late to terminate', () => {
    const late = { deletionTimestamp: '2026-01-01T11:00:00Z', finalizers: ['example.com/held'] };
    // The DaemonSet controller is the evacuator of its pods, and has done its part.
    for (const stuck of [webPod(late), daemonPod(late)]) {
      const { tiers, blocked } = preview([stuck]);
      expect(tiers[0]?.pods[0]?.blockers).toMatchObject([{ reason: 'StuckTerminating' }]);
      expect(tiers[0]?.pods.map(isStuck)).toEqual([true]);
      expect(blocked).toBe(true);
    }
  });

  test('is a budget that allows fewer disruptions than there are pods without a controller', () => {
    const bare = Array.from({ length: 3 }, () => pod({ labels: web }));
    expect(preview(bare, [budget(1)])).toMatchObject({
      blocked: true,
      budgets: [{ allows: 'Some', pods: 3, allowed: 1, stuck: 2 }],
    });
    expect(preview([...bare.slice(0, 1), webPod()], [budget(1)])).toMatchObject({
      blocked: false,
      budgets: [{ allows: 'Gradually' }],
    });
  });
});

test('the notes of a pod report lost data and invalid annotations', () => {
  const lone = pod({ name: 'lone', annotations: { 'evacuation.coordination.k8s.io/priority_x': 'high' } });
  const pods = [{ pod: lone, emptyDirs: ['cache', 'tmp'] }, ...observed(webPod(), daemonPod())];
  const { tiers } = previewDrain({ plan, pods, budgets: [], now });
  const notes = tiers.flatMap((tier) => tier.pods.map((one) => one.notes.map(({ reason }) => reason)));
  expect(notes).toEqual([['EvacuatorIgnored', 'NoController', 'EmptyDir'], [], ['Recreated']]);
});

describe('a drain by EvictionRequests', () => {
  const evictionResponders = [
    { name: 'example.com/late', priority: 1_000 },
    { name: 'example.com/first', priority: 2_000 },
  ];
  const annotations = { 'evacuation.coordination.k8s.io/priority_example.com': '1/app' };
  const withResponders = (one: Pod): Pod => ({ ...one, spec: { ...one.spec, evictionResponders } });
  const evacuatorsOf = (one: Pod, evictionApi?: 'auto') =>
    previewDrain({
      plan,
      pods: observed(one),
      budgets: [],
      evictionApi,
      now,
    }).tiers[0]?.pods[0]?.evacuators.map(({ evacuatorClass }) => evacuatorClass);

  test('shows the responders of a pod in the order in which they become active', () => {
    const one = withResponders(pod({ annotations }));
    expect(evacuatorsOf(one, 'auto')).toEqual(['example.com/first', 'example.com/late']);
    expect(evacuatorsOf(one)).toEqual(['example.com']);
  });

  test('shows the evacuators of a pod that has no responders', () => {
    expect(evacuatorsOf(pod({ annotations }), 'auto')).toEqual(['example.com']);
  });

  test('shows a request that nobody has answered as a blocker', () => {
    const one = pod();
    const target = { pod: { name: one.metadata.name, uid: one.metadata.uid ?? '' } };
    const request = {
      metadata: { name: 'r', creationTimestamp: '2026-01-01T11:00:00Z' },
      spec: { target, requester: 'node-maintenance.dev/nodemaintenance', intent: 'Eviction' as const },
    };
    const requests = new Map([[target.pod.uid, { request }]]);
    const { tiers, blocked } = previewDrain({ plan, pods: observed(one), budgets: [], requests, now });
    expect(tiers[0]?.pods[0]?.blockers).toMatchObject([{ reason: 'EvictionRequestUnanswered' }]);
    expect(blocked).toBe(true);
  });
});
