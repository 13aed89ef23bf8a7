import { readFileSync } from 'node:fs';
import { parse, parseAllDocuments, stringify } from 'yaml';
import type { KubeObject } from '../../api/core.ts';
import { VERSION_LABEL } from '../../api/names.ts';
import { withLabels } from '../render.ts';
import { installationTemplates, optionalTemplates } from './installation.ts';
import { valuesJsonSchema, valuesYaml } from './values.ts';
import { agentTemplate, type Workload, workloadTemplate } from './workloads.ts';

/**
 * The Helm chart deploy/chart. Its templates are made from the manifests of deploy/, so that Helm and kustomize install the same objects; the
 * templates that have no counterpart there are written by hand.
 */

const deploy = new URL('../../deploy/', import.meta.url);

interface Kustomization {
  resources: string[];
  labels?: { pairs: Record<string, string> }[];
}

function kustomizationOf(folder: URL): Kustomization {
  return parse(readFileSync(new URL('kustomization.yaml', folder), 'utf8')) as Kustomization;
}

/** Reads the objects of a kustomization, without the labels and the namespace that it adds. `generated` replaces files that are generated from the code, too. */
export function readObjects(folder: URL, generated: Readonly<Record<string, string>>): KubeObject[] {
  return kustomizationOf(folder).resources.flatMap((entry) => {
    if (!entry.endsWith('.yaml')) return readObjects(new URL(`${entry}/`, folder), generated);
    const file = new URL(entry, folder);
    const path = file.pathname.slice(deploy.pathname.length);
    const text = generated[`deploy/${path}`] ?? readFileSync(file, 'utf8');
    return parseAllDocuments(text).map((document) => document.toJS() as KubeObject);
  });
}

function workload(name: Workload['name'], folder: string): string {
  const url = new URL(`${folder}/`, deploy);
  const [labels] = kustomizationOf(url).labels ?? [];
  return workloadTemplate({ name, labels: labels?.pairs ?? {}, manifests: readObjects(url, {}) });
}

function agent(): string {
  const url = new URL('agent-daemonset/', deploy);
  const [labels] = kustomizationOf(url).labels ?? [];
  const [daemonSet, ...others] = readObjects(url, {});
  if (daemonSet === undefined || others.length > 0)
    throw new Error('deploy/agent-daemonset: expected one DaemonSet');
  return agentTemplate(daemonSet, labels?.pairs ?? {});
}

/** Returns the files of the chart by their paths in deploy/chart. `generated` has the generated files of deploy/ by their paths. */
export function chartFiles(
  version: string,
  generated: Readonly<Record<string, string>>,
): Record<string, string> {
  const templates = {
    ...installationTemplates(
      readObjects(deploy, generated).map((manifest) => withLabels(manifest, { [VERSION_LABEL]: version })),
    ),
    ...optionalTemplates(
      readObjects(new URL('window-jobs/', deploy), {}),
      readObjects(new URL('temporal-user/', deploy), {}),
      readObjects(new URL('eviction-requests/', deploy), {}),
    ),
    'worker.yaml': workload('worker', 'worker'),
    'admission.yaml': workload('admission', 'admission-server'),
    'agent.yaml': agent(),
  };
  return {
    'Chart.yaml': chartYaml(version),
    'values.yaml': `${valuesYaml()}\n`,
    'values.schema.json': `${JSON.stringify(valuesJsonSchema(), null, 2)}\n`,
    'files/alerts.yaml': readFileSync(new URL('monitoring/alerts.yaml', deploy), 'utf8'),
    'files/dashboard.json': readFileSync(new URL('monitoring/dashboard.json', deploy), 'utf8'),
    ...Object.fromEntries(Object.entries(templates).map(([name, text]) => [`templates/${name}`, text])),
  };
}

function chartYaml(version: string): string {
  return stringify({
    apiVersion: 'v2',
    name: 'node-maintenance',
    description: 'Declarative, durable node maintenance for Kubernetes (KEP-4212) on Temporal',
    type: 'application',
    version,
    appVersion: version,
    kubeVersion: '>=1.33.0-0',
    sources: ['https://github.com/kubernetes/enhancements/pull/4213'],
  });
}
