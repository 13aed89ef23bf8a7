import type { Attempt, ConformanceCluster } from './cluster.ts';

/** The component that is examined: the apiserver, the controller of EvictionRequests, or the imperative responder. */
export type Subject = 'apiserver' | 'controller' | 'imperative responder';

/** One rule or promise, and what examines it. */
export interface Check {
  readonly subject: Subject;
  /** One sentence: what holds. */
  readonly rule: string;
  /** Takes about this long, and is left out unless it is asked for. */
  readonly minutes?: number;
  /** Rejects if the rule does not hold. Resolves with why it cannot be examined in this cluster. */
  readonly run: (cluster: ConformanceCluster) => Promise<string | void>;
}

interface ValidationRule {
  readonly rule: string;
  /** Writes what the rule allows. */
  readonly legal: (cluster: ConformanceCluster) => Promise<unknown>;
  readonly illegal: readonly Attempt[];
}

/** Returns a check that writes what the rule allows, and attempts what it forbids. */
export function validation({ rule, legal, illegal }: ValidationRule): Check {
  return {
    subject: 'apiserver',
    rule,
    run: async (cluster) => {
      await legal(cluster);
      for (const attempt of illegal) await cluster.rejects(attempt);
    },
  };
}
