import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Node } from '../../api/core.ts';
import type { GateOwners, NodeReadinessGate, SeenReadiness } from '../../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../../api/nodeReadinessPolicy.ts';
import {
  type AppliedGate,
  gatesOfPolicies,
  gateWrites,
  isWritten,
  refusalsOf,
} from '../../domain/policyGates.ts';
import { gate } from '../kit/builders.ts';

const rules = { manager: 'node-readiness-policy/', mostGates: 3 };
const owner = (policy: string) => rules.manager + policy;
const node: Node = { metadata: { name: 'n1', labels: { os: 'linux' } }, spec: {} };
const policy = (
  name: string,
  gates: NodeReadinessGate[],
  differs: Partial<NodeReadinessPolicy['metadata']> & { withheldGates?: string[] } = {},
): NodeReadinessPolicy => {
  const { withheldGates = [], ...metadata } = differs;
  return {
    metadata: { name, creationTimestamp: '2026', generation: 2, ...metadata },
    spec: {
      nodeSelector: { nodeSelectorTerms: [{ matchExpressions: [{ key: 'os', operator: 'Exists' }] }] },
      readinessGates: gates,
    },
    status: {
      observedGeneration: 2,
      nodes: 1,
      gates: gates.length,
      problems: '',
      withheldGates,
      conditions: [],
    },
  };
};
const edited = { generation: 3 };
const whole = ['name', 'namespace', 'selector', 'blocksReadiness'];
const part = ['blocksReadiness'];
const rest = ['name', 'namespace', 'selector'];
const seen = (gates: NodeReadinessGate[], gateOwners: GateOwners): SeenReadiness => ({
  metadata: { name: 'n1' },
  spec: { readinessGates: gates },
  gateOwners,
});

describe('a policy asks for', () => {
  const other = gate('cni', { namespace: 'other' });
  test.each([
    {
      when: 'nobody else has its gate',
      written: undefined,
      policies: [policy('a', [gate('cni')])],
      want: ['a: cni'],
    },
    {
      when: 'another one says the same',
      written: undefined,
      policies: [policy('a', [gate('cni')]), policy('b', [gate('cni'), gate('csi')])],
      want: ['a: cni', 'b: cni,csi'],
    },
    {
      when: 'an older one says another thing: all but that gate',
      written: undefined,
      policies: [
        policy('a', [gate('cni'), gate('csi')], { creationTimestamp: '2027' }),
        policy('b', [other]),
      ],
      want: ['b: cni', 'a: csi, not cni (NodeReadinessPolicy b)'],
    },
    {
      when: 'somebody wrote another thing: all but that gate',
      written: seen([other], { cni: { kubectl: whole } }),
      policies: [policy('a', [gate('cni'), gate('csi')])],
      want: ['a: csi, not cni (field manager kubectl)'],
    },
    {
      when: 'policies wrote another thing before',
      written: seen([other], { cni: { [owner('a')]: whole, [owner('b')]: whole } }),
      policies: [policy('a', [gate('cni')])],
      want: ['a: cni'],
    },
    {
      when: 'a node has room for three: the older policy comes first',
      written: seen([gate('x')], { x: { kubectl: whole } }),
      policies: [
        policy('a', [gate('cni'), gate('x'), gate('dns')], { creationTimestamp: '2027' }),
        policy('b', [gate('csi')]),
      ],
      want: ['b: csi', 'a: cni,x, not dns (no room)'],
    },
    {
      when: 'it withholds a gate',
      written: undefined,
      policies: [policy('a', [gate('cni'), gate('csi')], { withheldGates: ['cni'] })],
      want: ['a: csi'],
    },
  ])('when $when', ({ written, policies, want }) => {
    const decided = gatesOfPolicies(node, policies, written, rules).map(
      ({ policy: name, gates, refused }) => {
        const not = refused.map(({ gate: of, by = 'no room' }) => `, not ${of} (${by})`);
        return `${name}: ${gates.map((one) => one.name).join()}${not.join('')}`;
      },
    );
    expect(decided).toEqual(want);
  });
});

test('what is written is known in whatever order the fields stand', () => {
  const own = owner('a');
  const stored = {
    selector: { matchLabels: { app: 'cni' } },
    blocksReadiness: true,
    namespace: 'kube-system',
    name: 'cni',
  };
  const readiness = seen([stored, gate('csi')], {
    cni: { [own]: whole, kubectl: whole },
    csi: { kubectl: whole },
  });
  expect(isWritten(readiness, [gate('cni')], own)).toBe(true);
  expect(isWritten(readiness, [gate('cni'), gate('csi')], own)).toBe(false);
  expect(isWritten(readiness, [], own)).toBe(false);
  expect(isWritten(readiness, [gate('cni', { blocksReadiness: false })], own)).toBe(false);
});

describe('into a NodeReadiness', () => {
  const a = owner('a');
  const edit = gate('cni', { blocksReadiness: false });
  const elsewhere = gate('cni', { namespace: 'elsewhere' });
  const withholding = { withheldGates: ['cni'] };
  const ofNoNode = (readinessGates: NodeReadinessGate[]) => ({
    nodeSelector: {
      nodeSelectorTerms: [{ matchExpressions: [{ key: 'os', operator: 'DoesNotExist' as const }] }],
    },
    readinessGates,
  });
  const keptPart = { name: 'cni', namespace: 'kube-system', selector: { matchLabels: { app: 'cni' } } };
  test.each<{
    when: string;
    written: SeenReadiness;
    policies: NodeReadinessPolicy[];
    orphans?: string[];
    applied?: { policy: string; gates: AppliedGate[] }[];
  }>([
    {
      when: 'nothing is written when nothing differs',
      written: seen([gate('cni')], { cni: { [a]: whole } }),
      policies: [policy('a', [gate('cni')])],
    },
    {
      when: 'a policy is gone: its gates go, whatever it was at last',
      written: seen([gate('cni')], { cni: { [a]: whole } }),
      policies: [],
      orphans: ['cni'],
    },
    {
      when: 'a policy is being deleted, and has not been checked since',
      written: seen([gate('cni')], { cni: { [a]: whole } }),
      policies: [policy('a', [gate('cni')], { ...edited, deletionTimestamp: 'now' })],
      orphans: ['cni'],
    },
    {
      when: 'a policy was edited and not checked yet: all stays as it is',
      written: seen([gate('cni')], { cni: { [a]: whole } }),
      policies: [policy('a', [gate('csi')], edited)],
    },
    {
      when: 'a policy withholds a gate since it was edited: it stays as it was',
      written: seen([gate('cni')], { cni: { [a]: whole } }),
      policies: [policy('a', [elsewhere], withholding)],
    },
    {
      when: 'such a policy has another gate too, which is written beside it',
      written: seen([gate('cni')], { cni: { [a]: whole } }),
      policies: [policy('a', [elsewhere, gate('csi')], withholding)],
      applied: [{ policy: 'a', gates: [gate('csi'), gate('cni')] }],
    },
    {
      when: 'such a policy asks for the gate no more: it goes',
      written: seen([gate('cni')], { cni: { [a]: whole } }),
      policies: [policy('a', [gate('csi')])],
      orphans: ['cni'],
    },
    {
      when: 'such a gate is of a node that the policy no longer selects: it goes',
      written: seen([gate('cni')], { cni: { [a]: whole } }),
      policies: [{ ...policy('a', [elsewhere], withholding), spec: ofNoNode([elsewhere]) }],
      orphans: ['cni'],
    },
    {
      when: 'somebody else has such a gate too: it is theirs alone from now on',
      written: seen([gate('cni')], { cni: { [a]: whole, kubectl: whole } }),
      policies: [policy('a', [elsewhere], withholding)],
      applied: [{ policy: 'a', gates: [] }],
    },
    {
      when: 'two that are gone had different parts of a gate: it goes at once',
      written: seen([gate('cni')], { cni: { [a]: part, [owner('b')]: rest } }),
      policies: [],
      orphans: ['cni'],
    },
    {
      when: 'somebody has the whole gate too: it stays theirs',
      written: seen([gate('cni')], { cni: { [a]: whole, kubectl: whole } }),
      policies: [],
      applied: [{ policy: 'a', gates: [] }],
    },
    {
      when: 'somebody edited a part of a gate: the rest of it stays beside that part, and other gates are written',
      written: seen([edit], { cni: { [a]: rest, 'kubectl-edit': part } }),
      policies: [policy('a', [gate('cni'), gate('csi')])],
      applied: [{ policy: 'a', gates: [gate('csi'), keptPart] }],
    },
    {
      when: 'somebody edited a part of a gate whose policy is gone: nothing would be left of it but that part, so it stays',
      written: seen([edit], { cni: { [a]: rest, 'kubectl-edit': part } }),
      policies: [],
    },
  ])('$when', ({ written, policies, orphans = [], applied = [] }) => {
    const writes = gateWrites(node, policies, written, rules);
    expect(writes.orphans).toEqual(orphans);
    // What orphans had goes with them.
    if (orphans.length === 0) expect(writes.applied).toEqual(applied);
  });

  test('a policy tells what it could not let go', () => {
    const written = seen([edit], { cni: { [a]: rest, 'kubectl-edit': part } });
    const [own] = gatesOfPolicies(node, [policy('a', [gate('csi')])], written, rules);
    expect(refusalsOf(written, own, a)).toEqual([
      { gate: 'cni', by: 'field manager kubectl-edit, a part of it' },
    ]);
    const [stillAsked] = gatesOfPolicies(node, [policy('a', [gate('cni')])], written, rules);
    expect(refusalsOf(written, stillAsked, a)).toEqual([{ gate: 'cni', by: 'field manager kubectl-edit' }]);
  });

  const fields = fc.subarray(whole, { minLength: 1 });
  const owners = fc.dictionary(fc.constantFrom(a, owner('b'), 'kubectl', 'cloud'), fields, { maxKeys: 3 });
  test('no half gate is ever left', () => {
    fc.assert(
      fc.property(owners, fc.boolean(), fc.boolean(), (cni, asksA, asksB) => {
        const written = seen([gate('cni')], { cni });
        const policies = [asksA && policy('a', [gate('cni')]), asksB && policy('b', [gate('cni')])].filter(
          (one) => one !== false,
        );
        const { orphans, applied } = gateWrites(node, policies, written, rules);
        const strangers = Object.keys(cni).filter((one) => !one.startsWith(rules.manager));
        const asked = policies.length > 0;
        expect(orphans).toEqual(
          !asked && strangers.length === 0 && Object.keys(cni).length > 0 ? ['cni'] : [],
        );
        if (orphans.length > 0) return;
        for (const { policy: name, gates } of applied) {
          const others = Object.entries(cni).filter(([one]) => one !== owner(name));
          const left = new Set([...others.flatMap(([, parts]) => parts), ...gates.flatMap(Object.keys)]);
          if (left.size > 0) expect([...left]).toEqual(expect.arrayContaining(['namespace', 'selector']));
        }
      }),
    );
  });
});
