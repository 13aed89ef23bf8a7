import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Deployment, PodDisruptionBudget } from '../../../api/core.ts';
import {
  registrationMessage,
  registrationReason,
} from '../../../domain/evacuation/deploymentRegistration.ts';
import { daemonPod, pod } from '../../kit/builders.ts';

const deployment = (spec: Partial<Deployment['spec']> = {}, metadata = {}): Deployment => ({
  metadata: { name: 'web', namespace: 'default', uid: 'd', ...metadata },
  spec: { replicas: 1, selector: { matchLabels: { app: 'web' } }, ...spec },
});
const budget = (
  spec: Partial<PodDisruptionBudget['spec']>,
  status: Partial<NonNullable<PodDisruptionBudget['status']>> = {},
  name = 'web',
): PodDisruptionBudget => ({
  metadata: { name, namespace: 'default' },
  spec: { selector: { matchLabels: { app: 'web' } }, ...spec },
  status: { disruptionsAllowed: 1, currentHealthy: 3, desiredHealthy: 2, expectedPods: 3, ...status },
});
const web = (differs: Parameters<typeof pod>[0] = {}) => pod({ labels: { app: 'web' }, ...differs });
const claim = (persistentVolumeClaim?: { claimName: string }) => ({
  template: { spec: { volumes: [{ ...(persistentVolumeClaim && { persistentVolumeClaim }) }] } },
});
const surge = (maxSurge: number | string) => ({
  strategy: { type: 'RollingUpdate' as const, rollingUpdate: { maxSurge } },
});

describe('the evacuator of Deployments is registered', () => {
  test.each([
    { when: 'for a single replica', want: 'SingleReplica' },
    {
      when: 'for the default number of replicas',
      of: { metadata: { name: 'web', namespace: 'default' }, spec: { selector: {} } },
      want: 'SingleReplica',
    },
    { when: 'for a single replica with an emptyDir', of: deployment(claim()), want: 'SingleReplica' },
    {
      when: 'for a single replica with a surge in percent',
      of: deployment(surge('1%')),
      want: 'SingleReplica',
    },
    {
      when: 'for maxUnavailable: 0',
      of: deployment({ replicas: 3 }),
      budgets: [budget({ maxUnavailable: 0 })],
      want: 'BudgetNeverAllows',
    },
    {
      when: 'for minAvailable: 100%',
      of: deployment({ replicas: 3 }),
      budgets: [budget({ minAvailable: '100%' })],
      want: 'BudgetNeverAllows',
    },
    {
      when: 'for as many available as there are replicas',
      of: deployment({ replicas: 3 }),
      budgets: [budget({ minAvailable: 3 }, { desiredHealthy: 3 })],
      want: 'BudgetNeverAllows',
    },
    { when: 'not for three replicas', of: deployment({ replicas: 3 }), want: undefined },
    {
      when: 'not for a budget that is used up',
      of: deployment({ replicas: 3 }),
      budgets: [budget({ minAvailable: 2 }, { disruptionsAllowed: 0, currentHealthy: 2 })],
      want: undefined,
    },
    {
      when: 'not for the budget of other pods',
      of: deployment({ replicas: 3 }),
      given: web({ labels: { app: 'other' } }),
      budgets: [budget({ maxUnavailable: 0 })],
      want: undefined,
    },
    { when: 'not for a Deployment scaled to 0', of: deployment({ replicas: 0 }), want: undefined },
    {
      when: 'not for a Deployment that is being deleted',
      of: deployment({}, { deletionTimestamp: '2026-01-01T00:00:00Z' }),
      want: undefined,
    },
    {
      when: 'not for the strategy Recreate',
      of: deployment({ strategy: { type: 'Recreate' } }),
      want: undefined,
    },
    { when: 'not without a surge', of: deployment(surge(0)), want: undefined },
    { when: 'not without a surge in percent', of: deployment(surge('0%')), want: undefined },
    {
      when: 'not with a volume that may be on one node only',
      of: deployment(claim({ claimName: 'data' })),
      want: undefined,
    },
    { when: 'not with two budgets', budgets: [budget({}), budget({}, {}, 'other')], want: undefined },
    { when: 'not for a pod that has finished', given: web({ phase: 'Succeeded' }), want: undefined },
    {
      when: 'not for a pod that terminates',
      given: web({ deletionTimestamp: '2026-01-01T00:00:00Z' }),
      want: undefined,
    },
    { when: 'not for a pod of a DaemonSet', given: daemonPod(), want: undefined },
  ])('$when', ({ of = deployment(), given = web(), budgets = [], want }) => {
    expect(registrationReason({ pod: given, deployment: of, budgets })).toBe(want);
  });

  test('never for a Deployment whose rollouts add no pod', () => {
    const none = fc.constantFrom<Deployment['spec']['strategy']>(
      { type: 'Recreate' },
      surge(0).strategy,
      surge('0%').strategy,
    );
    fc.assert(
      fc.property(none, fc.nat(5), fc.boolean(), (strategy, replicas, isGuarded) => {
        const budgets = isGuarded ? [budget({ maxUnavailable: 0 })] : [];
        const of = deployment({ replicas, ...(strategy && { strategy }) });
        expect(registrationReason({ pod: web(), deployment: of, budgets })).toBeUndefined();
      }),
    );
  });
});

test.each([
  {
    reason: 'SingleReplica',
    want: 'Deployment default/web has a single replica, which is replaced before it is evicted.',
  },
  {
    reason: 'BudgetNeverAllows',
    want: 'The PodDisruptionBudget of Deployment default/web can never allow a disruption; its pods are replaced before they are evicted.',
  },
] as const)('the owner gets the reason: $reason', ({ reason, want }) => {
  expect(registrationMessage(reason, deployment())).toBe(want);
});
