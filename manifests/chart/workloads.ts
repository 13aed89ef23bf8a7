import type { KubeObject } from '../../api/core.ts';
import { block, type Expression, lines, onlyIf, templateOf, value } from './templates.ts';

/** The templates of deploy/worker, deploy/admission-server and deploy/agent-daemonset. */

/** A folder of deploy/: the labels of its kustomization, and its manifests. */
export interface Workload {
  name: 'worker' | 'admission';
  labels: Readonly<Record<string, string>>;
  manifests: readonly KubeObject[];
}

interface PodTemplate {
  metadata?: object;
  spec: { containers: [Container]; tolerations: object[]; volumes: { name: string }[] } & Record<
    string,
    unknown
  >;
}

interface Container {
  env: EnvVar[];
  volumeMounts: object[];
  livenessProbe?: { httpGet: object };
  [field: string]: unknown;
}

interface EnvVar {
  name: string;
  value?: string;
}

interface Deployment extends KubeObject {
  spec: { template: PodTemplate } & Record<string, unknown>;
}

interface WithSelector extends KubeObject {
  spec: Record<string, unknown>;
}

/** Returns the template of a workload. */
export function workloadTemplate({ name, labels, manifests }: Workload): string {
  const parts = manifests.map((manifest) => {
    const labelled = { ...manifest, metadata: inRelease(manifest, labels) } as WithSelector;
    switch (manifest.kind) {
      case 'Deployment':
        return templateOf([deployment(labelled as unknown as Deployment, name, labels)]);
      case 'Service':
        return templateOf([withSpec(labelled, { selector: labels })]);
      case 'PodDisruptionBudget':
        return onlyIf(
          '.Values.podDisruptionBudget.enabled',
          templateOf([withMatchLabels(labelled, 'selector', labels)]),
        );
      case 'NetworkPolicy':
        return onlyIf(
          '.Values.networkPolicy.enabled',
          templateOf([withMatchLabels(labelled, 'podSelector', labels)]),
        );
      default:
        throw new Error(`deploy/${name} contains a ${manifest.kind}`);
    }
  });
  // The separator stands before each, so that none is left when a part is not there.
  return parts.map((part) => `---\n${part}`).join('');
}

const image = {
  image: value('include "node-maintenance.image" .'),
  imagePullPolicy: lines('{{- with .Values.image.pullPolicy }}', 'imagePullPolicy: {{ . }}', '{{- end }}'),
};

function inRelease({ metadata }: KubeObject, labels: Readonly<Record<string, string>>): object {
  return { ...metadata, namespace: value('.Release.Namespace'), labels };
}

function withSpec(manifest: WithSelector, fields: object): KubeObject {
  return { ...manifest, spec: { ...manifest.spec, ...fields } } as KubeObject;
}

function withMatchLabels(
  manifest: WithSelector,
  field: string,
  labels: Readonly<Record<string, string>>,
): KubeObject {
  return withSpec(manifest, { [field]: { matchLabels: labels } });
}

function deployment(
  manifest: Deployment,
  name: Workload['name'],
  labels: Readonly<Record<string, string>>,
): KubeObject {
  const of = (field: string): Expression => `.Values.${name}.${field}`;
  const { template, ...spec } = manifest.spec;
  const { containers, tolerations, topologySpreadConstraints, volumes, ...pod } = template.spec;
  const [container] = containers;
  const podSpec = {
    ...pod,
    priorityClassName: value(of('priorityClassName')),
    imagePullSecrets: block('.Values.image.pullSecrets'),
    nodeSelector: block(of('nodeSelector')),
    affinity: block(of('affinity')),
    tolerations: [...tolerations, appended(of('tolerations'))],
    topologySpreadConstraints: (topologySpreadConstraints as object[]).map((constraint) => ({
      ...constraint,
      labelSelector: { matchLabels: labels },
    })),
    containers: [
      {
        ...container,
        ...image,
        env: [...withDefaults(container.env, of('env')), ...settings(name), appended(of('env'))],
        volumeMounts: [...container.volumeMounts, appended(of('volumeMounts'))],
        resources: block(of('resources')),
      },
    ],
    volumes: [...(name === 'worker' ? volumes.map(temporalVolume) : volumes), appended(of('volumes'))],
  };
  return {
    ...manifest,
    spec: {
      ...spec,
      replicas: value(of('replicas')),
      selector: { matchLabels: labels },
      template: {
        metadata: {
          labels: { ...labels, more: appended(of('podLabels')) },
          annotations: lines(...annotations(name)),
        },
        spec: podSpec,
      },
    },
  } as unknown as KubeObject;
}

/** Returns the template of deploy/agent-daemonset. */
export function agentTemplate(manifest: KubeObject, labels: Readonly<Record<string, string>>): string {
  const { template, ...spec } = (manifest as Deployment).spec;
  const { containers, volumes, ...pod } = template.spec;
  const [container] = containers;
  const env = '.Values.agent.env';
  const podSpec = {
    ...pod,
    priorityClassName: value('.Values.agent.priorityClassName'),
    nodeSelector: block('.Values.agent.nodeSelector'),
    affinity: block('.Values.agent.affinity'),
    imagePullSecrets: block('.Values.image.pullSecrets'),
    containers: [
      {
        ...container,
        ...image,
        livenessProbe: {
          ...container.livenessProbe,
          httpGet: { ...container.livenessProbe?.httpGet, port: value(healthPort) },
        },
        env: [
          ...withDefaults(container.env.map(withHealthPort), env),
          settingOf(env)('LOG_LEVEL', 'ne .Values.logLevel "info"', '{{ .Values.logLevel }}'),
          appended(env),
        ],
        volumeMounts: [...container.volumeMounts, appended('.Values.agent.volumeMounts')],
        resources: block('.Values.agent.resources'),
      },
    ],
    volumes: [...volumes, appended('.Values.agent.volumes')],
  };
  const daemonSet = {
    ...manifest,
    metadata: inRelease(manifest, labels),
    spec: {
      ...spec,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: podSpec },
    },
  };
  return onlyIf('.Values.agent.enabled', templateOf([daemonSet as unknown as KubeObject]));
}

const healthPort: Expression = '.Values.agent.healthPort';

/** The liveness probe has the same port. */
function withHealthPort(variable: EnvVar): EnvVar {
  return variable.name === 'HEALTH_PORT' ? { ...variable, value: value(`${healthPort} | quote`) } : variable;
}

/** A change of the ConfigMap restarts the worker. */
function annotations(name: Workload['name']): string[] {
  const checksum =
    '  checksum/config: {{ include (print $.Template.BasePath "/worker-config.yaml") . | sha256sum }}';
  return name === 'worker'
    ? [
        'annotations:',
        checksum,
        '  {{- with .Values.worker.podAnnotations }}',
        '  {{- toYaml . | nindent 8 }}',
        '  {{- end }}',
      ]
    : [
        `{{- with .Values.${name}.podAnnotations }}`,
        'annotations:',
        '  {{- toYaml . | nindent 8 }}',
        '{{- end }}',
      ];
}

/** The items or fields of a value, after others. */
function appended(expression: Expression): string {
  return lines(`{{- with ${expression} }}`, '{{- toYaml . | nindent @indent }}', '{{- end }}');
}

/** Variables that a user may set to another value: an object must not have one of them twice. */
function withDefaults(variables: readonly EnvVar[], env: Expression): (EnvVar | string)[] {
  const fixed = ['COMPONENTS', 'HEALTH_PORT'];
  const isFixed = ({ name, value: text }: EnvVar) => fixed.includes(name) || text === undefined;
  return variables.map((variable) =>
    isFixed(variable)
      ? variable
      : lines(
          `{{- if ${isUnset(variable.name, env)} }}`,
          `- name: ${variable.name}`,
          `  value: ${JSON.stringify(variable.value)}`,
          '{{- end }}',
        ),
  );
}

function isUnset(name: string, env: Expression): Expression {
  return `not (include "node-maintenance.hasVariable" (list ${env} "${name}"))`;
}

/** Environment variables that depend on values. */
function settings(name: Workload['name']): string[] {
  const setting = settingOf(`.Values.${name}.env`);
  const common = [
    setting('LOG_LEVEL', 'ne .Values.logLevel "info"', '{{ .Values.logLevel }}'),
    setting('READINESS_GATES', 'not .Values.readinessGates.enabled', '"false"'),
  ];
  return name === 'worker'
    ? [
        ...common,
        setting('DEPLOYMENT_EVACUATOR', 'not .Values.deploymentEvacuator.enabled', '"false"'),
        setting(
          'DEPLOYMENT_REGISTRATION',
          'ne .Values.deploymentEvacuator.registration "annotated"',
          '{{ .Values.deploymentEvacuator.registration }}',
        ),
        setting('EVICTION_API', 'ne .Values.evictionApi "evacuation"', '{{ .Values.evictionApi }}'),
        setting('EVICTION_REQUEST_CONTROLLER', '.Values.evictionRequestController.enabled', '"true"'),
        setting('EVICTION_REQUEST_RESPONDERS', '.Values.evictionRequestResponders.enabled', '"true"'),
        setting('NODE_MAINTENANCE_CLUSTER', '.Values.cluster', '{{ .Values.cluster | quote }}'),
      ]
    : [...common, setting('WEBHOOK_CERTIFICATES', 'ne .Values.webhook.certificates "managed"', 'external')];
}

function settingOf(env: Expression) {
  return (name: string, condition: Expression, text: string): string =>
    lines(
      `{{- if and (${condition}) (${isUnset(name, env)}) }}`,
      `- name: ${name}`,
      `  value: ${text}`,
      '{{- end }}',
    );
}

/** The Secrets that values name; by default those of deploy/, which are optional. */
function temporalVolume(volume: { name: string }): object {
  const secret = (field: string, name: string, ...keys: string[]) => ({
    name: value(`.Values.temporal.${field} | default "${name}"`),
    optional: value(`empty .Values.temporal.${field}`),
    ...(keys.length > 0 && { items: keys.map((key) => ({ key, path: key })) }),
  });
  switch (volume.name) {
    case 'temporal':
      return {
        name: volume.name,
        projected: {
          sources: [
            { secret: secret('caSecret', 'node-maintenance-temporal-tls', 'ca.crt') },
            { secret: secret('tlsSecret', 'node-maintenance-temporal-tls', 'tls.crt', 'tls.key') },
            { secret: secret('apiKeySecret', 'node-maintenance-temporal') },
          ],
        },
      };
    case 'payload-keys': {
      const { name: secretName, optional } = secret('payloadKeysSecret', 'node-maintenance-payload-keys');
      return { name: volume.name, secret: { secretName, optional } };
    }
    default:
      return volume;
  }
}
