import type { Component } from '../api/names.ts';
import type { Kube } from '../kube/client.ts';
import type { Config } from './config.ts';
import { install, installationProblems, versionProblem, webhookProblems } from './install.ts';
import { retryUntilAvailable, type WaitOptions } from './startupRetry.ts';

/** Waits for the Kubernetes API and for the installation. Applies the installation first with --install. */
export async function prepareCluster(
  kube: Kube,
  { config, component }: { config: Config; component: Component },
  wait: WaitOptions,
): Promise<void> {
  const { log, signal } = wait;
  const { namespace, windowJobs, readinessGates } = config;
  // Retries rejected requests too: an apiserver that is starting rejects what it allows a moment later.
  const api = { name: 'the Kubernetes API', remedy: 'check KUBECONFIG and the apiserver', ...wait };
  const version = await retryUntilAvailable(api, () => kube.serverVersion({ signal }));
  log.info('Connected to Kubernetes', { version });
  const required = { name: 'Kubernetes 1.33 or later', remedy: 'upgrade the control plane', ...wait };
  await retryUntilAvailable(required, async () => {
    const problem = versionProblem(await kube.serverVersion({ signal }));
    if (problem !== undefined) throw new Error(problem);
  });
  if (config.install)
    await install(kube, { namespace, windowJobs, readinessGates, webhookHosts: hostsOf(config) }, log);
  const installation = { name: 'CRDs, policies and RBAC', remedy: 'npm start -- --install applies them' };
  await untilWithoutProblems(installation, wait, () =>
    installationProblems({ kube, namespace, component, readinessGates }),
  );
}

/** Waits for the webhook configurations of the installation, with the client of admission: the worker may not read them. */
export function checkWebhooks(
  kube: Kube,
  { namespace, readinessGates }: Config,
  wait: WaitOptions,
): Promise<void> {
  const webhooks = {
    name: 'webhook configurations',
    remedy:
      'npm start -- --install applies them; to read them, admission needs the permissions of ServiceAccount node-maintenance-admission (--admission-kubeconfig)',
  };
  return untilWithoutProblems(webhooks, wait, () => webhookProblems({ kube, namespace, readinessGates }));
}

function untilWithoutProblems(
  dependency: { name: string; remedy: string },
  wait: WaitOptions,
  problemsOf: () => Promise<string[]>,
): Promise<void> {
  return retryUntilAvailable({ ...dependency, ...wait }, async () => {
    const problems = await problemsOf();
    if (problems.length > 0) throw new Error(problems.join('; '));
  });
}

/** The host that admission servers with the same settings register. */
function hostsOf({ webhookHost }: Config): string[] {
  return webhookHost.kind === 'Service' ? [] : [webhookHost.host];
}
