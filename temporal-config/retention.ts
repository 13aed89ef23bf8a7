/** The part of a description of a namespace that contains its retention. */
interface Described {
  config?: { workflowExecutionRetentionTtl?: { seconds?: unknown } | null } | null;
}

/** Returns for how many seconds the namespace keeps the histories of closed runs. */
export function retentionSecondsOf({ config }: Described): number {
  return Number(config?.workflowExecutionRetentionTtl?.seconds ?? 0);
}
