import type { Lease } from '../../api/core.ts';
import { numbered } from '../common/text.ts';
import { heldManifestsOf, nodeAgentOf } from '../leases/nodeAgent.ts';
import type { UninstallFacts } from './facts.ts';
import { itemsAbout, type UninstallItem } from './item.ts';

/**
 * Waits while the agent of a node holds manifests of static pods: it puts them back when no maintenance drains the node, and needs its permissions to
 * see that. One that does not report can do so only after it was started.
 */
export function agentItems(lease: Lease, { now }: UninstallFacts): UninstallItem[] {
  const { name } = lease.metadata;
  const held = heldManifestsOf(lease);
  if (held === 0) return [];
  const about = itemsAbout({ phase: 'Nodes', kind: 'NodeAgent' }, { metadata: { name } });
  const manifests = numbered(held, 'manifest');
  if (nodeAgentOf(lease, new Date(now)).kind === 'Live') return [about.wait(`it puts back ${manifests}`)];
  return [
    about.blocked(
      `it held ${manifests} of static pods when it last reported: run "node-maintenance-agent return" on node ${name}, which puts them back`,
    ),
  ];
}
