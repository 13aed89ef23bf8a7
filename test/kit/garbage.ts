import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Resolves when everything that nothing refers to any more has been collected, so that its WeakRefs are empty. */
export async function garbageCollected(): Promise<void> {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  // What was created in this turn is not collected before its end.
  await nextTurn();
  collect();
}
