import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { KubeObject, Pod } from '../../api/core.ts';
import { NODE_MAINTENANCE } from '../../api/names.ts';
import type { DrainPlanEntry, NodeMaintenanceNodeStatus } from '../../api/nodeMaintenance.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import { type Kubectl, kubectlOf, succeeds } from '../api/kubectl.ts';
import { daemons, pods } from '../kit/builders.ts';
import { eventually } from '../kit/eventually.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, type World } from '../kit/world.ts';

// KEP-4212 > Pod Selection and DrainTargets Example, with a worker and a real control plane. The maintenances belong to a
// user whose only permission is to maintain these nodes.

const user = 'olga';
const nodes = ['one', 'two', 'three', 'four'];
/** Annotations against autoscalers. A person has set one of them on node two. */
const scaleDownDisabled = 'cluster-autoscaler.kubernetes.io/scale-down-disabled';
const doNotDisrupt = 'karpenter.sh/do-not-disrupt';
const [a, b, c] = ['maintenance-a', 'maintenance-b', 'maintenance-c'] as const;

let world: World;
let worker: WorkerProcess;
let kubectl: Kubectl;

beforeAll(async () => {
  world = await createWorld({ nodes: 1 });
  await world.sandbox.addNodes(nodes);
  kubectl = kubectlOf(world.sandbox);
  await giveRights();
  await succeeds(kubectl(['annotate', 'node', 'two', `${doNotDisrupt}=30m`]));
  worker = startWorker(world.sandbox);
  await worker.ready();
  await place('one', [4000, 9000, 14000]);
  await place('two', [4500, 14500]);
  await place('three', [9500, 14700]);
  await place('four', [1000, 14000]);
});
afterAll(async () => {
  await worker?.kill();
  await world?.close();
});

const rbac = (kind: string, plural: string): Resource => ({
  group: 'rbac.authorization.k8s.io',
  version: 'v1',
  plural,
  kind,
  namespaced: false,
});

async function giveRights(): Promise<void> {
  const rules = [{ apiGroups: [''], resources: ['nodes'], verbs: ['delete'], resourceNames: nodes }];
  await world.kube.create(rbac('ClusterRole', 'clusterroles'), {
    metadata: { name: user },
    rules,
  } as KubeObject);
  for (const role of [user, 'node-maintenance-operator']) {
    const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: role };
    const subjects = [{ apiGroup: roleRef.apiGroup, kind: 'User', name: user }];
    const binding = { metadata: { name: `${user}-${role}` }, roleRef, subjects } as KubeObject;
    await world.kube.create(rbac('ClusterRoleBinding', 'clusterrolebindings'), binding);
  }
}

/** Places pods of these priorities; a finalizer holds each evicted pod until the test releases it. */
async function place(node: string, priorities: number[]): Promise<void> {
  for (const value of priorities) {
    const name = `p${value}`;
    await world.kube.apply(priorityClasses, { metadata: { name }, value } as KubeObject, {
      fieldManager: 'test',
    });
    await eventually(`PriorityClass ${name} to be known`, () =>
      world.placePods(node, 1, { priorityClassName: name, finalizers: ['example.com/held'] }),
    );
  }
}

const priorityClasses: Resource = {
  group: 'scheduling.k8s.io',
  version: 'v1',
  plural: 'priorityclasses',
  kind: 'PriorityClass',
  namespaced: false,
};

/** Releases the terminating pods of the node. */
async function release(node: string): Promise<void> {
  const leaving = (await world.podsOn(node)).filter(isTerminating);
  for (const { metadata } of leaving) {
    const key = { namespace: metadata.namespace ?? '', name: metadata.name };
    await world.kube.mergePatch(resources.pods, key, { metadata: { finalizers: [] } });
  }
}

function isTerminating({ metadata }: Pod): boolean {
  return metadata.deletionTimestamp !== undefined;
}

async function applied(name: string, names: string[], drainPlan: DrainPlanEntry[]): Promise<void> {
  const object = {
    apiVersion: NODE_MAINTENANCE.apiVersion,
    kind: NODE_MAINTENANCE.kind,
    metadata: { name },
    spec: {
      nodeSelector: {
        nodeSelectorTerms: names.map((node) => ({
          matchFields: [{ key: 'metadata.name', operator: 'In', values: [node] }],
        })),
      },
      stage: 'Drain',
      drainPlan,
    },
  };
  await succeeds(kubectl(['apply', '--as', user, '-f', '-'], object));
}

async function completed(name: string): Promise<void> {
  const patch = ['--type=merge', '-p', '{"spec":{"stage":"Complete"}}'];
  await succeeds(kubectl(['patch', '--as', user, 'nodemaintenance', name, ...patch]));
  await world.eventually(name, 'it is complete', finished);
}

const on = (
  name: string,
  drainMessage: string,
  drainTargets: DrainPlanEntry[],
  [podsPendingEvacuation, podsEvacuating]: [number, number],
): NodeMaintenanceNodeStatus => ({
  nodeRef: { name },
  drainTargets,
  drainMessage,
  podsPendingEvacuation,
  podsEvacuating,
  unschedulableBefore: false,
  autoscalerAnnotationsBefore: name === 'two' ? [doNotDisrupt] : [],
});

async function eventuallyShows(name: string, want: NodeMaintenanceNodeStatus[]): Promise<void> {
  await eventually(`the status of ${name}`, async () => {
    const published = (await world.maintenance(name))?.status?.nodeStatuses ?? [];
    const observed = published.map(({ podsPeak: _peak, ...node }) => node);
    expect(
      observed.toSorted((x, y) => nodes.indexOf(x.nodeRef.name) - nodes.indexOf(y.nodeRef.name)),
    ).toEqual(want);
  });
}

/** Returns the annotations against autoscalers that the nodes have. */
async function protection(): Promise<Record<string, object>> {
  const shown = await Promise.all(
    nodes.map(async (name) => {
      const { annotations = {} } = (await world.node(name)).metadata;
      const keys = [scaleDownDisabled, doNotDisrupt].filter((key) => annotations[key] !== undefined);
      return [name, Object.fromEntries(keys.map((key) => [key, annotations[key]]))] as const;
    }),
  );
  return Object.fromEntries(shown);
}

async function eventsAbout(name: string): Promise<string[]> {
  const fieldSelector = `involvedObject.name=${name}`;
  const { items } = await world.kube.list(resources.events, { namespace: 'default', fieldSelector });
  return items.map(({ type, reason, message }) => `${type} ${reason}: ${message}`);
}

describe("the KEP's example of three maintenances that share node one", () => {
  test('the entry with the lowest priority is resolved first for the intersecting node', async () => {
    await applied(a, ['one', 'two'], [pods(5000), pods(15000), daemons(3000)]);
    await applied(b, ['one', 'three'], [pods(10000), pods(15000), daemons(4000)]);
    await eventuallyShows(a, [
      on('one', 'Evacuating', [pods(5000)], [2, 1]),
      on('two', 'Evacuating', [pods(5000)], [1, 1]),
    ]);
    await eventuallyShows(b, [
      on('one', 'Evacuating (limited by maintenance-a)', [pods(5000)], [2, 1]),
      on('three', 'Evacuating', [pods(10000)], [1, 1]),
    ]);
  });

  test('node three is drained and has to wait for node one', async () => {
    await release('three');
    await eventuallyShows(b, [
      on('one', 'Evacuating (limited by maintenance-a)', [pods(5000)], [2, 1]),
      on('three', 'Waiting for node one.', [pods(10000)], [1, 0]),
    ]);
  });

  test('node one is drained, and both have to wait for maintenance-a to drain node two', async () => {
    await release('one');
    await eventuallyShows(a, [
      on('one', 'Waiting for node two.', [pods(5000)], [2, 0]),
      on('two', 'Evacuating', [pods(5000)], [1, 1]),
    ]);
    await eventuallyShows(b, [
      on('one', 'Waiting for node two (maintenance-a).', [pods(5000)], [2, 0]),
      on('three', 'Waiting for node two (maintenance-a).', [pods(10000)], [1, 0]),
    ]);
  });

  test('node two is drained: the drain targets are incremented', async () => {
    await release('two');
    await eventuallyShows(a, [
      on('one', 'Evacuating (limited by maintenance-b)', [pods(10000)], [1, 1]),
      on('two', 'Evacuating', [pods(15000)], [0, 1]),
    ]);
    await eventuallyShows(b, [
      on('one', 'Evacuating', [pods(10000)], [1, 1]),
      on('three', 'Waiting for node one.', [pods(10000)], [1, 0]),
    ]);
  });

  test('maintenance-c is fast-forwarded for node one, with an Event', async () => {
    await applied(c, ['one', 'four'], [pods(2000), pods(15000)]);
    await eventuallyShows(c, [
      on('one', 'Evacuating (fast-forwarded by older maintenance-b)', [pods(10000)], [1, 1]),
      on('four', 'Evacuating', [pods(2000)], [1, 1]),
    ]);
    await eventually('the Event', async () =>
      expect(await eventsAbout(c)).toContainEqual(
        expect.stringMatching(/^Warning FastForwarded: Node one is fast-forwarded by older maintenance-b/),
      ),
    );
  });

  test('the conditions of node one name the maintenances that hold it', async () => {
    await eventually('the conditions of node one', async () => {
      const conditions = (await world.node('one')).status?.conditions ?? [];
      const shown = conditions.map(({ type, status, message }) => `${type} ${status} ${message}`);
      const holders = [a, b, c].map((name) => `${name} (Drain)`).join(', ');
      expect(shown).toContain(`MaintenanceInProgress True NodeMaintenance ${holders}`);
    });
  });

  test('autoscalers do not remove the nodes, and the annotation of a person is not changed', async () => {
    const ours = { [scaleDownDisabled]: 'true', [doNotDisrupt]: 'true' };
    await eventually('the annotations', async () =>
      expect(await protection()).toEqual({
        one: ours,
        two: { [scaleDownDisabled]: 'true', [doNotDisrupt]: '30m' },
        three: ours,
        four: ours,
      }),
    );
  });

  test('all three are drained in the end, and no pod had two Evacuations', async () => {
    for (const name of [a, b, c])
      await eventually(`${name} to be drained`, async () => {
        for (const node of nodes) await release(node);
        const observed = await world.maintenance(name);
        expect(observed && drained(observed) ? 'drained' : observed?.status?.nodeStatuses).toBe('drained');
      });
    expect([...world.record.evacuations.values()].every((uids) => uids.size === 1)).toBe(true);
    expect(world.record.gone).toHaveLength(9);
  });

  test('node one stays cordoned until the last of them is complete; its conditions go with it', async () => {
    await completed(b);
    expect((await world.node('three')).spec.unschedulable ?? false).toBe(false);
    await completed(a);
    expect((await world.node('two')).spec.unschedulable ?? false).toBe(false);
    expect((await world.node('one')).spec.unschedulable).toBe(true);
    const [ours, theirs] = [
      { [scaleDownDisabled]: 'true', [doNotDisrupt]: 'true' },
      { [doNotDisrupt]: '30m' },
    ];
    expect(await protection()).toEqual({ one: ours, two: theirs, three: {}, four: ours });
    await completed(c);
    expect(await protection()).toEqual({ one: {}, two: theirs, three: {}, four: {} });
    for (const node of nodes) expect((await world.node(node)).spec.unschedulable ?? false).toBe(false);
    await eventually('the conditions of node one to be gone', async () => {
      const types = (await world.node('one')).status?.conditions?.map(({ type }) => type);
      expect(types).not.toContain('MaintenanceInProgress');
    });
  });
});
