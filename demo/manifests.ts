import { stringify } from 'yaml';
import type { KubeObject } from '../api/core.ts';

/** Builds the Kubernetes objects of the scenarios. Nothing runs in these pods, because kwok simulates their nodes. */

/** A workload whose pods have its name in the label `app`. */
export interface Workload {
  namespace: string;
  name: string;
  replicas: number;
  /** Default: priority 0. */
  priorityClassName?: string;
  /** The pods take three seconds to terminate. */
  exitsSlowly?: boolean;
  /** Annotations of the pods. */
  annotations?: Record<string, string>;
}

export type Manifest = KubeObject & Record<string, unknown>;

export function yamlOf(objects: readonly object[]): string {
  return objects.map((object) => stringify(object)).join('---\n');
}

export function namespace(name: string): Manifest {
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name } };
}

export function priorityClass(name: string, value: number): Manifest {
  return { apiVersion: 'scheduling.k8s.io/v1', kind: 'PriorityClass', metadata: { name }, value };
}

/** `placement` contains the scheduling fields of the pod spec. */
export function deployment(workload: Workload, placement: object): Manifest {
  return replicated('Deployment', workload, placement);
}

export function statefulSet(workload: Workload, placement: object): Manifest {
  const manifest = replicated('StatefulSet', workload, placement);
  return { ...manifest, spec: { ...manifest.spec, serviceName: workload.name } };
}

function replicated(kind: string, workload: Workload, placement: object): Manifest & { spec: object } {
  const { namespace: of, name, replicas, priorityClassName } = workload;
  return {
    apiVersion: 'apps/v1',
    kind,
    metadata: { name, namespace: of },
    spec: {
      replicas,
      selector: podsOf(workload),
      template: podTemplate(workload, {
        ...(priorityClassName === undefined ? {} : { priorityClassName }),
        ...placement,
      }),
    },
  };
}

type PodsOf = Pick<Workload, 'name' | 'exitsSlowly' | 'annotations'>;

function podTemplate(workload: PodsOf, spec: object): object {
  const { name, annotations } = workload;
  return {
    metadata: { labels: podLabels(workload), ...(annotations === undefined ? {} : { annotations }) },
    spec: { ...spec, containers: [{ name, image: `${name}:1` }] },
  };
}

function podLabels({ name, exitsSlowly }: PodsOf): Record<string, string> {
  return { app: name, ...(exitsSlowly ? { 'sandbox.nodemaintenance.k8s.io/slow-exit': 'true' } : {}) };
}

/** Returns the label selector of the pods of a workload. */
export function podsOf({ name }: { name: string }): { matchLabels: { app: string } } {
  return { matchLabels: { app: name } };
}

/** `limit` is minAvailable or maxUnavailable. */
export function budget(workload: Workload, limit: object): Manifest {
  const { namespace: of, name } = workload;
  return {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata: { name, namespace: of },
    spec: { ...limit, selector: podsOf(workload) },
  };
}

export function service({ namespace: of, name }: Workload): Manifest {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: of },
    spec: { selector: podsOf({ name }).matchLabels, ports: [{ port: 80 }] },
  };
}

export const daemonSet = { namespace: 'kube-system', name: 'log-agent' } as const;

/** Builds a DaemonSet. Its pods are evacuated last, and are gated until the end of the maintenance. */
export function agents(of: Omit<Workload, 'replicas'> = daemonSet): Manifest {
  const { name, namespace: within } = of;
  return {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { name, namespace: within },
    spec: { selector: podsOf(of), template: podTemplate(of, {}) },
  };
}
