import { hostname, userInfo } from 'node:os';
import type { TemporalNames } from '../../api/names.ts';
import { whoAmI } from '../../kube/authorization.ts';
import type { Kube } from '../../kube/client.ts';
import { errorMessage } from '../../kube/errors.ts';
import { claimedNames } from '../clusterClaim.ts';
import { CommandError } from '../output.ts';
import { connectTemporal } from '../temporal.ts';

/** An update of a workflow in Temporal. */
export interface WorkflowUpdate {
  /** Name of the object of the workflow in output. */
  readonly title: string;
  /** Returns the workflow id for the names of the cluster. */
  readonly workflowIdOf: (names: TemporalNames) => string;
  readonly verb: string;
  readonly input?: object | undefined;
}

/** Timeout of an update: workers may be busy. */
const updateTimeoutMs = 30_000;

/** Sends the update and resolves when it has completed. Rejects with a CommandError that names the remedy. */
export async function updateWorkflow(
  kube: Kube,
  { title, workflowIdOf, verb, input }: WorkflowUpdate,
): Promise<void> {
  const identity = await ownIdentity(kube);
  const temporal = await connectTemporal({ identity, command: verb });
  const { client, connection, namespace, address, errors, answered } = temporal;
  try {
    const names = await answered(() => claimedNames(kube, temporal));
    const handle = client.workflow.getHandle(workflowIdOf(names));
    const execute = () =>
      input === undefined
        ? handle.executeUpdate(verb)
        : handle.executeUpdate<unknown, [object]>(verb, { args: [input] });
    await connection.withDeadline(Date.now() + updateTimeoutMs, execute);
  } catch (error) {
    if (error instanceof errors.WorkflowNotFoundError)
      throw new CommandError(
        `Temporal namespace ${namespace} at ${address} has no run of ${title}: check TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE; kubectl maintenance workers shows the settings of the workers`,
        { cause: error },
      );
    if (error instanceof errors.WorkflowUpdateRPCTimeoutOrCancelledError)
      throw new CommandError(
        `no worker responded within ${updateTimeoutMs / 1_000} s and the result is unknown: check the workers (kubectl maintenance workers) and retry`,
        { cause: error },
      );
    if (error instanceof errors.WorkflowUpdateFailedError)
      throw new CommandError(`${title}: ${errorMessage(error.cause ?? error)}`, { cause: error });
    throw error;
  } finally {
    await connection.close();
  }
}

/** Returns the identity for the history: the Kubernetes username, or the local user if the apiserver does not report it. */
async function ownIdentity(kube: Kube): Promise<string> {
  const user = (await whoAmI(kube)) ?? userInfo().username;
  return `user ${user} (kubectl-maintenance, ${process.pid}@${hostname()})`;
}
