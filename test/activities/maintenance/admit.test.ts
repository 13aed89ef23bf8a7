import { readBudget } from '../../kit/budget.ts';
import { NODE_DISRUPTION_BUDGET_NAME } from '../../../api/names.ts';
import { testScope, workflowIdOf } from '../../kit/temporalNames.ts';
import { completeDrainPlan } from '../../../domain/drain/plan.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { activitiesOn, performed, performedTwice } from '../../kit/activity.ts';
import { daemons, labelled, pods } from '../../kit/builders.ts';
import { testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually } from '../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let admit: ReturnType<typeof activitiesOn>['activities']['admit'];
let flushEvents: () => Promise<void>;
let n1: string;
let n2: string;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'admit' });
  const made = activitiesOn(c);
  ({ flushEvents } = made);
  ({ admit } = made.activities);
  [n1, n2] = await Promise.all([c.nodeNamed('n', { rack: c.namespace }), c.nodeNamed('n')]);
});

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

/** The request of a workflow that was started with this input under the id that belongs to it. */
const startedWith = (input: { name: string }) => ({ input, workflowId: workflowIdOf(input.name) });

describe('a maintenance that is started from Temporal', () => {
  test('is created, with the complete drain plan, and created once', async () => {
    const name = c.named('nm');
    const drainPlan = [pods(1000), labelled(pods(5000), { app: 'db' }), daemons(10)];
    const input = { name, nodes: [n2, n1], stage: 'Drain' as const, reason: 'firmware 2.4', drainPlan };
    const admitted = await performedTwice(c, () => admit(startedWith(input)));
    const { metadata, spec } = await c.maintenanceNow(name);
    expect(spec).toMatchObject({ stage: 'Drain', reason: 'firmware 2.4' });
    expect(spec.drainPlan).toEqual(completeDrainPlan(drainPlan));
    expect(admitted).toEqual({
      name,
      uid: metadata.uid,
      cluster: { name: testScope.name, uid: testScope.uid },
      generation: 1,
      stage: 'Drain',
      paused: false,
      position: 0,
      planLength: 15,
      heartbeatTimeoutSeconds: 540,
      nodes: [n1, n2].toSorted(),
    });
  });

  test('is Idle by default', async () => {
    const name = c.named('nm');
    expect(await performed(() => admit(startedWith({ name, nodes: [n1] } as never)))).toMatchObject({
      stage: 'Idle',
    });
  });

  test.each([
    { how: 'in the order of the API', term: ['key', 'operator', 'values'] },
    { how: 'in another order', term: ['values', 'operator', 'key'] },
  ])('may give a whole nodeSelector, its fields $how', async ({ term }) => {
    const requirement: Record<string, unknown> = {
      key: 'rack',
      operator: 'In',
      values: [c.namespace, 'nowhere'],
    };
    const matchExpressions = [Object.fromEntries(term.map((field) => [field, requirement[field]]))];
    const matchFields = [{ values: [n1], operator: 'In', key: 'metadata.name' }];
    const nodeSelector = { nodeSelectorTerms: [{ matchFields, matchExpressions }] };
    const input = { name: c.named('nm'), nodeSelector };
    expect(await performedTwice(c, () => admit(startedWith(input)))).toMatchObject({ nodes: [n1] });
  });

  test('runs an existing object with the same spec, in any stage', async () => {
    const input = { name: c.named('nm'), nodes: [n1], stage: 'Cordon' as const, reason: 'disk' };
    const first = await performed(() => admit(startedWith(input)));
    await c.staged(input.name, 'Drain');
    const again = await performed(() => admit(startedWith(input)));
    expect(again).toEqual({ ...first, stage: 'Drain', generation: 2 });
  });
});

describe('a maintenance that is started from Temporal is admitted like any other:', () => {
  test('the object records who started it, as a claim, and the user that requests from Temporal act as', async () => {
    const name = c.named('nm');
    await performed(() => admit(startedWith({ name, nodes: [n1] } as never)));
    expect((await c.maintenanceNow(name)).metadata.annotations).toMatchObject({
      'nodemaintenance.k8s.io/started-by': 'unverified Temporal identity: jane@laptop',
      'nodemaintenance.k8s.io/requested-by': 'user nodemaintenance.k8s.io:temporal',
    });
  });

  test('a warning becomes an Event of the object', async () => {
    const node = await c.nodeNamed('shared');
    const other = await c.applied(c.maintenance({ nodes: [node], stage: 'Cordon' }));
    const name = c.named('nm');
    await performed(() => admit(startedWith({ name, nodes: [node], stage: 'Drain' } as never)));
    await flushEvents();
    expect(await c.eventsAbout(await c.maintenanceNow(name))).toEqual([
      `AdmissionWarning: spec.nodeSelector matches nodes that other maintenances hold: "${other.metadata.name}"; the slowest drain plan limits which pods are evacuated, and a node is uncordoned when its last maintenance is complete`,
    ]);
  });

  test('a warning about the NodeDisruptionBudget becomes an Event too', async () => {
    const node = await c.nodeNamed('spared');
    const { metadata } = await readBudget(c);
    const none = { spec: { maxUnavailable: 0 } };
    await c.admin.mergePatch(resources.nodeDisruptionBudgets, { name: NODE_DISRUPTION_BUDGET_NAME }, none);
    await eventually('the budget', () =>
      expect(c.cluster.nodeDisruptionBudgets.get(NODE_DISRUPTION_BUDGET_NAME)).toMatchObject({
        ...none,
        metadata: { uid: metadata.uid },
      }),
    );
    const name = c.named('nm');
    await performed(() => admit(startedWith({ name, nodes: [node], stage: 'Cordon' } as never)));
    await flushEvents();
    await c.admin.delete(
      resources.nodeDisruptionBudgets,
      { name: NODE_DISRUPTION_BUDGET_NAME },
      { uid: metadata.uid ?? '' },
    );
    const events = await c.eventsAbout(await c.maintenanceNow(name));
    expect(events.join('\n')).toContain(
      'NodeDisruptionBudget cluster allows 0: this maintenance is not blocked',
    );
  });

  test('it is rejected without the permission to delete its nodes, and nothing is created', async () => {
    await c.temporalMayDelete([n1]);
    try {
      await eventually('only one node may be deleted', () =>
        expect(
          performed(() => admit(startedWith({ name: c.named('nm'), nodes: [n1, n2] } as never))),
        ).rejects.toMatchObject({
          type: 'InvalidInput',
          nonRetryable: true,
          message: `spec.nodeSelector: user "nodemaintenance.k8s.io:temporal" may not delete node "${n2}": maintaining a node requires permission to delete it, and requests from Temporal are those of this user: create or change the NodeMaintenance with kubectl, or have an administrator run kubectl apply --server-side -k deploy/temporal-user (all nodes; deploy/temporal-user/some-nodes.yaml for a part)`,
        }),
      );
      const name = c.named('nm');
      expect(await performed(() => admit(startedWith({ name, nodes: [n1] } as never)))).toMatchObject({
        name,
      });
      await expect(
        performed(() => admit(startedWith({ name: `shutdown-${n2}`, nodes: [n1] } as never))),
      ).rejects.toMatchObject({
        type: 'InvalidInput',
        message: expect.stringContaining(`the agent of node "${n2}" uses the name "shutdown-${n2}"`),
      });
    } finally {
      await c.temporalMayDelete();
    }
  });
});

describe('a maintenance with a deadline', () => {
  const startedWithDeadline = (drainDeadline: object) =>
    performed(() => admit(startedWith({ name: c.named('nm'), nodes: [n1], drainDeadline } as never)));

  test('is started, and not with Delete unless users of Temporal may delete pods', async () => {
    expect(await startedWithDeadline({ after: '2h' })).toMatchObject({ nodes: [n1] });
    await expect(startedWithDeadline({ after: '2h', onDeadline: 'Delete' })).rejects.toMatchObject({
      type: 'InvalidInput',
      message: expect.stringContaining(
        'spec.drainDeadline.onDeadline: user "nodemaintenance.k8s.io:temporal" may not delete pods in all namespaces',
      ),
    });
  });

  test.each([
    {
      what: 'a field that is unknown',
      drainDeadline: { within: '2h' },
      problem: 'drainDeadline.within: unknown field',
    },
    {
      what: 'no duration',
      drainDeadline: { after: 'soon' },
      problem: 'drainDeadline.after: expected a duration',
    },
    {
      what: 'a time that has passed',
      drainDeadline: { at: '2026-01-01T00:00:00Z' },
      problem: 'spec.drainDeadline.at: 2026-01-01T00:00:00Z has passed',
    },
    {
      what: 'two times',
      drainDeadline: { at: '2099-01-01T00:00:00Z', after: '2h' },
      problem: 'exactly one of after and at',
    },
  ])('is rejected with $what', async ({ drainDeadline, problem }) => {
    await expect(startedWithDeadline(drainDeadline)).rejects.toMatchObject({
      type: 'InvalidInput',
      message: expect.stringContaining(problem),
    });
  });
});

describe('an existing maintenance', () => {
  test('continues at the position in its status after its run was terminated', async () => {
    const applied = await c.applied(c.maintenance({ nodes: [n1], stage: 'Drain', drainPlan: [pods(7)] }));
    const condition = { type: 'Paused', reason: 'PauseRequested', message: '', status: 'True' };
    const conditions = [{ ...condition, lastTransitionTime: '2026-01-01T00:00:00Z' }];
    await c.withStatus(applied, { drainPosition: 4, conditions });
    const { name, uid } = applied.metadata;
    expect(await performedTwice(c, () => admit(startedWith({ name })))).toEqual({
      name,
      uid,
      cluster: { name: testScope.name, uid: testScope.uid },
      generation: 1,
      stage: 'Drain',
      paused: true,
      position: 4,
      planLength: 13,
      heartbeatTimeoutSeconds: 540,
      nodes: [n1],
    });
  });

  test('that is complete is not taken for the one that an input describes', async () => {
    const applied = await c.applied(c.maintenance({ nodes: [n1], stage: 'Complete' }));
    const { name } = applied.metadata;
    const startTimestamp = c.admin.now().toISOString();
    await c.withStatus(applied, { stageStatuses: [{ name: 'Complete', startTimestamp }] });
    const drainPlan = applied.spec.drainPlan ?? [];
    await expect(
      performed(() => admit(startedWith({ name, nodes: [n1], drainPlan } as never))),
    ).rejects.toMatchObject({
      type: 'InvalidInput',
      message: `name: NodeMaintenance "${name}" exists and is complete; choose another name, or delete it first`,
    });
    // A run without a description of its own ends as before.
    expect(await performed(() => admit(startedWith({ name })))).toMatchObject({ stage: 'Complete' });
  });

  test('that is being deleted is in Complete', async () => {
    const maintenance = c.maintenance({ nodes: [n1], stage: 'Cordon' });
    maintenance.metadata.finalizers = ['example.com/held'];
    const applied = await c.applied(maintenance);
    await c.deleted(applied);
    const { name } = applied.metadata;
    expect(await performed(() => admit(startedWith({ name })))).toMatchObject({ stage: 'Complete' });
  });

  test.each([
    { field: 'nodeSelector', differs: () => ({ nodes: [n2] }) },
    { field: 'drainPlan', differs: () => ({ nodes: [n1], drainPlan: [pods(1)] }) },
    { field: 'reason', differs: () => ({ nodes: [n1], reason: 'another' }) },
  ])('with another $field is not changed, and the start rejected', async ({ field, differs }) => {
    const { metadata } = await c.applied(c.maintenance({ nodes: [n1] }));
    const { name, resourceVersion } = metadata;
    await expect(performed(() => admit(startedWith({ name, ...differs() })))).rejects.toMatchObject({
      type: 'InvalidInput',
      nonRetryable: true,
      message: `name: NodeMaintenance "${name}" exists with a different ${field}; choose another name, or give only the name to run the existing one`,
    });
    expect((await c.maintenanceNow(name)).metadata.resourceVersion).toBe(resourceVersion);
  });
});

describe('an invalid input is rejected with field and remedy, and nothing is created:', () => {
  const rejected = 'The maintenance was not started: ';
  const rows: { when: string; input: () => object; problem: string }[] = [
    {
      when: 'a node that does not exist',
      input: () => ({ nodes: [n1, 'rack-9'] }),
      problem: 'nodes[1]: there is no node "rack-9"; kubectl get nodes lists them',
    },
    {
      when: 'many nodes that do not exist',
      input: () => ({ nodes: [n1, ...Array.from({ length: 2_000 }, (_, index) => `gone-${index}`)] }),
      problem:
        'nodes: there are no nodes "gone-0", "gone-1", "gone-2" and 1997 more; kubectl get nodes lists them',
    },
    {
      when: 'a name alone, and no object of that name',
      input: () => ({}),
      problem: 'name: there is no NodeMaintenance "NAME"; give "nodes" or "nodeSelector" to create it',
    },
    {
      when: 'a drain plan out of order',
      input: () => ({ nodes: [n1], drainPlan: [pods(5000), pods(1000)] }),
      problem: `${rejected}drainPlan[1] has podPriority 1000 after 5000 (ascending for each podType): move it before drainPlan[0]`,
    },
    {
      when: 'a drain plan with an entry twice',
      input: () => ({ nodes: [n1], drainPlan: [pods(1000), pods(1000)] }),
      problem: `${rejected}drainPlan[1] repeats drainPlan[0]: remove one of them`,
    },
    {
      when: 'an empty list of nodes',
      input: () => ({ nodes: [] }),
      problem: `${rejected}nodes: expected at least one node name (got [])`,
    },
    {
      when: 'the same node twice',
      input: () => ({ nodes: ['a', 'a'] }),
      problem: `${rejected}nodes[1]: a is already nodes[0]; remove one`,
    },
    {
      when: 'nodes and nodeSelector',
      input: () => ({ nodes: [n1], nodeSelector: { nodeSelectorTerms: [{ matchExpressions: [] }] } }),
      problem: `${rejected}nodes, nodeSelector: give one of the two, not both`,
    },
    {
      when: 'a stage without nodes',
      input: () => ({ stage: 'Drain' }),
      problem: `${rejected}nodes or nodeSelector: one of them is required with stage (give only name to run an existing NodeMaintenance)`,
    },
    {
      when: 'a field that does not exist',
      input: () => ({ nodes: [n1], node: n1 }),
      problem: `${rejected}node: unknown field; remove it or correct its name`,
    },
  ];

  test.each(rows)('$when', async ({ input, problem }) => {
    const name = c.named('nm');
    const request = startedWith({ name, ...input() });
    const written = await c.requests.writesOf(() =>
      expect(performed(() => admit(request))).rejects.toMatchObject({
        type: 'InvalidInput',
        nonRetryable: true,
        message: problem.replace('NAME', name),
      }),
    );
    expect(written).toEqual([]);
  });

  test.each([
    {
      when: 'a node selector without terms',
      input: { nodeSelector: { nodeSelectorTerms: [] } },
      field: 'nodeSelector',
    },
    { when: 'a stage that does not exist', input: { nodes: ['a'], stage: 'Paint' }, field: 'stage' },
    { when: 'a string instead of a list', input: { nodes: 'a' }, field: 'nodes' },
    {
      when: 'a priority that is not a number',
      input: { nodes: ['a'], drainPlan: [{ podType: 'Default', podPriority: 'high' }] },
      field: 'drainPlan[0].podPriority',
    },
  ])('$when', async ({ input, field }) => {
    const request = startedWith({ name: c.named('nm'), ...input });
    const message = expect.stringContaining(`${rejected}${field}`);
    await expect(performed(() => admit(request))).rejects.toMatchObject({ type: 'InvalidInput', message });
    expect(await c.admin.get(resources.nodeMaintenances, { name: request.input.name })).toBeUndefined();
  });

  test.each([
    { when: 'no input at all', input: undefined, problem: 'expected one JSON object (got undefined)' },
    { when: 'a string', input: 'rack-7', problem: 'expected one JSON object (got "rack-7")' },
    { when: 'an empty object', input: {}, problem: 'name: ' },
    { when: 'an invalid object name', input: { name: 'Rack 7' }, problem: 'name: ' },
  ])('$when', async ({ input, problem }) => {
    const workflowId = 'node-maintenance-rack-7';
    await expect(performed(() => admit({ input, workflowId }))).rejects.toMatchObject({
      type: 'InvalidInput',
      message: expect.stringContaining(rejected + problem),
    });
  });

  test('a workflow id of another maintenance', async () => {
    const name = c.named('nm');
    const request = { input: { name, nodes: [n1] }, workflowId: 'my-workflow' };
    const written = await c.requests.writesOf(() =>
      expect(performed(() => admit(request))).rejects.toMatchObject({
        type: 'InvalidInput',
        message: `workflow id: expected "node-maintenance-${name}" for the maintenance "${name}" (got "my-workflow"): a maintenance must not have two runs`,
      }),
    );
    expect(written).toEqual([]);
  });
});
