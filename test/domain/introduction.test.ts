import { expect, test } from '@jest/globals';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { introductionOf, windowIntroductionOf } from '../../domain/introduction.ts';

const maintenance = (reason?: string) =>
  ({ metadata: { name: 'rack-7' }, spec: { stage: 'Idle', ...(reason && { reason }) } }) as NodeMaintenance;

test.each([
  { when: 'a reason', reason: 'firmware\n2.4', summary: 'firmware 2.4' },
  { when: 'no reason', reason: undefined, summary: 'Maintenance rack-7' },
])('A run with $when is introduced in one line', ({ reason, summary }) => {
  expect(introductionOf(maintenance(reason)).staticSummary).toBe(summary);
});

test('A reason as long as the API takes leaves the summary within the 400 bytes that Temporal takes', () => {
  const { staticSummary, memo } = introductionOf(maintenance('语'.repeat(1_024)));
  expect(Buffer.byteLength(JSON.stringify(staticSummary))).toBeLessThan(370);
  expect(Buffer.byteLength(JSON.stringify(memo))).toBeLessThan(2_048);
});

test('A run tells where its object is found', () => {
  expect(introductionOf(maintenance()).staticDetails).toContain('`kubectl get nm rack-7 -o yaml`');
  const window = { metadata: { name: 'os' }, spec: { template: { reason: 'patches' } } } as MaintenanceWindow;
  expect(windowIntroductionOf(window)).toMatchObject({
    staticSummary: 'patches',
    staticDetails: expect.stringContaining('`kubectl get mw os -o yaml`'),
    memo: { reason: 'patches', kubectl: 'kubectl get mw os -o wide' },
  });
});
