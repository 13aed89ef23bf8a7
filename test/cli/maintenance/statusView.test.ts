import { describe, expect, test } from '@jest/globals';
import { statusLines, statusText } from '../../../cli/maintenance/statusView.ts';
import type { MaintenanceSummary } from '../../../domain/maintenance/summary.ts';

const started = '2026-01-01T12:00:00Z';
const now = Date.parse(started) + 72_000;

const summary: MaintenanceSummary = {
  name: 'rack-7',
  stage: 'Drain',
  stageSince: started,
  reason: 'firmware\u001b[31m 2.4',
  paused: false,
  drained: false,
  completed: false,
  tier: { number: 1, total: 3, pods: 'Default pods with priority up to 1000000000' },
  podsToEvacuate: 14,
  podsEvacuated: 26,
  podsBlocked: 2,
  estimate: { seconds: 39, basis: 'AverageRate', rate: { pods: 26, ms: 72_000 } },
  nodes: [
    {
      node: 'node-1',
      cordoned: true,
      tier: 'Default pods with priority up to 1000000000',
      podsToEvacuate: 14,
      podsEvacuated: 26,
      message: 'Evacuating',
      leaving: [
        { pod: 'shop/a', blocker: { reason: 'X', message: 'No room.' } },
        { pod: 'shop/b', blocker: { reason: 'X', message: 'No room.' } },
        { pod: 'shop/c', evacuator: 'data.example.com', message: 'copied 40 %' },
        { pod: 'shop/d' },
      ],
      staticPods: ['kube-system/etcd'],
      gates: {
        ready: 1,
        all: 2,
        notReady: [{ gate: 'network', message: 'pod is not ready: kube-system/cni' }],
      },
    },
  ],
};

describe('the status', () => {
  test('of a drain shows the tier, the progress, an estimate with its basis, and each cause once', () => {
    const staticPodsRemain = 'kube-system/etcd (part of the control plane)';
    expect(statusLines({ ...summary, staticPodsRemain }, now)).toEqual([
      String.raw`nodemaintenance/rack-7: Drain for 72s, tier 1 of 3: firmware\u001b[31m 2.4`,
      '  26 of 40 pods evacuated, 2 blocked; about 39s remaining at the average rate (26 pods in 72s)',
      '  NODE     DRAINED           TO EVACUATE   GATES   TARGETS                                       MESSAGE',
      '  node-1   ██████░░░░  65%   14            1/2     Default pods with priority up to 1000000000   Evacuating',
      '  shop/a (node-1), shop/b (node-1) blocked: No room.',
      '  shop/c (node-1) data.example.com: copied 40 %',
      '  static pods keep running: kube-system/etcd (part of the control plane)',
      '  node-1: gate network: pod is not ready: kube-system/cni',
    ]);
  });

  test('of a drain with a deadline shows when it is, what happens then, and the next notification', () => {
    const after = (seconds: number) => new Date(now + seconds * 1_000).toISOString().replace('.000Z', 'Z');
    const lineOf = (drainDeadline: MaintenanceSummary['drainDeadline']) =>
      statusLines({ ...summary, ...(drainDeadline && { drainDeadline }) }, now)[2]?.trim();
    const time = after(3_600);
    expect(lineOf({ time, onDeadline: 'Delete', nextStep: after(2_700) })).toBe(
      `deadline in 60m (${time}): pods that are left are deleted one grace period earlier; next notification in 45m`,
    );
    expect(lineOf({ time: after(-1), onDeadline: 'Report' })).toBe(
      `deadline ${after(-1)} has passed: pods that are left are reported`,
    );
    expect(lineOf({ time, onDeadline: 'Report', drainedAt: after(0) })).not.toContain('deadline');
  });

  test('of a maintenance that no worker has started says so', () => {
    const { stageSince: _since, tier: _tier, reason: _reason, estimate: _estimate, ...unstarted } = summary;
    const { podsToEvacuate: _left, ...uncounted } = unstarted;
    const lines = statusLines({ ...uncounted, podsEvacuated: 0, podsBlocked: 0, nodes: [] }, now);
    expect(lines).toEqual(['nodemaintenance/rack-7: Drain, not started']);
  });

  test('of a maintenance that waits for Temporal says so, and why', () => {
    const notProgressing = {
      reason: 'TemporalUnavailable',
      message: 'Temporal is unavailable: timeout.',
      since: started,
    };
    expect(statusLines({ ...summary, notProgressing, nodes: [] }, now).slice(1)).toEqual([
      '  not progressing for 72s: Temporal is unavailable: timeout.',
      '  26 of 40 pods evacuated, 2 blocked; about 39s remaining at the average rate (26 pods in 72s)',
    ]);
  });

  test('of a completed maintenance explains nodes that it did not change, and names missing nodes', () => {
    const { estimate: _estimate, tier: _tier, ...rest } = summary;
    const node = {
      cordoned: true,
      podsToEvacuate: 0,
      podsEvacuated: 0,
      message: '',
      leaving: [],
      staticPods: [],
    };
    const nodes = [
      { ...node, node: 'a', outOfServiceReasons: [], inService: true, cordoned: false },
      {
        ...node,
        node: 'b',
        outOfServiceReasons: [],
        inService: false,
        notUncordoned: 'CordonedBefore' as const,
      },
      {
        ...node,
        node: 'c',
        outOfServiceReasons: [],
        inService: false,
        notUncordoned: 'NeverCordoned' as const,
      },
    ];
    const complete = { ...rest, stage: 'Complete' as const, completed: true, nodes, missingNodes: ['d'] };
    expect(statusLines(complete, now).slice(1)).toEqual([
      '  1 of 4 nodes in service, 2 unchanged, d does not exist',
      '  NODE   IN SERVICE   GATES    WAITING FOR',
      '  a      yes          <none>   <none>',
      '  b      no           <none>   nothing: was cordoned before the maintenance',
      '  c      no           <none>   nothing: was not changed by the maintenance',
    ]);
  });

  test('in a small terminal lists blocked nodes first, counts nodes that are done, and omits TARGETS', () => {
    const [blocked] = summary.nodes;
    if (blocked === undefined) throw new Error('the summary has a node');
    const draining = { ...blocked, node: 'node-0', leaving: [] };
    const done = { ...draining, node: 'node-9', podsToEvacuate: 0, message: 'Drained' };
    const { progress, rows } = statusText({ ...summary, nodes: [draining, blocked, done] }, now, {
      width: 70,
      isTruncated: true,
    });
    expect(progress[1]).toBe('not listed: 1 of 3 nodes, without pods to evacuate');
    expect(rows).toEqual([
      'NODE     DRAINED           TO EVACUATE   GATES   MESSAGE',
      'node-1   ██████░░░░  65%   14            1/2     Evacuating',
      'node-0   ██████░░░░  65%   14            1/2     Evacuating',
    ]);
  });

  test('in a small terminal names the cause, with its remedy, before the pods', () => {
    const { remarks } = statusText(summary, now, { width: 38, isTruncated: true });
    expect(remarks.map(({ text }) => text)).toEqual([
      'blocked: No room. Pods: shop/a (node-1), shop/b (node-1)',
      'data.example.com: copied 40 %. Pods: shop/c (node-1)',
      'node-1: gate network: pod is not ready: kube-system/cni',
    ]);
  });

  test('of a node that is not back in service names what it waits for', () => {
    const [node] = summary.nodes;
    const outOfServiceReasons = ['gate network: pod is not ready: kube-system/cni'];
    const nodes = node === undefined ? [] : [{ ...node, message: '', outOfServiceReasons }];
    const { estimate: _estimate, tier: _tier, ...rest } = summary;
    expect(statusLines({ ...rest, stage: 'Complete', completed: true, nodes }, now).slice(1)).toEqual([
      '  0 of 1 nodes in service',
      '  NODE     IN SERVICE   GATES   WAITING FOR',
      '  node-1   no           1/2     gate network: pod is not ready: kube-system/cni',
    ]);
  });
});
