import type { Job } from '../api/core.ts';
import type { JobWork } from '../api/maintenanceWindow.ts';

/** The Job that works on a node: pinned to it, and staying there whatever taints it has meanwhile. */
export function workJobSpec({ template, timeoutSeconds, retries }: JobWork, node: string): Job['spec'] {
  const pod = template as { spec?: { affinity?: object } };
  const nodeSelectorTerms = [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: [node] }] }];
  const nodeAffinity = { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } };
  return {
    activeDeadlineSeconds: timeoutSeconds,
    backoffLimit: retries,
    template: {
      ...pod,
      spec: {
        restartPolicy: 'Never',
        ...pod.spec,
        affinity: { ...pod.spec?.affinity, nodeAffinity },
        tolerations: [{ operator: 'Exists' }],
      },
    },
  };
}
