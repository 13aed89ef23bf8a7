import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { Silence } from '../../bench/silence.ts';

function maintenanceOf(name: string, status?: object): NodeMaintenance {
  return { metadata: { name }, spec: {}, status } as unknown as NodeMaintenance;
}

const drained = { conditions: [{ type: 'Drained', status: 'True' }] };

test('The first status counts from the request', () => {
  const silence = new Silence(1_000, ['a']);
  silence.observe(maintenanceOf('a'), 1_500);
  silence.observe(maintenanceOf('a', { nodeStatuses: [] }), 3_000);
  silence.observe(maintenanceOf('a', drained), 4_000);
  expect(silence.longestMs).toBe(2_000);
});

test('Versions with the same status do not end it', () => {
  const silence = new Silence(0, ['a']);
  silence.observe(maintenanceOf('a', { nodeStatuses: [] }), 100);
  silence.observe(maintenanceOf('a', { nodeStatuses: [] }), 900);
  silence.observe(maintenanceOf('a', drained), 1_000);
  expect(silence.longestMs).toBe(900);
});

test('A maintenance that is drained, and one of another run, may be silent', () => {
  const silence = new Silence(0, ['a', 'b']);
  silence.observe(maintenanceOf('a', drained), 100);
  silence.observe(maintenanceOf('a', { ...drained, nodeStatuses: [] }), 9_000);
  silence.observe(maintenanceOf('other', drained), 9_000);
  silence.observe(maintenanceOf('b', drained), 300);
  expect(silence.longestMs).toBe(300);
});
