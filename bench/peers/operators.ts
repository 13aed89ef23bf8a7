import type { OperatorName } from '../targetNames.ts';
import { nodeMaintenanceOperator } from './nodeMaintenanceOperator.ts';
import { nodeMaintenanceOrchestrator } from './nodeMaintenanceOrchestrator.ts';
import type { Operator } from './operator.ts';

export const operators: Readonly<Record<OperatorName, Operator>> = {
  'node-maintenance-operator': nodeMaintenanceOperator as Operator,
  'node-maintenance-orchestrator': nodeMaintenanceOrchestrator as Operator,
};
