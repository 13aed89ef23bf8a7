/** The state of the agent that its metrics show. */
export interface AgentState {
  /** Manifests that are held, and that are to be put back. */
  readonly held: number;
  /** Seconds since the apiserver last answered, while manifests are held; 0 otherwise. */
  readonly silentSeconds: number;
}

interface AgentMetric {
  readonly name: string;
  readonly help: string;
  readonly valueOf: (state: AgentState) => number;
}

/** Defines every metric of the agent, in the order of the documentation. All are gauges without labels. */
export const agentMetrics: readonly AgentMetric[] = [
  {
    name: 'node_maintenance_agent_held_manifests',
    help: 'Manifests of static pods in the hold directory that are to be put back.',
    valueOf: ({ held }) => held,
  },
  {
    name: 'node_maintenance_agent_silent_seconds',
    help: 'Time since the apiserver last answered, while manifests are held; 0 otherwise.',
    valueOf: ({ silentSeconds }) => silentSeconds,
  },
];

/** Returns the metrics in the text format of Prometheus. */
export function metricsText(state: AgentState): string {
  return agentMetrics
    .map(
      ({ name, help, valueOf }) =>
        `# HELP ${name} ${help}\n# TYPE ${name} gauge\n${name} ${valueOf(state)}\n`,
    )
    .join('');
}
