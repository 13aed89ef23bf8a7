import { expect, test } from '@jest/globals';
import type { NodeMaintenance, NodeMaintenanceStage } from '../../../api/nodeMaintenance.ts';
import { freeName, nameFor } from '../../../domain/maintenance/name.ts';

test.each([
  { nodes: ['node-1'], name: 'node-1' },
  { nodes: ['node-2', 'node-1', 'node-3'], name: 'node-1-and-2-more' },
  { nodes: ['a'], selector: 'pool=GPU, zone in (a,b)', name: 'pool-gpu-zone-in-a-b' },
  { nodes: ['a'], selector: '!spot,pool!=gpu', name: 'not-spot-pool-not-gpu' },
  { nodes: [`${'n'.repeat(199)}.x`], name: 'n'.repeat(199) },
])('a maintenance of $nodes $selector has the name $name', ({ nodes, selector, name }) => {
  expect(nameFor(nodes, selector)).toBe(name);
});

const of = (name: string, stage: NodeMaintenanceStage, rack = '7'): NodeMaintenance => ({
  metadata: { name },
  spec: {
    stage,
    nodeSelector: {
      nodeSelectorTerms: [{ matchExpressions: [{ key: 'rack', operator: 'In', values: [rack] }] }],
    },
  },
});

test.each([
  { when: 'it is free', existing: [], free: { kind: 'Free', name: 'x' } },
  {
    when: 'a completed maintenance has it',
    existing: [of('x', 'Complete')],
    free: { kind: 'Free', name: 'x-2' },
  },
  {
    when: 'a maintenance of other nodes has it',
    existing: [of('x', 'Drain', '8')],
    free: { kind: 'Free', name: 'x-2' },
  },
  {
    when: 'a maintenance of the same nodes is in progress',
    existing: [of('x', 'Complete'), of('x-2', 'Drain')],
    free: { kind: 'Taken', name: 'x-2', stage: 'Drain' },
  },
])('a name gets a numeric suffix if needed: $when', ({ existing, free }) => {
  expect(freeName(of('x', 'Drain'), existing)).toEqual(free);
});
