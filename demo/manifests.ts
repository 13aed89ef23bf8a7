import { stringify } from 'yaml';
import type { KubeObject } from '../api/core.ts';

/** The Kubernetes objects that stories are made of. Nothing runs in these pods: their nodes are kwok's. */

/** A Deployment whose pods have its name as label `app`. */
export interface Workload {
  namespace: string;
  name: string;
  replicas: number;
  /** Absent: priority 0. */
  priorityClassName?: string;
  /** Its pods take three seconds to exit. */
  exitsSlowly?: boolean;
  /** Of its pods. */
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

/** `placement` is what the pods' spec says of nodes. */
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

/** Label selector of a workload's pods. */
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

/** One pod for each node; they are the last to leave, and wait there for the end of the maintenance. */
export function agents(of: Omit<Workload, 'replicas'> = daemonSet): Manifest {
  const { name, namespace: within } = of;
  return {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { name, namespace: within },
    spec: { selector: podsOf(of), template: podTemplate(of, {}) },
  };
}
