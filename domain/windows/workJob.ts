import type { Job } from '../../api/core.ts';
import type { JobWork, MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import {
  NODE_MAINTENANCE,
  WINDOW_LABEL,
  WindowAnnotation,
  WORK_NAMESPACE,
  WORK_SERVICE_ACCOUNT,
} from '../../api/names.ts';
import { type WindowMaintenance, workJobRef } from './windowMaintenance.ts';

/** Creates the Job that works on a drained node. Returns undefined if the window no longer runs a Job. */
export function newWorkJob(
  { metadata, spec }: MaintenanceWindow,
  { node, maintenance }: Pick<WindowMaintenance, 'node' | 'maintenance'>,
): Job | undefined {
  const { job } = spec.work;
  if (job === undefined) return undefined;
  const { apiVersion, kind } = NODE_MAINTENANCE;
  const { name, ownerUid: uid } = workJobRef(maintenance);
  return {
    metadata: {
      name,
      namespace: WORK_NAMESPACE,
      labels: { [WINDOW_LABEL]: metadata.name },
      annotations: { [WindowAnnotation.Node]: node },
      ownerReferences: [{ apiVersion, kind, name: maintenance.metadata.name, uid }],
    },
    spec: workJobSpec(job, node),
  };
}

/** The fields of the author's template that matter here. */
interface PodSpec {
  affinity?: object;
  serviceAccountName?: string;
  /** The deprecated name of the same field. */
  serviceAccount?: string;
}

/** Returns the spec of a Job whose pods run on this node only and tolerate every taint, so that no taint evicts them. */
function workJobSpec({ template, timeoutSeconds, retries }: JobWork, node: string): Job['spec'] {
  const pod = template as { spec?: PodSpec };
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
        ...serviceAccountOf(pod.spec),
        affinity: { ...pod.spec?.affinity, nodeAffinity },
        tolerations: [{ operator: 'Exists' }],
      },
    },
  };
}

/** Gives the pods the ServiceAccount without permissions, and no token of it, unless the template names another one. */
function serviceAccountOf({ serviceAccountName, serviceAccount }: PodSpec = {}): object {
  const named = serviceAccountName || serviceAccount || WORK_SERVICE_ACCOUNT;
  return named === WORK_SERVICE_ACCOUNT
    ? { serviceAccountName: WORK_SERVICE_ACCOUNT, automountServiceAccountToken: false }
    : { serviceAccountName: named };
}
