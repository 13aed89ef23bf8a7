import type { KubeObject } from '../../api/core.ts';
import type { Resource } from '../../kube/resources.ts';
import type { DrainRequest } from '../target.ts';
import type { OperatorName } from '../targetNames.ts';

/** Where the process of an operator finds what it needs outside a cluster. */
export interface PeerEnvironment {
  /** An empty directory, which is also its directory for temporary files. */
  dir: string;
  /** A free port of 127.0.0.1, for /readyz. */
  healthPort: number;
}

/** A peer that is an operator of its own. It is built from its public sources, and runs outside the cluster. */
export interface Operator<T extends KubeObject = KubeObject> {
  readonly name: OperatorName;
  /** Its custom resource. */
  readonly resource: Resource<T>;
  /** Differences from its own deployment, for the report. */
  readonly changes: readonly string[];
  /** Writes the files that it needs, and returns its arguments. */
  prepare(environment: PeerEnvironment): Promise<string[]>;
  /** Returns the objects that request the drain. */
  objectsOf(request: Pick<DrainRequest, 'nodes' | 'maintenances'>, prefix: string): T[];
  /** Reports whether it says of all nodes that they are drained. */
  isDone(objects: readonly Readonly<T>[], nodes: readonly string[]): boolean;
}
