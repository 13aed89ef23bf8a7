import type { NodeMaintenanceActivities } from '../../../activities/contract.ts';
import type { KubeObject } from '../../../api/core.ts';
import { NODE_LEASE_NAMESPACE } from '../../../api/names.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { watchCluster } from '../../../kube/cluster.ts';
import { type Resource, resources } from '../../../kube/resources.ts';
import { NodeLeaseRegistry } from '../../../activities/leases/nodeLeaseRegistry.ts';
import { defaultResyncMs } from '../../../activities/reconcile.ts';
import { KubeError } from '../../../kube/errors.ts';
import { EventRecorder } from '../../../kube/events.ts';
import { NodeLeases } from '../../../node-lease/nodeLeases.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { UnreliableApiserver } from '../../chaos/unreliableApiserver.ts';
import { connect } from '../../kube/fixtures.ts';
import { activitiesOn, holder, performed, performedTwice, refOf, started } from '../../kit/activity.ts';
import { pods } from '../../kit/builders.ts';
import { silentLog, testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually, throughout } from '../../kit/eventually.ts';
import { denyByPolicy } from '../../kit/rejection.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import { withMembers } from '../../kit/withMembers.ts';

let sandbox: Sandbox;
let c: TestCluster;
let acts: NodeMaintenanceActivities;
let flushEvents: () => Promise<void>;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'hold' });
  ({ activities: acts, flushEvents } = activitiesOn(c));
});

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

const scaleDownDisabled = { 'cluster-autoscaler.kubernetes.io/scale-down-disabled': 'true' };
const jane = { holderIdentity: 'kubeadm: disk fails, ask jane' };
const snapshots = { holderIdentity: 'snapshots', leaseDurationSeconds: 600, renewed: 0 };
const waitingFor = (who: string) => `Waiting for the maintenance Lease of the node: held by ${who}.`;

const holderIdentityOf = async (node: string) => (await c.nodeLeaseOf(node))?.spec.holderIdentity ?? '';

const eventuallyHeldBy = (node: string, who: string) =>
  eventually(`the Lease of ${node} to be held by "${who}"`, async () =>
    expect(await holderIdentityOf(node)).toBe(who),
  );

async function drainMessageOf({ metadata }: NodeMaintenance, node: string): Promise<string | undefined> {
  const { nodeStatuses } = await c.statusOf(metadata.name);
  return nodeStatuses.find(({ nodeRef }) => nodeRef.name === node)?.drainMessage;
}

const eventuallySaid = (maintenance: NodeMaintenance, node: string, message: string) =>
  eventually(`the message of ${node}`, async () =>
    expect(await drainMessageOf(maintenance, node)).toBe(message),
  );

async function leaseCondition({ metadata }: NodeMaintenance): Promise<string> {
  const { conditions } = await c.statusOf(metadata.name);
  const found = conditions.find(({ type }) => type === 'NodeLeasesHeld');
  return found === undefined ? 'none' : `${found.status} ${found.reason}: ${found.message}`;
}

const maintaining = (nodes: string[], stage: 'Cordon' | 'Drain') =>
  c.applied(c.maintenance({ nodes, stage, drainPlan: [pods(1000)] }));

describe('Cordon', () => {
  test('acquires the Lease of a node, with all fields set, before it changes the node', async () => {
    const node = await c.nodeNamed('n');
    const applied = await maintaining([node], 'Cordon');
    const cordon = started(() => acts.keepCordoned(refOf(applied), 'Cordon'));
    await c.eventuallyCordoned(node);
    await cordon.cancelled();
    const lease = await c.nodeLeaseOf(node);
    expect(lease?.spec).toEqual({
      holderIdentity: holder,
      leaseDurationSeconds: 900,
      acquireTime: expect.stringMatching(/^\d{4}-.*\.\d{6}Z$/),
      renewTime: lease?.spec.acquireTime,
      leaseTransitions: 0,
    });
    expect(lease?.metadata.ownerReferences).toEqual([
      { apiVersion: 'v1', kind: 'Node', name: node, uid: (await c.node(node)).metadata.uid },
    ]);
    expect(await leaseCondition(applied)).toBe('none');
  });

  test('does not change a node with another holder, reports the holder, and continues when the Lease is released', async () => {
    const [free, held] = [await c.nodeNamed('free'), await c.nodeNamed('held')];
    await c.leaseWritten(held, jane);
    const applied = await maintaining([free, held], 'Cordon');
    const cordon = started(() => acts.keepCordoned(refOf(applied), 'Cordon'));
    await c.eventuallyCordoned(free);
    await eventuallySaid(applied, held, waitingFor(jane.holderIdentity));
    await eventually('the condition', async () =>
      expect(await leaseCondition(applied)).toBe(
        `False Waiting: Waiting for the maintenance Lease of node ${held} (held by ${jane.holderIdentity}).`,
      ),
    );
    expect((await c.node(held)).spec.unschedulable).toBeUndefined();
    await c.leaseWritten(held, { holderIdentity: 'jane, who is done' });
    await c.eventuallyCordoned(held);
    await eventuallySaid(applied, held, '');
    expect(await leaseCondition(applied)).toBe('True Held: The maintenance Leases of all nodes are held.');
    await cordon.cancelled();
    await flushEvents();
    expect(await c.eventsAbout(applied)).toContain(
      `WaitingForNodeLease: Waiting for the maintenance Lease of ${held}: held by ${jane.holderIdentity}. The node is not changed until the Lease is acquired.`,
    );
  });

  test.each([
    { when: 'expired', spec: { ...snapshots, renewed: -604 } },
    { when: 'released by a duration of none', spec: { holderIdentity: 'snapshots', renewed: -4 } },
    {
      when: 'invalid: a holder that has never renewed',
      spec: { holderIdentity: '../..', leaseDurationSeconds: 600 },
    },
  ])('takes a Lease that is $when', async ({ spec }) => {
    const node = await c.nodeNamed('n');
    await c.leaseWritten(node, { ...spec, leaseTransitions: 7 });
    const applied = await maintaining([node], 'Cordon');
    const cordon = started(() => acts.keepCordoned(refOf(applied), 'Cordon'));
    await c.eventuallyCordoned(node);
    await cordon.cancelled();
    expect((await c.nodeLeaseOf(node))?.spec).toMatchObject({ holderIdentity: holder, leaseTransitions: 8 });
  });

  test('does not restore its cordon while an administrator holds the Lease', async () => {
    const node = await c.nodeNamed('n');
    const applied = await maintaining([node], 'Cordon');
    const cordon = started(() => acts.keepCordoned(refOf(applied), 'Cordon'));
    await c.eventuallyCordoned(node);
    await c.leaseWritten(node, jane);
    await eventuallySaid(applied, node, waitingFor(jane.holderIdentity));
    await c.uncordoned(node);
    await throughout('the node is not changed', 500, async () =>
      expect((await c.node(node)).spec.unschedulable ?? false).toBe(false),
    );
    await c.leaseWritten(node, {});
    await c.eventuallyCordoned(node);
    await cordon.cancelled();
    await flushEvents();
    expect(await c.eventsAbout(applied)).toContain(
      `NodeLeaseLost: Lost the maintenance Lease of ${node}: held by ${jane.holderIdentity}. No new change is made to the node until the Lease is acquired again.`,
    );
  });

  test('reports on the node why its Lease is forbidden, and continues when that is fixed', async () => {
    const node = await c.nodeNamed('n');
    const withoutRights = await rightsTaken();
    const applied = await maintaining([node], 'Cordon');
    const cordon = started(() => acts.keepCordoned(refOf(applied), 'Cordon'));
    try {
      await eventually('the reason', async () =>
        expect(await drainMessageOf(applied, node)).toBe(
          'Waiting for the maintenance Lease of the node: the worker lacks permission to write Leases in namespace kube-node-maintenance: apply the manifests of its release again, as they were installed.',
        ),
      );
      expect((await c.node(node)).spec.unschedulable).toBeUndefined();
    } finally {
      await withoutRights.mended();
    }
    await c.eventuallyCordoned(node);
    await cordon.cancelled();
  });
});

/** Deletes the RoleBinding with which the worker may write Leases. */
async function rightsTaken(): Promise<{ mended(): Promise<void> }> {
  const bindings: Resource = {
    group: 'rbac.authorization.k8s.io',
    version: 'v1',
    plural: 'rolebindings',
    kind: 'RoleBinding',
    namespaced: true,
  };
  const key = { namespace: NODE_LEASE_NAMESPACE, name: 'node-maintenance-worker' };
  const { metadata, ...binding } = (await c.admin.get(bindings, key)) as KubeObject;
  await c.admin.delete(bindings, key, { uid: metadata.uid ?? '' });
  return {
    mended: async () => {
      await c.admin.create(bindings, { ...binding, metadata: key } as KubeObject);
    },
  };
}

describe('Drain', () => {
  test('drains the other nodes completely, and is drained after the last node', async () => {
    const [free, held] = [await c.nodeNamed('free'), await c.nodeNamed('held')];
    const [low, high, waiting] = [
      await c.podOn(free, { priority: 1000 }),
      await c.podOn(free, { priority: 2000 }),
      await c.podOn(held, { priority: 1000 }),
    ];
    await c.leaseWritten(held, snapshots);
    const applied = await maintaining([free, held], 'Drain');
    const first = started(() => acts.drain(refOf(applied), 0));
    await c.eventuallyEvacuating(low);
    await c.podsDeleted([low]);
    const next = await first.ended;
    expect(next).toMatchObject({ kind: 'TierDrained' });
    const { position } = next as { position: number };
    const second = started(() => acts.drain(refOf(applied), position));
    await c.eventuallyEvacuating(high);
    await c.podsDeleted([high]);
    const last = await second.ended;
    expect(last).toMatchObject({ kind: 'TierDrained' });
    const third = started(() => acts.drain(refOf(applied), (last as { position: number }).position));
    await eventually('to wait for the node alone', async () => {
      const { conditions } = await c.statusOf(applied.metadata.name);
      expect(conditions.find(({ type }) => type === 'Drained')).toMatchObject({
        status: 'False',
        reason: 'WaitingForNodeLease',
        message: `Waiting for the maintenance Lease of node ${held} (held by snapshots).`,
      });
    });
    expect(await drainMessageOf(applied, held)).toBe(waitingFor('snapshots'));
    expect(await c.evacuationOf(waiting)).toBeUndefined();
    expect((await c.node(held)).spec.unschedulable).toBeUndefined();
    await c.leaseWritten(held, {});
    await c.eventuallyEvacuating(waiting);
    await c.podsDeleted([waiting]);
    expect(await third.ended).toMatchObject({ kind: 'Drained', nodes: [free, held] });
    expect(await holderIdentityOf(held)).toBe(holder);
  });

  test('creates no new Evacuation on a node whose Lease is lost, until it is acquired again; Evacuations in progress continue', async () => {
    const node = await c.nodeNamed('n');
    const early = await c.podOn(node, { priority: 1000 });
    const applied = await maintaining([node], 'Drain');
    const drain = started(() => acts.drain(refOf(applied), 0));
    const { metadata } = await c.eventuallyEvacuating(early);
    await c.leaseWritten(node, snapshots);
    await eventuallySaid(applied, node, waitingFor('snapshots'));
    const late = await c.podOn(node, { priority: 1000 });
    await throughout('nothing new is asked for', 500, async () =>
      expect(await c.evacuationOf(late)).toBeUndefined(),
    );
    expect((await c.evacuationOf(early))?.metadata).toMatchObject({
      uid: metadata.uid,
      finalizers: metadata.finalizers,
    });
    await c.leaseWritten(node, {});
    await c.eventuallyEvacuating(late);
    await drain.cancelled();
  });
});

describe('a drained node', () => {
  test('stays drained while a technician holds its Lease', async () => {
    const node = await c.nodeNamed('n');
    const applied = await maintaining([node], 'Drain');
    const drain = started(() => acts.keepDrained(refOf(applied)));
    await c.eventuallyDrained(applied.metadata.name);
    await c.leaseWritten(node, jane);
    await eventuallySaid(applied, node, waitingFor(jane.holderIdentity));
    const { conditions } = await c.statusOf(applied.metadata.name);
    expect(conditions.find(({ type }) => type === 'Drained')).toMatchObject({ status: 'True' });
    await drain.cancelled();
  });

  test('keeps its Lease when it is no longer selected; the record of a node that was only waited for is dropped', async () => {
    const label = { [`rack-${crypto.randomUUID().slice(0, 8)}`]: 'yes' };
    const [ours, waited] = [await c.nodeNamed('ours', label), await c.nodeNamed('waited', label)];
    await c.leaseWritten(waited, jane);
    const applied = await c.applied(c.maintenance({ nodes: label, stage: 'Drain' }));
    const drain = started(() => acts.keepDrained(refOf(applied)));
    await eventuallySaid(applied, waited, waitingFor(jane.holderIdentity));
    await eventuallyHeldBy(ours, holder);
    const [key = ''] = Object.keys(label);
    for (const node of [ours, waited]) await c.labelled(node, { [key]: null });
    await eventually('the nodes of the status', async () => {
      const { nodeStatuses } = await c.statusOf(applied.metadata.name);
      expect(nodeStatuses.map(({ nodeRef }) => nodeRef.name)).toEqual([ours]);
    });
    await c.leaseWritten(waited, {});
    await throughout('it is not changed', 300, async () => expect(await holderIdentityOf(waited)).toBe(''));
    expect(await holderIdentityOf(ours)).toBe(holder);
    await drain.cancelled();
  });

  test('releases a node that is no longer selected once someone uncordons it, but for what another maintenance needs', async () => {
    const label = { [`rack-${crypto.randomUUID().slice(0, 8)}`]: 'yes' };
    const [returned, shared] = [await c.nodeNamed('returned', label), await c.nodeNamed('shared', label)];
    const applied = await c.applied(c.maintenance({ nodes: label, stage: 'Drain', drainPlan: [pods(1000)] }));
    const drain = started(() => acts.keepDrained(refOf(applied)));
    await c.eventuallyDrained(applied.metadata.name);
    const other = await maintaining([shared], 'Cordon');
    const cordon = started(() => acts.keepCordoned(refOf(other), 'Cordon'));
    const [key = ''] = Object.keys(label);
    for (const node of [returned, shared]) await c.labelled(node, { [key]: null });
    await eventually('both are no longer selected', async () => {
      const { nodes } = await c.statusOf(applied.metadata.name);
      expect(nodes).toBe(0);
    });
    expect(await holderIdentityOf(returned)).toBe(holder);
    expect((await c.node(returned)).metadata.annotations).toMatchObject(scaleDownDisabled);
    for (const node of [returned, shared]) await c.uncordoned(node);
    await eventuallyHeldBy(returned, '');
    await c.eventuallyStatus(applied.metadata.name, 'the record is dropped', ({ nodeStatuses }) =>
      expect(nodeStatuses.map(({ nodeRef }) => nodeRef.name)).not.toContain(returned),
    );
    expect((await c.node(returned)).metadata.annotations ?? {}).not.toMatchObject(scaleDownDisabled);
    // When another client cordons it now, the maintenance has no part in it.
    await c.cordoned(returned);
    await throughout('the Lease is not acquired', 500, async () =>
      expect(await holderIdentityOf(returned)).toBe(''),
    );
    await c.uncordoned(returned);
    await c.eventuallyCordoned(shared);
    expect(await holderIdentityOf(shared)).toBe(holder);
    // One that is selected again is maintained as before.
    await c.labelled(returned, label);
    await c.eventuallyCordoned(returned);
    await eventuallyHeldBy(returned, holder);
    await drain.cancelled();
    await cordon.cancelled();
  });
});

describe('renewal', () => {
  /** Our Lease of a node that was renewed this many seconds ago. */
  const renewedBefore = (node: string, seconds: number) =>
    c.leaseWritten(node, {
      holderIdentity: holder,
      leaseDurationSeconds: 900,
      leaseTransitions: 3,
      renewed: -seconds,
    });

  test.each(['Cordon', 'Drain'] as const)(
    'in %s is done by the activity of the stage, when a third of the duration has passed',
    async (stage) => {
      const [due, fresh, foreign] = [
        await c.nodeNamed('due'),
        await c.nodeNamed('fresh'),
        await c.nodeNamed('foreign'),
      ];
      await c.leaseWritten(foreign, snapshots);
      const applied = await maintaining([due, fresh, foreign], stage);
      const keep = () => acts.keepCordoned(refOf(applied), stage);
      const work = started(() => (stage === 'Drain' ? acts.keepDrained(refOf(applied)) : keep()));
      await Promise.all([due, fresh].map((node) => c.eventuallyCordoned(node)));
      const before = await renewedBefore(due, 301);
      const untouched = await renewedBefore(fresh, 290);
      await c.labelled(due, { some: 'change' });
      await eventually('the renewal', async () =>
        expect(Date.parse((await c.nodeLeaseOf(due))?.spec.renewTime ?? '')).toBeGreaterThan(
          Date.parse(before.spec.renewTime ?? '') + 300_000,
        ),
      );
      expect((await c.nodeLeaseOf(due))?.spec).toMatchObject({
        acquireTime: before.spec.acquireTime,
        leaseTransitions: 3,
      });
      expect((await c.nodeLeaseOf(fresh))?.spec).toEqual(untouched.spec);
      expect(await holderIdentityOf(foreign)).toBe('snapshots');
      await work.cancelled();
    },
  );

  test('needs no change in the cluster: a Lease of a few seconds is renewed while nothing happens', async () => {
    const node = await c.nodeNamed('n');
    const applied = await maintaining([node], 'Cordon');
    const { activities } = activitiesOn(c, { leaseDurationSeconds: 3, resyncMs: defaultResyncMs });
    const cordon = started(() => activities.keepCordoned(refOf(applied), 'Cordon'));
    await c.eventuallyCordoned(node);
    const renewals = new Set<string>();
    await eventually('three renewals', async () => {
      renewals.add((await c.nodeLeaseOf(node))?.spec.renewTime ?? '');
      expect(renewals.size).toBeGreaterThan(3);
    });
    await cordon.cancelled();
  });

  test('ends when the maintenance goes to Complete', async () => {
    const node = await c.nodeNamed('n');
    const { metadata } = await maintaining([node], 'Cordon');
    const complete = await c.staged(metadata.name, 'Complete');
    await performed(() => acts.keepCordoned(refOf(complete), 'Cordon'));
    expect(await holderIdentityOf(node)).toBe('');
  });
});

describe('uncordonNodes', () => {
  /** A maintenance that has cordoned its nodes and goes to Complete. */
  async function cordonedBy(nodes: string[]): Promise<NodeMaintenance> {
    const applied = await maintaining(nodes, 'Cordon');
    const cordon = started(() => acts.keepCordoned(refOf(applied), 'Cordon'));
    for (const node of nodes) await c.eventuallyCordoned(node);
    await cordon.cancelled();
    return applied;
  }

  test('releases the Leases last: without holder and duration', async () => {
    const node = await c.nodeNamed('n');
    const applied = await cordonedBy([node]);
    const before = (await c.nodeLeaseOf(node))?.spec;
    const complete = await c.staged(applied.metadata.name, 'Complete');
    await performedTwice(c, () => acts.uncordonNodes(refOf(complete)));
    await c.eventuallySchedulable(node);
    expect((await c.nodeLeaseOf(node))?.spec).toEqual({
      holderIdentity: '',
      acquireTime: before?.acquireTime,
      renewTime: expect.any(String),
      leaseTransitions: 0,
    });
  });

  test('keeps the Lease of a node that another maintenance holds; the last one releases it', async () => {
    const node = await c.nodeNamed('n');
    const [first, second] = [await cordonedBy([node]), await cordonedBy([node])];
    const done = await c.staged(first.metadata.name, 'Complete');
    await performed(() => acts.uncordonNodes(refOf(done)));
    expect(await holderIdentityOf(node)).toBe(holder);
    const last = await c.staged(second.metadata.name, 'Complete');
    await performed(() => acts.uncordonNodes(refOf(last)));
    expect(await holderIdentityOf(node)).toBe('');
  });

  test('uncordons the other nodes while another holder has the Lease of one, and then that one', async () => {
    const [free, taken] = [await c.nodeNamed('free'), await c.nodeNamed('taken')];
    const applied = await cordonedBy([free, taken]);
    await c.leaseWritten(taken, jane);
    const complete = await c.staged(applied.metadata.name, 'Complete');
    const uncordoning = started(() => acts.uncordonNodes(refOf(complete)));
    await c.eventuallySchedulable(free);
    await eventuallyHeldBy(free, '');
    await eventuallySaid(applied, taken, waitingFor(jane.holderIdentity));
    expect((await c.node(taken)).spec.unschedulable).toBe(true);
    await c.leaseWritten(taken, {});
    await uncordoning.ended;
    await c.eventuallySchedulable(taken);
    expect(await holderIdentityOf(taken)).toBe('');
    expect(await drainMessageOf(applied, taken)).toBe('');
    expect(await leaseCondition(applied)).toMatch(/^False Released/);
  });

  test('says that it waits for a Lease for long, only if it is active, and continues', async () => {
    const node = await c.nodeNamed('n');
    const applied = await cordonedBy([node]);
    await c.leaseWritten(node, jane);
    const complete = await c.staged(applied.metadata.name, 'Complete');
    const { activities } = activitiesOn(c, { stalledAfterMs: 300, leaseDurationSeconds: 6 });
    expect(await performed(() => activities.uncordonNodes(refOf(complete), 'Active'))).toEqual({
      kind: 'Waiting',
    });
    const waiting = started(() => activities.uncordonNodes(refOf(complete), 'Waiting'));
    await c.leaseWritten(node, {});
    expect(await waiting.ended).toBeUndefined();
    expect((await c.node(node)).spec.unschedulable ?? false).toBe(false);
  });

  test.each(['is held', 'was released'])(
    'does not change or wait for a node that it never cordoned: %s',
    async (how) => {
      const node = await c.nodeNamed('n');
      await c.cordoned(node);
      await c.leaseWritten(node, jane);
      const applied = await maintaining([node], 'Cordon');
      const cordon = started(() => acts.keepCordoned(refOf(applied), 'Cordon'));
      await eventuallySaid(applied, node, waitingFor(jane.holderIdentity));
      await cordon.cancelled();
      const complete = await c.staged(applied.metadata.name, 'Complete');
      if (how === 'was released') await c.leaseWritten(node, {});
      await performed(() => acts.uncordonNodes(refOf(complete)));
      expect((await c.node(node)).spec.unschedulable).toBe(true);
      expect(await holderIdentityOf(node)).toBe(how === 'is held' ? jane.holderIdentity : '');
      expect(await drainMessageOf(applied, node)).toBe('');
      await flushEvents();
      expect(await c.eventsAbout(applied)).toContain(
        `NodeSkipped: Node ${node} was skipped: the maintenance never cordoned it.`,
      );
    },
  );

  test('backs off without permissions for Leases, and continues when they are granted', async () => {
    const node = await c.nodeNamed('n');
    const applied = await cordonedBy([node]);
    const withoutRights = await rightsTaken();
    const complete = await c.staged(applied.metadata.name, 'Complete');
    // Longer than the changes below take.
    const { activities } = activitiesOn(c, { resyncMs: 5_000 });
    const uncordoning = started(() => activities.uncordonNodes(refOf(complete)));
    try {
      await eventually('the reason', async () =>
        expect(await drainMessageOf(applied, node)).toMatch(/: the worker lacks permission to write Leases/),
      );
      c.requests.clear();
      // Every change of a node wakes the activity.
      for (let i = 0; i < 20; i++) await c.labelled(node, { [`change-${i}`]: 'yes' });
      expect(c.requests.count('list leases.coordination.k8s.io')).toBeLessThan(3);
      expect((await c.node(node)).spec.unschedulable).toBe(true);
    } finally {
      await withoutRights.mended();
    }
    await uncordoning.ended;
    expect((await c.node(node)).spec.unschedulable ?? false).toBe(false);
    expect(await holderIdentityOf(node)).toBe('');
  });

  test('never releases the Lease of a maintenance that joins at the same moment', async () => {
    const node = await c.nodeNamed('n');
    for (let round = 0; round < 4; round++) {
      const leaving = await cordonedBy([node]);
      const complete = await c.staged(leaving.metadata.name, 'Complete');
      const joining = await maintaining([node], 'Cordon');
      const cordon = started(() => acts.keepCordoned(refOf(joining), 'Cordon'));
      await performed(() => acts.uncordonNodes(refOf(complete)));
      await eventuallyHeldBy(node, holder);
      await c.eventuallyCordoned(node);
      await cordon.cancelled();
      const done = await c.staged(joining.metadata.name, 'Complete');
      await performed(() => acts.uncordonNodes(refOf(done)));
      expect(await holderIdentityOf(node)).toBe('');
    }
  });

  test('releases only the Lease that it has read, because another process may have joined since', async () => {
    const node = await c.nodeNamed('n');
    const leases = new NodeLeases({ kube: c.cluster.kube, holder, leaseDurationSeconds: 900 });
    const seen = await leases.acquire(node);
    await leases.acquire(node);
    expect(seen.kind === 'Held' && (await leases.releaseIfUnchanged(seen.lease))).toBe('Changed');
    expect(await holderIdentityOf(node)).toBe(holder);
  });
});

describe('a process that was suspended, and resumes when the maintenance is complete,', () => {
  test('acquires no Lease and cordons no node', async () => {
    const node = await c.nodeNamed('n');
    const applied = await maintaining([node], 'Cordon');
    // Its informers know what they knew when it was stopped.
    const stopped = watchCluster({ kube: c.cluster.kube, log: silentLog });
    const stop = new AbortController();
    stopped.start(stop.signal);
    await stopped.synced(stop.signal);
    stop.abort();
    const { activities } = activitiesOn({ cluster: stopped });
    await c.staged(applied.metadata.name, 'Complete');
    const cordon = started(() => activities.keepCordoned(refOf(applied), 'Cordon'));
    await throughout('the node is not changed', 500, async () =>
      expect(await holderIdentityOf(node)).toBe(''),
    );
    await cordon.cancelled();
    expect(await holderIdentityOf(node)).toBe('');
    expect((await c.node(node)).spec.unschedulable).toBeUndefined();
  });
});

test.each([
  { isFollowing: false, then: 'is acquired: a drain would not wait for its node' },
  { isFollowing: true, then: 'is awaited without a request' },
])(
  'a Lease that another client holds by an informer whose isFollowing is $isFollowing $then',
  async ({ isFollowing }) => {
    const node = await c.nodeNamed('n');
    await c.leaseWritten(node, snapshots);
    const before = c.cluster.leases.get(`${NODE_LEASE_NAMESPACE}/${node}`);
    await c.leaseWritten(node, { holderIdentity: '', leaseDurationSeconds: 600 });
    const shown = withMembers(c.cluster.leases, { get: () => before, isFollowing });
    const cluster = { ...c.cluster, leases: shown };
    const { kube } = c.cluster;
    const leases = new NodeLeases({ kube, holder, leaseDurationSeconds: 900 });
    const events = new EventRecorder({ kube, component: 'test', log: silentLog });
    const registry = new NodeLeaseRegistry({ cluster, events, leases, resyncMs: defaultResyncMs });
    expect(await registry.ensureHeld(node)).toBe(isFollowing ? 'held by snapshots' : undefined);
    expect(await holderIdentityOf(node)).toBe(isFollowing ? '' : holder);
  },
);

test('what is acquired is kept when the apiserver does not answer for another node, and so is a Lease that cannot be renewed now', async () => {
  const names = [await c.nodeNamed('a'), await c.nodeNamed('b'), await c.nodeNamed('c')];
  const [first = '', , last = ''] = names;
  const applied = await maintaining(names, 'Cordon');
  const asked: string[] = [];
  let unanswered = last;
  const working = new NodeLeases({ kube: c.cluster.kube, holder, leaseDurationSeconds: 900 });
  const leases = withMembers(working, {
    acquire: (node) => {
      asked.push(node);
      const request = { verb: 'get', resource: 'leases' };
      return node === unanswered
        ? Promise.reject(new KubeError({ kind: 'Unavailable', request, apiMessage: 'no answer' }))
        : working.acquire(node);
    },
  });
  const events = new EventRecorder({ kube: c.cluster.kube, component: 'test', log: silentLog });
  const registry = new NodeLeaseRegistry({ cluster: c.cluster, events, leases, resyncMs: defaultResyncMs });
  const nodes = names.map((name) => ({ metadata: { name }, spec: {} }));
  const acquired = () => registry.of('own').acquire(applied, nodes);
  await expect(acquired()).rejects.toThrow('no answer');
  asked.length = 0;
  await expect(acquired()).rejects.toThrow('no answer');
  expect(asked).toEqual([last]);
  unanswered = '';
  await acquired();
  const due = { holderIdentity: holder, leaseDurationSeconds: 900, renewed: -700 };
  await c.caughtUpWith({ ...(await c.leaseWritten(first, due)), kind: 'Lease' });
  unanswered = first;
  expect(await acquired()).toMatchObject({ held: new Set(names), waiting: [] });
  // Another maintenance did not write it: its former one may be releasing it at this moment.
  await expect(registry.of('other').acquire(applied, nodes)).rejects.toThrow('no answer');
});

test('a policy that forbids the Lease of one node concerns no other node', async () => {
  const [denied, other] = [await c.nodeNamed('denied'), await c.nodeNamed('other')];
  const admit = await denyByPolicy(c.admin, denied, {
    failurePolicy: 'Fail',
    matchConstraints: {
      resourceRules: [
        {
          apiGroups: ['coordination.k8s.io'],
          apiVersions: ['v1'],
          operations: ['CREATE', 'UPDATE'],
          resources: ['leases'],
        },
      ],
    },
    validations: [
      {
        expression: `object.metadata.name != '${denied}'`,
        message: 'this node is on loan',
        reason: 'Forbidden',
      },
    ],
  });
  try {
    const key = { namespace: NODE_LEASE_NAMESPACE, name: denied };
    await eventually('the policy to deny', () =>
      expect(
        c.admin.create(resources.leases, { metadata: key, spec: {} }, { fieldManager: 'test', dryRun: true }),
      ).rejects.toThrow('on loan'),
    );
    const leases = new NodeLeases({ kube: c.cluster.kube, holder, leaseDurationSeconds: 900 });
    const events = new EventRecorder({ kube: c.cluster.kube, component: 'test', log: silentLog });
    const registry = new NodeLeaseRegistry({ cluster: c.cluster, events, leases, resyncMs: defaultResyncMs });
    expect(await registry.ensureHeld(denied)).toContain('this node is on loan');
    expect(await registry.ensureHeld(other)).toBeUndefined();
  } finally {
    await admit();
  }
});

test('a Lease that others write at the same time is tried again: the drain would not wait for its node', async () => {
  const node = await c.nodeNamed('n');
  const proxy = await UnreliableApiserver.before(sandbox.workerKubeconfig);
  const kube = connect(proxy.kubeconfig);
  try {
    const leases = new NodeLeases({ kube, holder, leaseDurationSeconds: 900 });
    const events = new EventRecorder({ kube, component: 'test', log: silentLog });
    const registry = new NodeLeaseRegistry({ cluster: c.cluster, events, leases, resyncMs: defaultResyncMs });
    proxy.apiserver.begin('Answer409');
    await expect(registry.ensureHeld(node)).rejects.toMatchObject({ kind: 'Conflict' });
    proxy.apiserver.end();
    const applied = await maintaining([node], 'Cordon');
    const acquired = () => registry.of('own').acquire(applied, [{ metadata: { name: node }, spec: {} }]);
    expect(await acquired()).toMatchObject({ waiting: [] });
    await c.leaseWritten(node, { holderIdentity: holder, leaseDurationSeconds: 900, renewed: -700 });
    proxy.apiserver.begin('Answer409');
    expect(await acquired()).toMatchObject({ waiting: [] });
  } finally {
    await kube.close();
    await proxy.close();
  }
});
