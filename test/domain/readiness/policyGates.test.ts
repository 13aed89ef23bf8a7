import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Node } from '../../../api/core.ts';
import type { NodeReadinessGate, ObservedNodeReadiness } from '../../../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../../../api/nodeReadinessPolicy.ts';
import {
  type AppliedGate,
  policyGatesFor,
  gateWrites,
  isApplied,
  rejectionsOf,
} from '../../../domain/readiness/policyGates.ts';
import { gate } from '../../kit/builders.ts';

const rules = { managerPrefix: 'node-readiness-policy/', maxGates: 3 };
const owner = (policy: string) => rules.managerPrefix + policy;
const node: Node = { metadata: { name: 'n1', labels: { os: 'linux' } }, spec: {} };
const policy = (
  name: string,
  gates: NodeReadinessGate[],
  differs: Partial<NodeReadinessPolicy['metadata']> & { suppressedGates?: string[] } = {},
): NodeReadinessPolicy => {
  const { suppressedGates = [], ...metadata } = differs;
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
      suppressedGates,
      conditions: [],
    },
  };
};
const edited = { generation: 3 };
const allFields = ['name', 'namespace', 'selector', 'blocksReadiness'];
const part = ['blocksReadiness'];
const otherFields = ['name', 'namespace', 'selector'];
const mapOf = <T>(entries: Readonly<Record<string, T>>) => new Map(Object.entries(entries));
const readinessWith = (
  gates: NodeReadinessGate[],
  owners: Record<string, Record<string, string[]>>,
): ObservedNodeReadiness => ({
  metadata: { name: 'n1' },
  spec: { readinessGates: gates },
  gateOwners: new Map(Object.entries(owners).map(([name, managers]) => [name, mapOf(managers)])),
});

describe('a policy applies its gates', () => {
  const other = gate('cni', { namespace: 'other' });
  test.each([
    {
      when: 'no other field manager has its gate',
      written: undefined,
      policies: [policy('a', [gate('cni')])],
      want: ['a: cni'],
    },
    {
      when: 'another policy defines the gate equally',
      written: undefined,
      policies: [policy('a', [gate('cni')]), policy('b', [gate('cni'), gate('csi')])],
      want: ['a: cni', 'b: cni,csi'],
    },
    {
      when: 'an older policy defines the gate differently: all but that gate',
      written: undefined,
      policies: [
        policy('a', [gate('cni'), gate('csi')], { creationTimestamp: '2027' }),
        policy('b', [other]),
      ],
      want: ['b: cni', 'a: csi, not cni (NodeReadinessPolicy b)'],
    },
    {
      when: 'another field manager defined the gate differently: all but that gate',
      written: readinessWith([other], { cni: { kubectl: allFields } }),
      policies: [policy('a', [gate('cni'), gate('csi')])],
      want: ['a: csi, not cni (field manager kubectl)'],
    },
    {
      when: 'policies defined the gate differently before',
      written: readinessWith([other], { cni: { [owner('a')]: allFields, [owner('b')]: allFields } }),
      policies: [policy('a', [gate('cni')])],
      want: ['a: cni'],
    },
    {
      when: 'a node has the limit of three gates: the older policy takes precedence',
      written: readinessWith([gate('x')], { x: { kubectl: allFields } }),
      policies: [
        policy('a', [gate('cni'), gate('x'), gate('dns')], { creationTimestamp: '2027' }),
        policy('b', [gate('csi')]),
      ],
      want: ['b: csi', 'a: cni,x, not dns (over the limit)'],
    },
    {
      when: 'a gate is suppressed: all but that gate',
      written: undefined,
      policies: [policy('a', [gate('cni'), gate('csi')], { suppressedGates: ['cni'] })],
      want: ['a: csi'],
    },
  ])('when $when', ({ written, policies, want }) => {
    const applied = policyGatesFor(node, policies, written, rules).map(
      ({ policy: name, gates, rejected }) => {
        const not = rejected.map(({ gate: of, by = 'over the limit' }) => `, not ${of} (${by})`);
        return `${name}: ${gates.map((one) => one.name).join()}${not.join('')}`;
      },
    );
    expect(applied).toEqual(want);
  });
});

test('an applied gate is recognized regardless of the order of its fields', () => {
  const own = owner('a');
  const stored = {
    selector: { matchLabels: { app: 'cni' } },
    blocksReadiness: true,
    namespace: 'kube-system',
    name: 'cni',
  };
  const readiness = readinessWith([stored, gate('csi')], {
    cni: { [own]: allFields, kubectl: allFields },
    csi: { kubectl: allFields },
  });
  expect(isApplied(readiness, [gate('cni')], own)).toBe(true);
  expect(isApplied(readiness, [gate('cni'), gate('csi')], own)).toBe(false);
  expect(isApplied(readiness, [], own)).toBe(false);
  expect(isApplied(readiness, [gate('cni', { blocksReadiness: false })], own)).toBe(false);
});

describe('the changes to a NodeReadiness', () => {
  const a = owner('a');
  const edit = gate('cni', { blocksReadiness: false });
  const elsewhere = gate('cni', { namespace: 'elsewhere' });
  const suppressing = { suppressedGates: ['cni'] };
  const selectingNoNode = (readinessGates: NodeReadinessGate[]) => ({
    nodeSelector: {
      nodeSelectorTerms: [{ matchExpressions: [{ key: 'os', operator: 'DoesNotExist' as const }] }],
    },
    readinessGates,
  });
  const retainedPart = { name: 'cni', namespace: 'kube-system', selector: { matchLabels: { app: 'cni' } } };
  test.each<{
    when: string;
    written: ObservedNodeReadiness;
    policies: NodeReadinessPolicy[];
    orphans?: string[];
    applied?: { policy: string; gates: AppliedGate[] }[];
  }>([
    {
      when: 'nothing changes if nothing differs',
      written: readinessWith([gate('cni')], { cni: { [a]: allFields } }),
      policies: [policy('a', [gate('cni')])],
    },
    {
      when: 'a policy was deleted: its gates are removed',
      written: readinessWith([gate('cni')], { cni: { [a]: allFields } }),
      policies: [],
      orphans: ['cni'],
    },
    {
      when: 'a policy is being deleted and was not checked since: its gates are removed',
      written: readinessWith([gate('cni')], { cni: { [a]: allFields } }),
      policies: [policy('a', [gate('cni')], { ...edited, deletionTimestamp: 'now' })],
      orphans: ['cni'],
    },
    {
      when: 'a policy was edited and not checked yet: its gates stay unchanged',
      written: readinessWith([gate('cni')], { cni: { [a]: allFields } }),
      policies: [policy('a', [gate('csi')], edited)],
    },
    {
      when: 'a gate is suppressed since an edit: the previous gate stays',
      written: readinessWith([gate('cni')], { cni: { [a]: allFields } }),
      policies: [policy('a', [elsewhere], suppressing)],
    },
    {
      when: 'such a policy has another gate too: it is applied together with the previous gate',
      written: readinessWith([gate('cni')], { cni: { [a]: allFields } }),
      policies: [policy('a', [elsewhere, gate('csi')], suppressing)],
      applied: [{ policy: 'a', gates: [gate('csi'), gate('cni')] }],
    },
    {
      when: 'such a policy no longer has the gate: it is removed',
      written: readinessWith([gate('cni')], { cni: { [a]: allFields } }),
      policies: [policy('a', [gate('csi')])],
      orphans: ['cni'],
    },
    {
      when: 'such a policy no longer selects the node: the gate is removed',
      written: readinessWith([gate('cni')], { cni: { [a]: allFields } }),
      policies: [{ ...policy('a', [elsewhere], suppressing), spec: selectingNoNode([elsewhere]) }],
      orphans: ['cni'],
    },
    {
      when: 'another field manager owns such a gate too: the policy releases it',
      written: readinessWith([gate('cni')], { cni: { [a]: allFields, kubectl: allFields } }),
      policies: [policy('a', [elsewhere], suppressing)],
      applied: [{ policy: 'a', gates: [] }],
    },
    {
      when: 'two deleted policies own different fields of a gate: it is removed at once',
      written: readinessWith([gate('cni')], { cni: { [a]: part, [owner('b')]: otherFields } }),
      policies: [],
      orphans: ['cni'],
    },
    {
      when: 'another field manager owns all fields of the gate too: the policy releases it',
      written: readinessWith([gate('cni')], { cni: { [a]: allFields, kubectl: allFields } }),
      policies: [],
      applied: [{ policy: 'a', gates: [] }],
    },
    {
      when: 'another field manager edited a field of a gate: the policy retains the other fields and applies its other gates',
      written: readinessWith([edit], { cni: { [a]: otherFields, 'kubectl-edit': part } }),
      policies: [policy('a', [gate('cni'), gate('csi')])],
      applied: [{ policy: 'a', gates: [gate('csi'), retainedPart] }],
    },
    {
      when: 'another field manager edited a field of a gate whose policy was deleted: the gate stays, as it would lack required fields',
      written: readinessWith([edit], { cni: { [a]: otherFields, 'kubectl-edit': part } }),
      policies: [],
    },
  ])('$when', ({ written, policies, orphans = [], applied = [] }) => {
    const writes = gateWrites(node, policies, written, rules);
    expect(writes.orphans).toEqual(orphans);
    // Removing orphans creates a new version, on which the policies are applied afterwards.
    if (orphans.length === 0) expect(writes.applied).toEqual(applied);
  });

  test('a policy reports the gates whose fields it could not release', () => {
    const written = readinessWith([edit], { cni: { [a]: otherFields, 'kubectl-edit': part } });
    const [own] = policyGatesFor(node, [policy('a', [gate('csi')])], written, rules);
    expect(rejectionsOf(written, own, a)).toEqual([
      { gate: 'cni', by: 'field manager kubectl-edit owns a part of it' },
    ]);
    const [stillRequired] = policyGatesFor(node, [policy('a', [gate('cni')])], written, rules);
    expect(rejectionsOf(written, stillRequired, a)).toEqual([
      { gate: 'cni', by: 'field manager kubectl-edit' },
    ]);
  });

  const fields = fc.subarray(allFields, { minLength: 1 });
  const owners = fc.dictionary(fc.constantFrom(a, owner('b'), 'kubectl', 'cloud'), fields, { maxKeys: 3 });
  test('no gate is ever left without its required fields', () => {
    fc.assert(
      fc.property(owners, fc.boolean(), fc.boolean(), (cni, requiresA, requiresB) => {
        const written = readinessWith([gate('cni')], { cni });
        const policies = [
          requiresA && policy('a', [gate('cni')]),
          requiresB && policy('b', [gate('cni')]),
        ].filter((one) => one !== false);
        const { orphans, applied } = gateWrites(node, policies, written, rules);
        const otherWriters = Object.keys(cni).filter((one) => !one.startsWith(rules.managerPrefix));
        const isRequired = policies.length > 0;
        expect(orphans).toEqual(
          !isRequired && otherWriters.length === 0 && Object.keys(cni).length > 0 ? ['cni'] : [],
        );
        if (orphans.length > 0) return;
        for (const { policy: name, gates } of applied) {
          const others = Object.entries(cni).filter(([one]) => one !== owner(name));
          const remaining = new Set([...others.flatMap(([, parts]) => parts), ...gates.flatMap(Object.keys)]);
          if (remaining.size > 0)
            expect([...remaining]).toEqual(expect.arrayContaining(['namespace', 'selector']));
        }
      }),
    );
  });
});
