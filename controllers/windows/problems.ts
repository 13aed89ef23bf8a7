import type { KubeObject } from '../../api/core.ts';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import { FIELD_MANAGER, WORK_NAMESPACE } from '../../api/names.ts';
import type { WindowProblems } from '../../domain/windows/conditions.ts';
import { openingProblems } from '../../domain/windows/overrides.ts';
import { newWindowMaintenance } from '../../domain/windows/windowMaintenance.ts';
import { newWorkJob } from '../../domain/windows/workJob.ts';
import type { Kube } from '../../kube/client.ts';
import { errorMessage, isKubeError, isRejection } from '../../kube/errors.ts';
import type { JobPermission } from '../../kube/jobPermission.ts';
import { type Resource, resources } from '../../kube/resources.ts';

/** Represents the nodes that the window will maintain. */
const sampleNode = { name: 'no-node', uid: 'none' };

/** Returns why a window cannot open as it is. The apiserver validates the objects that the window would create in dry-run requests. */
export async function windowProblems(
  kube: Kube,
  window: MaintenanceWindow,
  mayRunJobs: JobPermission,
): Promise<WindowProblems> {
  const maintenance = newWindowMaintenance(window, sampleNode);
  const wanted = newWorkJob(window, { node: sampleNode.name, maintenance });
  const areJobsMissing = wanted !== undefined && !(await mayRunJobs());
  // Without the permission, the apiserver does not validate the Job.
  const job = areJobsMissing ? undefined : wanted;
  const maintenanceProblem = await dryRunProblem(kube, resources.nodeMaintenances, maintenance);
  // A sample has no owner that exists.
  const { ownerReferences: _none, ...metadata } = job?.metadata ?? { name: '' };
  const warnings: string[] = [];
  const jobProblem =
    job && (await dryRunProblem(kube, resources.jobs, { ...job, metadata }, (text) => warnings.push(text)));
  const podSecurity = job && (await podSecurityProblem(kube, warnings));
  const fields = [
    ...openingProblems(window, kube.now().getTime()),
    ...(maintenanceProblem === undefined
      ? []
      : [`template: the apiserver rejected its NodeMaintenance, ${maintenanceProblem}`]),
    ...(jobProblem === undefined ? [] : [`work.job.template: the apiserver rejected its Job, ${jobProblem}`]),
    ...(podSecurity === undefined ? [] : [podSecurity]),
  ];
  return { fields, areJobsMissing };
}

/** The beginning of the warning of Pod Security admission. */
const podSecurityWarning = 'would violate PodSecurity';

/**
 * Returns why the pods of a Job would be rejected. The apiserver accepts the Job itself, which then waits for its pods until its time is
 * over. The warning counts only if the namespace enforces the level that it warns about.
 */
async function podSecurityProblem(kube: Kube, warnings: readonly string[]): Promise<string | undefined> {
  const warning = warnings.find((text) => text.startsWith(podSecurityWarning));
  if (warning === undefined) return undefined;
  const { labels = {} } = (await kube.get(resources.namespaces, { name: WORK_NAMESPACE }))?.metadata ?? {};
  const [enforced, warned] = ['enforce', 'warn'].map((mode) => labels[`pod-security.kubernetes.io/${mode}`]);
  return enforced === warned
    ? `work.job.template: the apiserver would reject the pods of its Job, which ${warning}: change the template, or allow more in namespace ${WORK_NAMESPACE} (npm start -- --install --window-jobs --work-pod-security)`
    : undefined;
}

/** Returns the message with which the apiserver would reject an object. */
async function dryRunProblem(
  kube: Kube,
  resource: Resource,
  object: KubeObject,
  onWarning?: (text: string) => void,
): Promise<string | undefined> {
  try {
    await kube.create(resource, object, { fieldManager: FIELD_MANAGER, dryRun: true, onWarning });
    return undefined;
  } catch (error) {
    // NotFound: the namespace does not exist.
    if (isKubeError(error, 'Invalid', 'Forbidden', 'NotFound', 'NamespaceTerminating'))
      return errorMessage(error);
    // Users can take the name of a sample. The apiserver finds the name taken only after it has validated the object.
    if (isKubeError(error, 'AlreadyExists')) return undefined;
    // A webhook that is down does not show whether the window is valid. It is validated again later.
    if (isRejection(error)) return undefined;
    throw error;
  }
}
