import { setTimeout } from 'node:timers/promises';
import type { NodeMaintenanceActivities } from '../../../activities/contract.ts';
import { changeNode } from '../../../activities/nodeChange.ts';
import type { Node } from '../../../api/core.ts';
import {
  MAINTENANCE_FINALIZER,
  NODE_READINESS,
  READINESS_TAINT,
  UNCORDONED_BY_ANNOTATION,
} from '../../../api/names.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { isCordoned } from '../../../domain/common/cordon.ts';
import { hasTaint } from '../../../domain/common/toleration.ts';
import type { Kube } from '../../../kube/client.ts';
import { type Cluster, watchCluster } from '../../../kube/cluster.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { activitiesOn, performed, performedTwice, refOf, started } from '../../kit/activity.ts';
import { silentLog, testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually, throughout } from '../../kit/eventually.ts';
import { gate } from '../../kit/readiness.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import { denyByPolicy } from '../../kit/rejection.ts';
import { withMembers } from '../../kit/withMembers.ts';

let sandbox: Sandbox;
let c: TestCluster;
let acts: NodeMaintenanceActivities;
let flushEvents: () => Promise<void>;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'cordon' });
  ({ activities: acts, flushEvents } = activitiesOn(c));
});

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

/** Returns the nodes in the status of a maintenance, with their `unschedulableBefore`. */
async function recorded({ metadata }: NodeMaintenance): Promise<Record<string, boolean | undefined>> {
  const { nodeStatuses } = await c.statusOf(metadata.name);
  return Object.fromEntries(nodeStatuses.map((one) => [one.nodeRef.name, one.unschedulableBefore]));
}

/** Writes the records of these nodes to the status. */
async function withRecord(maintenance: NodeMaintenance, before: Record<string, boolean>) {
  const nodeStatuses = Object.entries(before).map(([name, unschedulableBefore]) => ({
    nodeRef: { name },
    unschedulableBefore,
  }));
  return c.withStatus(maintenance, { nodeStatuses, nodes: nodeStatuses.length });
}

const protectedByUs = {
  'cluster-autoscaler.kubernetes.io/scale-down-disabled': 'true',
  'karpenter.sh/do-not-disrupt': 'true',
};

/** Returns the annotations against autoscalers that the node has. */
async function protectionOf(node: string): Promise<Record<string, string>> {
  const { annotations = {} } = (await c.node(node)).metadata;
  return Object.fromEntries(Object.entries(annotations).filter(([key]) => key in protectedByUs));
}

const annotated = (node: string, annotations: Record<string, string | null>) =>
  c.patched(resources.nodes, { name: node }, { metadata: { annotations } });

/** Uncordons the node, and waits until the maintenance cordons it again. */
async function undo(node: string): Promise<void> {
  const informerShows = (cordoned: boolean) =>
    eventually(`node ${node} in the informer`, () =>
      expect(c.cluster.nodes.get(node)?.spec.unschedulable ?? false).toBe(cordoned),
    );
  await informerShows(true);
  // The activity reads the informer a moment after the informer has changed.
  await throughout('the activity observes the cordon', 1_000, () => undefined);
  await c.uncordoned(node);
  await c.eventuallyCordoned(node);
  await informerShows(true);
}

/** Returns the cluster, in which this happens just before an object of the kind is written: the status of a maintenance, or a node. */
function beforeWrite({ plural }: { plural: string }, happens: () => Promise<void>): Cluster {
  const { kube } = c.cluster;
  const mergePatch: Kube['mergePatch'] = async (resource, ...rest) => {
    if (resource.plural === plural) await happens();
    return kube.mergePatch(resource, ...rest);
  };
  return { ...c.cluster, kube: withMembers(kube, { mergePatch }) };
}

/** Adds the finalizer that every maintenance has between Idle and the end of Complete. */
async function held({ metadata }: NodeMaintenance): Promise<void> {
  const patch = { metadata: { finalizers: [MAINTENANCE_FINALIZER] } };
  await c.patched(resources.nodeMaintenances, { name: metadata.name }, patch);
}

describe('keepCordoned', () => {
  test('cordons the selected nodes and no other, after it has recorded their previous state', async () => {
    const [open, closed, other] = [
      await c.nodeNamed('open'),
      await c.nodeNamed('closed'),
      await c.nodeNamed('x'),
    ];
    await c.cordoned(closed);
    const applied = await c.applied(c.maintenance({ nodes: [open, closed], stage: 'Cordon' }));
    c.requests.clear();
    const cordon = started(() => acts.keepCordoned(refOf(applied), 'Cordon'));
    await c.eventuallyCordoned(open);
    await eventually('both to be protected', async () => {
      for (const node of [open, closed]) expect(await protectionOf(node)).toEqual(protectedByUs);
    });
    await cordon.cancelled();
    expect(await recorded(applied)).toEqual({ [open]: false, [closed]: true });
    // The node that was cordoned already gets the annotations against autoscalers; the other one together with its cordon.
    expect(c.requests.writes()).toEqual([
      'create leases.coordination.k8s.io',
      'create leases.coordination.k8s.io',
      'patch nodemaintenances.nodemaintenance.k8s.io',
      'patch nodes',
      'patch nodes',
    ]);
    expect((await c.node(other)).spec.unschedulable).toBeUndefined();
    await flushEvents();
    expect(await c.eventsAbout(applied)).toEqual(['NodesCordoned: Cordoned 1 of 2 nodes.']);
  });

  test.each([
    { informer: 'has seen', patches: 1 },
    { informer: 'has not seen', patches: 2 },
  ])(
    'cordons a node at once that has changed in other fields since it was read, which the informer $informer',
    async ({ informer, patches }) => {
      const node = await c.nodeNamed('n');
      await eventually('the informer to have the node', () =>
        expect(c.cluster.nodes.get(node)).toBeDefined(),
      );
      const before = c.cluster.nodes.get(node);
      let changes = 0;
      const cluster = beforeWrite(resources.nodeMaintenances, async () => {
        await annotated(node, { 'example.com/revision': `${changes++}` });
        const { resourceVersion } = (await c.node(node)).metadata;
        await eventually('the informer to know the annotation', () =>
          expect(c.cluster.nodes.get(node)?.metadata.resourceVersion).toBe(resourceVersion),
        );
      });
      const isBehind = informer === 'has not seen';
      const stale = withMembers(c.cluster.nodes, isBehind ? { get: () => before } : {});
      const applied = await c.applied(c.maintenance({ nodes: [node], stage: 'Cordon' }));
      c.requests.clear();
      const { activities } = activitiesOn({ cluster: { ...cluster, nodes: stale } });
      const cordon = started(() => activities.keepCordoned(refOf(applied), 'Cordon'));
      await c.eventuallyCordoned(node);
      await cordon.cancelled();
      expect(changes).toBeGreaterThan(0);
      // The client of Leases reads the node once, and the object is read again after a conflict.
      const counts = { patches: c.requests.count('patch nodes'), gets: c.requests.count('get nodes') };
      expect(counts).toEqual({ patches, gets: patches });
      expect(await recorded(applied)).toEqual({ [node]: false });
    },
  );

  test.each([
    { when: 'finds it changed', changes: true },
    { when: 'is performed late', changes: false },
  ])(
    'leaves a node open whose maintenance another worker has completed before the request $when',
    async ({ changes }) => {
      const node = await c.nodeNamed('n');
      const applied = await c.applied(c.maintenance({ nodes: [node], stage: 'Cordon' }));
      let requests = 0;
      const cluster = beforeWrite(resources.nodes, async () => {
        requests += 1;
        if (requests > 1) return;
        await c.staged(applied.metadata.name, 'Complete');
        if (changes) await annotated(node, { 'example.com/revision': '1' });
        else await setTimeout(2_500);
      });
      const { activities } = activitiesOn({ cluster });
      const cordon = started(() => activities.keepCordoned(refOf(applied), 'Cordon'));
      expect(await cordon.ended).toMatchObject({ kind: 'StageChanged', stage: 'Complete' });
      expect((await c.node(node)).spec.unschedulable ?? false).toBe(false);
      expect(await protectionOf(node)).toEqual({});
    },
  );

  test('keeps autoscalers from removing a node with the request that cordons it, and leaves what is set already', async () => {
    const [node, theirs] = [await c.nodeNamed('n'), await c.nodeNamed('theirs')];
    await annotated(theirs, { 'karpenter.sh/do-not-disrupt': '30m' });
    const applied = await c.applied(c.maintenance({ nodes: [node, theirs], stage: 'Cordon' }));
    c.requests.clear();
    const cordon = started(() => acts.keepCordoned(refOf(applied), 'Cordon'));
    await c.eventuallyCordoned(node);
    await c.eventuallyCordoned(theirs);
    expect(c.requests.writes().filter((write) => write === 'patch nodes')).toHaveLength(2);
    expect(await protectionOf(node)).toEqual(protectedByUs);
    expect(await protectionOf(theirs)).toEqual({ ...protectedByUs, 'karpenter.sh/do-not-disrupt': '30m' });
    const { nodeStatuses } = await c.statusOf(applied.metadata.name);
    expect(
      Object.fromEntries(nodeStatuses.map((one) => [one.nodeRef.name, one.autoscalerAnnotationsBefore])),
    ).toEqual({ [node]: [], [theirs]: ['karpenter.sh/do-not-disrupt'] });
    await annotated(node, { 'karpenter.sh/do-not-disrupt': null });
    await eventually('the annotation to be restored', async () =>
      expect(await protectionOf(node)).toEqual(protectedByUs),
    );
    await cordon.cancelled();
    await c.staged(applied.metadata.name, 'Complete');
    c.requests.clear();
    await performedTwice(c, () => acts.uncordonNodes(refOf(applied)));
    expect(c.requests.writes().filter((write) => write === 'patch nodes')).toHaveLength(2);
    expect(await protectionOf(node)).toEqual({});
    expect(await protectionOf(theirs)).toEqual({ 'karpenter.sh/do-not-disrupt': '30m' });
  });

  test('sets no annotations against autoscalers if they are turned off', async () => {
    const node = await c.nodeNamed('n');
    const { activities } = activitiesOn(c, { autoscalerAnnotationsEnabled: false });
    const applied = await c.applied(c.maintenance({ nodes: [node], stage: 'Cordon' }));
    const cordon = started(() => activities.keepCordoned(refOf(applied), 'Cordon'));
    await c.eventuallyCordoned(node);
    await cordon.cancelled();
    expect(await protectionOf(node)).toEqual({});
    const { nodeStatuses } = await c.statusOf(applied.metadata.name);
    expect(nodeStatuses[0]).not.toHaveProperty('autoscalerAnnotationsBefore');
  });

  test('writes nothing after a crash, and ends when the stage changes', async () => {
    const node = await c.nodeNamed('n');
    const applied = await c.applied(c.maintenance({ nodes: [node], stage: 'Cordon' }));
    const crashed = started(() => acts.keepCordoned(refOf(applied), 'Cordon'));
    await c.eventuallyCordoned(node);
    await crashed.cancelled();
    await c.caughtUpWith({ ...(await c.node(node)), kind: 'Node' });
    await c.caughtUpWith(await c.maintenanceNow(applied.metadata.name));
    const written = await c.requests.writesOf(async () => {
      const again = started(() => acts.keepCordoned(refOf(applied), 'Cordon'));
      await c.staged(applied.metadata.name, 'Drain');
      expect(await again.ended).toEqual({ kind: 'StageChanged', stage: 'Drain', generation: 2 });
    });
    expect(written).toEqual([]);
  });

  test('cordons a node again that a user uncordons, and records an Event', async () => {
    const node = await c.nodeNamed('n');
    const applied = await c.applied(c.maintenance({ nodes: [node], stage: 'Cordon' }));
    const cordon = started(() => acts.keepCordoned(refOf(applied), 'Cordon'));
    await c.eventuallyCordoned(node);
    await undo(node);
    await cordon.cancelled();
    expect(await recorded(applied)).toEqual({ [node]: false });
    await flushEvents();
    expect((await c.eventsAbout(applied)).toSorted()).toEqual([
      `CordonRestored: Node ${node} was uncordoned by user sandbox-admin (field manager kubectl-edit), and is cordoned again for this maintenance.`,
      'NodesCordoned: Cordoned 1 of 1 node.',
    ]);
    expect((await c.node(node)).metadata.annotations).not.toHaveProperty(UNCORDONED_BY_ANNOTATION);
  });

  test('warns of a race when it has to cordon a node for the third time within a minute', async () => {
    const node = await c.nodeNamed('n');
    const applied = await c.applied(c.maintenance({ nodes: [node], stage: 'Cordon' }));
    const cordon = started(() => acts.keepCordoned(refOf(applied), 'Cordon'));
    await c.eventuallyCordoned(node);
    for (let time = 1; time <= 2; time++) await undo(node);
    await cordon.cancelled();
    // A race is detected across the activities of one maintenance.
    const next = started(() => acts.keepCordoned(refOf(applied), 'Cordon'));
    await undo(node);
    await next.cancelled();
    await flushEvents();
    const events = await c.eventsAbout(applied);
    expect(events.map((event) => event.replace(/:.*/s, '')).toSorted()).toEqual([
      'CordonRace',
      'CordonRestored',
      'NodesCordoned',
    ]);
    expect(events.find((event) => event.startsWith('CordonRace'))).toContain(
      'uncordoned by user sandbox-admin (field manager kubectl-edit)',
    );
  });

  test('cordons a node that starts to match, and keeps the record of a node that no longer matches', async () => {
    const rack = c.named('rack');
    const first = await c.nodeNamed('first', { rack });
    const later = await c.nodeNamed('later');
    const applied = await c.applied(c.maintenance({ nodes: { rack }, stage: 'Cordon' }));
    const cordon = started(() => acts.keepCordoned(refOf(applied), 'Cordon'));
    await c.eventuallyCordoned(first);
    await c.patched(resources.nodes, { name: later }, { metadata: { labels: { rack } } });
    await c.eventuallyCordoned(later);
    await c.patched(resources.nodes, { name: first }, { metadata: { labels: { rack: null } } });
    await c.eventuallyStatus(applied.metadata.name, 'one node is selected', ({ nodes }) =>
      expect(nodes).toBe(1),
    );
    await cordon.cancelled();
    expect(await recorded(applied)).toEqual({ [first]: false, [later]: false });
  });

  test('maintains the other nodes while a policy denies the cordon of one, and cordons that one when it may', async () => {
    const [denied, other] = [await c.nodeNamed('denied'), await c.nodeNamed('other')];
    const rule = { apiGroups: [''], apiVersions: ['v1'], operations: ['UPDATE'], resources: ['nodes'] };
    const admit = await denyByPolicy(c.admin, denied, {
      failurePolicy: 'Fail',
      matchConstraints: { resourceRules: [rule] },
      validations: [
        {
          expression: `object.metadata.name != '${denied}' || object.spec.?unschedulable.orValue(false) == false`,
          message: 'this node is on loan',
        },
      ],
    });
    await eventually('the policy to deny', () =>
      expect(
        c.admin.mergePatch(
          resources.nodes,
          { name: denied },
          { spec: { unschedulable: true } },
          { fieldManager: 'test', dryRun: true },
        ),
      ).rejects.toThrow('on loan'),
    );
    const applied = await c.applied(c.maintenance({ nodes: [denied, other], stage: 'Cordon' }));
    const cordon = started(() => acts.keepCordoned(refOf(applied), 'Cordon'));
    await c.eventuallyCordoned(other);
    await eventually('the status to say why', async () => {
      const { nodeStatuses } = await c.statusOf(applied.metadata.name);
      const of = nodeStatuses.find(({ nodeRef }) => nodeRef.name === denied);
      expect(of?.drainMessage).toMatch(/^Not cordoned: .*this node is on loan\.$/);
    });
    await admit();
    await c.eventuallyCordoned(denied);
    await cordon.cancelled();
    await flushEvents();
    const rejections = (await c.eventsAbout(applied)).filter((text) => text.startsWith('CordonRejected'));
    expect(rejections).toEqual([
      expect.stringMatching(new RegExp(`^CordonRejected: Node ${denied} cannot be cordoned: .*on loan`)),
    ]);
  });

  test('inherits the record of a maintenance that already holds the node', async () => {
    const node = await c.nodeNamed('n');
    const holder = await c.applied(c.maintenance({ nodes: [node], stage: 'Cordon' }));
    await held(holder);
    await c.caughtUpWith(await withRecord(holder, { [node]: false }));
    await c.cordoned(node);
    const applied = await c.applied(c.maintenance({ nodes: [node], stage: 'Cordon' }));
    const cordon = started(() => acts.keepCordoned(refOf(applied), 'Cordon'));
    await c.eventuallyStatus(applied.metadata.name, 'the node is on record', ({ nodeStatuses }) =>
      expect(nodeStatuses).toHaveLength(1),
    );
    await cordon.cancelled();
    expect(await recorded(applied)).toEqual({ [node]: false });
  });

  test('inherits the record of a maintenance that has not uncordoned the node yet, and of one that no longer selects it', async () => {
    const rack = c.named('rack');
    const [completing, left] = [await c.nodeNamed('n'), await c.nodeNamed('n')];
    for (const [node, stage] of [
      [completing, 'Complete'],
      [left, 'Cordon'],
    ] as const) {
      const other = await c.applied(c.maintenance({ nodes: stage === 'Cordon' ? { rack } : [node], stage }));
      await held(other);
      await c.caughtUpWith(await withRecord(other, { [node]: false }));
      await c.cordoned(node);
    }
    const applied = await c.applied(c.maintenance({ nodes: [completing, left], stage: 'Cordon' }));
    const cordon = started(() => acts.keepCordoned(refOf(applied), 'Cordon'));
    await c.eventuallyStatus(applied.metadata.name, 'the nodes are on record', ({ nodeStatuses }) =>
      expect(nodeStatuses).toHaveLength(2),
    );
    await cordon.cancelled();
    expect(await recorded(applied)).toEqual({ [completing]: false, [left]: false });
  });

  test('waits until the informer has the generation of the workflow', async () => {
    const node = await c.nodeNamed('n');
    const applied = await c.applied(c.maintenance({ nodes: [node], stage: 'Cordon' }));
    const key = { name: applied.metadata.name };
    const edited = await c.admin.mergePatch(resources.nodeMaintenances, key, { spec: { stage: 'Drain' } });
    const cordon = started(() => acts.keepDrained(refOf(edited)));
    await c.eventuallyCordoned(node);
    await cordon.cancelled();
  });

  test('follows an object of which etcd was restored to an earlier generation than the workflow knows', async () => {
    const applied = await c.applied(c.maintenance({ nodes: [await c.nodeNamed('n')], stage: 'Cordon' }));
    const known = { ...refOf(applied), generation: 3 };
    expect(await performed(() => acts.keepDrained(known))).toEqual({
      kind: 'StageChanged',
      stage: 'Cordon',
      generation: 3,
    });
  });

  test.each([
    { when: 'is deleted', uid: undefined },
    { when: 'is replaced by another of the same name', uid: 'previous' },
  ])('ends when the object $when', async ({ uid }) => {
    const node = await c.nodeNamed('n');
    const applied = await c.applied(c.maintenance({ nodes: [node], stage: 'Cordon' }));
    const cordon = started(() => acts.keepCordoned({ ...refOf(applied), ...(uid && { uid }) }, 'Cordon'));
    if (uid === undefined) {
      await c.eventuallyCordoned(node);
      await c.deleted(applied);
    }
    expect(await cordon.ended).toEqual({ kind: 'Gone' });
  });

  test('ends for an object that is being deleted, which is in Complete', async () => {
    const node = await c.nodeNamed('n');
    const maintenance = c.maintenance({ nodes: [node], stage: 'Cordon' });
    maintenance.metadata.finalizers = ['example.com/theirs'];
    const applied = await c.applied(maintenance);
    const cordon = started(() => acts.keepCordoned(refOf(applied), 'Cordon'));
    await c.eventuallyCordoned(node);
    await c.deleted(applied);
    expect(await cordon.ended).toMatchObject({ kind: 'StageChanged', stage: 'Complete' });
  });
});

describe('uncordonNodes', () => {
  test('uncordons the nodes that the maintenance has cordoned', async () => {
    const node = await c.nodeNamed('n');
    await c.cordonedByUs(node);
    const applied = await withRecord(await c.applied(c.maintenance({ nodes: [node], stage: 'Complete' })), {
      [node]: false,
    });
    await performedTwice(c, () => acts.uncordonNodes(refOf(applied)));
    await c.eventuallySchedulable(node);
  });

  test('removes the annotations against autoscalers from nodes that stay or are not cordoned, unless they are held', async () => {
    const [before, open, shared] = [
      await c.nodeNamed('before'),
      await c.nodeNamed('open'),
      await c.nodeNamed('shared'),
    ];
    await c.cordonedByUs(before);
    await c.cordonedByUs(shared);
    for (const node of [before, open, shared]) await annotated(node, protectedByUs);
    const holder = await withRecord(await c.applied(c.maintenance({ nodes: [shared], stage: 'Drain' })), {
      [shared]: false,
    });
    const maintenance = await c.applied(c.maintenance({ nodes: [before, open, shared], stage: 'Complete' }));
    const nodeStatuses = [before, open, shared].map((name) => ({
      nodeRef: { name },
      unschedulableBefore: name === before,
      autoscalerAnnotationsBefore: [],
    }));
    const applied = await c.withStatus(maintenance, { nodeStatuses, nodes: 3 });
    await performedTwice(c, () => acts.uncordonNodes(refOf(applied)));
    expect(await protectionOf(before)).toEqual({});
    expect((await c.node(before)).spec.unschedulable).toBe(true);
    expect(await protectionOf(open)).toEqual({});
    expect(await protectionOf(shared)).toEqual(protectedByUs);
    await c.deleted(holder);
    await performed(() => acts.uncordonNodes(refOf(applied)));
    expect(await protectionOf(shared)).toEqual({});
  });

  test('uncordons between Idle and Complete, as the KEP says', async () => {
    const node = await c.nodeNamed('n');
    await c.cordoned(node);
    const applied = await c.applied(c.maintenance({ nodes: [node], stage: 'Complete' }));
    await performedTwice(c, () => acts.uncordonNodes(refOf(applied)));
    await c.eventuallySchedulable(node);
  });

  test('uncordons a node that another maintenance is to keep, and does not record before it is cancelled', async () => {
    const node = await c.nodeNamed('n');
    const first = await c.applied(c.maintenance({ nodes: [node], stage: 'Cordon' }));
    const cordon = started(() => acts.keepCordoned(refOf(first), 'Cordon'));
    await c.eventuallyCordoned(node);
    await cordon.cancelled();
    const second = await c.applied(c.maintenance({ nodes: [node], stage: 'Cordon' }));
    await performed(() => acts.startStage(refOf(second), 'Cordon'));
    const ended = await c.staged(first.metadata.name, 'Complete');
    const uncordon = started(() => acts.uncordonNodes(refOf(ended), 'Waiting'));
    await eventually('the status to say what the node waits for', async () => {
      const { nodeStatuses } = await c.statusOf(ended.metadata.name);
      expect(nodeStatuses.map(({ drainMessage }) => drainMessage)).toEqual([
        `Not uncordoned: waiting for NodeMaintenance ${second.metadata.name} to record it.`,
      ]);
    });
    expect((await c.node(node)).spec.unschedulable).toBe(true);
    const cancelled = await c.staged(second.metadata.name, 'Complete');
    await uncordon.ended;
    await performed(() => acts.uncordonNodes(refOf(cancelled)));
    await c.eventuallySchedulable(node);
    expect(await protectionOf(node)).toEqual({});
    expect((await c.nodeLeaseOf(node))?.spec.holderIdentity ?? '').toBe('');
  });

  test('uncordons a node that another maintenance is to keep, and deselects before it has recorded it', async () => {
    const node = await c.nodeNamed('n');
    await c.cordonedByUs(node);
    const second = await c.applied(c.maintenance({ nodes: [node], stage: 'Drain' }));
    const ended = await withRecord(await c.applied(c.maintenance({ nodes: [node], stage: 'Complete' })), {
      [node]: false,
    });
    const uncordon = started(() => acts.uncordonNodes(refOf(ended), 'Waiting'));
    await throughout('the node stays cordoned', 1_000, async () =>
      expect((await c.node(node)).spec.unschedulable).toBe(true),
    );
    const { nodeSelector } = c.maintenance({ nodes: ['another'] }).spec;
    const { name } = second.metadata;
    await c.patched(resources.nodeMaintenances, { name }, { spec: { nodeSelector } });
    await uncordon.ended;
    await c.eventuallySchedulable(node);
  });

  test('ends when the object is gone, although it waits for a Lease that nobody releases', async () => {
    const node = await c.nodeNamed('n');
    await c.cordonedByUs(node);
    await c.leaseWritten(node, { holderIdentity: 'kubeadm' });
    const applied = await withRecord(await c.applied(c.maintenance({ nodes: [node], stage: 'Complete' })), {
      [node]: false,
    });
    const uncordon = started(() => acts.uncordonNodes(refOf(applied), 'Waiting'));
    await eventually('the status to say what the node waits for', async () => {
      const { nodeStatuses } = await c.statusOf(applied.metadata.name);
      expect(nodeStatuses[0]?.drainMessage).toContain('kubeadm');
    });
    await c.deleted(applied);
    await uncordon.ended;
  });

  test('leaves the cordon of a user when it was cancelled before a worker has started it', async () => {
    const node = await c.nodeNamed('n');
    await c.cordoned(node);
    const { metadata } = await c.applied(c.maintenance({ nodes: [node], stage: 'Drain' }));
    const cancelled = await c.staged(metadata.name, 'Complete');
    await performedTwice(c, () => acts.uncordonNodes(refOf(cancelled)));
    expect((await c.node(node)).spec.unschedulable).toBe(true);
  });

  test('keeps a node cordoned that a user cordons after it was uncordoned, while another node waits for its Lease', async () => {
    const [returned, waiting] = [await c.nodeNamed('returned'), await c.nodeNamed('waiting')];
    for (const node of [returned, waiting]) await c.cordonedByUs(node);
    await c.leaseWritten(waiting, { holderIdentity: 'kubeadm' });
    const applied = await withRecord(
      await c.applied(c.maintenance({ nodes: [returned, waiting], stage: 'Complete' })),
      { [returned]: false, [waiting]: false },
    );
    const uncordon = started(() => acts.uncordonNodes(refOf(applied), 'Waiting'));
    await c.eventuallySchedulable(returned);
    await c.cordoned(returned);
    await c.leaseWritten(waiting, {});
    await c.eventuallySchedulable(waiting);
    await uncordon.ended;
    expect((await c.node(returned)).spec.unschedulable).toBe(true);
    await flushEvents();
    expect(await c.eventsAbout(applied)).toContain(
      `NodeKeptCordoned: Node ${returned} stays cordoned: another client has cordoned it. Run kubectl uncordon ${returned} to return it to service.`,
    );
  });

  test('uncordons the other nodes while a policy denies that of one, and that one when it may', async () => {
    const [denied, other] = [await c.nodeNamed('denied'), await c.nodeNamed('other')];
    for (const node of [denied, other]) await c.cordonedByUs(node);
    const rule = { apiGroups: [''], apiVersions: ['v1'], operations: ['UPDATE'], resources: ['nodes'] };
    const admit = await denyByPolicy(c.admin, denied, {
      failurePolicy: 'Fail',
      matchConstraints: { resourceRules: [rule] },
      validations: [
        {
          expression: `object.metadata.name != '${denied}' || object.spec.?unschedulable.orValue(false)`,
          message: 'this node is quarantined',
        },
      ],
    });
    await eventually('the policy to deny', () =>
      expect(
        c.admin.mergePatch(
          resources.nodes,
          { name: denied },
          { spec: { unschedulable: false } },
          { fieldManager: 'test', dryRun: true },
        ),
      ).rejects.toThrow('quarantined'),
    );
    const applied = await withRecord(
      await c.applied(c.maintenance({ nodes: [denied, other], stage: 'Complete' })),
      { [denied]: false, [other]: false },
    );
    const uncordon = started(() => acts.uncordonNodes(refOf(applied), 'Waiting'));
    await c.eventuallySchedulable(other);
    const messageOf = async () => {
      const { nodeStatuses } = await c.statusOf(applied.metadata.name);
      return nodeStatuses.find(({ nodeRef }) => nodeRef.name === denied)?.drainMessage;
    };
    await eventually('the status to say why', async () =>
      expect(await messageOf()).toMatch(/^Not uncordoned: .*this node is quarantined\.$/),
    );
    await admit();
    await c.eventuallySchedulable(denied);
    await uncordon.ended;
    expect(await messageOf()).toBe('');
    await flushEvents();
    const rejections = (await c.eventsAbout(applied)).filter((text) => text.startsWith('UncordonRejected'));
    expect(rejections).toEqual([
      expect.stringMatching(
        new RegExp(`^UncordonRejected: Node ${denied} cannot be uncordoned: .*quarantined`),
      ),
    ]);
  });

  test('does not touch a node that it has never cordoned', async () => {
    const node = await c.nodeNamed('n');
    await c.cordoned(node);
    const applied = await c.withStatus(await c.applied(c.maintenance({ nodes: [node], stage: 'Complete' })), {
      stageStatuses: [{ name: 'Cordon', startTimestamp: new Date().toISOString() }],
    });
    await performedTwice(c, () => acts.uncordonNodes(refOf(applied)));
    expect((await c.node(node)).spec.unschedulable).toBe(true);
  });

  test('keeps a node cordoned that was cordoned before, and records an Event', async () => {
    const node = await c.nodeNamed('n');
    await c.cordoned(node);
    const applied = await withRecord(await c.applied(c.maintenance({ nodes: [node], stage: 'Complete' })), {
      [node]: true,
    });
    await performedTwice(c, () => acts.uncordonNodes(refOf(applied)));
    expect((await c.node(node)).spec.unschedulable).toBe(true);
    await flushEvents();
    expect(await c.eventsAbout(applied)).toEqual([
      `NodeKeptCordoned: Node ${node} stays cordoned: it was cordoned before this maintenance. Run kubectl uncordon ${node} to return it to service.`,
    ]);
  });

  test.each(['Cordon', 'Drain'] as const)(
    'leaves a node that another maintenance in %s holds, and names it',
    async (stage) => {
      const node = await c.nodeNamed('n');
      await c.cordonedByUs(node);
      const holder = await withRecord(await c.applied(c.maintenance({ nodes: [node], stage })), {
        [node]: false,
      });
      const applied = await withRecord(await c.applied(c.maintenance({ nodes: [node], stage: 'Complete' })), {
        [node]: false,
      });
      await performedTwice(c, () => acts.uncordonNodes(refOf(applied)));
      expect((await c.node(node)).spec.unschedulable).toBe(true);
      await flushEvents();
      expect(await c.eventsAbout(applied)).toEqual([
        `NodeStillHeld: Node ${node} stays cordoned: NodeMaintenance ${holder.metadata.name} still holds it.`,
      ]);
    },
  );

  test.each(['Idle', 'Complete'] as const)('is not blocked by a maintenance in %s', async (stage) => {
    const node = await c.nodeNamed('n');
    await c.cordonedByUs(node);
    await c.applied(c.maintenance({ nodes: [node], stage }));
    const applied = await withRecord(await c.applied(c.maintenance({ nodes: [node], stage: 'Complete' })), {
      [node]: false,
    });
    await performed(() => acts.uncordonNodes(refOf(applied)));
    await c.eventuallySchedulable(node);
  });

  test('uncordons a node that is no longer selected', async () => {
    const rack = c.named('rack');
    const node = await c.nodeNamed('n');
    await c.cordonedByUs(node);
    const applied = await withRecord(await c.applied(c.maintenance({ nodes: { rack }, stage: 'Complete' })), {
      [node]: false,
    });
    await performedTwice(c, () => acts.uncordonNodes(refOf(applied)));
    await c.eventuallySchedulable(node);
  });

  test('uncordons a node that was cordoned a moment ago, although the informers lag behind', async () => {
    const node = await c.nodeNamed('n');
    const applied = await withRecord(await c.applied(c.maintenance({ nodes: [node], stage: 'Complete' })), {
      [node]: false,
    });
    const cut = new AbortController();
    const lagging = watchCluster({ kube: c.cluster.kube, log: silentLog });
    lagging.start(cut.signal);
    await lagging.synced(cut.signal);
    cut.abort();
    await c.cordonedByUs(node);
    expect(lagging.nodes.get(node)?.spec.unschedulable).toBeUndefined();
    const { activities } = activitiesOn({ cluster: lagging });
    await performed(() => activities.uncordonNodes(refOf(applied)));
    await c.eventuallySchedulable(node);
  });

  describe('of a node whose gate is not ready, without a leader,', () => {
    const own = { key: 'example.com/own', effect: 'PreferNoSchedule' } as const;
    /** Creates a node without the taint, because no leader has added it. */
    async function openNode(): Promise<{ node: string; applied: NodeMaintenance }> {
      const node = await c.nodeNamed('gated');
      const { apiVersion, kind } = NODE_READINESS;
      const spec = { readinessGates: [gate({ name: 'cni', namespace: c.namespace })] };
      const { uid = '' } = (await c.node(node)).metadata;
      const ownerReferences = [{ apiVersion: 'v1', kind: 'Node', name: node, uid }];
      const made = { apiVersion, kind, metadata: { name: node, ownerReferences }, spec };
      const gated = await c.admin.apply(resources.nodeReadinesses, made, { fieldManager: 'person' });
      await eventually('the gate in the informer', () =>
        expect(c.cluster.readinesses.get(node)?.metadata.uid).toBe(gated.metadata.uid),
      );
      await c.patched(resources.nodes, { name: node }, { spec: { taints: [own] } });
      await c.cordonedByUs(node);
      const maintenance = await c.applied(c.maintenance({ nodes: [node], stage: 'Complete' }));
      return { node, applied: await withRecord(maintenance, { [node]: false }) };
    }
    const taintsOf = async (node: string) =>
      (await c.node(node)).spec.taints?.filter(({ key }) => !key.startsWith('node.kubernetes.io'));

    test('adds the taint before it uncordons the node', async () => {
      const { node, applied } = await openNode();
      const versions: Node[] = [];
      const unsubscribe = c.cluster.nodes.subscribe(({ object }) => {
        if (object.metadata.name === node) versions.push(object);
      });
      await performedTwice(c, () => acts.uncordonNodes(refOf(applied)));
      expect(await taintsOf(node)).toEqual([own, READINESS_TAINT]);
      await eventually('the node to be schedulable', () =>
        expect(versions.at(-1)?.spec.unschedulable ?? false).toBe(false),
      );
      unsubscribe();
      const isOpen = (one: Node) => !isCordoned(one) && !hasTaint(one, READINESS_TAINT);
      expect(versions.filter(isOpen)).toEqual([]);
    });

    test('does not change the taints if readiness gates are disabled, or the gate is ready', async () => {
      const [off, open] = [await openNode(), await openNode()];
      const { activities } = activitiesOn(c, { readinessGatesEnabled: false });
      await performed(() => activities.uncordonNodes(refOf(off.applied)));
      await c.podOn(open.node, { labels: { app: 'cni' } });
      await performed(() => acts.uncordonNodes(refOf(open.applied)));
      for (const { node } of [off, open]) {
        await c.eventuallySchedulable(node);
        expect(await taintsOf(node)).toEqual([own]);
      }
    });
  });

  test('does nothing for an object that is gone', async () => {
    await performedTwice(c, () => acts.uncordonNodes({ name: 'missing', uid: 'missing', generation: 1 }));
  });

  test('ignores a node that is gone', async () => {
    const applied = await withRecord(await c.applied(c.maintenance({ nodes: ['gone'], stage: 'Complete' })), {
      gone: false,
    });
    await performedTwice(c, () => acts.uncordonNodes(refOf(applied)));
  });
});

test('a node that has changed since it was read is not uncordoned: someone else may have cordoned it since', async () => {
  const name = await c.nodeNamed('n');
  await c.cordoned(name);
  const read = await c.node(name);
  // Another worker has uncordoned it and released its Lease, and a user cordons it.
  for (const unschedulable of [false, true])
    await c.patched(resources.nodes, { name }, { spec: { unschedulable } });
  const change = () => changeNode({ cluster: c.cluster }, read, { unschedulable: false, annotations: {} });
  expect(await change()).toBe('Changed');
  expect((await c.node(name)).spec.unschedulable).toBe(true);
});

test('two maintenances that complete together uncordon the node', async () => {
  const node = await c.nodeNamed('n');
  await c.cordonedByUs(node);
  const both = await Promise.all(
    [1, 2].map(async () => {
      const applied = await c.applied(c.maintenance({ nodes: [node], stage: 'Drain' }));
      return withRecord(applied, { [node]: false });
    }),
  );
  await Promise.all(
    both.map(async (one) => {
      await performed(() => acts.requestStage(refOf(one), 'Complete', 'Message'));
      await performed(() => acts.uncordonNodes(refOf(one)));
    }),
  );
  await eventually('the node to be schedulable', async () =>
    expect((await c.node(node)).spec.unschedulable ?? false).toBe(false),
  );
});
