import { finish } from '../../../domain/common/steps.ts';
import { describe, expect, test } from '@jest/globals';
import type { Pod } from '../../../api/core.ts';
import { capacityCondition, waitsForCapacity } from '../../../domain/capacity/condition.ts';
import { capacityWarning, forecastCapacity, forecastText } from '../../../domain/capacity/forecast.ts';
import { capacityNode, capacityPod } from '../../kit/capacity.ts';
import { emptyStatus, withCapacity } from '../../../domain/maintenance/status.ts';
import { pod } from '../../kit/builders.ts';

const input = (pods: Pod[], free = 1_000) => ({
  nodes: [capacityNode('n1', { cpu: 8_000 }), capacityNode('n2', { cpu: free })],
  drained: new Set(['n1']),
  pods,
  volumes: new Map(),
  leaves: () => true,
  nowMs: 0,
});
const zoneKey = 'topology.kubernetes.io/zone';
const onFirst = (count: number, differs = {}) =>
  Array.from({ length: count }, (_, index) =>
    capacityPod({ name: `web-${index}`, node: 'n1', cpu: '1', ...differs }),
  );
const reasons = '0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable';

describe('the forecast of a drain', () => {
  test('counts the pods that need places, and names those that do not fit', () => {
    const bare = { ...pod(), spec: { nodeName: 'n1' } };
    const forecast = forecastCapacity(
      input([...onFirst(5), bare, ...onFirst(1, { schedulerName: 'batch' })]),
    );
    expect(forecast).toMatchObject({ pods: 5, notCompared: 1 });
    expect(forecastText(forecast)).toBe(
      `Capacity: 4 of 5 pods that leave fit on no other node and would be Pending: shop/web-1 (${reasons}), shop/web-2 (${reasons}), shop/web-3 (${reasons}) and 1 more. 1 pod was not compared, because of another scheduler or too many rules about nodes.`,
    );
    expect(forecastText(forecast, true)).toContain(
      'fit on no other node and wait until they do: shop/web-1 (',
    );
  });

  test('does not count the zone of a drained node if the pod honours taints', () => {
    const spread = (nodeTaintsPolicy: 'Honor' | 'Ignore') => ({
      labels: { app: 'web' },
      topologySpread: [
        {
          topologyKey: zoneKey,
          maxSkew: 1,
          nodeTaintsPolicy,
          labelSelector: { matchLabels: { app: 'web' } },
        },
      ],
    });
    const nodes = ['a', 'b'].map((zone, index) =>
      capacityNode(`n${index + 1}`, { cpu: 8_000, labels: { [zoneKey]: zone } }),
    );
    const unplaced = (policy: 'Honor' | 'Ignore') =>
      forecastCapacity({ ...input(onFirst(3, spread(policy))), nodes }).unplaced;
    expect(unplaced('Honor')).toEqual([]);
    expect(unplaced('Ignore').length).toBeGreaterThan(0);
  });

  test('says that all fit', () => {
    expect(forecastText(forecastCapacity(input(onFirst(1))))).toBe(
      'Capacity: 1 pod that leaves fits on another node.',
    );
  });
});

describe('the warning about a drain', () => {
  test.each([
    { when: 'is absent if all pods fit', pods: onFirst(1), isHeldBack: false, want: undefined },
    {
      when: 'says that pods would be Pending, and the remedy',
      pods: onFirst(2),
      isHeldBack: false,
      want: `spec.nodeSelector: 1 pod would fit on no other node: shop/web-1 (${reasons}); replacements would be Pending; set spec.requireCapacity to true to let pods wait`,
    },
    {
      when: 'says that pods would wait',
      pods: onFirst(2),
      isHeldBack: true,
      want: `spec.nodeSelector: 1 pod would fit on no other node: shop/web-1 (${reasons}); with spec.requireCapacity, pods wait until they fit`,
    },
  ])('$when', ({ pods, isHeldBack, want }) => {
    expect(finish(capacityWarning(input(pods), isHeldBack))).toBe(want);
  });
});

describe('the condition CapacityAvailable', () => {
  const [first = pod()] = onFirst(1);
  const unplaced = [{ pod: first, misfit: { nodes: 2, reasons: new Map([['Insufficient cpu', 2]]) } }];
  const facts = {
    waits: true,
    isComplete: true,
    unplaced: [],
    servedFirst: [],
    stopped: [],
    unread: [],
    stranded: [],
    deadlocks: [],
  };
  const deadlock = {
    budget: 'shop/web',
    blocked: [first],
    pending: [first],
    node: 'n2',
    holders: ['rack-2'],
  };
  test.each([
    { when: 'all fit', differs: {}, status: 'True', reason: 'PodsFit', waits: false },
    {
      when: 'a pod fits nowhere',
      differs: { unplaced },
      status: 'False',
      reason: 'PodsDoNotFit',
      waits: true,
    },
    {
      when: 'a pod fits nowhere, and is evicted nevertheless',
      differs: { unplaced, waits: false },
      status: 'False',
      reason: 'PodsDoNotFit',
      waits: false,
    },
    {
      when: 'another maintenance is served first',
      differs: { unplaced, servedFirst: ['older'] },
      status: 'False',
      reason: 'WaitingForMaintenance',
      waits: true,
    },
    {
      when: 'the volumes of a pod are not known yet',
      differs: { unread: [first], stranded: [{ pod: first, nodes: ['n2'] }] },
      status: 'False',
      reason: 'VolumesUnknown',
      waits: true,
    },
    {
      when: 'a pod waits for the nodes of maintenances',
      differs: { stranded: [{ pod: first, nodes: ['n2'] }] },
      status: 'False',
      reason: 'PodsPending',
      waits: false,
    },
    {
      when: 'a deadlock is the most serious reason',
      differs: { unplaced, deadlocks: [deadlock], waits: false },
      status: 'False',
      reason: 'Deadlock',
      waits: true,
    },
  ])('is $status with reason $reason if $when', ({ differs, status, reason, waits }) => {
    const all = { ...facts, ...differs };
    const condition = capacityCondition(all);
    expect(condition).toMatchObject({ type: 'CapacityAvailable', status, reason });
    const spec = {
      nodeSelector: { nodeSelectorTerms: [] },
      stage: 'Drain' as const,
      requireCapacity: all.waits,
    };
    expect(waitsForCapacity({ spec }, [{ ...condition, lastTransitionTime: '' }])).toBe(waits);
  });

  test.each([
    { differs: {}, want: ['PodsFit'] },
    { differs: { isComplete: false }, want: [] },
    { differs: { isComplete: false, unplaced }, want: ['PodsDoNotFit'] },
  ])('says that pods fit only when all were compared with the nodes: $want', ({ differs, want }) => {
    const { conditions } = withCapacity(emptyStatus, { ...facts, ...differs }, '2026-11-22T00:00:00Z');
    expect(conditions.map(({ reason }) => reason)).toEqual(want);
  });

  test('names the pods whose volumes are not known yet', () => {
    expect(capacityCondition({ ...facts, unread: [first] }).message).toBe(
      '1 pod waits until the volumes of its claims are read: shop/web-0.',
    );
  });

  test.each([
    {
      when: 'the pod fits nowhere',
      differs: {},
      want: 'shop/web-0 (0/2 nodes are available: 2 Insufficient cpu). They are evicted when there is room: add a node, free resources, or set .spec.requireCapacity to false.',
    },
    {
      when: 'another one is served first',
      differs: { servedFirst: ['older'] },
      want: '1 pod waits because free capacity is allocated to NodeMaintenance older first: shop/web-0.',
    },
  ])('names the maintenances that keep their nodes until an operator acts, if $when', ({ differs, want }) => {
    const stopped = (['Paused', 'Drained', 'WaitingForNodeLease', 'Blocked'] as const).map(
      (stoppedReason) => ({
        name: `m-${stoppedReason}`.toLowerCase(),
        stoppedReason,
      }),
    );
    const { message } = capacityCondition({ ...facts, unplaced, stopped, ...differs });
    expect(message).toContain(want);
    expect(message).toMatch(
      / NodeMaintenance m-paused \(paused\), m-drained \(drained\), m-waitingfornodelease \(waits for a maintenance Lease\) and 1 more keep their nodes until an operator acts\.$/,
    );
  });
});
