import type { MaintenanceWindow } from '../../../api/maintenanceWindow.ts';
import { newWindowMaintenance } from '../../../domain/windows/windowMaintenance.ts';
import { newWorkJob } from '../../../domain/windows/workJob.ts';

/** Returns the spec of the pods of a Job with this template. */
function podSpecOf(template: object): object {
  const window = {
    metadata: { name: 'w' },
    spec: { template: {}, work: { type: 'Job', job: { template: { spec: template } } } },
  } as unknown as MaintenanceWindow;
  const maintenance = newWindowMaintenance(window, { name: 'node-1', uid: 'uid' });
  return newWorkJob(window, { node: 'node-1', maintenance })?.spec.template.spec as object;
}

const ours = { serviceAccountName: 'node-maintenance-work', automountServiceAccountToken: false };

describe('the pods of a Job', () => {
  test.each([
    { when: 'by default', template: {}, want: ours },
    { when: 'even if it is named', template: { serviceAccountName: 'node-maintenance-work' }, want: ours },
    { when: 'even if a token is wanted', template: { automountServiceAccountToken: true }, want: ours },
    {
      when: 'even if its deprecated field names it',
      template: { serviceAccount: 'node-maintenance-work' },
      want: ours,
    },
  ])('have the ServiceAccount without permissions, and no token, $when', ({ template, want }) => {
    expect(podSpecOf(template)).toMatchObject(want);
  });

  test.each([
    { field: 'serviceAccountName', template: { serviceAccountName: 'patcher' } },
    { field: 'serviceAccount', template: { serviceAccount: 'patcher' } },
  ])('have the ServiceAccount that $field of the template names, with its token', ({ template }) => {
    const spec = podSpecOf(template);
    expect(spec).toMatchObject({ serviceAccountName: 'patcher' });
    expect(spec).not.toHaveProperty('automountServiceAccountToken');
  });

  test('run on their node only, whatever its taints are', () => {
    expect(podSpecOf({ tolerations: [] })).toMatchObject({
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [
              { matchFields: [{ key: 'metadata.name', operator: 'In', values: ['node-1'] }] },
            ],
          },
        },
      },
      tolerations: [{ operator: 'Exists' }],
    });
  });
});
