import { isIPv6 } from 'node:net';
import type { KubeObject } from '../api/core.ts';
import { EVACUATION, NODE_MAINTENANCE, NODE_READINESS_POLICY } from '../api/names.ts';
import type { Resource } from '../kube/resources.ts';
import { canonicalHost } from './host.ts';

/** Where the apiserver finds the server: by a Service of its cluster, or anywhere by URL. */
export type Endpoint =
  | { kind: 'Service'; namespace: string; name: string }
  | { kind: 'Url'; host: string; port: number };

/** Validating or mutating: the shapes are the same. */
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

/** Of both configurations. */
export const registrationName = NODE_MAINTENANCE.group;

/** Where each webhook is served. */
export const paths = {
  authorization: '/authorization',
  warnings: '/warnings',
  evacuations: '/evacuations',
  evictions: '/evictions',
  readinessPolicies: '/readiness-policies',
} as const;

/** What is done about evictions that pass by the evacuators of a pod, such as those of `kubectl drain`. */
export type PlainEvictions = 'refuse' | 'allow';

export interface Registration {
  endpoint: Endpoint;
  /** In base64. */
  caBundle: string;
  /** User name of the worker, which is not asked. */
  worker: string;
  plainEvictions: PlainEvictions;
}

/** The names by which the apiserver may call the server; its certificate has to have them all. */
export function hostsOf(endpoint: Endpoint): string[] {
  const local = ['localhost', '127.0.0.1'];
  if (endpoint.kind === 'Url') return [...new Set([canonicalHost(endpoint.host), ...local])];
  const service = `${endpoint.name}.${endpoint.namespace}.svc`;
  return [service, `${service}.cluster.local`, ...local];
}

/** The configurations with which the apiserver finds the webhooks; docs/adr/0007 and 0010 say what happens without a server. */
export function registrations(to: Registration): [Resource<WebhookConfiguration>, WebhookConfiguration][] {
  const plain = to.plainEvictions === 'refuse' ? [evictions(to)] : [];
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

/** Without a server, whoever may delete all nodes and the worker go on as ever, and everybody else is refused. */
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

/** Warnings only: the conditions of a policy say the same later. */
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

/** The worker resolves what it makes by itself, and later what was made while there was no server. */
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

/** Evictions matter to the whole cluster: they must never wait for us. */
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

function rule(what: { group: string; version: string; resource: string }, ...operations: string[]): object {
  const { group, version, resource } = what;
  return { apiGroups: [group], apiVersions: [version], resources: [resource], operations, scope: '*' };
}

interface Differs {
  matchConditions?: object[];
  [field: string]: unknown;
}

function webhook(to: Registration, path: string, { matchConditions = [], ...differs }: Differs): object {
  const notByWorker = {
    // It executes orders; those from Temporal are checked before it creates an object (activities/admit.ts).
    name: 'requester-is-not-the-worker',
    expression: `request.userInfo.username != '${to.worker}'`,
  };
  return {
    sideEffects: 'None',
    admissionReviewVersions: ['v1'],
    matchPolicy: 'Equivalent',
    ...differs,
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
