/** A feature, and the files of tests that execute it. */
export interface Feature {
  name: string;
  files: readonly string[];
}

/** The rows of docs/reference/compatibility.md. */
export const features: readonly Feature[] = [
  { name: 'Starting, advancing and completing a maintenance', files: ['test/e2e/start.test.ts'] },
  { name: 'Drain, PodDisruptionBudgets', files: ['test/e2e/blocked.test.ts', 'test/e2e/cancel.test.ts'] },
  { name: 'Overlapping maintenances', files: ['test/e2e/overlap.test.ts'] },
  { name: 'DaemonSets', files: ['test/e2e/daemonset.test.ts'] },
  { name: 'Deployments with one replica', files: ['test/e2e/deployment.test.ts'] },
  { name: 'Maintenance Leases', files: ['test/e2e/leases.test.ts'] },
  { name: 'Readiness gates', files: ['test/e2e/readiness.test.ts'] },
  { name: 'Maintenance windows', files: ['test/e2e/windows.test.ts', 'test/api/windowAuthorPolicy.test.ts'] },
  {
    name: 'Admission of unprivileged users',
    files: ['test/admission/requests.test.ts', 'test/e2e/rbac.slow.test.ts'],
  },
  {
    name: 'API with mutations by webhooks',
    files: ['test/api/mutatingWebhooks.slow.test.ts', 'test/api/maintenanceInput.test.ts'],
  },
  { name: 'Helm chart', files: ['test/chart/chart.slow.test.ts'] },
  { name: 'kubectl plugin', files: ['test/e2e/cli.test.ts'] },
];

/** The apiserver serves the policies since 1.36. */
export const policyFeature: Feature = {
  name: 'API with mutations by policies in the apiserver',
  files: [
    'test/api/crd.test.ts',
    'test/api/daemonSetPolicies.test.ts',
    'test/api/drainPlanPolicy.test.ts',
    'test/api/readiness.test.ts',
    'test/api/requester.test.ts',
  ],
};

/** Returns whether a version such as `1.35` serves MutatingAdmissionPolicies. */
export function servesPolicies(version: string): boolean {
  return Number(version.split('.')[1]) >= 36;
}

/** Returns the features that are tested with a version. */
export function featuresOf(version: string): Feature[] {
  return servesPolicies(version) ? [...features, policyFeature] : [...features];
}
