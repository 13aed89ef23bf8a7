import type { TemporalAvailability } from '../controllers/temporalAvailability.ts';
import type { Log } from '../kube/log.ts';
import type { WorkerDeployment } from './config.ts';
import { retryUntilAvailable } from './startupRetry.ts';
import type { Temporal } from './temporal.ts';

/** A leader that waits for an answer does not lead again when it has lost its Lease. */
const answerTimeoutMs = 30_000;

interface Dependencies {
  temporal: Temporal;
  availability: TemporalAvailability;
  deployment: WorkerDeployment | undefined;
  log: Log;
}

/**
 * Makes the build of this process the current version of its deployment. The leader calls it once: a rolling update ends with a leader of the
 * new build, and a rollback with one of the old build. Waits while Temporal refuses, for example until it has seen the pollers of this build.
 */
export async function setCurrentVersion(
  { temporal, availability, deployment, log }: Dependencies,
  signal: AbortSignal,
): Promise<void> {
  if (deployment?.setsCurrentVersion !== true) return;
  const { client, namespace, settings } = temporal;
  const { deploymentName, buildId } = deployment;
  const dependency = {
    name: `Temporal to make build ${buildId} the current version of Worker Deployment ${deploymentName}`,
    remedy: 'if another tool sets the current version, start the workers with --set-current-version=false',
    report: () => undefined,
    log,
    signal,
  };
  const request = { namespace, identity: settings.identity, deploymentName, buildId };
  const attempt = async () => {
    // Before the names of the cluster are claimed, the deployment may be that of another one.
    const outage = availability.outage();
    if (outage !== undefined) throw new Error(outage.reason);
    const set = () => client.workflowService.setWorkerDeploymentCurrentVersion(request);
    return client.withAbortSignal(signal, () => client.withDeadline(Date.now() + answerTimeoutMs, set));
  };
  try {
    await retryUntilAvailable(dependency, attempt);
  } catch (error) {
    if (signal.aborted) return;
    throw error;
  }
  log.info('Current version set', { deployment: deploymentName, buildId });
}
