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
    expect(evaluateGate(gate('cni'), pods, [])).toMatchObject({ name: 'cni', blocks: true, ...want });
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
    const { ready, reason, message } = evaluateGate(gate('cni'), pods, []);
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
      bootId: 'a',
      nodeReadySinceMs: this.createdAtMs,
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
    expect(changed).toMatchObject({ wantsTaint: false, changesAtMs: node.now + graceMs });
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
    expect(lost).toMatchObject({ wantsTaint: false, changesAtMs: node.now + graceMs });
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

describe('a gate with a grace of its own', () => {
  const network = gate('cni', { graceSeconds: 5 });
  test('adds the taint when its grace is over, without waiting for that of another gate', () => {
    const node = new SimulatedNode();
    const differs = { gates: [network, gate('csi')] };
    node.after(0, all, differs);
    expect(node.after(60, ['cni'], differs)).toMatchObject({ changesAtMs: node.now + graceMs });
    expect(node.after(1, [], differs)).toMatchObject({ wantsTaint: false, changesAtMs: node.now + 5_000 });
    expect(node.after(5, [], differs).wantsTaint).toBe(true);
  });

  test('is the same gate with another grace', () => {
    const node = new SimulatedNode();
    node.after(0, [], { gates: [network] });
    const { lostTime, definition } = node.after(60, all, { gates: [network] }).status.readiness[0] ?? {};
    const changed = node.after(60, all, { gates: [{ ...network, graceSeconds: 9 }] });
    expect(changed.status.readiness[0]).toMatchObject({ definition, ready: true });
    expect(lostTime).toBeUndefined();
  });

  test('of 0 closes a node that accepts pods at once', () => {
    const node = new SimulatedNode(false);
    node.after(0, ['cni'], { gates: [network] });
    const own = gate('burn-in', { graceSeconds: 0 });
    const closed = node.after(60, ['cni'], { gates: [network, own] });
    expect(closed).toMatchObject({ wantsTaint: true, status: { losses: 0, blockedBy: 'burn-in' } });
  });
});

/** Returns a Ready pod with these containers. */
const run = (app: string, containers: string): Pod => {
  const one = gatePod(app);
  return { ...one, status: { ...one.status, containers } };
};

describe('a node that rebooted', () => {
  const before = [run('cni', 'cni-1'), run('csi', 'csi-1')];
  const ready = () => {
    const node = new SimulatedNode();
    node.after(0, [], { pods: before });
    expect(node.isTainted).toBe(false);
    return node;
  };

  test('accepts no pods from the first report of its kubelet on, until all pods of its gates have started again', () => {
    const node = ready();
    const closed = node.after(600, [], { pods: before, bootId: 'b' });
    expect(closed).toMatchObject({ wantsTaint: true, status: { bootID: 'b', gates: '0/2', losses: 1 } });
    expect(closed.status.readiness[0]?.message).toBe(
      'pod is not ready: kube-system/cni (not reported since the reboot)',
    );
    expect(closed.status).toMatchObject({ staleContainers: ['cni-1', 'csi-1'] });
    expect(closed.status.containers).toBeUndefined();
    const started = [run('cni', 'cni-2'), run('csi', 'csi-1')];
    expect(node.after(1, [], { pods: started, bootId: 'b' })).toMatchObject({
      wantsTaint: true,
      status: { gates: '1/2', containers: ['cni-2'], staleContainers: ['csi-1'] },
    });
    const pods = [run('cni', 'cni-2'), run('csi', 'csi-2')];
    expect(node.after(1, [], { pods, bootId: 'b' })).toMatchObject({
      wantsTaint: false,
      status: { containers: ['cni-2', 'csi-2'] },
    });
    expect(node.status?.staleContainers).toBeUndefined();
  });

  test('accepts no pods either when it reboots again before its pods have started', () => {
    const node = ready();
    node.after(600, [], { pods: before, bootId: 'b' });
    const again = node.after(59, [], { pods: before, bootId: 'c' });
    expect(again).toMatchObject({ wantsTaint: true, status: { staleContainers: ['cni-1', 'csi-1'] } });
  });

  test('counts a pod that was reported before the boot ID, a minute later', () => {
    const node = ready();
    const pods = [run('cni', 'cni-2'), run('csi', 'csi-2')];
    node.after(600, [], { pods });
    const closed = node.after(1, [], { pods, bootId: 'b' });
    expect(closed).toMatchObject({ wantsTaint: true, changesAtMs: node.now + 60_000 });
    expect(node.after(59, [], { pods, bootId: 'b' }).wantsTaint).toBe(true);
    expect(node.after(1, [], { pods, bootId: 'b', nodeReadySinceMs: undefined }).wantsTaint).toBe(true);
    expect(node.after(1, [], { pods, bootId: 'b' })).toMatchObject({
      wantsTaint: false,
      status: { containers: ['cni-2', 'csi-2'] },
    });
    expect(node.status?.staleContainers).toBeUndefined();
  });

  test.each([
    { bootId: 'b', readyAfterSeconds: 20 },
    { bootId: undefined, readyAfterSeconds: 20 },
    { bootId: 'b', readyAfterSeconds: 300 },
  ])(
    'under a new Node object accepts no pods until its pods have started again, or a minute has passed (%j)',
    ({ bootId, readyAfterSeconds }) => {
      const older = (one: Pod): Pod => ({
        ...one,
        metadata: { ...one.metadata, creationTimestamp: '2025-12-31T00:00:00Z' },
      });
      const old = before.map(older);
      const started = [run('cni', 'cni-2'), run('csi', 'csi-2')].map(older);
      const create = () => {
        const node = new SimulatedNode();
        node.createdAtMs = node.now;
        expect(node.after(0, [], { pods: old, bootId, nodeReadySinceMs: undefined }).wantsTaint).toBe(true);
        const nodeReadySinceMs = node.createdAtMs + readyAfterSeconds * 1_000;
        return { node, nodeReadySinceMs };
      };
      const unreported = create();
      unreported.node.after(readyAfterSeconds - 1, [], { pods: old, bootId, nodeReadySinceMs: undefined });
      expect(unreported.node.status?.readiness[0]?.message).toMatch('not reported since the reboot');
      const { node, nodeReadySinceMs } = unreported;
      const reported = readyAfterSeconds < 60;
      expect(node.after(1, [], { pods: old, bootId, nodeReadySinceMs }).wantsTaint).toBe(reported);
      expect(node.after(40, [], { pods: old, bootId, nodeReadySinceMs }).wantsTaint).toBe(false);
      const restarted = create();
      expect(
        restarted.node.after(1, [], { pods: started, bootId, nodeReadySinceMs: undefined }).wantsTaint,
      ).toBe(bootId === undefined);
    },
  );

  test('gets no grace for a gate whose pods report no containers', () => {
    const node = new SimulatedNode();
    node.after(0, all);
    expect(node.after(600, all, { bootId: 'b' }).wantsTaint).toBe(false);
    expect(node.after(10, ['cni'], { bootId: 'b' }).wantsTaint).toBe(true);
  });

  test.each([
    { when: 'was lost before', differs: { bootId: 'b' } },
    { when: 'is new', differs: { bootId: 'b', gates: [...gates, gate('dns')] } },
  ])('gets no further grace for a gate that $when', ({ differs }) => {
    const node = new SimulatedNode();
    node.after(0, all);
    expect(node.after(60, ['cni']).wantsTaint).toBe(false);
    expect(node.after(1, all, { ...differs, pods: [] }).wantsTaint).toBe(true);
  });

  test.each([
    { when: 'the boot ID is not known any more', bootIds: ['a', undefined, '', 'a'] },
    { when: 'the boot ID becomes known', bootIds: [undefined, 'a', 'a', 'a'] },
  ])('is not one where $when', ({ bootIds }) => {
    const node = new SimulatedNode();
    for (const bootId of bootIds) expect(node.after(60, [], { pods: before, bootId }).wantsTaint).toBe(false);
    expect(node.status?.rebootTime).toBeUndefined();
  });

  test('is not one that had no gates under its previous boot ID', () => {
    const node = ready();
    node.after(60, [], { gates: [] });
    const gated = node.after(60, [], { pods: before, bootId: 'b' });
    expect(gated).toMatchObject({ wantsTaint: false, status: { losses: 0 } });
    expect(node.after(60, [], { bootId: 'b' }).wantsTaint).toBe(false);
  });
});

describe('a node that is not Ready', () => {
  const notReady = { nodeReadySinceMs: undefined };
  test('gets no grace for a gate that it loses', () => {
    const node = new SimulatedNode();
    node.after(0, all);
    expect(node.after(60, all, notReady).wantsTaint).toBe(false);
    expect(node.after(1, ['cni'], notReady).wantsTaint).toBe(true);
  });

  test('gets no further grace for a gate that it has lost', () => {
    const node = new SimulatedNode();
    node.after(0, all);
    expect(node.after(60, ['cni']).wantsTaint).toBe(false);
    expect(node.after(1, ['cni'], notReady).wantsTaint).toBe(true);
  });

  test('gets no grace for gates that were lost at that time, even if no leader observed it', () => {
    const node = new SimulatedNode();
    node.after(0, all);
    const nodeReadySinceMs = node.now + 100_000;
    expect(node.after(110, ['cni'], { nodeReadySinceMs }).wantsTaint).toBe(true);
    node.after(1, all, { nodeReadySinceMs });
    expect(node.after(200, ['cni'], { nodeReadySinceMs }).wantsTaint).toBe(false);
  });

  test('stays open if its gates stay ready, and gets the grace again when it has been Ready for a minute', () => {
    const node = new SimulatedNode();
    node.after(0, all);
    node.after(60, all, notReady);
    const nodeReadySinceMs = node.now;
    expect(node.after(1, all, { nodeReadySinceMs }).wantsTaint).toBe(false);
    expect(node.after(59, ['cni'], { nodeReadySinceMs }).wantsTaint).toBe(false);
  });
});

const step = fc.record({
  seconds: fc.constantFrom(0, 1, 10, 29, 30, 31, 59, 700),
  readyApps: fc.subarray(all),
  isUnderMaintenance: fc.boolean(),
  isNodeReady: fc.boolean(),
  reboots: fc.boolean(),
  /** Without it, the apiserver contains what the kubelet reported last. */
  restarts: fc.boolean(),
});
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;
const steps = fc.array(step, { maxLength: 30 });

/** A node whose kubelet reports the boot ID, the Ready condition, and the containers of its pods. */
class SimulatedHost extends SimulatedNode {
  boot = 0;
  #containers = 0;
  #readySinceMs: number | undefined = this.createdAtMs;

  take({ seconds, readyApps, isUnderMaintenance, isNodeReady, reboots, restarts }: Step) {
    if (reboots) this.boot += 1;
    if (restarts) this.#containers += 1;
    this.#readySinceMs = isNodeReady ? (this.#readySinceMs ?? this.now + seconds * 1_000) : undefined;
    return this.after(seconds, [], {
      gates: gates.map((one) => (one.name === 'cni' ? { ...one, graceSeconds: 5 } : one)),
      pods: readyApps.map((app) => run(app, `${app}-${this.#containers}`)),
      isUnderMaintenance,
      bootId: `boot-${this.boot}`,
      nodeReadySinceMs: this.#readySinceMs,
    });
  }
}

test('the taint always matches the gates', () => {
  const graceMsOf = (name: string) => (name === 'cni' ? 5_000 : graceMs);
  const isTaintDue = ({ name, lostTime }: { name: string; lostTime?: string }, now: number) =>
    lostTime === undefined || now - Date.parse(lostTime) >= graceMsOf(name);
  fc.assert(
    fc.property(fc.boolean(), steps, (isTainted, taken) => {
      const node = new SimulatedHost(isTainted);
      for (const one of taken) {
        const { input, wantsTaint, status, changesAtMs } = node.take(one);
        const notReady = status.readiness.filter(({ name, ready }) => !ready && name !== 'logs');
        const getsNoGrace = one.isUnderMaintenance || !one.isNodeReady || (one.reboots && node.boot > 1);
        const isDue = input.isTainted || getsNoGrace || notReady.some((lost) => isTaintDue(lost, node.now));
        if (notReady.length > 0 && isDue) expect(wantsTaint).toBe(true);
        if (notReady.length === 0 && status.losses < 2) expect(wantsTaint).toBe(false);
        if (notReady.length === 0 && !input.isTainted) expect(wantsTaint).toBe(false);
        // A lost gate adds the taint later, and a damped taint is removed later, without any event.
        if ((notReady.length === 0) === wantsTaint) expect(changesAtMs).toBeGreaterThan(node.now);
        if (changesAtMs !== undefined) expect(changesAtMs).toBeGreaterThan(node.now);
        const again = decideReadiness({ ...input, isTainted: wantsTaint }, status, node.timing);
        expect(again).toMatchObject({ wantsTaint, status });
      }
    }),
  );
});

test('a gate is ready with its pod, unless the pod has not started again since a reboot', () => {
  fc.assert(
    fc.property(steps, (taken) => {
      const node = new SimulatedHost();
      let wereReady: readonly string[] = [];
      for (const one of taken) {
        const { readyApps, reboots, restarts } = one;
        for (const { name, ready } of node.take(one).status.readiness) {
          const isStale = reboots && !restarts && wereReady.includes(name);
          if (!readyApps.includes(name) || isStale) expect(ready).toBe(false);
          else if (restarts) expect(ready).toBe(true);
        }
        wereReady = readyApps;
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
