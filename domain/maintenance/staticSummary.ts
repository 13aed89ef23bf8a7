import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import { CLUSTER_UID_MEMO, type ClusterScope } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { code, plain } from '../common/markdown.ts';

/** The fields that a run gets at its start, for users who find it in a list of workflows. */
export interface StaticSummary {
  /** One line of Markdown. */
  staticSummary: string;
  /** Markdown. */
  staticDetails: string;
  /** Shown in the UI, and never encrypted: without the reason, which is in the summary. Temporal warns if it exceeds 2 KiB. */
  memo: { [name: string]: string };
}

/** Temporal accepts 400 bytes; a character may need three. */
const maxSummaryLength = 120;

export function staticSummaryOf(
  { metadata: { name }, spec: { reason } }: NodeMaintenance,
  cluster: Pick<ClusterScope, 'uid'>,
): StaticSummary {
  const kubectl = `kubectl maintenance status ${name}`;
  return staticSummary({ kind: 'Maintenance', object: `nm ${name}`, kubectl, name, reason, cluster });
}

/** Returns the summary of every run that the Schedule of a window starts. */
export function windowStaticSummaryOf(
  { metadata: { name }, spec }: MaintenanceWindow,
  cluster: Pick<ClusterScope, 'uid'>,
): StaticSummary {
  const kubectl = `kubectl get mw ${name} -o wide`;
  const { reason } = spec.template;
  return staticSummary({ kind: 'Window', object: `mw ${name}`, kubectl, name, reason, cluster });
}

interface StaticSummaryInput {
  kind: string;
  name: string;
  /** The object as an argument of kubectl. */
  object: string;
  kubectl: string;
  reason: string | undefined;
  cluster: Pick<ClusterScope, 'uid'>;
}

function staticSummary({ kind, name, object, kubectl, reason, cluster }: StaticSummaryInput): StaticSummary {
  return {
    staticSummary: plain(reason ?? '', maxSummaryLength) || `${kind} ${name}`,
    staticDetails: `The desired state is in the object: ${code(`kubectl get ${object} -o yaml`)}. The current state is under *Current Details*.`,
    memo: { kubectl, [CLUSTER_UID_MEMO]: cluster.uid },
  };
}
