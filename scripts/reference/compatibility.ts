import { existsSync, readFileSync } from 'node:fs';
import { features, policyFeature, servesPolicies } from '../matrix/features.ts';
import { type Outcome, type Results, resultsFile } from '../matrix/results.ts';

/** Returns docs/reference/compatibility.md, from the results of `npm run matrix`. */
export function compatibilityReference(): string {
  const results = JSON.parse(existsSync(resultsFile) ? readFileSync(resultsFile, 'utf8') : '{}') as Results;
  const versions = Object.keys(results);
  const header = ['feature', ...versions.map((version) => results[version]?.release ?? version)];
  const rows = [...features, policyFeature].map(({ name }) => [
    name,
    ...versions.map((version) => cell(results[version]?.features[name], version)),
  ]);
  const table = [header, header.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`);
  return `# Compatibility with versions of Kubernetes

\`npm run matrix\` runs the tests of each feature with each version of Kubernetes, on a real control plane of that version, with its kubectl. A cell has the number of
tests that passed.

${versions.length === 0 ? 'No results of a complete run are committed yet.' : table.join('\n')}

## What differs

| | from 1.36 on | 1.33 to 1.35 |
|---|---|---|
| mutations: drain plans, who requested a change, taints of new nodes, gates of DaemonSet pods | MutatingAdmissionPolicies, in the apiserver | webhooks of the admission server |
| without an admission server, users who may delete every node | create and change maintenances | change nothing |
| without an admission server, a pod of a DaemonSet on a drained node | stays away | returns, and is evacuated again |
| without an admission server, a new node with readiness gates | has the taint from its creation on | gets it from the worker, some seconds later |
| evictions, validation, permissions | the same | the same |

[ADR 47](../adr/0047-replace-mutating-policies-by-webhooks-before-1.36.md) says why. \`kubectl maintenance doctor\` and condition \`MutationsInApiserver\` of each
NodeMaintenance say when webhooks replace the policies. Kubernetes before 1.33 is rejected: the worker waits, and logs this.
`;
}

function cell(outcome: Outcome | undefined, version: string): string {
  if (outcome === undefined) return servesPolicies(version) ? 'not run' : 'webhooks';
  return outcome.failed === 0 ? `${outcome.passed} passed` : `**${outcome.failed} failed**`;
}
