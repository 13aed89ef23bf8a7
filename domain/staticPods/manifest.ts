import type { Pod } from '../../api/core.ts';
import { gracePeriodSecondsOf } from '../common/pod.ts';

/** A manifest of a static pod, as far as the agent reads it. */
export interface Manifest {
  /** Name of the file, without its folder. */
  readonly file: string;
  readonly name: string;
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** Undefined if only the apiserver knows it: it gives the mirror pod that of its class, or the default one. */
  readonly priority: number | undefined;
  readonly gracePeriodSeconds: number;
}

/** A file in the hold directory. Whatever it contains, it is put back. */
export interface HeldManifest {
  readonly file: string;
  /** Undefined if it does not contain a pod. */
  readonly manifest: Manifest | undefined;
}

/** The classes that every cluster has. */
const builtInPriorities: Readonly<Record<string, number>> = {
  'system-cluster-critical': 2_000_000_000,
  'system-node-critical': 2_000_001_000,
};

/** Returns the manifest that a parsed file contains; undefined if it is no pod with a name. */
export function manifestOf(file: string, content: unknown): Manifest | undefined {
  const { kind, metadata, spec } = recordOf(content);
  const { name, namespace, labels, annotations } = recordOf(metadata);
  const { priority, priorityClassName, terminationGracePeriodSeconds: grace } = recordOf(spec);
  if (kind !== 'Pod' || typeof name !== 'string' || name === '') return undefined;
  // The kubelet takes a negative period for the shortest one.
  const terminationGracePeriodSeconds =
    typeof grace === 'number' && Number.isFinite(grace) ? Math.max(0, grace) : undefined;
  return {
    file,
    name,
    namespace: typeof namespace === 'string' && namespace !== '' ? namespace : 'default',
    labels: textsOf(labels),
    annotations: textsOf(annotations),
    priority: typeof priority === 'number' ? priority : builtInPriority(priorityClassName),
    gracePeriodSeconds: gracePeriodSecondsOf(
      podOf(terminationGracePeriodSeconds === undefined ? {} : { terminationGracePeriodSeconds }),
    ),
  };
}

function builtInPriority(className: unknown): number | undefined {
  return typeof className === 'string' && Object.hasOwn(builtInPriorities, className)
    ? builtInPriorities[className]
    : undefined;
}

function podOf(spec: Pod['spec']): Pod {
  return { metadata: { name: '' }, spec, status: { ready: true } };
}

/** Returns `namespace/name`, which identifies the pod on its node. */
export function podKey({ namespace, name }: Pick<Manifest, 'namespace' | 'name'>): string {
  return `${namespace}/${name}`;
}

/** Returns the name of the mirror pod, as the kubelet makes it. */
export function mirrorPodName({ name }: Pick<Manifest, 'name'>, node: string): string {
  return `${name}-${node.toLowerCase()}`;
}

/** Returns the mirror pod, as far as drain targets select by it. A priority that is not known is as low as any. */
export function mirrorPod(manifest: Manifest, node: string): Pod {
  const { namespace, labels, annotations, priority = Number.NEGATIVE_INFINITY } = manifest;
  return {
    metadata: {
      name: mirrorPodName(manifest, node),
      namespace,
      labels: { ...labels },
      annotations: { ...annotations, 'kubernetes.io/config.mirror': '' },
    },
    spec: { nodeName: node, priority },
    status: { ready: true },
  };
}

function recordOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function textsOf(value: unknown): Record<string, string> {
  return Object.fromEntries(
    Object.entries(recordOf(value)).filter(
      (entry): entry is [string, string] => typeof entry[1] === 'string',
    ),
  );
}
