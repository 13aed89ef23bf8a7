import type { LifecycleEviction } from '../../api/lifecycle.ts';
import { FIELD_MANAGER, IMPERATIVE_RESPONDER } from '../../api/names.ts';
import { type Managed, managersOf } from '../common/managedFields.ts';
import { compareNames } from '../common/names.ts';
import { isFinal } from '../evacuation/evictionRequest.ts';
import { isRequested } from './participants.ts';

/** Another program that has written fields that belong to a controller, and when it did so last. */
export interface OtherWriter {
  readonly manager: string;
  readonly timeMs: number;
}

/** An Eviction with those who have written it, in place of its managedFields. */
export interface ObservedEviction extends LifecycleEviction {
  /** Programs that have written fields of the controller of EvictionRequests. */
  readonly controllers: readonly OtherWriter[];
  /** Programs that have written the progress that the imperative responder reports. */
  readonly imperativeResponders: readonly OtherWriter[];
}

const statusFields = ['conditions', 'observedGeneration', 'requesters', 'targetResponders'];
/**
 * "Populated by responders and evictionrequest-controller": the fields of the controller, without those of the responders. Not the spec: a user
 * may create an Eviction, which ours adopts when its pod is requested.
 */
const controllerPaths = statusFields.map((field) => ['f:status', `f:${field}`]);
/** The controller writes the name and startTime of each entry, and the responder the rest. */
const imperativePaths = ['heartbeatTime', 'completionTime', 'message'].map((field) => [
  'f:status',
  'f:responders',
  `k:${JSON.stringify({ name: IMPERATIVE_RESPONDER })}`,
  `f:${field}`,
]);

/** Returns the managers of a controller's fields of an Eviction that are not this project. */
export function evictionControllers(object: Managed): OtherWriter[] {
  return othersOf(object, controllerPaths);
}

export function imperativeResponders(object: Managed): OtherWriter[] {
  return othersOf(object, imperativePaths);
}

function othersOf(object: Managed, paths: readonly (readonly string[])[]): OtherWriter[] {
  return managersOf(object, paths)
    .filter(({ manager }) => manager !== FIELD_MANAGER)
    .toSorted((a, b) => compareNames(a.manager, b.manager));
}

/**
 * Returns the name of another controller that acts on EvictionRequests: one that has written an Eviction in progress, or any Eviction since that
 * time. A controller that was switched off before leaves only Evictions that are final. An Eviction that nobody has requested is no evidence.
 */
export function otherController(eviction: ObservedEviction, sinceMs: number): string | undefined {
  if (!isRequested(eviction)) return undefined;
  return eviction.controllers.find((one) => !isFinal(eviction) || isSince(one, sinceMs))?.manager;
}

/** Returns the name of another program that evicts pods as the imperative responder. */
export function otherImperativeResponder(object: ObservedEviction, sinceMs: number): string | undefined {
  return object.imperativeResponders.find((one) => !isFinal(object) || isSince(one, sinceMs))?.manager;
}

/** Compares in whole seconds, as the apiserver stores times. */
function isSince({ timeMs }: OtherWriter, sinceMs: number): boolean {
  return timeMs >= Math.floor(sinceMs / 1_000) * 1_000;
}
