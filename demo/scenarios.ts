import { runScenario as deadline } from './deadline/scenario.ts';
import { runScenario as drain } from './drain/scenario.ts';
import { runScenario as evacuators } from './evacuators/scenario.ts';
import { runScenario as overlap } from './overlap/scenario.ts';
import type { EnvironmentOptions } from './environment.ts';
import type { Section } from './table.ts';

export interface Scenario {
  /** One line for `--help`. */
  summary: string;
  /** Runs the scenario from an empty directory to the end. Returns the verified facts. */
  run(options: EnvironmentOptions): Promise<Section[]>;
}

export const scenarioNames = ['drain', 'overlap', 'evacuators', 'deadline'] as const;
export type ScenarioName = (typeof scenarioNames)[number];

export const scenarios: Readonly<Record<ScenarioName, Scenario>> = {
  drain: {
    summary: 'drains two nodes, kills the worker during the drain, and uncordons the nodes',
    run: drain,
  },
  overlap: {
    summary:
      'runs the example of KEP-4212 with three maintenances that share a node, and compares each snapshot',
    run: overlap,
  },
  evacuators: {
    summary:
      'evacuates a single replica without downtime, a data migration, a pod blocked by a budget, and a DaemonSet pod',
    run: evacuators,
  },
  deadline: {
    summary:
      'drains a node that budgets block: owners are notified, what is left is deleted at the deadline, and a volume is detached late',
    run: deadline,
  },
};
