import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Pod } from '../../../api/core.ts';
import type { NodeReadinessGate, NodeReadinessStatus } from '../../../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../../../api/nodeReadinessPolicy.ts';
import {
  hasSameRequirements,
  decideReadiness,
  evaluateGate,
  gatesOf,
  type ReadinessInput,
  readinessTiming,
} from '../../../domain/readiness/gates.ts';
import { toleratesTaint } from '../../../domain/common/toleration.ts';
import { gate, pod } from '../../kit/builders.ts';

const gatePod = (app: string, differs: Parameters<typeof pod>[0] = {}): Pod =>
  pod({ name: app, namespace: 'kube-system', labels: { app }, ...differs });

describe('a gate', () => {
  test.each([
    { when: 'its one pod is Ready', pods: [gatePod('cni')], want: { ready: true, pods: 1 } },
    {
      when: 'all of its pods are Ready',
      pods: [gatePod('cni'), gatePod('cni')],
      want: { ready: true, pods: 2 },
    },
    {
      when: 'a terminating pod has a replacement',
      pods: [gatePod('cni', { deletionTimestamp: 'now' }), gatePod('cni')],
      want: { ready: true, pods: 1 },
    },
    {
      when: 'an evicted pod is still listed',
      pods: [gatePod('cni', { phase: 'Failed', ready: false }), gatePod('cni')],
      want: { ready: true, pods: 1 },
    },
  ])('is ready when $when', ({ pods, want }) => {
    expect(evaluateGate(gate('cni'), pods)).toMatchObject({ name: 'cni', blocks: true, ...want });
  });

  const none = 'NoPods: no pod on the node in namespace kube-system has app=cni';
  test.each([
    { when: 'there is no pod', pods: [], want: none },
    { when: 'its pod has other labels', pods: [gatePod('csi')], want: none },
    { when: 'its pod is in another namespace', pods: [gatePod('cni', { namespace: 'x' })], want: none },
    { when: 'its only pod is terminating', pods: [gatePod('cni', { deletionTimestamp: 'now' })], want: none },
    { when: 'its only pod has succeeded', pods: [gatePod('cni', { phase: 'Succeeded' })], want: none },
    {
      when: 'one of two pods is not Ready',
      pods: [gatePod('cni'), gatePod('cni', { name: 'cni-2', ready: false })],
      want: 'PodsNotReady: pod is not ready: kube-system/cni-2 (Running)',
    },
  ])('is not ready when $when', ({ pods, want }) => {
    const { ready, reason, message } = evaluateGate(gate('cni'), pods);
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

test('gates that a policy has not written yet count already; a written gate of the same name takes precedence', () => {
  const written = gate('cni', { namespace: 'written' });
  const policies = [policy('a', 'gpu', [gate('cni'), gate('csi')]), policy('b', 'web', [gate('dns')])];
  const node = { metadata: { name: 'n', labels: { pool: 'gpu' } } };
  expect(gatesOf(node, [written], policies)).toEqual([written, gate('csi')]);
});

test('a policy has the same requirements if only its counters differ, but not if its spec or its suppressed gates differ', () => {
  const { metadata, spec } = policy('a', 'gpu', [gate('cni')]);
  const status = {
    observedGeneration: 1,
    nodes: 0,
    gates: 1,
    problems: '',
    suppressedGates: [],
    conditions: [],
  };
  const before = { metadata: { ...metadata, generation: 1 }, spec, status };
  expect(hasSameRequirements(before, { ...before, status: { ...status, nodes: 7 } })).toBe(true);
  expect(hasSameRequirements(before, { ...before, status: { ...status, suppressedGates: ['cni'] } })).toBe(
    false,
  );
  expect(hasSameRequirements(before, { ...before, metadata: { ...metadata, generation: 2 } })).toBe(false);
  expect(hasSameRequirements(before, { ...before, status: { ...status, observedGeneration: 0 } })).toBe(
    false,
  );
});

const graceMs = 30_000;
const all = ['cni', 'csi', 'logs'];
const gates = [gate('cni'), gate('csi'), gate('logs', { blocksReadiness: false })];
/** A node, an hour old, with two blocking gates and one that does not block, and its latest status. */
class SimulatedNode {
  now = Date.parse('2026-01-01T00:00:00Z');
  createdAtMs = this.now - 3_600_000;
  timing = readinessTiming(graceMs);
  isTainted: boolean;
  status: NodeReadinessStatus | undefined;

  constructor(isTainted = true) {
    this.isTainted = isTainted;
  }

  /** Decides again `seconds` later, with these gates ready. */
  after(seconds: number, readyApps: readonly string[], differs: Partial<ReadinessInput> = {}) {
    this.now += seconds * 1_000;
    const input: ReadinessInput = {
      gates,
      pods: readyApps.map((app) => gatePod(app)),
      isTainted: this.isTainted,
      isUnderMaintenance: false,
      createdAtMs: this.createdAtMs,
      generation: 1,
      now: this.now,
      ...differs,
    };
    const decision = decideReadiness(input, this.status, this.timing);
    // A round trip through the apiserver, to another leader.
    this.status = JSON.parse(JSON.stringify(decision.status));
    this.isTainted = decision.wantsTaint;
    return { input, ...decision };
  }

  get ready(): string {
    const [condition] = this.status?.conditions ?? [];
    return `${condition?.status} ${condition?.reason}`;
  }
}

describe('the taint', () => {
  test('is removed at once when the last blocking gate is ready', () => {
    const node = new SimulatedNode();
    expect(node.after(0, []).wantsTaint).toBe(true);
    expect(node.after(5, ['cni']).wantsTaint).toBe(true);
    expect(node.status).toMatchObject({ gates: '1/2', blockedBy: 'csi', losses: 0 });
    expect(node.after(5, ['cni', 'csi']).wantsTaint).toBe(false);
    expect([node.status?.gates, node.ready]).toEqual(['2/2', 'True GatesReady']);
    expect(node.status?.readiness.find(({ name }) => name === 'logs')?.ready).toBe(false);
  });

  test('is added at once for a gate that was never ready', () => {
    const node = new SimulatedNode();
    node.after(0, ['cni']);
    // A user removes the taint.
    node.isTainted = false;
    expect(node.after(1, ['cni']).wantsTaint).toBe(true);
  });

  test('is added at once to a node that was created before the apiserver knew its gates', () => {
    const node = new SimulatedNode(false);
    node.createdAtMs = node.now;
    expect(node.after(9, ['cni']).wantsTaint).toBe(true);
  });

  const [cni, csi, logs] = gates as [NodeReadinessGate, NodeReadinessGate, NodeReadinessGate];
  test.each([
    { when: 'is the first of the node', before: [], after: [csi] },
    { when: 'is added to others', before: [cni], after: [cni, csi] },
    { when: 'has another selector', before: [cni, { ...csi, selector: cni.selector }], after: [cni, csi] },
    { when: 'has another namespace', before: [cni, { ...csi, namespace: 'x' }], after: [cni, csi] },
    { when: 'becomes a blocking one', before: [cni, { ...csi, blocksReadiness: false }], after: [cni, csi] },
    { when: 'has no status yet', before: undefined, after: [cni, csi, logs] },
  ])('is added after the grace to a node that accepts pods when a gate $when, which is no loss', (row) => {
    const node = new SimulatedNode(false);
    // The gate would be ready in namespace x.
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

  test('a gate written with its fields in another order is the same gate', () => {
    const node = new SimulatedNode();
    const selector = { matchLabels: { app: 'cni', tier: 'x' } };
    const pods = [gatePod('cni', { labels: { app: 'cni', tier: 'x' } })];
    const before = node.after(0, [], { gates: [gate('cni', { selector })], pods });
    const reordered = { matchLabels: { tier: 'x', app: 'cni' } };
    const after = node.after(60, [], { gates: [gate('cni', { selector: reordered })], pods });
    expect(after.status.readiness).toEqual(before.status.readiness);
  });

  test('is added again when a gate is lost for longer than the grace', () => {
    const node = new SimulatedNode();
    node.after(0, all);
    const lost = node.after(60, ['cni', 'logs']);
    expect(lost).toMatchObject({ wantsTaint: false, changesAt: node.now + graceMs });
    expect(node.ready).toBe('False GatesLost');
    expect(node.status?.conditions[0]?.message).toBe(
      'gate csi: no pod on the node in namespace kube-system has app=csi; the node accepts no new pods from 2026-01-01T00:01:30.000Z on',
    );
    expect(node.after(29, ['cni', 'logs']).wantsTaint).toBe(false);
    expect(node.after(1, ['cni', 'logs']).wantsTaint).toBe(true);
    expect(node.after(5, all).wantsTaint).toBe(false);
  });

  test('is added at once while the node is under maintenance, which is no loss', () => {
    const node = new SimulatedNode();
    node.after(0, all);
    expect(node.after(60, [], { isUnderMaintenance: true }).wantsTaint).toBe(true);
    expect(node.after(60, all)).toMatchObject({ wantsTaint: false, status: { losses: 0 } });
  });

  test('stays when another field manager added it to a node that has lost its gates, which is no loss', () => {
    const node = new SimulatedNode();
    node.after(0, all);
    node.isTainted = true;
    expect(node.after(60, [])).toMatchObject({ wantsTaint: true, status: { losses: 0 } });
    expect(node.after(60, all).wantsTaint).toBe(false);
  });

  test('stays longer with each loss, and the third loss gets no grace', () => {
    const node = new SimulatedNode();
    node.after(0, all);
    for (const { loss, staysSeconds } of [
      { loss: 1, staysSeconds: 0 },
      { loss: 2, staysSeconds: 30 },
      { loss: 3, staysSeconds: 60 },
      { loss: 4, staysSeconds: 120 },
    ]) {
      expect(node.after(100, []).wantsTaint).toBe(loss >= 3);
      expect(node.after(30, []).wantsTaint).toBe(true);
      expect(node.status?.losses).toBe(loss);
      const back = node.after(1, all);
      expect(back.wantsTaint).toBe(staysSeconds > 0);
      if (staysSeconds === 0) continue;
      expect([node.ready, node.status?.taintUntil]).toEqual([
        'False Flapping',
        new Date(node.now + staysSeconds * 1_000).toISOString(),
      ]);
      expect(node.after(staysSeconds, all).wantsTaint).toBe(false);
    }
    expect(node.after(479, all).status.losses).toBe(4);
    expect(node.after(1, all).status).toMatchObject({ losses: 0 });
  });

  test('is damped for 30 seconds even without a grace', () => {
    const node = new SimulatedNode();
    node.timing = readinessTiming(0);
    node.after(0, all);
    for (const { loss, staysSeconds } of [
      { loss: 1, staysSeconds: 0 },
      { loss: 2, staysSeconds: 30 },
      { loss: 3, staysSeconds: 60 },
    ]) {
      expect(node.after(100, [])).toMatchObject({ wantsTaint: true, status: { losses: loss } });
      expect(node.after(1, all).wantsTaint).toBe(staysSeconds > 0);
      expect(node.after(staysSeconds, all).wantsTaint).toBe(false);
    }
  });
});

test('the taint always matches the gates', () => {
  const step = fc.record({
    seconds: fc.constantFrom(0, 1, 10, 29, 30, 31, 700),
    readyApps: fc.subarray(all),
    isUnderMaintenance: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.boolean(), fc.array(step, { maxLength: 30 }), (isTainted, steps) => {
      const node = new SimulatedNode(isTainted);
      for (const { seconds, readyApps, isUnderMaintenance } of steps) {
        const { input, wantsTaint, status, changesAt } = node.after(seconds, readyApps, {
          isUnderMaintenance,
        });
        const notReady = status.readiness.filter(({ name, ready }) => !ready && name !== 'logs');
        const wasNeverReady = notReady.some(({ lostTime }) => lostTime === undefined);
        const isGraceOver = notReady.some(({ lostTime = '' }) => node.now - Date.parse(lostTime) >= graceMs);
        if (notReady.length > 0 && (input.isTainted || wasNeverReady || isGraceOver || isUnderMaintenance))
          expect(wantsTaint).toBe(true);
        if (notReady.length === 0 && status.losses < 2) expect(wantsTaint).toBe(false);
        if (notReady.length === 0 && !input.isTainted) expect(wantsTaint).toBe(false);
        // A lost gate adds the taint later, and a damped taint is removed later, without any event.
        if ((notReady.length === 0) === wantsTaint) expect(changesAt).toBeGreaterThan(node.now);
        if (changesAt !== undefined) expect(changesAt).toBeGreaterThan(node.now);
        const again = decideReadiness({ ...input, isTainted: wantsTaint }, status, node.timing);
        expect(again).toMatchObject({ wantsTaint, status });
      }
    }),
  );
});

describe('a toleration', () => {
  const taint = { key: 'readiness.k8s.io/gates', effect: 'NoSchedule' } as const;
  test.each([
    { of: 'every taint', toleration: { operator: 'Exists' as const }, want: true },
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
