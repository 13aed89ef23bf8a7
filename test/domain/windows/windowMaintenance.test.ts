import { expect, test } from '@jest/globals';
import { MaintenanceWindowSpec } from '../../../api/maintenanceWindow.ts';
import { revisionOf } from '../../../domain/common/revision.ts';
import { newWindowMaintenance } from '../../../domain/windows/windowMaintenance.ts';

const specOf = (template: object) =>
  MaintenanceWindowSpec.parse({
    schedule: { cron: '0 2 * * 6', timeZone: 'Europe/Berlin', duration: '4h' },
    nodeSelector: { nodeSelectorTerms: [{}] },
    template,
  });

test('the maintenances of a window have the deadline of its template, which its revision covers', () => {
  const spec = specOf({ drainDeadline: { after: '2h', onDeadline: 'Delete' } });
  const window = { metadata: { name: 'os' }, spec };
  const node = { name: 'n', uid: 'u' };
  expect(newWindowMaintenance(window, node).spec.drainDeadline).toEqual(spec.template.drainDeadline);
  const without = specOf({});
  expect(newWindowMaintenance({ ...window, spec: without }, node).spec).not.toHaveProperty('drainDeadline');
  const revisions = [{ after: '2h' }, { after: '3h' }, { after: '2h', onDeadline: 'Delete' }].map(
    (drainDeadline) => revisionOf(specOf({ drainDeadline })),
  );
  expect(new Set([...revisions, revisionOf(without)]).size).toBe(4);
});
