import type { KubeObject } from '../api/core.ts';
import {
  ADMISSION_SERVICE,
  AGENT_LEASE_NAMESPACE,
  KUBELET_LEASE_NAMESPACE,
  NODE_LEASE_NAMESPACE,
  SYSTEM_NAMESPACE,
  WEBHOOK_HOSTS_ANNOTATION,
  WORK_NAMESPACE,
} from '../api/names.ts';
import { withoutMutatingPolicies } from './mutatingWebhooks.ts';

/** The levels of the Pod Security Standards. */
export const podSecurityLevels = ['restricted', 'baseline', 'privileged'] as const;
export type PodSecurityLevel = (typeof podSecurityLevels)[number];

/** Choice of an installation for the Jobs of windows: none, or Jobs whose pods are limited to a level of pod security. */
export type WindowJobs = { kind: 'None' } | { kind: 'Enabled'; podSecurity: PodSecurityLevel };

/** Choices of an installation about the manifests of deploy/. */
export interface InstallationOptions {
  /** Namespace of the processes, their ServiceAccounts and their Service. */
  readonly namespace?: string;
  /** Hosts at which an admission server outside the cluster may register itself; none: the webhooks call its Service. */
  readonly webhookHosts?: readonly string[];
  readonly windowJobs?: WindowJobs;
  /** Lets the worker act on EvictionRequests of lifecycle.k8s.io. */
  readonly evictionRequests?: boolean;
  /** False if the apiserver does not serve MutatingAdmissionPolicies: webhooks replace them. */
  readonly mutatingPolicies?: boolean;
  /** False installs nothing that taints new nodes, for workers that run without readiness gates and would not remove the taint. */
  readonly readinessGates?: boolean;
}

/** Port of the first URL, until an admission server registers its own. */
const defaultWebhookPort = 9443;

/**
 * Returns the manifests of an installation. The manifests of deploy/ are those of the default namespace; they name it in fields, and in CEL
 * expressions as part of user names and of `.namespace('...')`. Throws an Error if the default namespace would be left anywhere: a policy
 * that names another namespace would not restrict the worker of this one.
 */
export function renderManifests(
  manifests: readonly KubeObject[],
  {
    namespace = SYSTEM_NAMESPACE,
    webhookHosts = [],
    windowJobs = { kind: 'None' },
    mutatingPolicies = true,
    readinessGates = true,
  }: InstallationOptions = {},
): KubeObject[] {
  const problem = namespaceProblem(namespace);
  if (problem !== undefined) throw new Error(`namespace: ${problem} (got "${namespace}")`);
  const enabled = readinessGates ? manifests : manifests.filter((manifest) => !taintsNewNodes(manifest));
  const served = mutatingPolicies ? enabled : withoutMutatingPolicies(enabled);
  return served.map((manifest) => {
    const moved = inNamespace(manifest, namespace);
    return withWebhookHosts(withPodSecurity(moved, windowJobs), webhookHosts);
  });
}

/** Adds labels, as the labels of a kustomization do. */
export function withLabels(manifest: KubeObject, labels: Readonly<Record<string, string>>): KubeObject {
  if (Object.keys(labels).length === 0) return manifest;
  const { metadata } = manifest;
  return { ...manifest, metadata: { ...metadata, labels: { ...metadata.labels, ...labels } } };
}

/** Reports whether this is a policy that gives new nodes the readiness taint. */
export function taintsNewNodes({ metadata }: KubeObject): boolean {
  return /^(prepared-)?readiness-taint\./.test(metadata.name);
}

/** Other users write to the namespaces that have a purpose of their own. */
const otherNamespaces: readonly string[] = [
  AGENT_LEASE_NAMESPACE,
  NODE_LEASE_NAMESPACE,
  KUBELET_LEASE_NAMESPACE,
  WORK_NAMESPACE,
];

/** Returns what is wrong with a namespace for an installation; undefined if nothing is. */
export function namespaceProblem(namespace: string): string | undefined {
  if (!/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(namespace))
    return `expected a DNS label, such as ${SYSTEM_NAMESPACE}`;
  if (otherNamespaces.includes(namespace))
    return 'expected a namespace of its own: this one has another purpose';
  return undefined;
}

function inNamespace(manifest: KubeObject, namespace: string): KubeObject {
  const renamed = isSystemNamespace(manifest)
    ? { ...manifest, metadata: { ...manifest.metadata, name: namespace } }
    : manifest;
  return replaced(renamed, namespace, [manifest.kind ?? '', manifest.metadata.name]) as KubeObject;
}

function isSystemNamespace({ kind, metadata }: KubeObject): boolean {
  return kind === 'Namespace' && metadata.name === SYSTEM_NAMESPACE;
}

/** Copies a value. `path` says where it is, for errors, and which field it is. */
function replaced(value: unknown, namespace: string, path: readonly string[]): unknown {
  if (typeof value === 'string') return replacedText(value, namespace, path);
  if (Array.isArray(value)) return value.map((item, i) => replaced(item, namespace, [...path, String(i)]));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value);
  return Object.fromEntries(entries.map(([key, field]) => [key, replaced(field, namespace, [...path, key])]));
}

/** Fields that contain a namespace; the second is the label of every Namespace, for selectors. */
const namespaceFields: ReadonlySet<string | undefined> = new Set([
  'namespace',
  'kubernetes.io/metadata.name',
]);

/** Texts before and after a namespace in CEL expressions. */
const celNamespaces = [
  ['system:serviceaccount:', ':'],
  [".namespace('", "')"],
] as const;

function replacedText(text: string, namespace: string, path: readonly string[]): string {
  const field = path.at(-1);
  // The name of the project, which is also the default namespace.
  if (field === 'app.kubernetes.io/part-of') return text;
  if (namespaceFields.has(field) && text === SYSTEM_NAMESPACE) return namespace;
  const result = celNamespaces.reduce(
    (before, [start, end]) =>
      before.replaceAll(`${start}${SYSTEM_NAMESPACE}${end}`, `${start}${namespace}${end}`),
    text,
  );
  if (namespace !== SYSTEM_NAMESPACE && namesSystemNamespace(result, namespace))
    throw new Error(
      `deploy/: ${path.join('.')} names namespace ${SYSTEM_NAMESPACE} in a way that manifests/render.ts does not replace: ${text}`,
    );
  return result;
}

/** Reports whether the default namespace stands in the text as a word of its own. Longer names, such as of ServiceAccounts, contain it. */
function namesSystemNamespace(text: string, namespace: string): boolean {
  const own = celNamespaces.map(([start, end]) => `${start}${namespace}${end}`);
  const rest = own.reduce((before, part) => before.replaceAll(part, ''), text);
  return new RegExp(`(?<![\\w-])${SYSTEM_NAMESPACE}(?![\\w-])`).test(rest);
}

/** Sets the level on the namespace of the Jobs, as deploy/privileged-work does for `privileged`. */
function withPodSecurity(manifest: KubeObject, windowJobs: WindowJobs): KubeObject {
  const { kind, metadata } = manifest;
  if (windowJobs.kind === 'None') return manifest;
  if (kind !== 'Namespace' || metadata.name !== WORK_NAMESPACE) return manifest;
  const modes = ['enforce', 'warn'].map((mode) => [
    `pod-security.kubernetes.io/${mode}`,
    windowJobs.podSecurity,
  ]);
  return {
    ...manifest,
    metadata: { ...metadata, labels: { ...metadata.labels, ...Object.fromEntries(modes) } },
  };
}

interface WebhookConfiguration extends KubeObject {
  webhooks: { clientConfig: { service: { name: string; path: string } } }[];
}

function isWebhookConfiguration(manifest: KubeObject): manifest is WebhookConfiguration {
  return /^(Validating|Mutating)WebhookConfiguration$/.test(manifest.kind ?? '');
}

/** Allows the hosts, and registers the first: an object that names both a Service and the URL that a server has registered would be invalid. */
function withWebhookHosts(manifest: KubeObject, hosts: readonly string[]): KubeObject {
  const [first] = hosts;
  if (first === undefined || !isWebhookConfiguration(manifest)) return manifest;
  const { metadata, webhooks } = manifest;
  const annotations = { ...metadata.annotations, [WEBHOOK_HOSTS_ANNOTATION]: hosts.join(',') };
  const host = first.includes(':') ? `[${first}]` : first;
  return {
    ...manifest,
    metadata: { ...metadata, annotations },
    webhooks: webhooks.map((webhook) => {
      const { service, ...clientConfig } = webhook.clientConfig;
      if (service.name !== ADMISSION_SERVICE) return webhook;
      const url = `https://${host}:${defaultWebhookPort}${service.path}`;
      return { ...webhook, clientConfig: { ...clientConfig, url } };
    }),
  } as KubeObject;
}
