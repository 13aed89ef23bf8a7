import { Command, Option } from 'commander';
import { stringify } from 'yaml';
import { SYSTEM_NAMESPACE } from '../api/names.ts';
import { readInstallation } from './read.ts';
import {
  type InstallationOptions,
  podSecurityLevels,
  type PodSecurityLevel,
  renderManifests,
} from './render.ts';

/** npm run -s manifests -- --namespace NAME | kubectl apply --server-side -f - */

interface Options {
  namespace: string;
  webhookHost: string[];
  windowJobs: boolean;
  evictionRequests: boolean;
  mutatingPolicies: boolean;
  readinessGates: boolean;
  workPodSecurity?: PodSecurityLevel;
}

const options = new Command('npm run manifests --')
  .description('Prints the manifests of deploy/ for an installation, for kubectl apply --server-side -f -')
  .option('--namespace <name>', 'namespace of the worker and the admission server', SYSTEM_NAMESPACE)
  .option(
    '--webhook-host <host...>',
    'hosts at which an admission server outside the cluster may register itself',
    [],
  )
  .option('--window-jobs', 'also deploy/window-jobs, which lets maintenance windows run Jobs', false)
  .option(
    '--eviction-requests',
    'also deploy/eviction-requests, for workers with EVICTION_REQUEST_CONTROLLER or EVICTION_REQUEST_RESPONDERS=true',
    false,
  )
  .addOption(
    new Option(
      '--work-pod-security <level>',
      'with --window-jobs: pod security of the namespace in which Jobs of windows run; default: baseline',
    ).choices(podSecurityLevels),
  )
  .option(
    '--no-mutating-policies',
    'webhooks in place of MutatingAdmissionPolicies, which Kubernetes serves since 1.36',
  )
  .option('--no-readiness-gates', 'nothing that taints new nodes, for workers with READINESS_GATES=false')
  .parse()
  .opts<Options>();

try {
  const { namespace, webhookHost, windowJobs, workPodSecurity } = options;
  const { mutatingPolicies, readinessGates, evictionRequests } = options;
  if (workPodSecurity !== undefined && !windowJobs)
    throw new Error('--work-pod-security: requires --window-jobs');
  const installation: InstallationOptions = {
    namespace,
    webhookHosts: webhookHost,
    windowJobs: windowJobs
      ? { kind: 'Enabled', podSecurity: workPodSecurity ?? 'baseline' }
      : { kind: 'None' },
    mutatingPolicies,
    readinessGates,
    evictionRequests,
  };
  const rendered = renderManifests(await readInstallation(installation), installation);
  // Long CEL expressions stay on one line, as in deploy/.
  const documents = rendered.map((manifest) =>
    stringify(manifest, { lineWidth: 0, aliasDuplicateObjects: false }),
  );
  process.stdout.write(documents.join('---\n'));
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
