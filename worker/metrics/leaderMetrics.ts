import type { Registry } from 'prom-client';
import type { LeaderElectionMetrics } from '../../kube/leaderElection.ts';
import { metricDefinitions } from './definitions.ts';
import { registerCounter, registerGauge } from './register.ts';

/** Registers the metrics of leader elections, and returns what fills them. */
export function observeElections(registry: Registry): LeaderElectionMetrics {
  /** Name of the Lease -> whether this process leads. */
  const elections = new Map<string, boolean>();
  registerGauge(registry, metricDefinitions.leaderStatus, (gauge) => {
    for (const [name, leads] of elections) gauge.set({ name }, Number(leads));
  });
  const acquired = registerCounter(registry, metricDefinitions.leaderAcquired);
  return {
    joined: (name) => {
      elections.set(name, false);
      acquired.inc({ name }, 0);
    },
    acquired: (name) => {
      elections.set(name, true);
      acquired.inc({ name });
    },
    ended: (name) => elections.set(name, false),
  };
}
