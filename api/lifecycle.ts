import * as z from 'zod';
import { conditions } from './conditions.ts';
import type { KubeObject } from './core.ts';
import { MAX_POD_RESPONDERS, MAX_REQUESTERS, MAX_RESPONDER_MESSAGE_LENGTH } from './names.ts';
import { int32, int64, objectName, oneOf, text, timestamp } from './schema.ts';

/**
 * Schemas of lifecycle.k8s.io/v1alpha1, as Kubernetes 1.37 serves it (KEP-4563). The apiserver checks these objects; the schemas give the types,
 * and check what others write before this project decides from it.
 */

/** A name such as `acme.io/foo`: a DNS subdomain and a label key. */
const participantName = () =>
  text(317).regex(
    /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/,
    { error: 'expected a name with a domain, such as acme.io/foo' },
  );

const uid = () =>
  z.string().regex(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, { error: 'expected the UID of a pod' });

const Target = z.strictObject({ pod: z.strictObject({ name: objectName(), uid: uid() }) });
/** The pod that is to be evicted. Another pod of the same name is not. */
export type EvictionTarget = z.infer<typeof Target>;

const Intent = oneOf(['Eviction', 'Withdrawn']);
export type EvictionIntent = z.infer<typeof Intent>;

export const EvictionRequestSpec = z.strictObject({
  target: Target,
  requester: participantName(),
  intent: Intent,
});
export type EvictionRequestSpec = z.infer<typeof EvictionRequestSpec>;

export const EvictionRequestStatus = z.strictObject({
  conditions: conditions('Conditions TargetEvicted and Failed. They can be reset.').optional(),
  observedGeneration: int64().optional(),
});
export type EvictionRequestStatus = z.infer<typeof EvictionRequestStatus>;

export const EvictionSpec = z.strictObject({ target: Target });
export type EvictionSpec = z.infer<typeof EvictionSpec>;

const Requester = z.strictObject({ name: participantName(), intent: Intent });
export type Requester = z.infer<typeof Requester>;

const ResponderState = oneOf(['Inactive', 'Active', 'Interrupted', 'Canceled', 'Completed']);
export type ResponderState = z.infer<typeof ResponderState>;

const TargetResponder = z.strictObject({
  name: participantName(),
  priority: int32(0, 100_000),
  state: ResponderState,
});
export type TargetResponder = z.infer<typeof TargetResponder>;

const ResponderStatus = z.strictObject({
  name: participantName(),
  startTime: timestamp().optional(),
  heartbeatTime: timestamp().optional(),
  expectedCompletionTime: timestamp().optional(),
  completionTime: timestamp().optional(),
  message: text(MAX_RESPONDER_MESSAGE_LENGTH).optional(),
});
export type ResponderStatus = z.infer<typeof ResponderStatus>;

export const EvictionStatus = z.strictObject({
  conditions: conditions('Conditions TargetEvicted and Failed. True is final.').optional(),
  observedGeneration: int64().optional(),
  requesters: z.array(Requester).max(MAX_REQUESTERS).optional(),
  targetResponders: z
    .array(TargetResponder)
    .max(MAX_POD_RESPONDERS + 1)
    .optional(),
  responders: z
    .array(ResponderStatus)
    .max(MAX_POD_RESPONDERS + 1)
    .optional(),
});
export type EvictionStatus = z.infer<typeof EvictionStatus>;

/** An entry of `Pod.spec.evictionResponders`, which is set when the pod is created, and immutable. */
export const EvictionResponder = z.strictObject({ name: participantName(), priority: int32(1000, 100_000) });
export type EvictionResponder = z.infer<typeof EvictionResponder>;

/** The objects as stored. `status` is absent until a controller writes it. */
export interface EvictionRequest extends KubeObject {
  spec: EvictionRequestSpec;
  status?: EvictionRequestStatus;
}

/** The eviction of one pod for all who request it. Its kind is `Eviction`. */
export interface LifecycleEviction extends KubeObject {
  spec: EvictionSpec;
  status?: EvictionStatus;
}
