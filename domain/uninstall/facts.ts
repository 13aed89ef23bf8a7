import type { Job, KubeObject, Lease, Node, ObjectMeta } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import type { EvictionRequest } from '../../api/lifecycle.ts';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { NodeReadiness } from '../../api/nodeReadiness.ts';
import type { Managed } from '../common/managedFields.ts';

/** Everything of node maintenance in a cluster and in Temporal. Objects are as the apiserver returns them. */
export interface UninstallFacts {
  /** Milliseconds since 1970, by the clock of the apiserver. */
  readonly now: number;
  /** Namespace of the installation. */
  readonly namespace: string;
  /** Holder of the Lease of the control loops, if a worker runs them now. */
  readonly leader: string | undefined;
  readonly maintenances: readonly NodeMaintenance[];
  readonly windows: readonly MaintenanceWindow[];
  readonly evacuations: readonly Evacuation[];
  /** The EvictionRequests that node maintenance has created. */
  readonly evictionRequests: readonly EvictionRequest[];
  readonly readinesses: readonly NodeReadiness[];
  readonly readinessPolicies: readonly KubeObject[];
  readonly budgets: readonly KubeObject[];
  readonly nodes: readonly (Node & Managed)[];
  /** Pods with a scheduling gate or an annotation of node maintenance. */
  readonly pods: readonly MarkedPod[];
  /** Jobs of maintenance windows. */
  readonly jobs: readonly Job[];
  readonly nodeLeases: readonly Lease[];
  /** Identity Leases of node agents. */
  readonly agentLeases: readonly Lease[];
  /** Leases of leader election, and identity Leases of processes. */
  readonly processLeases: readonly Lease[];
  /** The objects of deploy/ that exist, without CRDs and namespaces. */
  readonly installed: readonly InstalledObject[];
  readonly definitions: readonly InstalledDefinition[];
  readonly namespaces: readonly InstalledNamespace[];
  readonly temporal: TemporalFacts;
}

export interface MarkedPod extends KubeObject {
  readonly spec: { readonly schedulingGates?: readonly { readonly name: string }[] };
}

export interface InstalledObject extends KubeObject {
  /** Present in Deployments. */
  readonly spec?: { readonly replicas?: number };
}

export interface InstalledDefinition extends KubeObject {
  readonly spec: { readonly names: { readonly kind: string } };
}

export interface InstalledNamespace extends KubeObject {
  /** Its objects, without those that Kubernetes creates in every namespace. */
  readonly contents: readonly { readonly kind: string; readonly metadata: ObjectMeta }[];
}

export type TemporalFacts =
  | {
      readonly kind: 'Reachable';
      /** Open runs of this cluster, without its claim. */
      readonly runs: readonly TemporalRun[];
      readonly schedules: readonly string[];
      /** The open runs with which this cluster claims its names. */
      readonly claims: readonly TemporalRun[];
    }
  | {
      readonly kind: 'Unreachable';
      readonly problem: string;
      /** Value of the search attribute KubernetesCluster of its runs. */
      readonly cluster: string;
      /** Value of `--cluster` of its workers, as far as their Leases show it. */
      readonly clusterName: string | undefined;
    };

export interface TemporalRun {
  readonly workflowId: string;
  readonly runId: string;
}

/** Options of the command. */
export interface UninstallChoices {
  /** Deletes the CRDs, and before them every object of theirs. */
  readonly crds: boolean;
  /** Deletes objects that Helm has installed, too. */
  readonly helmObjects: boolean;
}
