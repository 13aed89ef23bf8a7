import type { Sandbox } from '../../sandbox/sandbox.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { type Kubectl, kubectlOf, succeeds } from './kubectl.ts';
import { maintenance, selecting } from './objects.ts';

let sandbox: Sandbox | undefined;
let kubectl: Kubectl;

beforeAll(async () => {
  sandbox = await testSandbox();
  kubectl = kubectlOf(sandbox);
});

afterAll(() => releaseSandbox(sandbox));

/** Asks the apiserver without storing anything. */
const tryCreate = (object: object) =>
  kubectl(['create', '--dry-run=server', '-o', 'json', '-f', '-'], object);

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

const budget = (maxUnavailable: unknown, name = 'cluster') => ({
  apiVersion,
  kind: 'NodeBudget',
  metadata: { name },
  spec: { maxUnavailable },
});

test('a MaintenanceWindow needs a schedule and a nodeSelector, and has careful defaults', async () => {
  const { spec } = JSON.parse(await succeeds(tryCreate(window())));
  expect(spec).toMatchObject({
    rollout: { maxUnavailable: 1, soakSeconds: 0, maxFailures: 1, order: { by: 'Name' } },
    work: { type: 'None' },
    approval: 'None',
    onWindowEnd: 'FinishCurrent',
    suspend: false,
  });
});

describe('a MaintenanceWindow is taken', () => {
  test.each([
    {
      when: 'it has all that there is',
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
    { when: 'its rollout is as many nodes', spec: { rollout: { maxUnavailable: 3 } } },
  ])('when $when', async ({ spec }) => {
    const created = JSON.parse(await succeeds(tryCreate(window(spec))));
    expect(created.spec).toMatchObject(spec);
  });
});

describe('is refused, with the remedy,', () => {
  test.each([
    {
      when: 'a window has neither cron nor calendar',
      object: window({ schedule: { timeZone: 'UTC', duration: '1h' } }),
      says: 'schedule needs exactly one of cron and calendar: remove one of the two, or add one',
    },
    {
      when: 'a window has both',
      object: window({ schedule: { ...weekly, calendar: [{ time: '02:00' }] } }),
      says: 'schedule needs exactly one of cron and calendar',
    },
    {
      when: 'a window lasts for no time',
      object: window({ schedule: { ...weekly, duration: '0m' } }),
      says: 'duration must be between 1m and 168h, such as 4h or 90m',
    },
    {
      when: 'a window may take no node',
      object: window({ rollout: { maxUnavailable: 0 } }),
      says: 'maxUnavailable must be a number of 1 or more, or a percentage of 1% or more: set suspend to open no window',
    },
    {
      when: 'a window may take 0%',
      object: window({ rollout: { maxUnavailable: '0%' } }),
      says: 'maxUnavailable must be a number of 1 or more',
    },
    {
      when: 'a window orders by a label that it does not name',
      object: window({ rollout: { order: { by: 'Label' } } }),
      says: 'order needs labelKey with by: Label, and takes none with by: Name',
    },
    {
      when: 'a window has a Job for no work',
      object: window({ work: { type: 'None', job: { template } } }),
      says: 'work needs job with type: Job, and takes none with type: None',
    },
    {
      when: 'a window has a drain plan that a NodeMaintenance must not have',
      object: window({
        template: {
          drainPlan: [
            { podType: 'Default', podPriority: 2 },
            { podType: 'Default', podPriority: 1 },
          ],
        },
      }),
      says: 'ascending order of podPriority',
    },
    {
      when: "a window gives its maintenances another window's label",
      object: window({ template: { metadata: { labels: { 'nodemaintenance.k8s.io/window': 'other' } } } }),
      says: 'keys that begin with nodemaintenance.k8s.io/ are those of the window itself: take another prefix, or none',
    },
    {
      when: 'a window says of its maintenances that they were advanced',
      object: window({
        template: { metadata: { annotations: { 'nodemaintenance.k8s.io/turn-advance': 'true' } } },
      }),
      says: 'keys that begin with nodemaintenance.k8s.io/ are those of the window itself',
    },
    {
      when: 'a window gives its maintenances a label that is none',
      object: window({ template: { metadata: { labels: { 'two words': 'a b' } } } }),
      says: 'keys of labels and annotations must be such as app or example.com/app',
    },
    {
      when: 'a window gives its maintenances a stage',
      object: window({ template: { stage: 'Drain' } }),
      says: 'unknown field "spec.template.stage"',
    },
    {
      when: 'a window has a name that is no label',
      object: window({}, 'a'.repeat(64)),
      says: 'the name of a MaintenanceWindow is the value of a label: choose one of at most 63 characters',
    },
    {
      when: 'a budget is not the cluster’s',
      object: budget(1, 'rack-7'),
      says: "a NodeBudget is the cluster's only one: its name must be cluster",
    },
    {
      when: 'a budget is no number',
      object: budget('some'),
      says: 'maxUnavailable must be a number of 0 or more, or a percentage such as "10%"',
    },
  ])('when $when', async ({ object, says }) => {
    const { code, stderr } = await kubectl(
      ['create', '--dry-run=server', '--validate=strict', '-f', '-'],
      object,
    );
    expect(code).not.toBe(0);
    expect(stderr).toContain(says);
  });
});

test('kubectl explain tells what the fields mean', async () => {
  const explained = await succeeds(kubectl(['explain', 'mw.spec.onWindowEnd']));
  expect(explained).toContain('HoldCurrent: drains rest, nodes stay');
  const budgetExplained = await succeeds(kubectl(['explain', 'nb.spec.maxUnavailable']));
  expect(budgetExplained).toContain('0 lets no window begin a turn.');
});

describe('the worker deletes', () => {
  const as = ['--as', 'system:serviceaccount:node-maintenance:node-maintenance-worker'];
  const made = async (name: string, labels: Record<string, string>, spec: object) => {
    const object = { ...maintenance(name, spec), metadata: { name, labels } };
    await succeeds(kubectl(['create', '-f', '-'], object));
  };
  const turn = { 'nodemaintenance.k8s.io/window': 'w' };

  test.each([
    {
      what: 'no maintenance of a person',
      name: 'api-of-a-person',
      labels: {},
      spec: { stage: 'Complete' },
      says: 'the worker deletes no NodeMaintenance but the turns of maintenance windows',
    },
    {
      what: 'no turn of a window that is not complete',
      name: 'api-turn-idle',
      labels: turn,
      spec: { stage: 'Idle' },
      says: 'the worker deletes no NodeMaintenance that is not complete',
    },
    {
      what: 'turns that are over',
      name: 'api-turn-over',
      labels: turn,
      spec: { stage: 'Complete' },
      says: '',
    },
  ])('$what', async ({ name, labels, spec, says }) => {
    await made(name, labels, spec);
    const { stderr } = await kubectl(['delete', 'nm', name, '--wait=false', ...as]);
    expect(stderr).toContain(says);
    expect(stderr === '').toBe(says === '');
    await kubectl(['delete', 'nm', name, '--ignore-not-found', '--wait=false']);
  });
});
