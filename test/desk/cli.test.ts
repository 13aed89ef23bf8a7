import { describe, expect, test } from '@jest/globals';
import { ContactLines } from '../../cli/contact.ts';
import { Paces } from '../../cli/pace.ts';
import { statusLines, statusText } from '../../cli/statusView.ts';
import type { MaintenanceSummary } from '../../domain/maintenanceSummary.ts';

const began = '2026-01-01T12:00:00Z';
const now = Date.parse(began) + 72_000;

const summary: MaintenanceSummary = {
  name: 'rack-7',
  stage: 'Drain',
  stageSince: began,
  reason: 'firmware\u001b[31m 2.4',
  paused: false,
  drained: false,
  givenBack: false,
  tier: { entry: 1, of: 12, pods: 'Default pods up to 1000000000' },
  podsLeft: 14,
  podsEvacuated: 26,
  podsBlocked: 2,
  estimate: { seconds: 39, basis: 'PaceSoFar', pace: { pods: 26, ms: 72_000 } },
  nodes: [
    {
      node: 'node-1',
      cordoned: true,
      tier: 'Default pods up to 1000000000',
      podsLeft: 14,
      podsEvacuated: 26,
      message: 'Evacuating',
      leaving: [
        { pod: 'shop/a', blocker: { reason: 'X', message: 'No room.' } },
        { pod: 'shop/b', blocker: { reason: 'X', message: 'No room.' } },
        { pod: 'shop/c', evacuator: 'data.example.com', message: 'copied 40 %' },
        { pod: 'shop/d' },
      ],
      staticPods: ['kube-system/etcd'],
      gates: { open: 1, all: 2, closed: [{ gate: 'network', message: 'pod is not ready: kube-system/cni' }] },
    },
  ],
};

describe('what status prints', () => {
  test('of a drain has its tier, its progress, an estimate with its basis, and every cause once', () => {
    expect(statusLines(summary, now)).toEqual([
      String.raw`nodemaintenance/rack-7: Drain for 72s, entry 1 of 12 of its drain plan: firmware\u001b[31m 2.4`,
      '  26 of 40 pods have left, 2 cannot leave; about 39s more at the pace so far (26 pods in 72s)',
      '  NODE     DRAINED           PODS LEFT   GATES   TARGETS                         MESSAGE',
      '  node-1   ██████░░░░  65%   14          1/2     Default pods up to 1000000000   Evacuating',
      '  shop/a (node-1), shop/b (node-1) cannot leave: No room.',
      '  shop/c (node-1) data.example.com: copied 40 %',
      '  kube-system/etcd (node-1) left running: static pods, which only their kubelet ends',
      '  node-1: gate network: pod is not ready: kube-system/cni',
    ]);
  });

  test('of a maintenance that nobody has taken up says so', () => {
    const { stageSince: _since, tier: _tier, reason: _reason, estimate: _estimate, ...fresh } = summary;
    const { podsLeft: _left, ...uncounted } = fresh;
    const lines = statusLines({ ...uncounted, podsEvacuated: 0, podsBlocked: 0, nodes: [] }, now);
    expect(lines).toEqual(['nodemaintenance/rack-7: Drain, not taken up yet']);
  });

  test('of nodes that Complete leaves as they were does not say that they take pods, nor of one that does not exist', () => {
    const { estimate: _estimate, tier: _tier, ...rest } = summary;
    const node = { cordoned: true, podsLeft: 0, podsEvacuated: 0, message: '', leaving: [], staticPods: [] };
    const nodes = [
      { ...node, node: 'a', obstacles: [], takesPods: true, cordoned: false },
      { ...node, node: 'b', obstacles: [], takesPods: false, left: 'CordonedBefore' as const },
      { ...node, node: 'c', obstacles: [], takesPods: false, left: 'NeverTouched' as const },
    ];
    const complete = { ...rest, stage: 'Complete' as const, givenBack: true, nodes, missingNodes: ['d'] };
    expect(statusLines(complete, now).slice(1)).toEqual([
      '  1 of 4 nodes takes pods again, 2 are left as before, d does not exist',
      '  NODE   TAKES PODS   GATES    WAITS FOR',
      '  a      yes          <none>   <none>',
      '  b      no           <none>   nothing: left cordoned, as before',
      '  c      no           <none>   nothing: left alone, never touched',
    ]);
  });

  test('where there is little room begins with nodes that are stuck, counts those that are done, and does without TARGETS', () => {
    const [stuck] = summary.nodes;
    if (stuck === undefined) throw new Error('the summary has a node');
    const going = { ...stuck, node: 'node-0', leaving: [] };
    const done = { ...going, node: 'node-9', podsLeft: 0, message: 'Drained' };
    const { progress, rows } = statusText({ ...summary, nodes: [going, stuck, done] }, now, {
      width: 70,
      isCut: true,
    });
    expect(progress[1]).toBe('not listed: 1 of 3 nodes, without pods to evacuate');
    expect(rows).toEqual([
      'NODE     DRAINED           PODS LEFT   GATES   MESSAGE',
      'node-1   ██████░░░░  65%   14          1/2     Evacuating',
      'node-0   ██████░░░░  65%   14          1/2     Evacuating',
    ]);
  });

  test('of a node that is not back names what it waits for', () => {
    const [node] = summary.nodes;
    const obstacles = ['gate network: pod is not ready: kube-system/cni'];
    const nodes = node === undefined ? [] : [{ ...node, message: '', obstacles }];
    const { estimate: _estimate, tier: _tier, ...rest } = summary;
    expect(statusLines({ ...rest, stage: 'Complete', givenBack: true, nodes }, now).slice(1)).toEqual([
      '  0 of 1 nodes take pods again',
      '  NODE     TAKES PODS   GATES   WAITS FOR',
      '  node-1   no           1/2     gate network: pod is not ready: kube-system/cni',
    ]);
  });
});

test('that contact is lost is said once for each reason, and when it is back', () => {
  const said: string[] = [];
  const contact = new ContactLines((text) => said.push(text));
  for (const because of [undefined, 'refused', 'refused', 'timed out', undefined, undefined])
    contact.tell(because);
  expect(said).toEqual([
    'Contact was lost, trying again: refused',
    'Contact was lost, trying again: timed out',
    'Contact is back.',
  ]);
});

describe('the pace of late', () => {
  test('is not told from two looks at once, and forgets what is older than a minute', () => {
    const paces = new Paces();
    paces.see('rack-7', 0, 0);
    paces.see('rack-7', 1, 1_000);
    expect(paces.paceOf('rack-7')).toBeUndefined();
    paces.see('rack-7', 30, 30_000);
    expect(paces.paceOf('rack-7')).toEqual({ pods: 30, ms: 30_000 });
    paces.see('rack-7', 40, 100_000);
    expect(paces.paceOf('rack-7')).toEqual({ pods: 10, ms: 70_000 });
    expect(paces.paceOf('other')).toBeUndefined();
  });
});
