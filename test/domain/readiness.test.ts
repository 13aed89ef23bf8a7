import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Pod } from '../../api/core.ts';
import type { NodeReadinessGate, NodeReadinessStatus } from '../../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../../api/nodeReadinessPolicy.ts';
import {
  asksTheSame,
  decideReadiness,
  gateFacts,
  gatesOf,
  type ReadinessFacts,
  readinessPatience,
} from '../../domain/readiness.ts';
import { toleratesTaint } from '../../domain/toleration.ts';
import { gate, pod } from '../kit/builders.ts';

const gatePod = (app: string, differs: Parameters<typeof pod>[0] = {}): Pod =>
  pod({ name: app, namespace: 'kube-system', labels: { app }, ...differs });

describe('a gate', () => {
  test.each([
    { when: 'its one pod is Ready', pods: [gatePod('cni')], want: { ready: true, pods: 1 } },
    { when: 'all of its pods are', pods: [gatePod('cni'), gatePod('cni')], want: { ready: true, pods: 2 } },
    {
      when: 'one that leaves has a successor',
      pods: [gatePod('cni', { deletionTimestamp: 'now' }), gatePod('cni')],
      want: { ready: true, pods: 1 },
    },
    {
      when: 'one that was evicted is still listed',
      pods: [gatePod('cni', { phase: 'Failed', ready: false }), gatePod('cni')],
      want: { ready: true, pods: 1 },
    },
  ])('is ready when $when', ({ pods, want }) => {
    expect(gateFacts(gate('cni'), pods)).toMatchObject({ name: 'cni', blocks: true, ...want });
  });

  const none = 'NoPods: no pod on the node in namespace kube-system has app=cni';
  test.each([
    { when: 'there is no pod', pods: [], want: none },
    { when: 'its pod has other labels', pods: [gatePod('csi')], want: none },
    { when: 'its pod is in another namespace', pods: [gatePod('cni', { namespace: 'x' })], want: none },
    { when: 'its only pod leaves', pods: [gatePod('cni', { deletionTimestamp: 'now' })], want: none },
    { when: 'its only pod has ended', pods: [gatePod('cni', { phase: 'Succeeded' })], want: none },
    {
      when: 'one of two pods is not Ready',
      pods: [gatePod('cni'), gatePod('cni', { name: 'cni-2', ready: false })],
      want: 'PodsNotReady: pod is not ready: kube-system/cni-2 (Running)',
    },
  ])('is not ready when $when', ({ pods, want }) => {
    const { ready, reason, message } = gateFacts(gate('cni'), pods);
    expect({ ready, why: `${reason}: ${message}` }).toEqual({ ready: false, why: want });
  });
});

const policy = (name: string, value: string, readinessGates: NodeReadinessGate[]): NodeReadinessPolicy => ({
  metadata: { name },
  spec: {
    nodeSelector: {
      nodeSelectorTerms: [{ matchExpressions: [{ key: 'pool', operator: 'In', values: [value] }] }],
    },
    readinessGates,
  },
});

test('gates that a policy is still to write count already, and what is written counts more', () => {
  const written = gate('cni', { namespace: 'written' });
  const policies = [policy('a', 'gpu', [gate('cni'), gate('csi')]), policy('b', 'web', [gate('dns')])];
  const node = { metadata: { name: 'n', labels: { pool: 'gpu' } } };
  expect(gatesOf(node, [written], policies)).toEqual([written, gate('csi')]);
});

test('what a policy counts on its nodes is no news to them; what it asks for, and what it withholds, is', () => {
  const { metadata, spec } = policy('a', 'gpu', [gate('cni')]);
  const status = {
    observedGeneration: 1,
    nodes: 0,
    gates: 1,
    problems: '',
    withheldGates: [],
    conditions: [],
  };
  const before = { metadata: { ...metadata, generation: 1 }, spec, status };
  expect(asksTheSame(before, { ...before, status: { ...status, nodes: 7 } })).toBe(true);
  expect(asksTheSame(before, { ...before, status: { ...status, withheldGates: ['cni'] } })).toBe(false);
  expect(asksTheSame(before, { ...before, metadata: { ...metadata, generation: 2 } })).toBe(false);
  expect(asksTheSame(before, { ...before, status: { ...status, observedGeneration: 0 } })).toBe(false);
});

const graceMs = 30_000;
const all = ['cni', 'csi', 'logs'];
const gates = [gate('cni'), gate('csi'), gate('logs', { blocksReadiness: false })];
/** A node, an hour old, with two gates that block and one that does not, and what was decided of it so far. */
class Course {
  now = Date.parse('2026-01-01T00:00:00Z');
  bornAt = this.now - 3_600_000;
  patience = readinessPatience(graceMs);
  isTainted: boolean;
  status: NodeReadinessStatus | undefined;

  constructor(isTainted = true) {
    this.isTainted = isTainted;
  }

  /** `seconds` later these gates are ready. */
  after(seconds: number, open: readonly string[], differs: Partial<ReadinessFacts> = {}) {
    this.now += seconds * 1_000;
    const facts: ReadinessFacts = {
      gates,
      pods: open.map((app) => gatePod(app)),
      isTainted: this.isTainted,
      isHeld: false,
      bornAt: this.bornAt,
      generation: 1,
      now: this.now,
      ...differs,
    };
    const decision = decideReadiness(facts, this.status, this.patience);
    // As it comes back from the apiserver, to another leader.
    this.status = JSON.parse(JSON.stringify(decision.status));
    this.isTainted = decision.wantsTaint;
    return { facts, ...decision };
  }

  get ready(): string {
    const [condition] = this.status?.conditions ?? [];
    return `${condition?.status} ${condition?.reason}`;
  }
}

describe('the taint', () => {
  test('goes at once when the last gate that blocks is ready', () => {
    const node = new Course();
    expect(node.after(0, []).wantsTaint).toBe(true);
    expect(node.after(5, ['cni']).wantsTaint).toBe(true);
    expect(node.status).toMatchObject({ gates: '1/2', blockedBy: 'csi', losses: 0 });
    expect(node.after(5, ['cni', 'csi']).wantsTaint).toBe(false);
    expect([node.status?.gates, node.ready]).toEqual(['2/2', 'True GatesReady']);
    expect(node.status?.readiness.find(({ name }) => name === 'logs')?.ready).toBe(false);
  });

  test('comes at once for a gate that was never ready', () => {
    const node = new Course();
    node.after(0, ['cni']);
    // Taken away by hand.
    node.isTainted = false;
    expect(node.after(1, ['cni']).wantsTaint).toBe(true);
  });

  test('comes at once to a node that was made before the apiserver knew of its gates', () => {
    const node = new Course(false);
    node.bornAt = node.now;
    expect(node.after(9, ['cni']).wantsTaint).toBe(true);
  });

  const [cni, csi, logs] = gates as [NodeReadinessGate, NodeReadinessGate, NodeReadinessGate];
  test.each([
    { when: 'is the first one of the node', before: [], after: [csi] },
    { when: 'is new beside others', before: [cni], after: [cni, csi] },
    { when: 'has another selector', before: [cni, { ...csi, selector: cni.selector }], after: [cni, csi] },
    { when: 'has another namespace', before: [cni, { ...csi, namespace: 'x' }], after: [cni, csi] },
    { when: 'blocks from now on', before: [cni, { ...csi, blocksReadiness: false }], after: [cni, csi] },
    { when: 'has never been looked at by anybody', before: undefined, after: [cni, csi, logs] },
  ])('comes after the grace to a node that takes pods when a gate $when, and that is no loss', (row) => {
    const node = new Course(false);
    // In namespace x it would be ready.
    const pods = [gatePod('cni'), gatePod('csi', { namespace: 'x' })];
    if (row.before !== undefined) node.after(0, [], { gates: row.before, pods });
    expect(node.isTainted).toBe(false);
    const changed = node.after(60, [], { gates: row.after, pods });
    expect(changed).toMatchObject({ wantsTaint: false, changesAt: node.now + graceMs });
    expect([node.ready, node.status?.losses]).toEqual(['False GatesLost', 0]);
    expect(node.after(29, [], { gates: row.after, pods }).wantsTaint).toBe(false);
    expect(node.after(1, [], { gates: row.after, pods }).wantsTaint).toBe(true);
    expect(node.after(1, all, { gates: row.after })).toMatchObject({
      wantsTaint: false,
      status: { losses: 0 },
    });
  });

  test('stays on a node whose gate is written in another order, and means the same', () => {
    const node = new Course();
    const selector = { matchLabels: { app: 'cni', tier: 'x' } };
    const pods = [gatePod('cni', { labels: { app: 'cni', tier: 'x' } })];
    const before = node.after(0, [], { gates: [gate('cni', { selector })], pods });
    const turned = { matchLabels: { tier: 'x', app: 'cni' } };
    const after = node.after(60, [], { gates: [gate('cni', { selector: turned })], pods });
    expect(after.status.readiness).toEqual(before.status.readiness);
  });

  test('comes back when a gate is lost for longer than the grace', () => {
    const node = new Course();
    node.after(0, all);
    const lost = node.after(60, ['cni', 'logs']);
    expect(lost).toMatchObject({ wantsTaint: false, changesAt: node.now + graceMs });
    expect(node.ready).toBe('False GatesLost');
    expect(node.status?.conditions[0]?.message).toBe(
      'gate csi: no pod on the node in namespace kube-system has app=csi; no new pods from 2026-01-01T00:01:30.000Z on',
    );
    expect(node.after(29, ['cni', 'logs']).wantsTaint).toBe(false);
    expect(node.after(1, ['cni', 'logs']).wantsTaint).toBe(true);
    expect(node.after(5, all).wantsTaint).toBe(false);
  });

  test('comes back at once while a maintenance holds the node, and that is no loss', () => {
    const node = new Course();
    node.after(0, all);
    expect(node.after(60, [], { isHeld: true }).wantsTaint).toBe(true);
    expect(node.after(60, all)).toMatchObject({ wantsTaint: false, status: { losses: 0 } });
  });

  test('stays when somebody else put it on a node that has lost its gates, and that is no loss', () => {
    const node = new Course();
    node.after(0, all);
    node.isTainted = true;
    expect(node.after(60, [])).toMatchObject({ wantsTaint: true, status: { losses: 0 } });
    expect(node.after(60, all).wantsTaint).toBe(false);
  });

  test('stays the longer the more often the node was lost, and a third loss gets no grace', () => {
    const node = new Course();
    node.after(0, all);
    for (const { loss, staysFor } of [
      { loss: 1, staysFor: 0 },
      { loss: 2, staysFor: 30 },
      { loss: 3, staysFor: 60 },
      { loss: 4, staysFor: 120 },
    ]) {
      expect(node.after(100, []).wantsTaint).toBe(loss >= 3);
      expect(node.after(30, []).wantsTaint).toBe(true);
      expect(node.status?.losses).toBe(loss);
      const back = node.after(1, all);
      expect(back.wantsTaint).toBe(staysFor > 0);
      if (staysFor === 0) continue;
      expect([node.ready, node.status?.taintUntil]).toEqual([
        'False Flapping',
        new Date(node.now + staysFor * 1_000).toISOString(),
      ]);
      expect(node.after(staysFor, all).wantsTaint).toBe(false);
    }
    expect(node.after(479, all).status.losses).toBe(4);
    expect(node.after(1, all).status).toMatchObject({ losses: 0 });
  });

  test('is damped for half a minute even where no grace is given', () => {
    const node = new Course();
    node.patience = readinessPatience(0);
    node.after(0, all);
    for (const { loss, staysFor } of [
      { loss: 1, staysFor: 0 },
      { loss: 2, staysFor: 30 },
      { loss: 3, staysFor: 60 },
    ]) {
      expect(node.after(100, [])).toMatchObject({ wantsTaint: true, status: { losses: loss } });
      expect(node.after(1, all).wantsTaint).toBe(staysFor > 0);
      expect(node.after(staysFor, all).wantsTaint).toBe(false);
    }
  });
});

test('whatever happens, the taint says the truth', () => {
  const step = fc.record({
    seconds: fc.constantFrom(0, 1, 10, 29, 30, 31, 700),
    open: fc.subarray(all),
    isHeld: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.boolean(), fc.array(step, { maxLength: 30 }), (isTainted, steps) => {
      const node = new Course(isTainted);
      for (const { seconds, open, isHeld } of steps) {
        const { facts, wantsTaint, status, changesAt } = node.after(seconds, open, { isHeld });
        const closed = status.readiness.filter(({ name, ready }) => !ready && name !== 'logs');
        const isNever = closed.some(({ lostTime }) => lostTime === undefined);
        const isLong = closed.some(({ lostTime = '' }) => node.now - Date.parse(lostTime) >= graceMs);
        if (closed.length > 0 && (facts.isTainted || isNever || isLong || isHeld))
          expect(wantsTaint).toBe(true);
        if (closed.length === 0 && status.losses < 2) expect(wantsTaint).toBe(false);
        if (closed.length === 0 && !facts.isTainted) expect(wantsTaint).toBe(false);
        // A node without the taint whose gates are lost, and one that flapped, change by themselves.
        if ((closed.length === 0) === wantsTaint) expect(changesAt).toBeGreaterThan(node.now);
        if (changesAt !== undefined) expect(changesAt).toBeGreaterThan(node.now);
        const again = decideReadiness({ ...facts, isTainted: wantsTaint }, status, node.patience);
        expect(again).toMatchObject({ wantsTaint, status });
      }
    }),
  );
});

describe('a toleration', () => {
  const taint = { key: 'readiness.k8s.io/gates', effect: 'NoSchedule' } as const;
  test.each([
    { of: 'everything', toleration: { operator: 'Exists' as const }, want: true },
    { of: 'the key', toleration: { key: taint.key, operator: 'Exists' as const }, want: true },
    { of: 'the key with no value', toleration: { key: taint.key }, want: true },
    { of: 'the key with a value', toleration: { key: taint.key, value: 'x' }, want: false },
    {
      of: 'another effect',
      toleration: { operator: 'Exists' as const, effect: 'NoExecute' as const },
      want: false,
    },
    { of: 'another key', toleration: { key: 'a', operator: 'Exists' as const }, want: false },
    { of: 'no key and no operator', toleration: {}, want: false },
  ])('of $of: $want', ({ toleration, want }) => {
    expect(toleratesTaint([toleration], taint)).toBe(want);
  });
});
