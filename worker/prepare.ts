import { applyInstallation } from '../domain/common/applyInstallation.ts';
import type { Component } from '../api/names.ts';
import { versionProblem } from '../domain/common/kubernetesVersion.ts';
import type { InstallationReview } from '../domain/installation/review.ts';
import type { Kube } from '../kube/client.ts';
import type { Config } from './config.ts';
import { install } from './install.ts';
import { type InstallationCheck, reviewManifests, reviewWebhooks } from './installation.ts';
import { packageVersion } from '../process/packageVersion.ts';
import { retryUntilAvailable, type WaitOptions } from './startupRetry.ts';

/**
 * Waits for the Kubernetes API and for an installation that this release works with. Applies the installation first with --install. Returns what to
 * check, and the result of the first check.
 */
export async function prepareCluster(
  kube: Kube,
  { config, component }: { config: Config; component: Component },
  wait: WaitOptions,
): Promise<{ check: InstallationCheck; review: InstallationReview }> {
  const { log, signal } = wait;
  const { namespace, windowJobs, readinessGates, evictionRequestResponders: evictionRequests } = config;
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
    await install(
      kube,
      { namespace, windowJobs, readinessGates, evictionRequests, webhookHosts: hostsOf(config) },
      log,
    );
  const installation = {
    name: 'CRDs, policies and RBAC',
    remedy: `${applyInstallation} applies them`,
  };
  const check = { kube, namespace, component, readinessGates, release: packageVersion() };
  return { check, review: await untilWithoutProblems(installation, wait, () => reviewManifests(check)) };
}

/** Waits for the webhook configurations of the installation, with the client of admission: the worker may not read them. */
export async function checkWebhooks(
  kube: Kube,
  { namespace, readinessGates }: Config,
  wait: WaitOptions,
): Promise<void> {
  const webhooks = {
    name: 'webhook configurations',
    remedy: `${applyInstallation} applies them; to read them, admission needs the permissions of ServiceAccount node-maintenance-admission (--admission-kubeconfig)`,
  };
  const check = { kube, namespace, readinessGates, release: packageVersion() };
  const { difference } = await untilWithoutProblems(webhooks, wait, () => reviewWebhooks(check));
  if (difference !== undefined)
    wait.log.warn('The webhook configurations belong to another release', { difference });
}

function untilWithoutProblems(
  dependency: { name: string; remedy: string },
  wait: WaitOptions,
  reviewed: () => Promise<InstallationReview>,
): Promise<InstallationReview> {
  return retryUntilAvailable({ ...dependency, ...wait }, async () => {
    const review = await reviewed();
    if (review.problems.length > 0) throw new Error(review.problems.join('; '));
    return review;
  });
}

/** The host that admission servers with the same settings register. */
function hostsOf({ webhookHost }: Config): string[] {
  return webhookHost.kind === 'Service' ? [] : [webhookHost.host];
}
