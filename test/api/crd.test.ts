import type { DrainPlanEntry } from '../../api/nodeMaintenance.ts';
import { drainPlanProblems } from '../../domain/drain/plan.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { allowed, type DryRuns, dryRunsIn } from '../kit/dryRuns.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { type Kubectl, kubectlOf, succeeds } from './kubectl.ts';
import { entry, evacuation, maintenance, selecting, selectingFields } from './objects.ts';

let sandbox: Sandbox | undefined;
let kubectl: Kubectl;
let dryRuns: DryRuns | undefined;

beforeAll(async () => {
  sandbox = await testSandbox();
  kubectl = kubectlOf(sandbox);
  dryRuns = await dryRunsIn(sandbox);
});

afterAll(async () => {
  dryRuns?.close();
  await releaseSandbox(sandbox);
});

/** An object, as far as the tests read it. */
interface Stored {
  spec: {
    stage?: string;
    drainPlan?: DrainPlanEntry[];
    progressDeadlineSeconds?: number;
    evacuators?: object[];
  };
}

/** Returns why the apiserver rejects an object. */
async function rejectionOf(resource: Resource, object: object): Promise<string> {
  const { rejection } = await asked().create(resource, object);
  return withoutShownValue(rejection);
}

/** Returns what the apiserver would store. */
async function accepted(resource: Resource, object: object): Promise<Stored> {
  const { object: stored, ...result } = await asked().create(resource, object);
  expect(result).toMatchObject(allowed);
  return stored as Stored;
}

function asked(): DryRuns {
  if (dryRuns === undefined) throw new Error('The sandbox has not started');
  return dryRuns;
}

const { nodeMaintenances, evacuations } = resources;

const postgres = { matchLabels: { app: 'postgres' } };
const max = 2147483647;

/** Terms that are not one requirement with operator In. */
const otherTerms = (count: number) =>
  Array.from({ length: count }, (_, i) => ({
    matchExpressions: [{ key: `example.com/l${i}`, operator: 'Exists' }],
  }));

describe('a NodeMaintenance is accepted', () => {
  test.each([
    { when: 'it has only a nodeSelector', spec: {} },
    { when: 'it is created in Complete: make a set of nodes schedulable', spec: { stage: 'Complete' } },
    {
      // KEP-4212 › PodTypes and Label Selectors Progression
      when: "its drainPlan is the KEP's",
      spec: {
        stage: 'Idle',
        drainPlan: [
          entry('Default', 1000),
          entry('Default', 2000, postgres),
          entry('Default', max),
          entry('DaemonSet', 1000),
          entry('DaemonSet', max),
          entry('Static', max),
        ],
      },
    },
    {
      when: 'several concrete selectors share a priority',
      spec: {
        drainPlan: [
          entry('Default', 1000, postgres),
          entry('Default', 1000, { matchExpressions: [{ key: 'app', operator: 'Exists' }] }),
          entry('Default', 1000),
        ],
      },
    },
    {
      when: 'its drainPlan has negative priorities',
      spec: { drainPlan: [entry('Default', -2147483648), entry('Default', -1)] },
    },
    {
      when: 'its drainPlan has 256 entries',
      spec: { drainPlan: Array.from({ length: 256 }, (_, i) => entry('Default', i)) },
    },
    {
      when: 'it selects nodes by every operator',
      spec: {
        nodeSelector: selecting(
          { key: 'rack', operator: 'In', values: ['7'] },
          { key: 'rack', operator: 'NotIn', values: ['8'] },
          { key: 'example.com/rack', operator: 'Exists' },
          { key: 'spare', operator: 'DoesNotExist' },
          { key: 'units', operator: 'Gt', values: ['-1'] },
          { key: 'units', operator: 'Lt', values: ['42'] },
        ),
      },
    },
    {
      when: 'it selects nodes by name, one term each',
      spec: { nodeSelector: selectingFields({ key: 'metadata.name', operator: 'In', values: ['node-1'] }) },
    },
    {
      when: 'it names 4,900 nodes, and excludes labels in 100 terms',
      spec: {
        nodeSelector: {
          nodeSelectorTerms: [
            ...Array.from({ length: 4_900 }, (_, i) => ({
              matchFields: [{ key: 'metadata.name', operator: 'In', values: [`node-${i}`] }],
            })),
            ...otherTerms(100),
          ],
        },
      },
    },
  ])('$when', async ({ spec }) => {
    const created = await accepted(nodeMaintenances, maintenance('api-taken', spec));
    const { drainPlan, ...rest } = spec as { drainPlan?: DrainPlanEntry[] };
    expect(created.spec).toMatchObject(rest);
    expect(created.spec.drainPlan).toEqual(expect.arrayContaining(drainPlan ?? []));
    expect(drainPlanProblems(drainPlan ?? [])).toEqual([]);
  });
});

test('a NodeMaintenance without a stage is Idle', async () => {
  const created = await accepted(nodeMaintenances, maintenance('api-default'));
  expect(created.spec.stage).toBe('Idle');
});

const podTypeOrder =
  'drainPlan must list podType Default first, then DaemonSet, then Static: reorder the entries';
const duplicate = 'drainPlan must not repeat an entry: remove the duplicate';

// The domain's rules are those of the apiserver, so that no way in takes a plan that another rejects.
describe('a drainPlan is rejected by the apiserver, and by the domain,', () => {
  test.each([
    {
      when: 'DaemonSet comes before Default',
      drainPlan: [entry('DaemonSet', 1), entry('Default', 1)],
      want: podTypeOrder,
    },
    {
      when: 'Static comes before DaemonSet',
      drainPlan: [entry('Static', 1), entry('DaemonSet', 1)],
      want: podTypeOrder,
    },
    ...['Default', 'DaemonSet', 'Static'].flatMap((podType) => [
      {
        when: `priorities of ${podType} descend`,
        drainPlan: [entry(podType, 5000), entry(podType, 1000)],
        want: `drainPlan must list the entries of podType ${podType} in ascending order of podPriority: reorder them`,
      },
      {
        when: `the concrete selector of ${podType} comes second`,
        drainPlan: [entry(podType, 1000), entry(podType, 1000, postgres)],
        want: `drainPlan must list an entry of podType ${podType} with a podSelector before the entry of the same podPriority that has none: swap them`,
      },
    ]),
    {
      when: 'an entry is repeated',
      drainPlan: [entry('Default', 1000), entry('Default', 1000)],
      want: duplicate,
    },
    {
      when: 'an entry with a selector is repeated, not side by side',
      drainPlan: [
        entry('Default', 1, postgres),
        entry('Default', 1, { matchLabels: { app: 'x' } }),
        entry('Default', 1, postgres),
      ],
      want: duplicate,
    },
  ])('when $when', async ({ drainPlan, want }) => {
    const rejection = await rejectionOf(nodeMaintenances, maintenance('api-rejected', { drainPlan }));
    expect(rejection).toContain(`spec.drainPlan: Invalid value: ${want}`);
    expect(drainPlanProblems(drainPlan)).not.toEqual([]);
  });
});

const onlyOneNode =
  'matchFields takes key metadata.name with operator In or NotIn and exactly one value: for several nodes give one nodeSelectorTerm for each';

describe('a NodeMaintenance is rejected', () => {
  test.each([
    {
      when: 'the drainPlan has 257 entries in addition to the twelve injected ones',
      spec: { drainPlan: Array.from({ length: 257 }, (_, i) => entry('Default', i)) },
      want: 'spec.drainPlan: Too many: 269: must have at most 268 items',
    },
    {
      when: 'podType is missing',
      spec: { drainPlan: [{ podPriority: 1 }] },
      want: 'spec.drainPlan[0].podType: Required value',
    },
    {
      when: 'podPriority is missing',
      spec: { drainPlan: [{ podType: 'Static' }] },
      want: 'spec.drainPlan[0].podPriority: Required value',
    },
    {
      when: 'podPriority is no int32',
      spec: { drainPlan: [entry('Default', max + 1)] },
      want: 'spec.drainPlan[0].podPriority: Invalid value',
    },
    {
      when: 'podType does not exist',
      spec: { drainPlan: [entry('Job', 1)] },
      want: 'spec.drainPlan[0].podType: Unsupported value: "Job": supported values: "Default", "DaemonSet", "Static"',
    },
    {
      when: 'the stage does not exist',
      spec: { stage: 'Done' },
      want: 'spec.stage: Unsupported value: "Done": supported values: "Idle", "Cordon", "Drain", "Complete"',
    },
    {
      when: 'the reason is too long',
      spec: { reason: 'x'.repeat(1025) },
      want: 'spec.reason: Too long: may not be more than 1024',
    },
    {
      when: 'nodeSelector is missing',
      spec: { nodeSelector: undefined },
      want: 'spec.nodeSelector: Required value',
    },
    {
      when: 'nodeSelector has no terms',
      spec: { nodeSelector: {} },
      want: 'spec.nodeSelector.nodeSelectorTerms: Required value',
    },
    {
      when: 'nodeSelector has an empty list of terms',
      spec: { nodeSelector: { nodeSelectorTerms: [] } },
      want: 'spec.nodeSelector.nodeSelectorTerms: Invalid value: 0: spec.nodeSelector.nodeSelectorTerms in body should have at least 1 items',
    },
    {
      when: 'nodeSelector has more terms than 100 that an index cannot separate',
      spec: { nodeSelector: { nodeSelectorTerms: otherTerms(101) } },
      want: 'nodeSelectorTerms may contain at most 100 terms that are not one requirement with operator In: list more values in one requirement, or use one object for each group of nodes',
    },
    {
      when: 'a node operator does not exist',
      spec: { nodeSelector: selecting({ key: 'a', operator: 'Is', values: ['b'] }) },
      want: 'matchExpressions[0].operator: Unsupported value: "Is"',
    },
    {
      when: 'a field is unknown',
      spec: { nodeSelectr: {} },
      want: 'unknown field "spec.nodeSelectr"',
    },
    {
      when: 'a key in matchLabels is malformed',
      spec: { drainPlan: [entry('Default', 1, { matchLabels: { 'a b': 'c' } })] },
      want: 'spec.drainPlan[0].podSelector.matchLabels: Invalid value: matchLabels keys must be label keys such as app or example.com/app',
    },
    {
      when: 'a label value is malformed',
      spec: { drainPlan: [entry('Default', 1, { matchLabels: { app: 'c d' } })] },
      want: 'spec.drainPlan[0].podSelector.matchLabels.app: Invalid value: "c d"',
    },
    ...['In', 'NotIn'].flatMap((operator) => [
      {
        when: `${operator} of a node selector has no values`,
        spec: { nodeSelector: selecting({ key: 'a', operator }) },
        want: 'spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0]: Invalid value: values: give at least one value with operator In or NotIn',
      },
      {
        when: `${operator} of a pod selector has no values`,
        spec: {
          drainPlan: [entry('Default', 1, { matchExpressions: [{ key: 'a', operator, values: [] }] })],
        },
        want: 'spec.drainPlan[0].podSelector.matchExpressions[0]: Invalid value: values: give at least one value with operator In or NotIn',
      },
    ]),
    ...['Exists', 'DoesNotExist'].flatMap((operator) => [
      {
        when: `${operator} of a node selector has a value`,
        spec: { nodeSelector: selecting({ key: 'a', operator, values: ['b'] }) },
        want: 'spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0]: Invalid value: values: give no value with operator Exists or DoesNotExist',
      },
      {
        when: `${operator} of a pod selector has a value`,
        spec: {
          drainPlan: [entry('Default', 1, { matchExpressions: [{ key: 'a', operator, values: ['b'] }] })],
        },
        want: 'spec.drainPlan[0].podSelector.matchExpressions[0]: Invalid value: values: give no value with operator Exists or DoesNotExist',
      },
    ]),
    ...[undefined, [], ['1', '2'], ['1.5'], ['many']].map((values) => ({
      when: `Gt has the values ${JSON.stringify(values)}`,
      spec: { nodeSelector: selecting({ key: 'a', operator: 'Gt', values }) },
      want: 'spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0]: Invalid value: values: give exactly one integer, in quotes, with operator Gt or Lt',
    })),
    ...[
      { key: 'metadata.name', operator: 'In', values: ['n1', 'n2'] },
      { key: 'metadata.name', operator: 'In' },
      { key: 'metadata.name', operator: 'Exists' },
      { key: 'spec.unschedulable', operator: 'In', values: ['true'] },
    ].map((requirement) => ({
      when: `matchFields has ${JSON.stringify(requirement)}`,
      spec: { nodeSelector: selectingFields(requirement) },
      want: `spec.nodeSelector.nodeSelectorTerms[0].matchFields[0]: Invalid value: ${onlyOneNode}`,
    })),
  ])('when $when', async ({ spec, want }) => {
    expect(await rejectionOf(nodeMaintenances, maintenance('api-rejected', spec))).toContain(want);
  });
});

const order = 'the order is Idle -> Cordon -> Drain -> Complete.';
const uncordonFirst = 'Set Complete to uncordon the nodes, then create a new NodeMaintenance';
const createNew = 'Create a new NodeMaintenance instead';

// KEP-4212 › Supported Stage Transitions
describe('the stage of a NodeMaintenance', () => {
  const stages = ['Idle', 'Cordon', 'Drain', 'Complete'];

  beforeAll(async () => {
    const objects = stages.map((stage) =>
      maintenance(`api-${stage.toLowerCase()}`, { stage, drainPlan: [entry('Default', 1)] }),
    );
    await Promise.all(objects.map((object) => succeeds(kubectl(['create', '-f', '-'], object))));
  });
  afterAll(() =>
    deleted(
      'nm',
      stages.map((stage) => `api-${stage.toLowerCase()}`),
    ),
  );

  const moves = stages.flatMap((from, i) => stages.map((to, j) => ({ from, to, forward: j >= i })));

  test.each(moves.filter(({ forward }) => forward))('may go from $from to $to', async ({ from, to }) => {
    expect(await patched(from, { stage: to })).toEqual(allowed);
  });

  test.each(moves.filter(({ forward }) => !forward))(
    'cannot go from $from back to $to',
    async ({ from, to }) => {
      const defaulted = to === 'Idle' ? ' (the default when stage is left out)' : '';
      const remedy = from === 'Complete' ? createNew : uncordonFirst;
      const want = `spec.stage: Invalid value: stage cannot go from ${from} back to ${to}${defaulted}: ${order} ${remedy}`;
      expect((await patched(from, { stage: to })).rejection).toContain(want);
    },
  );

  test('cannot be removed after Idle, because a missing stage means Idle', async () => {
    const { rejection } = await patched('Cordon', { stage: null });
    expect(rejection).toContain(
      `stage cannot go from Cordon back to Idle (the default when stage is left out): ${order} ${uncordonFirst}`,
    );
  });

  const immutable =
    'spec.drainPlan: Invalid value: drainPlan is immutable: restore the previous value, or set stage to Complete and create a new NodeMaintenance with the new plan';
  test.each([
    { when: 'changed', drainPlan: [entry('Default', 2)] },
    { when: 'extended', drainPlan: [entry('Default', 1), entry('Default', 2)] },
    { when: 'removed', drainPlan: null },
  ])('its drainPlan cannot be $when', async ({ drainPlan }) => {
    expect((await patched('Idle', { drainPlan })).rejection).toContain(immutable);
  });

  test('its nodeSelector and reason may change in the middle of a drain', async () => {
    const change = { nodeSelector: selecting({ key: 'rack', operator: 'Exists' }), reason: 'firmware 2.4' };
    expect(await patched('Drain', change)).toEqual(allowed);
  });
});

test('a drainPlan cannot be added later', async () => {
  await succeeds(kubectl(['create', '-f', '-'], maintenance('api-planless')));
  const { rejection } = await patched('planless', { drainPlan: [entry('Default', 1)] });
  await deleted('nm', ['api-planless']);
  expect(rejection).toContain('spec.drainPlan: Invalid value: drainPlan is immutable');
});

/** Patches api-<name> without storing anything. */
async function patched(name: string, spec: object): Promise<{ rejection: string; warnings: string[] }> {
  const key = { name: `api-${name.toLowerCase()}` };
  const { rejection, warnings } = await asked().patch(nodeMaintenances, key, { spec });
  return { rejection: withoutShownValue(rejection), warnings };
}

/** The apiserver repeats the value, or its type, before the message of a rule. */
function withoutShownValue(rejection: string): string {
  return rejection.replaceAll(
    /(Invalid value: )(?:"(?:array|object|string)"|\[.*?\]|\{.*?\}|map\[.*?\]|"\w+"): (?=[a-z])/g,
    '$1',
  );
}

async function deleted(resource: string, names: string[]): Promise<void> {
  await succeeds(kubectl(['delete', resource, ...names, '--ignore-not-found']));
}

describe('an Evacuation', () => {
  test('needs only a podRef', async () => {
    const created = await accepted(evacuations, evacuation('api-e'));
    expect(created.spec.progressDeadlineSeconds).toBe(1800);
  });

  // KEP-4212 › Drain
  test("accepts the KEP's evacuators", async () => {
    const evacuators = [{ evacuatorClass: 'deployment.apps.k8s.io', priority: 10000, role: 'controller' }];
    const created = await accepted(evacuations, evacuation('api-e', { evacuators }));
    expect(created.spec.evacuators).toEqual(evacuators);
  });

  const twice = { evacuatorClass: 'kubelet.k8s.io', priority: 1, role: 'controller' };
  test.each([
    { when: 'podRef is missing', spec: { podRef: undefined }, want: 'spec.podRef: Required value' },
    { when: 'the UID is missing', spec: { podRef: { name: 'a' } }, want: 'spec.podRef.uid: Required value' },
    {
      when: 'the deadline is 0',
      spec: { progressDeadlineSeconds: 0 },
      want: 'spec.progressDeadlineSeconds in body should be greater than or equal to 1',
    },
    {
      when: 'an evacuator is listed twice',
      spec: { evacuators: [twice, twice] },
      want: 'spec.evacuators[1]: Duplicate value',
    },
  ])('is rejected when $when', async ({ spec, want }) => {
    expect(await rejectionOf(evacuations, evacuation('api-e', spec))).toContain(want);
  });

  test('cannot move to another pod', async () => {
    await succeeds(kubectl(['create', '-f', '-'], evacuation('api-moved')));
    const key = { namespace: 'default', name: 'api-moved' };
    const patch = { spec: { podRef: { name: 'other', uid: 'other' } } };
    const { rejection } = await asked().patch(evacuations, key, patch);
    await deleted('evac', ['api-moved']);
    expect(rejection).toContain(
      'podRef is immutable: delete this Evacuation and create one for the other pod',
    );
  });
});

describe('kubectl get', () => {
  const statusPatch = (resource: string, name: string, status: object) =>
    succeeds(
      kubectl([
        'patch',
        resource,
        name,
        '--subresource=status',
        '--type=merge',
        '-p',
        JSON.stringify({ status }),
      ]),
    );

  test('nm prints stage, nodes, drained, pending, evacuating, age, reason', async () => {
    await succeeds(kubectl(['create', '-f', '-'], maintenance('api-columns', { reason: 'firmware 2.4' })));
    const drained = {
      type: 'Drained',
      status: 'False',
      reason: 'Evacuating',
      message: '',
      lastTransitionTime: '2024-04-22T21:40:32Z',
    };
    await statusPatch('nm', 'api-columns', {
      nodes: 12,
      podsPendingEvacuation: 30,
      podsEvacuating: 7,
      conditions: [drained],
    });
    const [header, row] = (await succeeds(kubectl(['get', 'nm', 'api-columns']))).trim().split('\n');
    await deleted('nm', ['api-columns']);
    expect(header?.split(/\s+/)).toEqual([
      'NAME',
      'STAGE',
      'NODES',
      'DRAINED',
      'PENDING',
      'EVACUATING',
      'AGE',
      'REASON',
    ]);
    expect(row).toMatch(/^api-columns +Idle +12 +False +30 +7 +\d+s +firmware 2\.4$/);
  });

  test('evac prints pod, active evacuator, progress age, message', async () => {
    await succeeds(kubectl(['create', '-f', '-'], evacuation('api-columns')));
    const evacuationProgressTimestamp = new Date(Date.now() - 90_000).toISOString();
    const message = 'critical-ds is terminating the pod due to node maintenance (OS upgrade).';
    await statusPatch('evac', 'api-columns', {
      activeEvacuatorClass: 'daemonset.apps.k8s.io',
      evacuationProgressTimestamp,
      message,
    });
    const [header, row] = (await succeeds(kubectl(['get', 'evac', 'api-columns']))).trim().split('\n');
    await deleted('evac', ['api-columns']);
    expect(header?.split(/ {2,}/)).toEqual(['NAME', 'POD', 'ACTIVE EVACUATOR', 'PROGRESS AGE', 'MESSAGE']);
    expect(row).toMatch(
      /^api-columns +muffin-orders-6b59d9cb88-ks7wb +daemonset\.apps\.k8s\.io +9\ds +critical-ds is terminating/,
    );
  });

  test('a status keeps the fields of the KEP, and its lists and counts are never absent', async () => {
    await succeeds(kubectl(['create', '-f', '-'], maintenance('api-status')));
    const nodeStatuses = [
      {
        nodeRef: { name: 'one' },
        drainMessage: 'Evacuating',
        podsPendingEvacuation: 100,
        podsEvacuating: 10,
        drainTargets: [entry('Default', 5000)],
      },
    ];
    const stored = JSON.parse(
      await succeeds(
        kubectl([
          'patch',
          'nm',
          'api-status',
          '--subresource=status',
          '--type=merge',
          '-o',
          'json',
          '-p',
          JSON.stringify({ status: { nodeStatuses } }),
        ]),
      ),
    );
    await deleted('nm', ['api-status']);
    expect(stored.status).toEqual({
      nodeStatuses,
      stageStatuses: [],
      conditions: [],
      observedGeneration: 0,
      drainPosition: 0,
      nodes: 0,
      podsPendingEvacuation: 0,
      podsEvacuating: 0,
    });
  });
});

// KEP-4212 › NodeMaintenance API, letter for letter; kubectl wraps the lines.
describe('kubectl explain reads like the KEP', () => {
  test.each([
    {
      field: 'nm',
      want: ['NodeMaintenance objects serve as an intent to remove or migrate pods from a set of nodes.'],
    },
    { field: 'nm.spec.nodeSelector', want: ['NodeSelector selects nodes for this node maintenance.'] },
    {
      field: 'nm.spec.stage',
      want: [
        'The order of the stages is Idle -> Cordon -> Drain -> Complete.',
        '- The Cordon or Drain stage can be skipped by setting the stage to Complete.',
        '- The NodeMaintenance object is moved to the Complete stage on deletion unless the Idle stage has been set.',
        'The default value is Idle.',
      ],
    },
    {
      field: 'nm.spec.drainPlan',
      want: [
        'DrainPlan is executed from the first entry to the last entry during the Drain stage.',
        'DrainPlanEntry podType fields should be in the following order: nil -> DaemonSet -> Static',
        'DrainPlanEntry priority fields should be in ascending order for each podType.',
        'If the priority and podType are the same, concrete selectors are executed first.',
        'The following entries are injected into the drainPlan on the NodeMaintenance admission:',
        '- podPriority: 2000001000 // system-node-critical priority class podType: "Static"',
        'Duplicate entries are not allowed. This field is immutable.',
        'PodPriority specifies a pod priority. Pods with a priority less or equal to this value are selected.',
        'This can help to select which pods of the same priority should be evacuated first.',
        '- Default selects all pods except DaemonSet and Static pods.',
      ],
    },
    { field: 'nm.spec.reason', want: ['Reason for the maintenance.'] },
    {
      field: 'nm.status.nodeStatuses',
      want: [
        'List of a maintenance statuses for all nodes targeted by this maintenance.',
        'The next entry in the .spec.DrainPlan is selected once all the nodes have reached their DrainTargets.',
        'DrainTargets cannot backtrack and will target more pods with each update until all pods on the node are targeted.',
        'Number of pods that have started evacuation and have a matching Evacuation object.',
        'Extension to KEP-4212: whether the node was unschedulable before a NodeMaintenance first cordoned it',
      ],
    },
  ])('$field', async ({ field, want }) => {
    const explained = (await succeeds(kubectl(['explain', field]))).replaceAll(/\s+/g, ' ');
    expect(want.filter((sentence) => !explained.includes(sentence))).toEqual([]);
  });
});
