import { type Resource, resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { allowed, type DryRuns, dryRunsIn } from '../kit/dryRuns.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { type Kubectl, kubectlOf, succeeds } from './kubectl.ts';
import { maintenance, selecting } from './objects.ts';

let sandbox: Sandbox | undefined;
let kubectl: Kubectl;
let dryRuns: DryRuns;

beforeAll(async () => {
  sandbox = await testSandbox();
  kubectl = kubectlOf(sandbox);
  dryRuns = await dryRunsIn(sandbox);
});

afterAll(async () => {
  dryRuns?.close();
  await releaseSandbox(sandbox);
});

/** Returns the spec that the apiserver would store. */
async function specOf(resource: Resource, object: object): Promise<object> {
  const { object: stored, ...result } = await dryRuns.create(resource, object);
  expect(result).toMatchObject(allowed);
  return (stored as { spec: object }).spec;
}

const { maintenanceWindows, nodeDisruptionBudgets } = resources;

const apiVersion = 'nodemaintenance.k8s.io/v1alpha1';
const weekly = { cron: '0 2 * * 6', timeZone: 'Europe/Berlin', duration: '4h' };
const nodeSelector = selecting({ key: 'rack', operator: 'Exists' });
const template = { spec: { containers: [{ name: 'patch', image: 'patch:1' }], restartPolicy: 'Never' } };

function window(spec: object = {}, name = 'api-window'): object {
  return {
    apiVersion,
    kind: 'MaintenanceWindow',
    metadata: { name },
    spec: { schedule: weekly, nodeSelector, ...spec },
  };
}

const budget = (maxUnavailable: unknown, selector?: object) => ({
  apiVersion,
  kind: 'NodeDisruptionBudget',
  metadata: { name: 'pool' },
  spec: { maxUnavailable, ...(selector && { nodeSelector: selector }) },
});

test('a cluster may have several budgets, each with the nodes that it limits', async () => {
  const spec = await specOf(nodeDisruptionBudgets, budget('25%', nodeSelector));
  expect(spec).toEqual({ maxUnavailable: '25%', nodeSelector });
});

test('a MaintenanceWindow needs a schedule and a nodeSelector, and has safe defaults', async () => {
  expect(await specOf(maintenanceWindows, window())).toMatchObject({
    rollout: { maxUnavailable: 1, soakSeconds: 0, maxFailures: 1, order: { by: 'Name' } },
    work: { type: 'None' },
    approval: 'None',
    onWindowEnd: 'FinishCurrent',
    suspend: false,
  });
});

describe('a MaintenanceWindow is accepted', () => {
  test.each([
    {
      when: 'it sets every field',
      spec: {
        schedule: {
          calendar: [{ time: '02:00', daysOfWeek: ['Saturday'], months: [1, 12], years: [2027] }],
          timeZone: 'UTC',
          duration: '1h30m',
          exceptions: ['2027-12-25'],
        },
        rollout: {
          maxUnavailable: '20%',
          topologyKey: 'topology.kubernetes.io/zone',
          order: { by: 'Label', labelKey: 'rank' },
          soakSeconds: 300,
          maxFailures: 2,
        },
        template: {
          metadata: { labels: { team: 'sre' }, annotations: { 'example.com/ticket': 'OPS-4711, urgent' } },
          reason: 'firmware 2.4',
          drainPlan: [{ podType: 'Default', podPriority: 1000 }],
        },
        work: { type: 'Job', job: { template, timeoutSeconds: 600, retries: 2 } },
        approval: 'PerNode',
        onWindowEnd: 'HoldCurrent',
        suspend: true,
      },
    },
    { when: 'it reboots nodes that need it', spec: { work: { type: 'Reboot' } } },
    {
      when: 'it reboots every node',
      spec: { work: { type: 'Reboot', reboot: { policy: 'Always', timeoutSeconds: 600 } } },
    },
    { when: 'its maxUnavailable is a number of nodes', spec: { rollout: { maxUnavailable: 3 } } },
  ])('when $when', async ({ spec }) => {
    expect(await specOf(maintenanceWindows, window(spec))).toMatchObject(spec);
  });
});

test('a window that reboots nodes does so if they need it, and waits for half an hour', async () => {
  const spec = await specOf(maintenanceWindows, window({ work: { type: 'Reboot', reboot: {} } }));
  expect(spec).toHaveProperty(['work', 'reboot'], { policy: 'IfRequired', timeoutSeconds: 1800 });
});

describe('is rejected, with a message that explains how to fix it,', () => {
  test.each([
    {
      when: 'a window has neither cron nor calendar',
      object: window({ schedule: { timeZone: 'UTC', duration: '1h' } }),
      message: 'schedule needs exactly one of cron and calendar: remove one of the two, or add one',
    },
    {
      when: 'a window has both',
      object: window({ schedule: { ...weekly, calendar: [{ time: '02:00' }] } }),
      message: 'schedule needs exactly one of cron and calendar',
    },
    {
      when: 'a window has a duration of zero',
      object: window({ schedule: { ...weekly, duration: '0m' } }),
      message: 'duration must be between 1m and 168h, such as 4h or 90m',
    },
    {
      when: 'maxUnavailable of a window is 0',
      object: window({ rollout: { maxUnavailable: 0 } }),
      message:
        'maxUnavailable must be at least 1 or 1%; to stop the window from opening, set suspend to true',
    },
    {
      when: 'maxUnavailable of a window is 0%',
      object: window({ rollout: { maxUnavailable: '0%' } }),
      message: 'maxUnavailable must be at least 1 or 1%',
    },
    {
      when: 'a window sorts nodes by a label without its key',
      object: window({ rollout: { order: { by: 'Label' } } }),
      message: 'order.labelKey is required if by is Label, and must not be set if by is Name',
    },
    {
      when: 'a window has a Job with type None',
      object: window({ work: { type: 'None', job: { template } } }),
      message: 'work.job is required if type is Job, and must not be set otherwise',
    },
    {
      when: 'a window has both a Job and a reboot',
      object: window({ work: { type: 'Job', job: { template }, reboot: {} } }),
      message: 'work.reboot must not be set unless type is Reboot',
    },
    {
      when: 'a window reboots nodes by an unknown policy',
      object: window({ work: { type: 'Reboot', reboot: { policy: 'Never' } } }),
      message:
        'spec.work.reboot.policy: Unsupported value: "Never": supported values: "IfRequired", "Always"',
    },
    {
      when: 'a window gives a reboot no time',
      object: window({ work: { type: 'Reboot', reboot: { timeoutSeconds: 0 } } }),
      message: 'spec.work.reboot.timeoutSeconds',
    },
    {
      when: 'the drain plan of a window is not valid for a NodeMaintenance',
      object: window({
        template: {
          drainPlan: [
            { podType: 'Default', podPriority: 2 },
            { podType: 'Default', podPriority: 1 },
          ],
        },
      }),
      message: 'ascending order of podPriority',
    },
    {
      when: 'the template of a window sets the label of another window',
      object: window({ template: { metadata: { labels: { 'nodemaintenance.k8s.io/window': 'other' } } } }),
      message: 'keys with the prefix nodemaintenance.k8s.io/ are reserved: use another prefix, or none',
    },
    {
      when: 'the template of a window marks the work as done',
      object: window({
        template: { metadata: { annotations: { 'nodemaintenance.k8s.io/work-done': 'true' } } },
      }),
      message: 'keys with the prefix nodemaintenance.k8s.io/ are reserved',
    },
    {
      when: 'the template of a window has a label that is not valid',
      object: window({ template: { metadata: { labels: { 'two words': 'a b' } } } }),
      message: 'label and annotation keys must have the form app or example.com/app',
    },
    {
      when: 'the template of a window sets a stage',
      object: window({ template: { stage: 'Drain' } }),
      message: 'unknown field "spec.template.stage"',
    },
    {
      when: 'the name of a window is not a valid label value',
      object: window({}, 'a'.repeat(64)),
      message: 'metadata.name is used as the value of a label: choose a name of at most 63 characters',
    },
    {
      when: 'the nodeSelector of a budget has no term',
      object: budget(1, { nodeSelectorTerms: [] }),
      message: 'spec.nodeSelector.nodeSelectorTerms in body should have at least 1 items',
    },
    {
      when: 'the nodeSelector of a budget lists no value',
      object: budget(1, {
        nodeSelectorTerms: [{ matchExpressions: [{ key: 'pool', operator: 'In', values: [] }] }],
      }),
      message: 'values: give at least one value with operator In or NotIn',
    },
    {
      when: 'the nodeSelector of a budget is not one of core/v1',
      object: budget(1, { matchLabels: { pool: 'gpu' } }),
      message: 'unknown field "spec.nodeSelector.matchLabels"',
    },
    {
      when: 'maxUnavailable of a budget is not valid',
      object: budget('some'),
      message: 'maxUnavailable must be a number of 0 or more, or a percentage such as "10%"',
    },
  ])('when $when', async ({ object, message }) => {
    const isBudget = (object as { kind: string }).kind === 'NodeDisruptionBudget';
    const { rejection } = await dryRuns.create(isBudget ? nodeDisruptionBudgets : maintenanceWindows, object);
    expect(rejection).toContain(message);
  });
});

// Unlike that of a NodeMaintenance, the plan of a window may change, and is validated at each change.
test('the drain plan of a window cannot become one that is not valid for a NodeMaintenance', async () => {
  const entry = { podType: 'Default', podPriority: 1 };
  await succeeds(kubectl(['create', '-f', '-'], window({ template: { drainPlan: [entry] } })));
  try {
    const patch = JSON.stringify({ spec: { template: { drainPlan: [entry, entry] } } });
    const { code, stderr } = await kubectl(['patch', 'mw', 'api-window', '--type=merge', '-p', patch]);
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringContaining('must not repeat an entry'),
    });
  } finally {
    await succeeds(kubectl(['delete', 'mw', 'api-window']));
  }
});

test('kubectl explain describes the fields', async () => {
  const explained = await succeeds(kubectl(['explain', 'mw.spec.onWindowEnd']));
  expect(explained).toContain('HoldCurrent: drains are paused, nodes');
  const budgetExplained = await succeeds(kubectl(['explain', 'ndb.spec.maxUnavailable']));
  expect(budgetExplained.replaceAll(/\s+/g, ' ')).toContain('With 0, windows start no nodes.');
});

describe('the worker deletes', () => {
  const as = ['--as', 'system:serviceaccount:node-maintenance:node-maintenance-worker'];
  const create = async (name: string, labels: Record<string, string>, spec: object) => {
    const object = { ...maintenance(name, spec), metadata: { name, labels } };
    await succeeds(kubectl(['create', '-f', '-'], object));
  };
  const windowLabels = { 'nodemaintenance.k8s.io/window': 'w' };

  test.each([
    {
      what: 'no NodeMaintenance of a user',
      name: 'api-of-a-user',
      labels: {},
      spec: { stage: 'Complete' },
      message: 'the worker may only delete a NodeMaintenance of a maintenance window',
    },
    {
      what: 'no NodeMaintenance of a window that is not complete',
      name: 'api-window-idle',
      labels: windowLabels,
      spec: { stage: 'Idle' },
      message: 'the worker may only delete a NodeMaintenance that is complete',
    },
    {
      what: 'completed NodeMaintenances of a window',
      name: 'api-window-complete',
      labels: windowLabels,
      spec: { stage: 'Complete' },
      message: '',
    },
  ])('$what', async ({ name, labels, spec, message }) => {
    await create(name, labels, spec);
    const { stderr } = await kubectl(['delete', 'nm', name, '--wait=false', ...as]);
    expect(stderr).toContain(message);
    expect(stderr === '').toBe(message === '');
    await kubectl(['delete', 'nm', name, '--ignore-not-found', '--wait=false']);
  });
});
