import { describe, expect, test } from '@jest/globals';
import { isCordonedByMaintenance, unschedulableBefore } from '../../../domain/common/cordon.ts';
import { conditionsManagedBy } from '../../../domain/common/managedFields.ts';

const fields = { 'f:spec': { 'f:unschedulable': {} } };
const node = (unschedulable: boolean, manager?: string) => ({
  metadata: { name: 'n', ...(manager && { managedFields: [{ manager, fieldsV1: fields }] }) },
  spec: { unschedulable },
});

describe('a node without a record', () => {
  test.each([
    { is: 'schedulable', of: node(false), before: false, ours: false },
    { is: 'cordoned by a maintenance', of: node(true, 'node-maintenance'), before: false, ours: true },
    { is: 'cordoned by kubectl', of: node(true, 'kubectl'), before: true, ours: false },
    { is: 'cordoned before anybody managed fields', of: node(true), before: true, ours: false },
    { is: 'schedulable again', of: node(false, 'node-maintenance'), before: false, ours: false },
  ])('that is $is was unschedulable before: $before', ({ of, before, ours }) => {
    expect(unschedulableBefore(of, undefined, [])).toBe(before);
    expect(isCordonedByMaintenance(of)).toBe(ours);
  });
});

test('a record decides, whoever has set the field', () => {
  const recorded = { unschedulableBefore: true } as never;
  expect(unschedulableBefore(node(true, 'node-maintenance'), recorded, [])).toBe(true);
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
