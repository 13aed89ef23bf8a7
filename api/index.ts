/** The package @node-maintenance/api, documented in README.md. Its published types are generated from the CRDs (scripts/packages/apiTypes.ts). */
export type { Condition, KubeObject, ObjectMeta, OwnerReference } from './core.ts';
export type { Evacuation, EvacuationSpec, EvacuationStatus } from './evacuation.ts';
export type {
  MaintenanceWindow,
  MaintenanceWindowSpec,
  MaintenanceWindowStatus,
} from './maintenanceWindow.ts';
export {
  EVACUATION,
  INSTIGATOR_FINALIZER,
  MAINTENANCE_FINALIZER,
  MAINTENANCE_GATE,
  MAINTENANCE_WINDOW,
  NODE_DISRUPTION_BUDGET,
  NODE_DISRUPTION_BUDGET_NAME,
  NODE_LEASE_NAMESPACE,
  NODE_MAINTENANCE,
  NODE_READINESS,
  NODE_READINESS_POLICY,
  READINESS_CONDITION,
  READINESS_TAINT,
} from './names.ts';
export type {
  NodeDisruptionBudget,
  NodeDisruptionBudgetSpec,
  NodeDisruptionBudgetStatus,
} from './nodeDisruptionBudget.ts';
export type { NodeMaintenance, NodeMaintenanceSpec, NodeMaintenanceStatus } from './nodeMaintenance.ts';
export type { NodeReadiness, NodeReadinessStatus } from './nodeReadiness.ts';
export type { NodeReadinessPolicy, NodeReadinessPolicyStatus } from './nodeReadinessPolicy.ts';
