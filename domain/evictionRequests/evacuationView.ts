import type { Evacuation } from '../../api/evacuation.ts';
import type { LifecycleEviction } from '../../api/lifecycle.ts';
import { EVACUATION, IMPERATIVE_RESPONDER, RESPONDER_HEARTBEAT_DEADLINE_SECONDS } from '../../api/names.ts';
import { respondersOf } from './responders.ts';

/**
 * Returns an Eviction as the Evacuation that a responder of this name would have got: the same function serves both APIs. It exists nowhere, and
 * has the name and UID of the Eviction.
 */
export function evacuationView(
  { metadata, spec, status }: Readonly<LifecycleEviction>,
  name: string,
): Evacuation {
  const { targetResponders, responders } = respondersOf({ ...(status && { status }) });
  const own = responders.find((one) => one.name === name);
  const { startTime, heartbeatTime, expectedCompletionTime, completionTime, message = '' } = own ?? {};
  const { apiVersion, kind } = EVACUATION;
  return {
    apiVersion,
    kind,
    metadata,
    spec: {
      podRef: spec.target.pod,
      progressDeadlineSeconds: RESPONDER_HEARTBEAT_DEADLINE_SECONDS,
      evacuators: targetResponders
        .filter((one) => one.name !== IMPERATIVE_RESPONDER)
        .map((one) => ({ evacuatorClass: one.name, priority: one.priority, role: 'responder' })),
    },
    status: {
      activeEvacuatorClass: name,
      activeEvacuatorCompleted: completionTime !== undefined,
      ...(startTime !== undefined && { activeEvacuatorSince: startTime }),
      ...(heartbeatTime !== undefined && { evacuationProgressTimestamp: heartbeatTime }),
      ...(expectedCompletionTime !== undefined && { expectedEvacuationFinishTime: expectedCompletionTime }),
      failedEvictionCounter: 0,
      message,
      conditions: [],
    },
  };
}
