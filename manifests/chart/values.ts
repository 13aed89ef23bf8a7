import { stringify } from 'yaml';
import * as z from 'zod';
import { CLUSTER_NAME_PATTERN } from '../../api/names.ts';

/** The values of the chart: deploy/chart/values.yaml and its schema are generated from this. */

const name = z.string().max(253);
const secret = (purpose: string) => name.default('').describe(`Secret ${purpose}; none if empty`);
const labels = z.record(z.string(), z.string());
/** An object of Kubernetes, which the apiserver validates. */
const anyObject = z.looseObject({});
const objects = z.array(anyObject).default([]);
const variables = z.array(z.looseObject({ name: z.string().min(1) })).default([]);

const workload = z.strictObject({
  replicas: z.int().min(0).default(2).describe('one leads, the others take over within seconds'),
  resources: anyObject.describe(
    'of the container; the heap in env, NODE_OPTIONS, belongs to the memory limit',
  ),
  nodeSelector: labels.default({}),
  affinity: anyObject.default({}),
  tolerations: objects.describe('in addition to that of the readiness taint'),
  priorityClassName: name.default('system-cluster-critical'),
  podAnnotations: labels.default({}),
  podLabels: labels.default({}),
  env: variables.describe(
    'more environment variables, or other values of those of the chart: docs/reference/settings.md',
  ),
  volumes: objects.describe('more volumes of the pod, such as Secrets that env names'),
  volumeMounts: objects.describe('more mounts of the container'),
});

const resources = (cpu: string) => ({ requests: { cpu, memory: '256Mi' }, limits: { memory: '1Gi' } });

const valuesSchema = z.strictObject({
  image: z
    .strictObject({
      repository: z.string().min(1).default('node-maintenance'),
      tag: z.string().default('').describe('the version of the chart if empty'),
      pullPolicy: z
        .enum(['', 'Always', 'IfNotPresent', 'Never'])
        .default('')
        .describe('that of Kubernetes if empty'),
      pullSecrets: z.array(z.strictObject({ name })).default([]),
    })
    .prefault({}),
  cluster: z
    .string()
    .regex(new RegExp(`^(${CLUSTER_NAME_PATTERN.source.replace(/^\^|\$$/g, '')})?$`))
    .default('')
    .describe('name of this cluster, required if clusters share a Temporal namespace'),
  logLevel: z.enum(['trace', 'debug', 'info', 'warn', 'error']).default('info'),
  crds: z
    .strictObject({
      install: z.boolean().default(true).describe('false: you apply deploy/crd before, and at each upgrade'),
      keep: z.boolean().default(true).describe('helm uninstall keeps the CRDs, and so every object'),
    })
    .prefault({}),
  mutatingPolicies: z
    .enum(['auto', 'policies', 'webhooks'])
    .default('auto')
    .describe(
      'MutatingAdmissionPolicies, or webhooks in place of them; auto: policies if the apiserver serves them, which it does since Kubernetes 1.36',
    ),
  temporal: z
    .strictObject({
      address: z.string().min(1).default('temporal-frontend.temporal:7233').describe('host and port'),
      namespace: z.string().min(1).default('default'),
      caSecret: name
        .default('')
        .describe(
          'Secret with ca.crt, the authority of the certificate of Temporal; those of the system if empty',
        ),
      tlsSecret: secret('with tls.crt and tls.key of the worker, for mutual TLS'),
      apiKeySecret: secret('with the key api-key'),
      payloadKeysSecret: secret('with the keys that payloads are encrypted with'),
    })
    .prefault({}),
  worker: workload.prefault({ resources: resources('200m') }),
  admission: workload.prefault({ resources: resources('100m') }),
  agent: z
    .strictObject({
      enabled: z
        .boolean()
        .default(false)
        .describe('a DaemonSet of node agents; instead of their Debian package, not in addition'),
      resources: anyObject.describe('of the container'),
      nodeSelector: labels.default({ 'kubernetes.io/os': 'linux' }),
      affinity: anyObject.default({}),
      priorityClassName: name.default('system-node-critical'),
      healthPort: z
        .int()
        .min(1)
        .max(65_535)
        .default(9466)
        .describe('port of the liveness probe on 127.0.0.1 of the node, and of the metrics'),
      env: variables.describe('more environment variables, such as STATIC_POD_PATH'),
      volumes: objects.describe('more volumes, such as a hostPath with the folder of STATIC_POD_PATH'),
      volumeMounts: objects.describe('more mounts of the container'),
    })
    .prefault({
      resources: { requests: { cpu: '10m', memory: '96Mi' }, limits: { memory: '256Mi' } },
    }),
  webhook: z
    .strictObject({
      certificates: z
        .enum(['managed', 'cert-manager'])
        .default('managed')
        .describe('managed: the admission server issues and renews them'),
      issuerRef: z
        .strictObject({
          kind: z.enum(['Issuer', 'ClusterIssuer']).default('ClusterIssuer'),
          name: name.default(''),
        })
        .prefault({})
        .describe('of cert-manager'),
    })
    .prefault({}),
  readinessGates: z.strictObject({ enabled: z.boolean().default(true) }).prefault({}),
  deploymentEvacuator: z
    .strictObject({
      enabled: z
        .boolean()
        .default(true)
        .describe('replaces pods of Deployments that ask for it before they are evicted'),
      registration: z
        .enum(['annotated', 'automatic'])
        .default('annotated')
        .describe(
          'automatic: also replaces pods of Deployments with a single replica or a budget that never allows a disruption',
        ),
    })
    .prefault({}),
  evictionApi: z
    .enum(['evacuation', 'lifecycle', 'auto'])
    .default('evacuation')
    .describe(
      'by which API drains request that pods leave; auto: EvictionRequests of lifecycle.k8s.io where a controller serves them',
    ),
  evictionRequestController: z
    .strictObject({
      enabled: z
        .boolean()
        .default(false)
        .describe('acts on EvictionRequests of lifecycle.k8s.io, until another controller does'),
    })
    .prefault({}),
  evictionRequestResponders: z
    .strictObject({
      enabled: z
        .boolean()
        .default(false)
        .describe(
          'responds to Evictions of lifecycle.k8s.io, whichever controller writes them; evictionRequestController includes it',
        ),
    })
    .prefault({}),
  windowJobs: z
    .strictObject({
      enabled: z.boolean().default(false).describe('lets maintenance windows run Jobs'),
      podSecurity: z
        .enum(['restricted', 'baseline', 'privileged'])
        .default('baseline')
        .describe('with privileged, users who may create Jobs there are root on every node'),
    })
    .prefault({}),
  temporalUser: z
    .strictObject({
      allNodes: z.boolean().default(false).describe('lets every client of Temporal maintain all nodes'),
    })
    .prefault({}),
  userRoles: z.strictObject({ create: z.boolean().default(true) }).prefault({}),
  networkPolicy: z.strictObject({ enabled: z.boolean().default(true) }).prefault({}),
  podDisruptionBudget: z.strictObject({ enabled: z.boolean().default(true) }).prefault({}),
  resourceQuota: z
    .strictObject({
      enabled: z
        .boolean()
        .default(true)
        .describe('allows the priority classes where a cluster limits them, as GKE does; it limits nothing'),
    })
    .prefault({}),
  monitoring: z
    .strictObject({
      podMonitor: z
        .strictObject({
          enabled: z.boolean().default(false).describe('for the Prometheus operator'),
          interval: z.string().default('30s'),
          labels: labels.default({}),
        })
        .prefault({}),
      prometheusRule: z
        .strictObject({
          enabled: z.boolean().default(false).describe('the alerts of deploy/monitoring'),
          labels: labels.default({}),
        })
        .prefault({}),
      dashboard: z
        .strictObject({
          enabled: z.boolean().default(false).describe('a ConfigMap for the sidecar of Grafana'),
          labels: labels.default({ grafana_dashboard: '1' }),
        })
        .prefault({}),
    })
    .prefault({}),
  global: anyObject.optional().describe('values of parent charts'),
});

/** Returns the JSON schema that Helm validates the values with. */
export function valuesJsonSchema(): object {
  return z.toJSONSchema(valuesSchema, { io: 'input', target: 'draft-7' });
}

interface SchemaNode {
  description?: string;
  properties?: Record<string, SchemaNode>;
}

/** Returns values.yaml: every value with its default, and what it means. */
export function valuesYaml(): string {
  return valueLines(valuesSchema.parse({}), valuesJsonSchema() as SchemaNode, '').join('\n');
}

function valueLines(values: Readonly<Record<string, unknown>>, schema: SchemaNode, indent: string): string[] {
  return Object.entries(values).flatMap(([key, value]) => {
    const node = schema.properties?.[key] ?? {};
    const comment = node.description === undefined ? [] : [`${indent}# ${node.description}`];
    if (Object.keys(node.properties ?? {}).length === 0) {
      const text = stringify({ [key]: value }, { lineWidth: 0 }).trimEnd();
      return [...comment, ...text.split('\n').map((line) => `${indent}${line}`)];
    }
    const inner = valueLines(value as Record<string, unknown>, node, `${indent}  `);
    return [...comment, `${indent}${key}:`, ...inner];
  });
}
