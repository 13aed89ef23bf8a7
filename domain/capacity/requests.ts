import type { Node, PodScheduling, ResourceQuantities } from '../../api/core.ts';
import { memoized } from '../common/memoized.ts';
import { quantityOf } from './quantity.ts';

/** Amounts by resource: thousandths of cpu, units of everything else. */
export type Amounts = ReadonlyMap<string, number>;

/** The resource that limits the number of pods on a node. */
export const PODS = 'pods';

/**
 * Returns what the scheduler reserves for a pod: its containers and sidecars together, or an init container with the sidecars that
 * were started before it, whichever is more; the requests of the whole pod, where it has some; and its overhead.
 */
export const requestsOf = memoized((scheduling: PodScheduling): Amounts => {
  const { containers = [], initContainers = [], podRequests = {}, overhead = {} } = scheduling;
  let running = sumOf(containers.map(amountsOf));
  let sidecars: Amounts = new Map();
  let starting: Amounts = new Map();
  for (const { requests, isSidecar } of initContainers) {
    const own = amountsOf(requests);
    if (isSidecar) {
      running = sumOf([running, own]);
      sidecars = sumOf([sidecars, own]);
    }
    starting = maximumOf(starting, isSidecar ? sidecars : sumOf([sidecars, own]));
  }
  const ofContainers = maximumOf(running, starting);
  const ofPod = new Map([...ofContainers, ...amountsOf(podRequests)]);
  return withoutZeros(sumOf([ofPod, amountsOf(overhead)]));
});

/** Returns what pods can use of a node. */
export const allocatableOf = memoized(({ status }: Node): Amounts => amountsOf(status?.allocatable ?? {}));

function amountsOf(quantities: ResourceQuantities): Amounts {
  return new Map(
    Object.entries(quantities).map(([name, text]) => [
      name,
      quantityOf(text, name === 'cpu' ? 'Milli' : 'One'),
    ]),
  );
}

function sumOf(all: readonly Amounts[]): Amounts {
  const total = new Map<string, number>();
  for (const amounts of all)
    for (const [name, amount] of amounts) total.set(name, (total.get(name) ?? 0) + amount);
  return total;
}

function maximumOf(a: Amounts, b: Amounts): Amounts {
  const names = new Set([...a.keys(), ...b.keys()]);
  return new Map([...names].map((name) => [name, Math.max(a.get(name) ?? 0, b.get(name) ?? 0)]));
}

function withoutZeros(amounts: Amounts): Amounts {
  return new Map([...amounts].filter(([, amount]) => amount > 0));
}
