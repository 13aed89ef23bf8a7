import { NODE_LEASE_NAMESPACE } from '../../../api/names.ts';
import type { AuditLog, Write } from './audit.ts';
import { isOfWorker, podsIn, replay, requestedPodOf } from './cluster.ts';
import type { Violation } from './invariants.ts';

/** No node is cordoned or uncordoned, and no pod on it asked to leave, while its maintenance Lease is not ours. */
export function withoutLease(log: AuditLog): Violation[] {
  const pods = podsIn(log);
  const violations: Violation[] = [];
  // A killed apiserver may have stored these without an answer.
  const unknown = log.unknown.filter(
    ({ resource, namespace }) => resource === 'leases' && namespace === NODE_LEASE_NAMESPACE,
  );
  replay(log, (write, state) => {
    const action = actionOf(write, (uid) => pods.get(uid)?.node);
    if (action === undefined || state.isHeld(action.node, write.receivedMs)) return;
    const mayBeHeld = unknown.some(
      (lease) => isOfWorker(lease) && lease.name === action.node && lease.receivedMs <= write.answeredMs,
    );
    if (mayBeHeld) return;
    const lease = state.leases.get(action.node);
    const holder = lease === undefined || lease.holder === '' ? 'nobody' : `"${lease.holder}"`;
    const until =
      lease === undefined || lease.untilMs === 0 ? '' : ` until ${new Date(lease.untilMs).toISOString()}`;
    violations.push({
      invariant: 'lease',
      message: `${action.what} while the maintenance Lease of ${action.node} was held by ${holder}${until}`,
      events: [...(lease === undefined ? [] : [lease.last]), write.event],
    });
  });
  return violations;
}

function actionOf(
  write: Write,
  nodeOf: (podUid: string) => string | undefined,
): { what: string; node: string } | undefined {
  const asked = requestedPodOf(write);
  if (asked !== undefined) {
    const node = nodeOf(asked.uid);
    return node === undefined ? undefined : { what: `Pod ${asked.name} was asked to leave`, node };
  }
  if (!isOfWorker(write) || write.resource !== 'nodes' || write.verb === 'delete') return undefined;
  // As a merge patch and as a JSON patch.
  const changes = /"unschedulable"|"\/spec\/unschedulable"/.test(JSON.stringify(write.request ?? {}));
  return changes ? { what: `Node ${write.name} was cordoned or uncordoned`, node: write.name } : undefined;
}
