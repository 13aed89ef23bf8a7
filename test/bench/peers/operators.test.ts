import { nodeMaintenanceOperator } from '../../../bench/peers/nodeMaintenanceOperator.ts';
import { nodeMaintenanceOrchestrator } from '../../../bench/peers/nodeMaintenanceOrchestrator.ts';

const request = {
  nodes: ['a', 'b', 'c'],
  maintenances: [
    ['a', 'b'],
    ['b', 'c'],
  ],
};

describe('node-maintenance-operator', () => {
  const objects = nodeMaintenanceOperator.objectsOf(request, 'bench');

  test('has one maintenance of each node, also of one that two maintenances name', () => {
    expect(objects.map(({ metadata, spec }) => [metadata.name, spec.nodeName])).toEqual([
      ['bench-a', 'a'],
      ['bench-b', 'b'],
      ['bench-c', 'c'],
    ]);
  });

  test('is done when every maintenance has succeeded', () => {
    const inPhases = (phases: string[]) =>
      phases.flatMap((phase, index) =>
        objects.slice(index, index + 1).map((one) => ({ ...one, status: { phase } })),
      );
    const isDone = (...phases: string[]) => nodeMaintenanceOperator.isDone(inPhases(phases), request.nodes);
    expect(isDone('Succeeded', 'Succeeded', 'Running')).toBe(false);
    expect(isDone('Succeeded', 'Succeeded')).toBe(false);
    expect(isDone('Succeeded', 'Succeeded', 'Succeeded')).toBe(true);
  });
});

describe('node-maintenance-orchestrator', () => {
  const objects = nodeMaintenanceOrchestrator.objectsOf(request, 'bench');

  test('has a plan of each maintenance, which drains all of its nodes at the same time', () => {
    expect(objects.map(({ spec }) => [spec.nodes, spec.drain.options.maxParallel])).toEqual([
      [['a', 'b'], 2],
      [['b', 'c'], 2],
    ]);
  });

  test('is done when every node is ready in one of the plans', () => {
    const isDone = (...plans: Record<string, boolean>[]) =>
      nodeMaintenanceOrchestrator.isDone(
        plans.flatMap((plan, index) => {
          const nodes = Object.entries(plan).map(([name, readyForMaintenance]) => ({
            name,
            readyForMaintenance,
          }));
          return objects.slice(index, index + 1).map((one) => ({ ...one, status: { nodes } }));
        }),
        request.nodes,
      );
    expect(nodeMaintenanceOrchestrator.isDone(objects, request.nodes)).toBe(false);
    expect(isDone({ a: true, b: true }, { c: false })).toBe(false);
    expect(isDone({ a: true, b: true }, { c: true })).toBe(true);
  });
});
