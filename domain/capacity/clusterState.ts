import type { Node, PersistentVolume, Pod, PodAffinityTerm, PodScheduling, Taint } from '../../api/core.ts';
import { labelOf, selectsLabels } from '../common/labelSelector.ts';
import { compareNames } from '../common/names.ts';
import { isFinished, podName } from '../common/pod.ts';
import { requestsOf } from './requests.ts';

/** The nodes and pods that placements start from. */
export interface ClusterFacts {
  readonly nodes: readonly Node[];
  /** All pods: those on nodes use their resources. */
  readonly pods: readonly Pod[];
  /** `namespace/claim` -> the volume that is bound to it. Volumes of other claims are not compared with nodes. */
  readonly volumes?: ReadonlyMap<string, PersistentVolume>;
}

/** A node and what its pods use. */
export interface NodeState {
  readonly node: Node;
  readonly used: Map<string, number>;
  podCount: number;
  readonly hostPorts: HostPort[];
}

type HostPort = Required<PodScheduling>['hostPorts'][number];

/** Number of pods that match, by value of the topology key of their nodes. */
interface Counter {
  readonly topologyKey: string;
  readonly matches: (pod: Pod) => boolean;
  readonly counts: Map<string, number>;
}

/** A required anti-affinity term of pods on nodes, which keeps matching pods away. */
interface Repulsion extends Counter {
  readonly term: PodAffinityTerm;
}

const none: PodScheduling = {};

export function schedulingOf({ spec }: Pod): PodScheduling {
  return spec.scheduling ?? none;
}

/**
 * The state of the nodes of a cluster while pods are placed one after another. Adding and removing pods changes it, and `undo` returns to
 * an earlier state.
 */
export class ClusterState {
  readonly nodes: readonly NodeState[];
  readonly volumes: ReadonlyMap<string, PersistentVolume>;
  /** Counts the changes that may make room: an answer that no node fits holds until the next one. */
  version = 0;
  readonly #byName: ReadonlyMap<string, NodeState>;
  /** Pod UID -> the pod and its node. */
  readonly #placed = new Map<string, { pod: Pod; node: NodeState }>();
  /** Requirements of pods -> which of them -> counter. */
  readonly #counters = new Map<PodScheduling, Map<string, Counter>>();
  readonly #repulsions = new Map<string, Repulsion>();
  readonly #journal: { pod: Pod; node: NodeState; wasAdded: boolean }[] = [];

  constructor({ nodes, pods, volumes = new Map() }: ClusterFacts) {
    this.nodes = nodes
      .toSorted((a, b) => compareNames(a.metadata.name, b.metadata.name))
      .map((node) => ({ node, used: new Map(), podCount: 0, hostPorts: [] }));
    this.#byName = new Map(this.nodes.map((state) => [state.node.metadata.name, state] as const));
    this.volumes = volumes;
    for (const pod of pods) {
      const node = this.#byName.get(pod.spec.nodeName ?? '');
      if (node !== undefined && !isFinished(pod)) this.#add(pod, node);
    }
  }

  /** The anti-affinity terms of the pods on nodes. */
  get repulsions(): Iterable<Repulsion> {
    return this.#repulsions.values();
  }

  get hasRepulsions(): boolean {
    return this.#repulsions.size > 0;
  }

  add(pod: Pod, node: NodeState): void {
    this.#add(pod, node);
    this.#journal.push({ pod, node, wasAdded: true });
  }

  /** Removes a pod from its node; one that is on none stays unknown. */
  remove(pod: Pod): void {
    const placed = this.#placed.get(keyOf(pod));
    if (placed === undefined) return;
    this.#remove(placed.pod, placed.node);
    this.#journal.push({ ...placed, wasAdded: false });
  }

  /** A point that `undo` returns to. */
  get mark(): number {
    return this.#journal.length;
  }

  undo(mark: number): void {
    for (const change of this.#journal.splice(mark).toReversed()) {
      if (change.wasAdded) {
        this.#remove(change.pod, change.node);
        this.version += 1;
      } else this.#add(change.pod, change.node);
    }
  }

  /**
   * Returns how many matching pods each topology domain has, for one of the requirements of a pod. The same key must stand for the same function among
   * pods that share the object with their requirements.
   */
  counts(
    { of, key }: { of: PodScheduling; key: string },
    topologyKey: string,
    matches: (pod: Pod, node: Node) => boolean,
  ): ReadonlyMap<string, number> {
    const own = this.#counters.get(of) ?? new Map<string, Counter>();
    this.#counters.set(of, own);
    const known = own.get(key);
    if (known !== undefined) return known.counts;
    const counter: Counter = {
      topologyKey,
      matches: (pod) => {
        const node = this.#placed.get(keyOf(pod))?.node.node;
        return node !== undefined && matches(pod, node);
      },
      counts: new Map(),
    };
    own.set(key, counter);
    for (const { pod, node } of this.#placed.values()) count(counter, pod, node, 1);
    return counter.counts;
  }

  #add(pod: Pod, node: NodeState): void {
    this.#placed.set(keyOf(pod), { pod, node });
    use(node, pod, 1);
    this.#count(pod, node, 1);
    this.#repel(pod, node, 1);
  }

  #remove(pod: Pod, node: NodeState): void {
    this.#count(pod, node, -1);
    this.#repel(pod, node, -1);
    use(node, pod, -1);
    this.#placed.delete(keyOf(pod));
    if (schedulingOf(pod).podAntiAffinity !== undefined) this.version += 1;
  }

  #count(pod: Pod, node: NodeState, by: 1 | -1): void {
    for (const own of this.#counters.values())
      for (const counter of own.values()) count(counter, pod, node, by);
  }

  #repel(pod: Pod, node: NodeState, by: 1 | -1): void {
    const { podAntiAffinity = [] } = schedulingOf(pod);
    const { namespace = '' } = pod.metadata;
    for (const term of podAntiAffinity) {
      const key = `${namespace} ${JSON.stringify(term)}`;
      const known = this.#repulsions.get(key) ?? {
        term,
        topologyKey: term.topologyKey,
        matches: (other: Pod) => termSelects(term, namespace, other, 'Likely'),
        counts: new Map<string, number>(),
      };
      addTo(known.counts, domainOf(node.node, term.topologyKey), by);
      if (known.counts.size > 0) this.#repulsions.set(key, known);
      else this.#repulsions.delete(key);
    }
  }
}

const unschedulableTaint: Taint = { key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' };

/** Returns the nodes as they are once these are cordoned, with the taint that the node lifecycle controller adds. */
export function withCordoned(nodes: readonly Node[], names: ReadonlySet<string>): Node[] {
  return nodes.map((node) => (names.has(node.metadata.name) ? cordoned(node) : node));
}

function cordoned(node: Node): Node {
  const { taints = [] } = node.spec;
  const isTainted = taints.some(({ key }) => key === unschedulableTaint.key);
  const all = isTainted ? taints : [...taints, unschedulableTaint];
  return { ...node, spec: { ...node.spec, unschedulable: true, taints: all } };
}

/** Returns the value of the topology key of a node. */
export function domainOf({ metadata }: Node, topologyKey: string): string | undefined {
  return labelOf(metadata.labels ?? {}, topologyKey);
}

/**
 * Reports whether a term of pods in `namespace` selects a pod. The labels of namespaces are not known: a selector of namespaces that is not
 * empty is assumed to select every namespace or none, whichever finds fewer nodes.
 */
export function termSelects(
  { namespaces = [], namespaceSelector, labelSelector }: PodAffinityTerm,
  namespace: string,
  { metadata }: Pod,
  unknownNamespaces: 'Likely' | 'Unlikely',
): boolean {
  // "A null or empty namespaces list and null namespaceSelector means this pod's namespace"; "an empty selector ({}) matches all namespaces".
  const own = namespaces.length === 0 && namespaceSelector === undefined ? [namespace] : namespaces;
  const isSelected =
    own.includes(metadata.namespace ?? '') ||
    (namespaceSelector !== undefined && (isEmpty(namespaceSelector) || unknownNamespaces === 'Likely'));
  // "If it's null, this PodAffinityTerm matches with no Pods."
  return isSelected && labelSelector !== undefined && selectsLabels(labelSelector, metadata.labels ?? {});
}

function isEmpty({
  matchLabels = {},
  matchExpressions = [],
}: NonNullable<PodAffinityTerm['namespaceSelector']>) {
  return Object.keys(matchLabels).length === 0 && matchExpressions.length === 0;
}

function keyOf(pod: Pod): string {
  return pod.metadata.uid ?? podName(pod);
}

function use(node: NodeState, pod: Pod, by: 1 | -1): void {
  const scheduling = schedulingOf(pod);
  node.podCount += by;
  for (const [resource, amount] of requestsOf(scheduling)) addTo(node.used, resource, by * amount);
  for (const hostPort of scheduling.hostPorts ?? []) {
    if (by === 1) node.hostPorts.push(hostPort);
    else node.hostPorts.splice(node.hostPorts.indexOf(hostPort), 1);
  }
}

function count(counter: Counter, pod: Pod, { node }: NodeState, by: 1 | -1): void {
  const domain = domainOf(node, counter.topologyKey);
  if (domain !== undefined && counter.matches(pod)) addTo(counter.counts, domain, by);
}

function addTo<Key>(amounts: Map<Key, number>, key: Key | undefined, by: number): void {
  if (key === undefined) return;
  const sum = (amounts.get(key) ?? 0) + by;
  if (sum === 0) amounts.delete(key);
  else amounts.set(key, sum);
}
