import { isIPv6 } from 'node:net';
import type { KubeObject } from '../api/core.ts';
import { EVACUATION, NODE_MAINTENANCE, NODE_READINESS_POLICY } from '../api/names.ts';
import type { Resource } from '../kube/resources.ts';
import { canonicalHost } from './host.ts';

/** The address at which the apiserver reaches the server: a Service of its cluster, or a URL. */
export type Endpoint =
  | { kind: 'Service'; namespace: string; name: string }
  | { kind: 'Url'; host: string; port: number };

/** A validating or mutating configuration: both have the same fields. */
export interface WebhookConfiguration extends KubeObject {
  webhooks: readonly { readonly [field: string]: unknown }[];
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

/** The name of both configurations. */
export const registrationName = NODE_MAINTENANCE.group;

/** The path of each webhook. */
export const paths = {
  authorization: '/authorization',
  warnings: '/warnings',
  evacuations: '/evacuations',
  evictions: '/evictions',
  readinessPolicies: '/readiness-policies',
} as const;

/** Handles evictions that bypass the evacuators of a pod, such as those of `kubectl drain`. */
export type PlainEvictions = 'reject' | 'allow';

export interface Registration {
  endpoint: Endpoint;
  /** Base64. */
  caBundle: string;
  /** The user name of the worker, whose requests are not reviewed. */
  worker: string;
  plainEvictions: PlainEvictions;
}

/** Returns the hosts by which the apiserver may call the server. Its certificate must contain all of them. */
export function hostsOf(endpoint: Endpoint): string[] {
  const local = ['localhost', '127.0.0.1'];
  if (endpoint.kind === 'Url') return [...new Set([canonicalHost(endpoint.host), ...local])];
  const service = `${endpoint.name}.${endpoint.namespace}.svc`;
  return [service, `${service}.cluster.local`, ...local];
}

/** Returns the webhook configurations. docs/adr/0007 and 0010 describe what happens without a server. */
export function registrations(to: Registration): [Resource<WebhookConfiguration>, WebhookConfiguration][] {
  const plain = to.plainEvictions === 'reject' ? [evictions(to)] : [];
  return [
    [validating, configuration([authorization(to), warnings(to), readinessPolicies(to), ...plain])],
    [mutating, configuration([evacuations(to)])],
  ];
}

function configuration(webhooks: object[]): WebhookConfiguration {
  const labels = { 'app.kubernetes.io/part-of': 'node-maintenance' };
  return {
    metadata: { name: registrationName, labels },
    webhooks: webhooks as unknown as WebhookConfiguration['webhooks'],
  };
}

/** Without a server, users who may delete all nodes and the worker are not affected; all other users are denied. */
function authorization(to: Registration): object {
  return webhook(to, paths.authorization, {
    name: `authorization.${NODE_MAINTENANCE.group}`,
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

function warnings(to: Registration): object {
  return webhook(to, paths.warnings, {
    name: `warnings.${NODE_MAINTENANCE.group}`,
    rules: [rule(maintenances, 'CREATE', 'UPDATE')],
    failurePolicy: 'Ignore',
    timeoutSeconds: 3,
    matchConditions: [
      {
        name: 'nodes-or-stage-change',
        expression:
          "request.operation == 'CREATE' || object.spec.stage != oldObject.spec.stage || object.spec.nodeSelector != oldObject.spec.nodeSelector",
      },
    ],
  });
}

/** Fails open, because it only warns: the conditions of a policy report the same problems later. */
function readinessPolicies(to: Registration): object {
  const { group, version, plural } = NODE_READINESS_POLICY;
  return webhook(to, paths.readinessPolicies, {
    name: `readiness-policies.${NODE_MAINTENANCE.group}`,
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
function evacuations(to: Registration): object {
  return webhook(to, paths.evacuations, {
    name: `evacuations.${NODE_MAINTENANCE.group}`,
    rules: [
      rule({ group: EVACUATION.group, version: EVACUATION.version, resource: EVACUATION.plural }, 'CREATE'),
    ],
    failurePolicy: 'Ignore',
    timeoutSeconds: 3,
  });
}

/** Fails open: evictions anywhere in the cluster must not depend on this server. */
function evictions(to: Registration): object {
  return webhook(to, paths.evictions, {
    name: `evictions.${NODE_MAINTENANCE.group}`,
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

function webhook(to: Registration, path: string, { matchConditions = [], ...fields }: WebhookFields): object {
  const notByWorker = {
    // The worker acts on behalf of users; requests from Temporal are authorized in activities/maintenance/admit.ts.
    name: 'requester-is-not-the-worker',
    expression: `request.userInfo.username != '${to.worker}'`,
  };
  return {
    sideEffects: 'None',
    admissionReviewVersions: ['v1'],
    matchPolicy: 'Equivalent',
    ...fields,
    matchConditions: [notByWorker, ...matchConditions],
    clientConfig: { ...clientConfig(to.endpoint, path), caBundle: to.caBundle },
  };
}

function clientConfig(endpoint: Endpoint, path: string): object {
  if (endpoint.kind === 'Url') {
    const host = isIPv6(endpoint.host) ? `[${endpoint.host}]` : endpoint.host;
    return { url: `https://${host}:${endpoint.port}${path}` };
  }
  const { namespace, name } = endpoint;
  return { service: { namespace, name, path, port: 443 } };
}
