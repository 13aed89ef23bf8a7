/** The peers that are operators of their own, by the name of the folder of their sources. */
export const operatorNames = ['node-maintenance-operator', 'node-maintenance-orchestrator'] as const;
export type OperatorName = (typeof operatorNames)[number];

export const targetNames = [
  'ours',
  'ours-lifecycle',
  'kubectl',
  'kubectl-per-node',
  ...operatorNames,
  'floor',
] as const;
export type TargetName = (typeof targetNames)[number];

/** Reports whether the target is this project: by Evacuations, or by EvictionRequests. */
export function isOurs(name: TargetName): boolean {
  return name === 'ours' || name === 'ours-lifecycle';
}

export function isOperator(name: TargetName): name is OperatorName {
  return (operatorNames as readonly string[]).includes(name);
}
