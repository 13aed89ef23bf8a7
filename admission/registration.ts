import { isIPv6 } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import type { KubeObject } from '../api/core.ts';
import {
  ADMISSION_SERVICE,
  EVACUATION,
  NODE_MAINTENANCE,
  NODE_READINESS_POLICY,
  SYSTEM_NAMESPACE,
  WEBHOOK_CONFIGURATION,
  workerUser,
} from '../api/names.ts';
import type { JsonPatchOperation } from '../kube/client.ts';
import type { Resource } from '../kube/resources.ts';
import { canonicalHost } from './host.ts';

/**
 * The webhook configurations are part of deploy/ (`webhookConfigurations`), so that requests are checked before a process of ours
 * has ever run. The admission server only adds what it alone knows: its certificate authority and, outside a cluster, its URL.
 */

/** The address at which the apiserver reaches the server: a Service of its cluster, or a URL. */
export type Endpoint =
  | { kind: 'Service'; namespace: string; name: string }
  | { kind: 'Url'; host: string; port: number };

interface ClientConfig {
  readonly service?: { namespace: string; name: string; path: string; port: number };
  readonly url?: string;
  readonly caBundle?: string;
}

interface Webhook {
  readonly name: string;
  readonly clientConfig: ClientConfig;
  readonly [field: string]: unknown;
}

/** A validating or mutating configuration: both have the same fields. */
export interface WebhookConfiguration extends KubeObject {
  webhooks: readonly Webhook[];
}

const configurations = (kind: string): Resource<WebhookConfiguration> => ({
  group: 'admissionregistration.k8s.io',
  version: 'v1',
  plural: `${kind.toLowerCase()}s`,
  kind,
  namespaced: false,
});

export const validating = configurations('ValidatingWebhookConfiguration');
export const mutating = configurations('MutatingWebhookConfiguration');

/** The path of each webhook: the first label of its name, on which the policy `webhook-registrations.nodemaintenance.k8s.io` relies. */
export const paths = {
  authorization: '/authorization',
  warnings: '/warnings',
  evacuations: '/evacuations',
  evictions: '/evictions',
  readinessPolicies: '/readiness-policies',
} as const;

/** Returns the hosts by which the apiserver may call the server. Its certificate must contain all of them. */
export function hostsOf(endpoint: Endpoint): string[] {
  const local = ['localhost', '127.0.0.1'];
  if (endpoint.kind === 'Url') return [...new Set([canonicalHost(endpoint.host), ...local])];
  const service = `${endpoint.name}.${endpoint.namespace}.svc`;
  return [service, `${service}.cluster.local`, ...local];
}

/** Returns the webhook configurations of deploy/. docs/adr/0007 and 0010 describe what happens without a server. */
export function webhookConfigurations(): WebhookConfiguration[] {
  return [
    configuration(validating, [authorization(), warnings(), readinessPolicies(), evictions()]),
    configuration(mutating, [evacuations()]),
  ];
}

function configuration({ group, version, kind }: Resource, webhooks: Webhook[]): WebhookConfiguration {
  const labels = { 'app.kubernetes.io/part-of': 'node-maintenance' };
  return {
    apiVersion: `${group}/${version}`,
    kind,
    metadata: { name: WEBHOOK_CONFIGURATION, labels },
    webhooks,
  };
}

/**
 * Returns the patch that registers the server in an installed configuration; empty if it is registered. It fails if the webhooks were
 * replaced in the meantime.
 */
export function registrationPatch(
  { webhooks = [] }: Partial<WebhookConfiguration>,
  endpoint: Endpoint,
  caBundle: string,
): JsonPatchOperation[] {
  return webhooks.flatMap(({ name, clientConfig }, index): JsonPatchOperation[] => {
    const value = { ...addressOf(endpoint, pathOf(name)), caBundle };
    if (isDeepStrictEqual(clientConfig, value)) return [];
    return [
      { op: 'test', path: `/webhooks/${index}/name`, value: name },
      { op: 'replace', path: `/webhooks/${index}/clientConfig`, value },
    ];
  });
}

function pathOf(name: string): string {
  return `/${name.split('.')[0]}`;
}

/** Returns the webhook of authorization. Without a server, users who may delete all nodes and the worker are not affected; all other users are denied. */
function authorization(): Webhook {
  return webhook(paths.authorization, {
    rules: [rule(maintenances, 'CREATE', 'UPDATE', 'DELETE')],
    failurePolicy: 'Fail',
    timeoutSeconds: 10,
    matchConditions: [
      {
        name: 'requester-may-not-delete-every-node',
        expression: "!authorizer.group('').resource('nodes').check('delete').allowed()",
      },
    ],
  });
}

function warnings(): Webhook {
  return webhook(paths.warnings, {
    rules: [rule(maintenances, 'CREATE', 'UPDATE')],
    failurePolicy: 'Ignore',
    timeoutSeconds: 3,
    matchConditions: [
      {
        name: 'nodes-stage-or-deadline-change',
        expression:
          "request.operation == 'CREATE' || object.spec.stage != oldObject.spec.stage || object.spec.nodeSelector != oldObject.spec.nodeSelector || object.spec.?drainDeadline != oldObject.spec.?drainDeadline",
      },
    ],
  });
}

/** Fails open, because it only warns: the conditions of a policy report the same problems later. */
function readinessPolicies(): Webhook {
  const { group, version, plural } = NODE_READINESS_POLICY;
  return webhook(paths.readinessPolicies, {
    rules: [rule({ group, version, resource: plural }, 'CREATE', 'UPDATE')],
    failurePolicy: 'Ignore',
    timeoutSeconds: 3,
    matchConditions: [
      {
        name: 'spec-changes',
        expression: "request.operation == 'CREATE' || object.spec != oldObject.spec",
      },
    ],
  });
}

/** Fails open: the worker resolves the evacuators of its own Evacuations, and later those of Evacuations created without a server. */
function evacuations(): Webhook {
  return webhook(paths.evacuations, {
    rules: [
      rule({ group: EVACUATION.group, version: EVACUATION.version, resource: EVACUATION.plural }, 'CREATE'),
    ],
    failurePolicy: 'Ignore',
    timeoutSeconds: 3,
  });
}

/** Fails open: evictions anywhere in the cluster must not depend on this server. */
function evictions(): Webhook {
  return webhook(paths.evictions, {
    rules: [rule({ group: '', version: 'v1', resource: 'pods/eviction' }, 'CREATE')],
    failurePolicy: 'Ignore',
    timeoutSeconds: 2,
  });
}

const maintenances = {
  group: NODE_MAINTENANCE.group,
  version: NODE_MAINTENANCE.version,
  resource: NODE_MAINTENANCE.plural,
};

function rule(target: { group: string; version: string; resource: string }, ...operations: string[]): object {
  const { group, version, resource } = target;
  return { apiGroups: [group], apiVersions: [version], resources: [resource], operations, scope: '*' };
}

interface WebhookFields {
  matchConditions?: object[];
  [field: string]: unknown;
}

/** The installation replaces the namespace by its own. */
function webhook(path: string, { matchConditions = [], ...fields }: WebhookFields): Webhook {
  const notByWorker = {
    // The worker acts on behalf of users; requests from Temporal are authorized in activities/maintenance/admit.ts.
    name: 'requester-is-not-the-worker',
    expression: `request.userInfo.username != '${workerUser(SYSTEM_NAMESPACE)}'`,
  };
  return {
    name: `${path.slice(1)}.${NODE_MAINTENANCE.group}`,
    sideEffects: 'None',
    admissionReviewVersions: ['v1'],
    matchPolicy: 'Equivalent',
    ...fields,
    matchConditions: [notByWorker, ...matchConditions],
    clientConfig: addressOf({ kind: 'Service', namespace: SYSTEM_NAMESPACE, name: ADMISSION_SERVICE }, path),
  };
}

function addressOf(endpoint: Endpoint, path: string): ClientConfig {
  if (endpoint.kind === 'Url') {
    const host = isIPv6(endpoint.host) ? `[${endpoint.host}]` : endpoint.host;
    return { url: `https://${host}:${endpoint.port}${path}` };
  }
  const { namespace, name } = endpoint;
  return { service: { namespace, name, path, port: 443 } };
}
