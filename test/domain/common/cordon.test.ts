import { describe, expect, test } from '@jest/globals';
import {
  decideUncordon,
  isCordonedByMaintenance,
  unschedulableBefore,
} from '../../../domain/common/cordon.ts';
import { conditionsManagedBy } from '../../../domain/common/managedFields.ts';

const fields = { 'f:spec': { 'f:unschedulable': {} } };
const node = (unschedulable: boolean, manager?: string) => ({
  metadata: { name: 'n', ...(manager && { managedFields: [{ manager, fieldsV1: fields }] }) },
  spec: { unschedulable },
});

const annotations = { 'f:metadata': { 'f:annotations': {} } };
/** The maintenance and kubectl manage fields of the node; one of them has cordoned it. */
const cordonedWithin = (ours: object, theirs: object) => ({
  metadata: {
    name: 'n',
    managedFields: [
      { manager: 'node-maintenance', fieldsV1: ours },
      { manager: 'kubectl', fieldsV1: theirs },
    ],
  },
  spec: { unschedulable: true },
});

describe('a node without a record', () => {
  test.each([
    { is: 'schedulable', of: node(false), before: false, ours: false },
    { is: 'cordoned by a maintenance', of: node(true, 'node-maintenance'), before: false, ours: true },
    { is: 'cordoned by kubectl', of: node(true, 'kubectl'), before: true, ours: false },
    {
      is: 'cordoned by kubectl, and annotated by a maintenance',
      of: cordonedWithin(annotations, fields),
      before: true,
      ours: false,
    },
    {
      is: 'cordoned by a maintenance, and annotated by kubectl',
      of: cordonedWithin(fields, annotations),
      before: false,
      ours: true,
    },
    { is: 'cordoned before anybody managed fields', of: node(true), before: true, ours: false },
    { is: 'schedulable again', of: node(false, 'node-maintenance'), before: false, ours: false },
  ])('that is $is was unschedulable before: $before', ({ of, before, ours }) => {
    expect(unschedulableBefore(of, undefined, [])).toBe(before);
    expect(isCordonedByMaintenance(of)).toBe(ours);
  });
});

test('a record decides, no matter which client has set the field', () => {
  const recorded = { unschedulableBefore: true } as never;
  expect(unschedulableBefore(node(true, 'node-maintenance'), recorded, [])).toBe(true);
});

// A deviation from KEP-4212 > Uncordon (Complete): ADR 68.
describe('a maintenance that completes', () => {
  const recorded = (before: boolean) => ({ nodeRef: { name: 'n' }, unschedulableBefore: before }) as never;
  const neverCordoned = { nodeRef: { name: 'n' } } as never;
  test.each([
    { when: 'uncordons a node that it has cordoned', own: recorded(false), want: { kind: 'Uncordon' } },
    {
      when: 'keeps a node cordoned that someone else had cordoned before',
      own: recorded(true),
      want: { kind: 'CordonedBefore' },
    },
    {
      when: 'keeps a node cordoned while others hold it, and names them',
      own: recorded(false),
      heldBy: ['b', 'a'],
      want: { kind: 'HeldBy', maintenances: ['a', 'b'] },
    },
    {
      when: 'does not touch a node that it was waiting for',
      own: neverCordoned,
      want: { kind: 'NeverCordoned' },
    },
    {
      when: 'uncordons a node that another maintenance has left cordoned for it, before it has seen the node',
      own: undefined,
      of: node(true, 'node-maintenance'),
      isFromIdle: false,
      want: { kind: 'Uncordon' },
    },
    {
      when: 'uncordons a node that another maintenance has left cordoned for it, while it was waiting for the node',
      own: neverCordoned,
      of: node(true, 'node-maintenance'),
      isFromIdle: false,
      want: { kind: 'Uncordon' },
    },
    { when: 'uncordons any node when it was in Idle before', own: undefined, want: { kind: 'Uncordon' } },
    {
      when: 'does not touch a node that it selects since it completes',
      own: undefined,
      isFromIdle: false,
      want: { kind: 'NeverCordoned' },
    },
    {
      when: 'uncordons a node whose cordon is its own',
      own: recorded(false),
      of: node(true, 'node-maintenance'),
      isFromIdle: false,
      want: { kind: 'Uncordon' },
    },
    {
      when: 'keeps a node cordoned that someone else cordoned after it was uncordoned',
      own: recorded(false),
      of: node(true, 'kubectl-cordon'),
      isFromIdle: false,
      want: { kind: 'CordonedByAnother' },
    },
    {
      when: 'uncordons a node whose cordon is its own, and that someone else has annotated since',
      own: recorded(false),
      of: cordonedWithin(fields, annotations),
      isFromIdle: false,
      want: { kind: 'Uncordon' },
    },
    {
      when: 'uncordons a node that kubectl cordoned when it was in Idle before',
      own: undefined,
      of: node(true, 'kubectl-cordon'),
      want: { kind: 'Uncordon' },
    },
    {
      when: 'has nothing to do for a node that is schedulable',
      own: recorded(true),
      of: node(false),
      want: { kind: 'AlreadySchedulable' },
    },
  ])('$when', ({ own, heldBy = [], of = node(true), isFromIdle = true, want }) => {
    expect(decideUncordon(of, { own, heldBy, isFromIdle })).toEqual(want);
  });
});

test('managed fields of any shape are read', () => {
  const shapes = [undefined, null, 'text', [], { 'f:status': null }, { 'f:status': { 'f:conditions': 1 } }];
  for (const fieldsV1 of shapes)
    expect(conditionsManagedBy({ metadata: { managedFields: [{ manager: 'm', fieldsV1 }] } }, 'm')).toEqual(
      [],
    );
  const conditions = { 'k:{"type":"B"}': { 'f:type': {} }, 'k:{"type":"A"}': {}, '.': {} };
  const fieldsV1 = { 'f:status': { 'f:conditions': conditions } };
  const object = { metadata: { managedFields: [{ manager: 'm', fieldsV1 }] } };
  expect(conditionsManagedBy(object, 'm')).toEqual(['A', 'B']);
  expect(conditionsManagedBy(object, 'other')).toEqual([]);
});
