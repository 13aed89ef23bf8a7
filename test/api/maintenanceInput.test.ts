import {
  type MaintenanceInput,
  parseAdvanceRequest,
  parseMaintenanceInput,
  toMaintenanceInput,
  toNodeMaintenance,
} from '../../api/maintenanceInput.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';

const anyTerm = {
  nodeSelectorTerms: [{ matchExpressions: [{ key: 'rack', operator: 'In', values: ['7'] }] }],
};

describe('a maintenance input is accepted', () => {
  test.each([
    { when: 'only the name is given: the existing object is run', input: { name: 'rack-7' } },
    {
      when: 'nodes are listed',
      input: { name: 'rack-7', nodes: ['n1', 'n2'], stage: 'Drain', reason: 'firmware 2.4' },
    },
    { when: 'a node selector is given', input: { name: 'rack-7', nodeSelector: anyTerm } },
    {
      when: 'it has a drain plan',
      input: {
        name: 'rack-7',
        nodes: ['n1'],
        drainPlan: [
          { podPriority: 2000, podType: 'Default', podSelector: { matchLabels: { app: 'postgres' } } },
        ],
      },
    },
  ])('$when', ({ input }) => {
    expect(parseMaintenanceInput(input)).toEqual({ ok: true, input });
  });
});

describe('a maintenance input is rejected, by field and remedy', () => {
  test.each([
    { when: 'nothing is given', input: undefined, want: ['expected one JSON object (got undefined)'] },
    {
      when: 'a list is given',
      input: [{ name: 'a' }],
      want: ['expected one JSON object (got [{"name":"a"}])'],
    },
    {
      when: 'nodes and nodeSelector are both given',
      input: { name: 'a', nodes: ['n1'], nodeSelector: anyTerm },
      want: ['nodes, nodeSelector: give one of the two, not both'],
    },
    {
      when: 'neither is given with other fields',
      input: { name: 'a', stage: 'Drain', reason: 'x' },
      want: [
        'nodes or nodeSelector: one of them is required with stage, reason (give only name to run an existing NodeMaintenance)',
      ],
    },
    {
      when: 'a node is listed twice',
      input: { name: 'a', nodes: ['n1', 'n2', 'n1'] },
      want: ['nodes[2]: n1 is already nodes[0]; remove one'],
    },
    {
      when: 'nodes is empty',
      input: { name: 'a', nodes: [] },
      want: ['nodes: expected at least one node name (got [])'],
    },
    {
      when: 'nodeSelector has no term',
      input: { name: 'a', nodeSelector: { nodeSelectorTerms: [] } },
      want: ['nodeSelector.nodeSelectorTerms: expected at least one node selector term (got [])'],
    },
    {
      when: 'the stage does not exist',
      input: { name: 'a', nodes: ['n1'], stage: 'drain' },
      want: ['stage: expected one of Idle, Cordon, Drain, Complete (got "drain")'],
    },
    {
      when: 'the reason is too long',
      input: { name: 'a', nodes: ['n1'], reason: 'x'.repeat(1025) },
      want: [`reason: expected a text of at most 1024 characters (got "${'x'.repeat(79)}...)`],
    },
    {
      when: 'fields are unknown, at any depth',
      input: {
        name: 'a',
        nodes: ['n1'],
        nodeSelectr: 1,
        drainPlan: [{ podPriority: 1, podType: 'Static', priority: 1 }],
      },
      want: [
        'drainPlan[0].priority: unknown field; remove it or correct its name',
        'nodeSelectr: unknown field; remove it or correct its name',
      ],
    },
    {
      when: 'a priority is not an int32',
      input: {
        name: 'a',
        nodes: ['n1'],
        drainPlan: [
          { podPriority: 'high', podType: 'Default' },
          { podPriority: 1.5, podType: 'Default' },
          { podPriority: 2147483648, podType: 'Default' },
        ],
      },
      want: [
        'drainPlan[0].podPriority: expected an integer between -2147483648 and 2147483647 (got "high")',
        'drainPlan[1].podPriority: expected an integer between -2147483648 and 2147483647 (got 1.5)',
        'drainPlan[2].podPriority: expected an integer between -2147483648 and 2147483647 (got 2147483648)',
      ],
    },
    {
      when: 'a pod type is missing',
      input: { name: 'a', nodes: ['n1'], drainPlan: [{ podPriority: 1 }] },
      want: ['drainPlan[0].podType: expected one of Default, DaemonSet, Static (it is missing)'],
    },
    {
      when: 'a label key is malformed',
      input: {
        name: 'a',
        nodes: ['n1'],
        drainPlan: [{ podPriority: 1, podType: 'Static', podSelector: { matchLabels: { 'a b': 'c' } } }],
      },
      want: [
        'drainPlan[0].podSelector.matchLabels["a b"]: expected a label key such as app or example.com/app (got "a b")',
      ],
    },
  ])('$when', ({ input, want }) => {
    expect(parseMaintenanceInput(input)).toEqual({ ok: false, problems: want });
  });
});

describe('the object of an input', () => {
  test('none, when only the name is given', () => {
    expect(toNodeMaintenance({ name: 'rack-7' })).toBeUndefined();
  });

  // core/v1 takes one value of metadata.name per term, and ORs the terms.
  test('selects listed nodes by one term each, and is Idle by default', () => {
    expect(toNodeMaintenance({ name: 'rack-7', nodes: ['n1', 'n2'] })).toEqual({
      apiVersion: 'nodemaintenance.k8s.io/v1alpha1',
      kind: 'NodeMaintenance',
      metadata: { name: 'rack-7' },
      spec: {
        nodeSelector: {
          nodeSelectorTerms: [
            { matchFields: [{ key: 'metadata.name', operator: 'In', values: ['n1'] }] },
            { matchFields: [{ key: 'metadata.name', operator: 'In', values: ['n2'] }] },
          ],
        },
        stage: 'Idle',
      },
    });
  });
});

describe('an advance request', () => {
  test.each([
    { when: 'is absent: the next stage', value: undefined, want: { ok: true, input: {} } },
    { when: 'names a stage', value: { to: 'Drain' }, want: { ok: true, input: { to: 'Drain' } } },
    {
      when: 'names an unknown stage',
      value: { to: 'Done' },
      want: { ok: false, problems: ['to: expected one of Idle, Cordon, Drain, Complete (got "Done")'] },
    },
    {
      when: 'is a string',
      value: 'Drain',
      want: { ok: false, problems: ['expected one JSON object (got "Drain")'] },
    },
  ])('$when', ({ value, want }) => {
    expect(parseAdvanceRequest(value)).toEqual(want);
  });
});

describe('the input of an object', () => {
  test.each<{ when: string; input: Partial<MaintenanceInput> }>([
    { when: 'names the nodes', input: { nodes: ['n1', 'n2'] } },
    { when: 'has the selector', input: { nodeSelector: anyTerm as MaintenanceInput['nodeSelector'] } },
    { when: 'has a plan and a reason', input: { nodes: ['n1'], reason: 'firmware', drainPlan: [] } },
  ])('is the one that it was made from: it $when', ({ input }) => {
    const whole = { name: 'rack-7', stage: 'Drain' as const, ...input };
    expect(toMaintenanceInput(toNodeMaintenance(whole) as NodeMaintenance)).toEqual(whole);
  });
});
