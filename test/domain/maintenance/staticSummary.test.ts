import { expect, test } from '@jest/globals';
import type { MaintenanceWindow } from '../../../api/maintenanceWindow.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { staticSummaryOf, windowStaticSummaryOf } from '../../../domain/maintenance/staticSummary.ts';
import { testScope } from '../../kit/temporalNames.ts';

const maintenance = (reason?: string) =>
  ({ metadata: { name: 'rack-7' }, spec: { stage: 'Idle', ...(reason && { reason }) } }) as NodeMaintenance;

test.each([
  { when: 'a reason', reason: 'firmware\n2.4', summary: 'firmware 2.4' },
  { when: 'no reason', reason: undefined, summary: 'Maintenance rack-7' },
])('a run with $when has a static summary of one line', ({ reason, summary }) => {
  expect(staticSummaryOf(maintenance(reason), testScope).staticSummary).toBe(summary);
});

test('the summary of the longest reason fits into the 400 bytes that Temporal accepts', () => {
  const { staticSummary, memo } = staticSummaryOf(maintenance('语'.repeat(1_024)), testScope);
  expect(Buffer.byteLength(JSON.stringify(staticSummary))).toBeLessThan(370);
  expect(Buffer.byteLength(JSON.stringify(memo))).toBeLessThan(2_048);
});

test('the memo of a run, which is never encrypted, does not contain its reason', () => {
  const { memo } = staticSummaryOf(maintenance('replace the disk of the CFO'), testScope);
  expect(memo).toEqual({ kubectl: 'kubectl maintenance status rack-7', clusterUid: testScope.uid });
});

test('the static details of a run name its object', () => {
  expect(staticSummaryOf(maintenance(), testScope).staticDetails).toContain(
    '`kubectl get nm rack-7 -o yaml`',
  );
  const window = { metadata: { name: 'os' }, spec: { template: { reason: 'patches' } } } as MaintenanceWindow;
  expect(windowStaticSummaryOf(window, testScope)).toMatchObject({
    staticSummary: 'patches',
    staticDetails: expect.stringContaining('`kubectl get mw os -o yaml`'),
    memo: { kubectl: 'kubectl get mw os -o wide', clusterUid: testScope.uid },
  });
});
