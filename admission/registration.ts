import { isIPv6 } from 'node:net';
import type { KubeObject } from '../api/core.ts';
import { NODE_MAINTENANCE } from '../api/names.ts';
import type { Resource } from '../kube/resources.ts';
import { canonicalHost } from './host.ts';

/** Where the apiserver finds the server: by a Service of its cluster, or anywhere by URL. */
export type Endpoint =
  | { kind: 'Service'; namespace: string; name: string }
  | { kind: 'Url'; host: string; port: number };

export interface ValidatingWebhookConfiguration extends KubeObject {
  webhooks: readonly { readonly [field: string]: unknown }[];
}

export const registrations: Resource<ValidatingWebhookConfiguration> = {
  group: 'admissionregistration.k8s.io',
  version: 'v1',
  plural: 'validatingwebhookconfigurations',
  kind: 'ValidatingWebhookConfiguration',
  namespaced: false,
};

export const registrationName = NODE_MAINTENANCE.group;

/** Where each webhook is served. */
export const paths = { authorization: '/authorization', warnings: '/warnings' } as const;

/** The names by which the apiserver may call the server; its certificate has to have them all. */
export function hostsOf(endpoint: Endpoint): string[] {
  const local = ['localhost', '127.0.0.1'];
  if (endpoint.kind === 'Url') return [...new Set([canonicalHost(endpoint.host), ...local])];
  const service = `${endpoint.name}.${endpoint.namespace}.svc`;
  return [service, `${service}.cluster.local`, ...local];
}

/**
 * Both webhooks (docs/adr/0007): without a server, whoever may delete all nodes and the worker go on as ever, and
 * everybody else is refused.
 */
export function registration(
  endpoint: Endpoint,
  caBundle: string,
  worker: string,
): ValidatingWebhookConfiguration {
  const notByWorker = {
    // It executes orders; those from Temporal are checked before it creates an object (activities/admit.ts).
    name: 'requester-is-not-the-worker',
    expression: `request.userInfo.username != '${worker}'`,
  };
  const common = {
    rules: [
      {
        apiGroups: [NODE_MAINTENANCE.group],
        apiVersions: [NODE_MAINTENANCE.version],
        resources: [NODE_MAINTENANCE.plural],
        scope: 'Cluster',
      },
    ],
    sideEffects: 'None',
    admissionReviewVersions: ['v1'],
    matchPolicy: 'Equivalent',
  };
  const webhook = (path: string, operations: string[], differs: object) => ({
    ...common,
    ...differs,
    rules: common.rules.map((rule) => ({ ...rule, operations })),
    clientConfig: { ...clientConfig(endpoint, path), caBundle },
  });
  return {
    metadata: { name: registrationName, labels: { 'app.kubernetes.io/part-of': 'node-maintenance' } },
    webhooks: [
      webhook(paths.authorization, ['CREATE', 'UPDATE', 'DELETE'], {
        name: `authorization.${NODE_MAINTENANCE.group}`,
        failurePolicy: 'Fail',
        timeoutSeconds: 10,
        matchConditions: [
          notByWorker,
          {
            name: 'requester-may-not-delete-every-node',
            expression: "!authorizer.group('').resource('nodes').check('delete').allowed()",
          },
        ],
      }),
      webhook(paths.warnings, ['CREATE', 'UPDATE'], {
        name: `warnings.${NODE_MAINTENANCE.group}`,
        failurePolicy: 'Ignore',
        timeoutSeconds: 3,
        matchConditions: [
          notByWorker,
          {
            name: 'nodes-or-stage-change',
            expression:
              "request.operation == 'CREATE' || object.spec.stage != oldObject.spec.stage || object.spec.nodeSelector != oldObject.spec.nodeSelector",
          },
        ],
      }),
    ],
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
