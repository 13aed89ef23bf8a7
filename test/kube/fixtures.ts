import { readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { connectKube, type ConnectOptions, type Kube } from '../../kube/client.ts';
import { isKubeError } from '../../kube/errors.ts';
import type { Log } from '../../kube/log.ts';
import { type RawPod, resources } from '../../kube/resources.ts';
import { until } from '../../sandbox/until.ts';
import { serviceAccounts } from '../kit/resources.ts';

export interface LogRecorder extends Log {
  readonly lines: { level: string; message: string; fields?: Record<string, unknown> | undefined }[];
}

export function recordedLog(): LogRecorder {
  const lines: LogRecorder['lines'] = [];
  const at = (level: string) => (message: string, fields?: Record<string, unknown>) => {
    lines.push({ level, message, fields });
  };
  return { lines, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

export function connect(kubeconfig: string, options: Partial<ConnectOptions> = {}): Kube {
  return connectKube({ kubeconfig, userAgent: 'node-maintenance-test', log: recordedLog(), ...options });
}

/** Waits up to three minutes for a fact; `probe` returns undefined once it holds, otherwise the current state. */
export function eventually(fact: string, probe: () => Promise<string | undefined> | string | undefined) {
  return until(fact, probe, { timeoutMs: 180_000 });
}

/** Creates a namespace for the test, in which pods can be created. */
export async function freshNamespace(kube: Kube, prefix: string): Promise<string> {
  const { metadata } = await kube.create(resources.namespaces, {
    metadata: { generateName: `${prefix}-`, name: '' },
  });
  await eventually(`the service account of namespace ${metadata.name}`, async () => {
    const found = await kube.get(serviceAccounts, { namespace: metadata.name, name: 'default' });
    return found === undefined ? 'none' : undefined;
  });
  return metadata.name;
}

export async function dropNamespace(kube: Kube, name: string): Promise<void> {
  const namespace = await kube.get(resources.namespaces, { name });
  if (namespace?.metadata.uid === undefined) return;
  await kube.delete(resources.namespaces, { name }, { uid: namespace.metadata.uid });
}

export interface PodDiffers {
  namespace: string;
  name: string;
  nodeName: string;
  labels?: Record<string, string>;
}

/** Returns a pod that is removed immediately when it is deleted. */
function podManifest({ namespace, name, nodeName, labels = {} }: PodDiffers): RawPod {
  const spec = { nodeName, containers: [{ name: 'main', image: 'fake' }], terminationGracePeriodSeconds: 0 };
  return { metadata: { namespace, name, labels }, spec };
}

/** Creates the pod and waits until it is Ready, with its UID. */
export async function runningPod(kube: Kube, differs: PodDiffers) {
  await kube.create(resources.pods, podManifest(differs));
  const key = { namespace: differs.namespace, name: differs.name };
  let uid = '';
  await eventually(`pod ${key.name} to be Ready`, async () => {
    const pod = await kube.get(resources.pods, key);
    uid = pod?.metadata.uid ?? '';
    const isReady = pod?.status?.conditions?.some(
      ({ type, status }) => type === 'Ready' && status === 'True',
    );
    return isReady ? undefined : `phase ${pod?.status?.phase}`;
  });
  return { ...key, uid };
}

interface KubeconfigFile {
  clusters: { cluster: Record<string, unknown> }[];
  users: { user: Record<string, unknown> }[];
}

/** A copy of a kubeconfig with other entries in its only cluster and user, and a function that removes it. */
export async function changedKubeconfig(
  kubeconfig: string,
  { cluster = {}, user = {} }: { cluster?: Record<string, unknown>; user?: Record<string, unknown> },
) {
  const dir = await mkdtemp(join(tmpdir(), 'nm-kubeconfig-'));
  const path = join(dir, 'kubeconfig');
  const file = parse(readFileSync(kubeconfig, 'utf8')) as KubeconfigFile;
  Object.assign(file.clusters[0]?.cluster ?? {}, cluster);
  Object.assign(file.users[0]?.user ?? {}, user);
  writeFileSync(path, stringify(file));
  return { path, dir, remove: () => rm(dir, { recursive: true, force: true }) };
}

/** `127.0.0.1:PORT` of the apiserver that a kubeconfig names. */
export function serverPortOf(kubeconfig: string): number {
  const file = parse(readFileSync(kubeconfig, 'utf8')) as KubeconfigFile;
  return Number(new URL(String(file.clusters[0]?.cluster['server'])).port);
}

/** Returns the KubeError of a request that fails; rethrows any other error. */
export async function failureOf(request: Promise<unknown>) {
  try {
    await request;
  } catch (error) {
    if (isKubeError(error)) return error;
    throw error;
  }
  throw new Error('the request succeeded, an error was expected');
}
