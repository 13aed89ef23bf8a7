import type { ConnectionLike } from '@temporalio/client';
import type { Log } from '../kube/log.ts';
import { Code, grpcStatusOf, oneLine } from '../temporal-config/connectionErrors.ts';
import {
  addAttributes,
  type AttributeType,
  createAttributesCommand,
  declaredNamespace,
  knownAttributes,
} from '../temporal-config/namespace.ts';

type Attributes = Readonly<Record<string, AttributeType>>;

/**
 * Registers the search attributes that the workflows set and the namespace does not have, before the first workflow task: an unknown one blocks
 * every run that sets it. Rejects with an Error of one line that says how to register them if the worker may not do that.
 */
export async function ensureSearchAttributes(
  connection: ConnectionLike,
  namespace: string,
  log: Log,
): Promise<void> {
  const required = declaredNamespace().searchAttributes;
  const missing = await missingAttributes(connection, namespace, required);
  const names = Object.keys(missing);
  if (names.length === 0) return;
  await addAttributes(connection, namespace, missing).catch((error: unknown) => {
    const reason = `search attributes ${names.join(', ')} of namespace ${namespace} are missing, and this worker could not register them (${oneLine(error)})`;
    const remedy = `${createAttributesCommand(namespace, required)}; in Temporal Cloud use its UI or tcld namespace search-attributes add`;
    throw new Error(`${reason}: ${remedy}`, { cause: error });
  });
  log.info('Search attributes registered', { namespace, names });
}

/** Rejects with an Error of one line if an attribute has another type. */
async function missingAttributes(
  connection: ConnectionLike,
  namespace: string,
  required: Attributes,
): Promise<Attributes> {
  const known = await knownAttributes(connection, namespace).catch(ignoreNotPermitted);
  if (known === undefined) return unknownToVisibility(connection, namespace, required);
  for (const [name, type] of Object.entries(required))
    if (known.has(name) && known.get(name) !== type)
      throw new Error(
        `${name} has type ${known.get(name) ?? 'unknown'} and must have type ${type}: use another namespace, or remove it with temporal operator search-attribute remove --namespace ${namespace} --name ${name}`,
      );
  return Object.fromEntries(Object.entries(required).filter(([name]) => !known.has(name)));
}

/** Temporal Cloud has no operator service for its users, and other clusters may deny it to workers. */
function ignoreNotPermitted(error: unknown): undefined {
  const { code } = grpcStatusOf(error) ?? {};
  if (code !== Code.PermissionDenied && code !== Code.Unauthenticated && code !== Code.Unimplemented)
    throw error;
}

/** Finds attributes that do not exist by queries for them, which Temporal rejects. */
async function unknownToVisibility(
  { workflowService }: ConnectionLike,
  namespace: string,
  required: Attributes,
): Promise<Attributes> {
  const missing: [string, AttributeType][] = [];
  for (const [name, type] of Object.entries(required))
    try {
      await workflowService.countWorkflowExecutions({ namespace, query: `${name} = "none"` });
    } catch (error) {
      if (grpcStatusOf(error)?.code !== Code.InvalidArgument) throw error;
      missing.push([name, type]);
    }
  return Object.fromEntries(missing);
}
