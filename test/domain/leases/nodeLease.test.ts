import { describe, expect, test } from '@jest/globals';
import { completeDrainPlan } from '../../../domain/drain/plan.ts';
import { decideDrain, type DrainSnapshot } from '../../../domain/drain/decide.ts';
import { heldByAnother } from '../../../domain/leases/nodeLease.ts';
import { emptyStatus, withCordon, withDrain, withUncordon } from '../../../domain/maintenance/status.ts';
import { mirrorPod, pod, pods } from '../../kit/builders.ts';

const now = '2026-01-01T12:00:00Z';
const plan = completeDrainPlan([pods(1000), pods(5000)]);
const held = { name: 'held', because: heldByAnother('snapshots') };

/** A maintenance of the node `free`, and of `held`, whose Lease another client holds. */
function drain(differs: Partial<DrainSnapshot> & { position?: number } = {}): DrainSnapshot {
  const { position = 0, ...overrides } = differs;
  return {
    maintenance: 'own',
    maintenances: [{ name: 'own', createdAt: now, plan, position, nodes: ['free'] }],
    nodes: [{ name: 'free', pods: [], reached: [] }],
    waiting: [
      {
        ...held,
        hasCordonRecord: false,
        pods: [{ pod: pod({ priority: 1000 }), evacuating: false }],
      },
    ],
    published: new Map(),
    ...overrides,
  };
}

const published = (snapshot: DrainSnapshot) =>
  withDrain(emptyStatus, decideDrain(snapshot), {
    planLength: plan.length,
    now,
    existing: new Set(['free', 'held']),
    verification: { kind: 'Verified', volumes: [] },
    mayBecomeDrained: true,
  });

const drainedCondition = (snapshot: DrainSnapshot) =>
  published(snapshot).conditions.find(({ type }) => type === 'Drained');

describe('a node whose maintenance Lease another client holds', () => {
  test('is not drained, and its status names the holder', () => {
    const evacuating = { pod: pod({ priority: 1000 }), evacuating: true };
    const mirror = { pod: mirrorPod(), evacuating: false };
    const waiting = [...(drain().waiting[0]?.pods ?? []), evacuating, mirror];
    const targets = [pods(1000)];
    const snapshot = drain({
      waiting: [{ ...held, hasCordonRecord: true, pods: waiting }],
      published: new Map([['held', targets]]),
    });
    expect(decideDrain(snapshot).evacuate).toEqual([]);
    expect(published(snapshot).nodeStatuses.find(({ nodeRef }) => nodeRef.name === 'held')).toEqual({
      nodeRef: { name: 'held' },
      // The drain targets that were published before stay.
      drainTargets: targets,
      drainMessage: 'Waiting for the maintenance Lease of the node: held by snapshots.',
      podsPendingEvacuation: 1,
      podsEvacuating: 1,
      podsPeak: 2,
    });
  });

  test('does not block the drain of other nodes, up to the last tier of the plan', () => {
    const high = pod({ priority: 5000 });
    const nodes = [{ name: 'free', pods: [{ pod: high, evacuating: false }], reached: [] }];
    expect(decideDrain(drain({ nodes })).position).toBe(1);
    expect(decideDrain(drain()).position).toBe(plan.length - 1);
    expect(decideDrain(drain({ waiting: [] })).position).toBe(plan.length);
  });

  test('keeps the maintenance from being drained after all other nodes are drained', () => {
    expect(drainedCondition(drain({ position: plan.length - 1 }))).toMatchObject({
      status: 'False',
      reason: 'WaitingForNodeLease',
      message: 'Waiting for the maintenance Lease of node held (held by snapshots).',
    });
    const nodes = [{ name: 'free', pods: [{ pod: pod(), evacuating: true }], reached: [] }];
    expect(drainedCondition(drain({ nodes }))).toMatchObject({ status: 'False', reason: 'Draining' });
    expect(drainedCondition(drain({ waiting: [] }))).toMatchObject({ status: 'True' });
  });

  test('counts as drained if this maintenance emptied it, but not if it was never cordoned', () => {
    const position = plan.length - 1;
    const emptied = {
      ...held,
      hasCordonRecord: true,
      pods: [{ pod: mirrorPod(), evacuating: false }],
    };
    expect(drainedCondition(drain({ position, waiting: [emptied] }))).toMatchObject({ status: 'True' });
    const alone = [{ name: 'own', createdAt: now, plan, position, nodes: [] }];
    const only = drain({ nodes: [], maintenances: alone, waiting: [emptied] });
    expect(drainedCondition(only)).toMatchObject({ status: 'True' });
    const refilled = { ...emptied, pods: [{ pod: pod(), evacuating: true }] };
    expect(drainedCondition(drain({ position, waiting: [refilled] }))).toMatchObject({ status: 'False' });
    const untouched = { ...emptied, hasCordonRecord: false, pods: [] };
    expect(drainedCondition(drain({ position, waiting: [untouched] }))).toMatchObject({
      status: 'False',
      reason: 'WaitingForNodeLease',
    });
  });

  test('keeps the drain position if it is the only node', () => {
    const alone = drain({
      nodes: [],
      maintenances: [{ name: 'own', createdAt: now, plan, position: 2, nodes: [] }],
    });
    expect(decideDrain(alone).position).toBe(2);
    expect(drainedCondition(alone)).toMatchObject({ status: 'False', reason: 'WaitingForNodeLease' });
  });

  test('is reported by a condition, which becomes True afterwards and is absent if the maintenance never waited', () => {
    const conditionOf = ({ conditions }: typeof emptyStatus) =>
      conditions.find(({ type }) => type === 'NodeLeasesHeld');
    const waiting = published(drain());
    expect(conditionOf(waiting)).toMatchObject({ status: 'False', reason: 'Waiting' });
    expect(conditionOf(published(drain({ waiting: [] })))).toBeUndefined();
    const nothing = { waiting: [], now, existing: new Set(['held']) };
    expect(conditionOf(withCordon(waiting, waiting.nodeStatuses, nothing))).toMatchObject({
      status: 'True',
      reason: 'Held',
    });
    expect(conditionOf(withCordon(emptyStatus, [], nothing))).toBeUndefined();
  });

  test('is reported until it is uncordoned', () => {
    const waiting = published(drain());
    const messages = ({ nodeStatuses }: typeof emptyStatus) => nodeStatuses.map((node) => node.drainMessage);
    expect(messages(withUncordon(waiting, [held], now))).toEqual([
      '',
      'Waiting for the maintenance Lease of the node: held by snapshots.',
    ]);
    const after = withUncordon(waiting, [], now);
    expect(messages(after)).toEqual(['', '']);
    expect(after.conditions).toContainEqual(expect.objectContaining({ status: 'False', reason: 'Released' }));
    // The status of a maintenance that never waited stays unchanged.
    const drained = published(drain({ waiting: [] }));
    expect(withUncordon(drained, [], now)).toBe(drained);
  });

  test('says for which other maintenance it stays cordoned, which has not recorded it yet', () => {
    const status = withUncordon(published(drain()), [{ name: 'held', holders: ['b', 'a'] }], now);
    expect(status.nodeStatuses.find(({ nodeRef }) => nodeRef.name === 'held')?.drainMessage).toBe(
      'Not uncordoned: waiting for NodeMaintenance b, a to record it.',
    );
    expect(status.conditions).toContainEqual(expect.objectContaining({ status: 'True', reason: 'Held' }));
  });

  test('has a status message of limited length', () => {
    const status = withUncordon(published(drain()), [{ ...held, because: 'no '.repeat(1_000) }], now);
    const { drainMessage = '' } = status.nodeStatuses.find(({ nodeRef }) => nodeRef.name === 'held') ?? {};
    expect(drainMessage.length).toBeLessThan(512);
  });
});
