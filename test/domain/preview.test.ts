import { describe, expect, test } from '@jest/globals';
import type { Pod, PodDisruptionBudget } from '../../api/core.ts';
import { completeDrainPlan } from '../../domain/drainPlan.ts';
import { isStuck, previewDrain } from '../../domain/preview.ts';
import { daemonPod, labelled, mirrorPod, pod, pods as upTo } from '../kit/builders.ts';

const now = new Date('2026-01-01T12:00:00Z');
const plan = completeDrainPlan();
const seen = (...all: Pod[]) => all.map((one) => ({ pod: one, emptyDirs: [] }));
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

const preview = (pods: Pod[], budgets: PodDisruptionBudget[] = [], of = plan, from = 0) =>
  previewDrain({ plan: of, from, pods: seen(...pods), budgets, now });

const namesOf = (tiers: ReturnType<typeof previewDrain>['tiers']) =>
  tiers.map(({ entry, selects, pods }) => [
    entry,
    selects,
    pods.map((one) => one.pod.replace('default/', '')),
  ]);

describe('the tiers of a drain', () => {
  const low = pod({ name: 'low' });
  const system = pod({ name: 'system', priority: 2_000_000_000 });
  const node = pod({ name: 'node', priority: 2_000_001_000 });
  const daemon = daemonPod({ name: 'daemon' });
  const kubelet = mirrorPod({ name: 'static' });

  test('with the plan of the KEP are those of the priorities, DaemonSets after all others, and static pods stay', () => {
    const { tiers, stays, blocked } = preview([kubelet, daemon, node, system, low]);
    expect(namesOf(tiers)).toEqual([
      [1, 'Default pods up to 1000000000', ['low']],
      [2, 'Default pods up to 2000000000', ['system']],
      [3, 'Default pods up to 2000001000', ['node']],
      [5, 'DaemonSet pods up to 1000000000', ['daemon']],
    ]);
    expect(stays.map((one) => one.pod)).toEqual(['default/static']);
    expect(blocked).toBe(false);
  });

  test('with a plan of the user begin with its entries', () => {
    const db = pod({ name: 'db', labels: { app: 'db' }, priority: 5_000 });
    const own = completeDrainPlan([labelled(upTo(10_000), { app: 'db' }), upTo(10_000)]);
    expect(namesOf(preview([low, db], [], own).tiers)).toEqual([
      [1, 'Default pods with app=db up to 10000', ['db']],
      [2, 'Default pods up to 10000', ['low']],
    ]);
  });

  test('of a maintenance under way take what appears late along with the one that is reached', () => {
    expect(namesOf(preview([low, daemon], [], plan, 2).tiers)).toEqual([
      [3, 'Default pods up to 2000001000', ['low']],
      [5, 'DaemonSet pods up to 1000000000', ['daemon']],
    ]);
  });
});

describe('what would block', () => {
  test.each([
    {
      when: 'a budget allows as many as have to leave',
      pods: 1,
      of: budget(1),
      lets: undefined,
      blocked: false,
    },
    { when: 'a budget allows fewer', pods: 2, of: budget(1), lets: 'InTurns', blocked: false },
    { when: 'a budget allows none now', pods: 1, of: budget(0), lets: 'NotNow', blocked: false },
    {
      when: 'a budget can never allow one',
      pods: 1,
      of: budget(0, { desiredHealthy: 3, currentHealthy: 3 }),
      lets: 'Never',
      blocked: true,
    },
  ])('$when', ({ pods, of, lets, blocked }) => {
    const seenPods = Array.from({ length: pods }, () => webPod());
    const result = preview(seenPods, [of]);
    expect(result.blocked).toBe(blocked);
    expect(result.budgets.map((one) => one.lets)).toEqual(lets === undefined ? [] : [lets]);
    expect(result.tiers[0]?.pods[0]?.blockers).toHaveLength(lets === 'Never' || lets === 'NotNow' ? 1 : 0);
  });

  test('is a second budget for the same pod', () => {
    const other = { ...budget(1), metadata: { name: 'other', namespace: 'default' } };
    const { tiers, blocked } = preview([webPod()], [budget(1), other]);
    expect(tiers[0]?.pods[0]?.blockers).toEqual([
      { reason: 'SeveralDisruptionBudgets', message: expect.stringContaining('default/other, default/web') },
    ]);
    expect(blocked).toBe(true);
  });

  test('is not a budget for pods that nobody evicts, that end already, or that are not ready while others are enough', () => {
    const never = budget(0, { desiredHealthy: 3, currentHealthy: 3 });
    const unguarded = [
      daemonPod({ labels: web }),
      webPod({ deletionTimestamp: '2026-01-01T12:00:00Z' }),
      webPod({ phase: 'Pending' }),
      webPod({ ready: false }),
    ];
    expect(preview(unguarded, [never])).toMatchObject({ blocked: false, budgets: [] });
  });

  test('is not a budget for a pod that has an evacuator to go first', () => {
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

  test('is a pod that should have ended long ago', () => {
    const late = { deletionTimestamp: '2026-01-01T11:00:00Z', finalizers: ['example.com/held'] };
    // The DaemonSet controller is the evacuator of its pods, and has done its part.
    for (const stuck of [webPod(late), daemonPod(late)]) {
      const { tiers, blocked } = preview([stuck]);
      expect(tiers[0]?.pods[0]?.blockers).toMatchObject([{ reason: 'StuckTerminating' }]);
      expect(tiers[0]?.pods.map(isStuck)).toEqual([true]);
      expect(blocked).toBe(true);
    }
  });

  test('are pods that nobody makes again, beyond those that their budget can spare', () => {
    const bare = Array.from({ length: 3 }, () => pod({ labels: web }));
    expect(preview(bare, [budget(1)])).toMatchObject({
      blocked: true,
      budgets: [{ lets: 'Some', pods: 3, allowed: 1, stuck: 2 }],
    });
    expect(preview([...bare.slice(0, 1), webPod()], [budget(1)])).toMatchObject({
      blocked: false,
      budgets: [{ lets: 'InTurns' }],
    });
  });
});

test('what a pod would lose is told, and what is wrong with its annotations', () => {
  const lone = pod({ name: 'lone', annotations: { 'evacuation.coordination.k8s.io/priority_x': 'high' } });
  const pods = [{ pod: lone, emptyDirs: ['cache', 'tmp'] }, ...seen(webPod(), daemonPod())];
  const { tiers } = previewDrain({ plan, pods, budgets: [], now });
  const notes = tiers.flatMap((tier) => tier.pods.map((one) => one.notes.map(({ reason }) => reason)));
  expect(notes).toEqual([['EvacuatorIgnored', 'NoController', 'EmptyDir'], [], ['ComesBack']]);
});
