/**
 * Whether the apiserver changes objects by the MutatingAdmissionPolicies of deploy/. Otherwise webhooks of the admission server replace them
 * (ADR 47): where policies are not served, before Kubernetes 1.36, or not installed, as after an upgrade of the control plane.
 */
export type MutatingPolicies = 'Installed' | 'NotInstalled' | 'NotServed';

/** Guarantees for maintenances that are missing while webhooks replace policies and no admission server runs (docs/reference/compatibility.md). */
export const weakerForMaintenances = [
  'only the worker can create or change maintenances',
  'a pod of a DaemonSet returns to a drained node, and is evacuated again',
] as const;

/** The same for what is no maintenance. */
export const weakerForNodes = [
  'a new node with readiness gates gets the taint from the worker, some seconds late',
] as const;
