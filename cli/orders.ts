import { hostname, userInfo } from 'node:os';
import { ownUsername } from '../kube/authorization.ts';
import type { Kube } from '../kube/client.ts';
import { wordsOf } from '../kube/errors.ts';
import { Refusal } from './output.ts';
import { connectTemporal } from './temporal.ts';

/** What is asked of a run in Temporal, as an update that it understands. */
export interface Order {
  /** How this program calls the object that the run is of. */
  readonly title: string;
  readonly workflowId: string;
  readonly verb: string;
  readonly input?: object | undefined;
}

/** A worker may be busy with something else. Milliseconds. */
const orderedWithin = 30_000;

/** Resolves when the run has done it. Rejects with a Refusal that names the remedy. */
export async function orderRun(kube: Kube, { title, workflowId, verb, input }: Order): Promise<void> {
  const identity = await ownIdentity(kube);
  const { client, connection, namespace, address, errors } = await connectTemporal({ identity });
  try {
    const handle = client.workflow.getHandle(workflowId);
    const order = () =>
      input === undefined
        ? handle.executeUpdate(verb)
        : handle.executeUpdate<unknown, [object]>(verb, { args: [input] });
    await connection.withDeadline(Date.now() + orderedWithin, order);
  } catch (error) {
    if (error instanceof errors.WorkflowNotFoundError)
      throw new Refusal(
        `namespace ${namespace} of Temporal at ${address} has no run of ${title}: check TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE; kubectl maintenance workers shows those of the workers`,
        { cause: error },
      );
    if (error instanceof errors.WorkflowUpdateRPCTimeoutOrCancelledError)
      throw new Refusal(
        `no worker has answered within ${orderedWithin / 1_000} s, and nothing tells whether the order was taken: see which workers live (kubectl maintenance workers), and repeat it`,
        { cause: error },
      );
    if (error instanceof errors.WorkflowUpdateFailedError)
      throw new Refusal(`${title}: ${wordsOf(error.cause ?? error)}`, { cause: error });
    throw error;
  } finally {
    await connection.close();
  }
}

/** For the history: whom the apiserver takes whoever gives the order for, as far as it tells. */
async function ownIdentity(kube: Kube): Promise<string> {
  const user = (await ownUsername(kube)) ?? userInfo().username;
  return `user ${user} (kubectl-maintenance, ${process.pid}@${hostname()})`;
}
