import type { MaintenanceWindowSpec } from '../../../api/maintenanceWindow.ts';
import {
  jobName,
  otherMaintenanceName,
  revisionOf,
  windowMaintenanceName,
} from '../../../domain/common/revision.ts';

const spec = (differs: object = {}) =>
  ({ template: { reason: 'a' }, work: { type: 'None' }, ...differs }) as MaintenanceWindowSpec;

test('a revision depends on what is done to nodes, and not on the schedule or the order of fields', () => {
  expect(revisionOf(spec({ suspend: true }))).toBe(revisionOf(spec()));
  const one = spec({ template: { reason: 'a', drainPlan: [{ podType: 'Static', podPriority: 1 }] } });
  const same = spec({ template: { drainPlan: [{ podPriority: 1, podType: 'Static' }], reason: 'a' } });
  expect(revisionOf(one)).toBe(revisionOf(same));
  expect(revisionOf(one)).not.toBe(revisionOf(spec()));
  expect(revisionOf(spec())).toMatch(/^[a-z0-9]{10}$/);
});

test('the NodeMaintenance of a window is named after window, revision and node, with any length of the node name', () => {
  expect(windowMaintenanceName('patch', 'abc', 'node-1')).toBe('patch-abc-node-1');
  const long = 'n'.repeat(200) + '.example.com-' + 'm'.repeat(39);
  const names = ['a', 'b'].map((end) => windowMaintenanceName('w'.repeat(63), 'r'.repeat(10), long + end));
  expect(names[0]).not.toBe(names[1]);
  for (const name of names) {
    expect(name.length).toBeLessThanOrEqual(253);
    expect(name).toMatch(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/);
  }
  expect(jobName('patch-abc-node-1').length).toBeLessThanOrEqual(63);
});

test('another name is a valid one, and depends on the object that has the first', () => {
  const long = `${'n'.repeat(240)}.${'m'.repeat(12)}`;
  for (const name of ['patch-abc-node-1', long]) {
    const others = ['uid-1', 'uid-2'].map((uid) => otherMaintenanceName(name, uid));
    expect(new Set([name, ...others]).size).toBe(3);
    for (const other of others) expect(other).toMatch(/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/);
  }
});
