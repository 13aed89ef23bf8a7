import fc from 'fast-check';
import type { DrainPlanEntry } from '../../../api/nodeMaintenance.ts';
import type { NodeReadiness } from '../../../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../../../api/nodeReadinessPolicy.ts';
import { REQUESTER_ANNOTATION } from '../../../api/names.ts';
import {
  correctedRecord,
  isTaintedAtCreation,
  nodesOfTerms,
  planToStore,
  recordOfRequester,
  requestAuthor,
} from '../../../domain/admission/mutations.ts';
import { authorityOf, countsForEveryNode } from '../../../domain/common/requester.ts';
import { completeDrainPlan } from '../../../domain/drain/plan.ts';

describe('the record of a requester', () => {
  /** CEL escapes three control characters in ways that JSON does not know; such a record grants nothing. */
  const readable = fc.string({ unit: 'grapheme', minLength: 1 }).filter((text) => !/\p{Cc}/u.test(text));

  test('is read back as the user, whatever the names contain', () => {
    const user = fc.record({
      username: readable,
      uid: readable,
      groups: fc.array(readable),
      extra: fc.dictionary(readable, fc.array(readable), { maxKeys: 4, noNullPrototype: true }),
    });
    fc.assert(
      fc.property(user, fc.boolean(), (requester, everyNode) => {
        const record = recordOfRequester(requester, everyNode);
        expect(authorityOf(record)).toEqual({ kind: 'User', requester });
        expect(countsForEveryNode(record)).toBe(everyNode);
      }),
    );
  });

  test('has its fields in a fixed order, and sorts the keys of extra as CEL does', () => {
    const extra = { '\u{1f600}': ['a'], '\u{fb01}': [], b: ['x"', 'y\\'] };
    expect(recordOfRequester({ username: 'jane\t', extra }, false)).toBe(
      String.raw`{"everyNode":false,"username":"jane\t","uid":"","groups":[],"extra":{"b":["x\"","y\\"],"` +
        '\u{fb01}":[],"\u{1f600}":["a"]}}',
    );
  });
});

describe('the record that an object must have', () => {
  const object = (spec: object, record?: string) => ({
    metadata: { annotations: record === undefined ? undefined : { [REQUESTER_ANNOTATION]: record } },
    spec,
  });
  test.each([
    { what: 'a new object', after: object({}), before: undefined, expected: 'me' },
    { what: 'a new object that has it', after: object({}, 'me'), before: undefined, expected: undefined },
    { what: 'a forged one', after: object({}, 'root'), before: undefined, expected: 'me' },
    {
      what: 'a changed spec',
      after: object({ a: 2 }, 'jane'),
      before: object({ a: 1 }, 'jane'),
      expected: 'me',
    },
    {
      what: 'the same spec in another order',
      after: object({ a: 1, b: 2 }, 'jane'),
      before: object({ b: 2, a: 1 }, 'jane'),
      expected: undefined,
    },
    { what: 'a lost record', after: object({}), before: object({}, 'jane'), expected: 'jane' },
    {
      what: 'the own record without a change',
      after: object({}, 'me'),
      before: object({}, 'jane'),
      expected: 'jane',
    },
    { what: 'the own record where none was', after: object({}, 'me'), before: object({}), expected: '' },
    {
      what: 'a forged record without a change, which is rejected',
      after: object({}, 'root'),
      before: object({}, 'jane'),
      expected: undefined,
    },
  ])('of $what', ({ after, before, expected }) => {
    expect(correctedRecord(after, before, 'me')).toBe(expected);
  });
});

describe('a drain plan', () => {
  const plan: DrainPlanEntry[] = [{ podType: 'Default', podPriority: 1_000 }];
  const complete = completeDrainPlan(plan);

  test('is completed when it is created, or repeated as its author wrote it', () => {
    expect(planToStore(undefined, undefined)).toEqual(completeDrainPlan());
    expect(planToStore(plan, undefined)).toEqual(complete);
    const before = { spec: { drainPlan: complete } } as Parameters<typeof planToStore>[1];
    expect(planToStore(plan, before)).toEqual(complete);
  });

  test('stays as it is when it is invalid or another one', () => {
    expect(planToStore([...complete].toReversed(), undefined)).toBeUndefined();
    expect(planToStore([{ podType: 'Default', podPriority: 2_147_483_648 }], undefined)).toBeUndefined();
    expect(planToStore([{ podType: 'Pod' as 'Default', podPriority: 1 }], undefined)).toBeUndefined();
    const before = { spec: { drainPlan: completeDrainPlan() } } as Parameters<typeof planToStore>[1];
    expect(planToStore(plan, before)).toBeUndefined();
  });
});

describe('a new node is given the taint', () => {
  const node = { metadata: { name: 'a', labels: { pool: 'x' } } };
  const gate = (blocksReadiness?: boolean) => ({
    name: 'cni',
    namespace: 'kube-system',
    selector: {},
    ...(blocksReadiness !== undefined && { blocksReadiness }),
  });
  const policy = (record: string | undefined, gates = [gate()], pool = 'x') =>
    ({
      metadata: { name: 'p', generation: 1, annotations: record && { [REQUESTER_ANNOTATION]: record } },
      spec: {
        nodeSelector: {
          nodeSelectorTerms: [{ matchExpressions: [{ key: 'pool', operator: 'In', values: [pool] }] }],
        },
        readinessGates: gates,
      },
    }) as unknown as NodeReadinessPolicy;
  const anybody = recordOfRequester({ username: 'jane' }, true);
  const nobody = recordOfRequester({ username: 'jane' }, false);
  const readiness = (blocksReadiness?: boolean, deletionTimestamp?: string) =>
    ({
      metadata: { name: 'a', deletionTimestamp },
      spec: { readinessGates: [gate(blocksReadiness)] },
    }) as unknown as NodeReadiness;

  test.each([
    { why: 'its author may gate every node', policies: [policy(anybody)], expected: true },
    { why: 'it is older than the record', policies: [policy(undefined)], expected: true },
    { why: 'its author may not', policies: [policy(nobody)], expected: false },
    { why: 'it selects other nodes', policies: [policy(anybody, [gate()], 'y')], expected: false },
    { why: 'it does not block', policies: [policy(anybody, [gate(false)])], expected: false },
  ])('by a policy or not: $why', ({ policies, expected }) => {
    expect(isTaintedAtCreation(node, policies, undefined)).toBe(expected);
  });

  test('by the NodeReadiness that was created before it, unless that is being deleted or does not block', () => {
    expect(isTaintedAtCreation(node, [], readiness())).toBe(true);
    expect(isTaintedAtCreation(node, [], readiness(true))).toBe(true);
    expect(isTaintedAtCreation(node, [], readiness(false))).toBe(false);
    expect(isTaintedAtCreation(node, [], readiness(true, '2026-01-01T00:00:00Z'))).toBe(false);
  });
});

test('a change is attributed to the user and the field manager, if there is one', () => {
  expect(requestAuthor({ username: 'jane' }, 'kubectl')).toBe('user jane (field manager kubectl)');
  expect(requestAuthor({ username: 'jane' }, '')).toBe('user jane');
  expect(requestAuthor({ username: 'jane' })).toBe('user jane');
});

test('the nodes of a DaemonSet pod are those that its affinity names', () => {
  const field = (key: string, operator: 'In' | 'NotIn', ...values: string[]) => ({ key, operator, values });
  const terms = [
    { matchFields: [field('metadata.name', 'In', 'a', 'b')] },
    { matchFields: [field('metadata.name', 'NotIn', 'c'), field('metadata.uid', 'In', 'd')] },
    {},
  ];
  expect(nodesOfTerms(terms)).toEqual(['a', 'b']);
  expect(nodesOfTerms()).toEqual([]);
});
