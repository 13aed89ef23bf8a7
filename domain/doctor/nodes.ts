import type { Lease, Node, Pod } from '../../api/core.ts';
import { type MAINTENANCE_GATE, READINESS_TAINT } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { NodeReadiness } from '../../api/nodeReadiness.ts';
import { isTrue } from '../common/conditions.ts';
import { isCordoned } from '../common/cordon.ts';
import { compareNames, listed } from '../common/names.ts';
import { podName } from '../common/pod.ts';
import { numbered } from '../common/text.ts';
import { hasTaint } from '../common/toleration.ts';
import { drainingMaintenances } from '../drain/drainingMaintenances.ts';
import { leaseProblemOf } from '../leases/abandoned.ts';
import { heldManifestsOf, nodeAgentOf } from '../leases/nodeAgent.ts';
import { heldNodes } from '../maintenance/heldNodes.ts';
import { durationText, error, type Finding, listedFindings, warning } from './finding.ts';
import type { StuckTiming } from './maintenances.ts';

const maintenanceGate: typeof MAINTENANCE_GATE = 'nodemaintenance.k8s.io/maintenance';

/** Checks the maintenance Leases of nodes. `ourHolder` is that of the installation. */
export function leaseFindings(
  {
    leases,
    maintenances,
    ourHolder,
  }: { leases: readonly Lease[]; maintenances: readonly NodeMaintenance[]; ourHolder: string },
  { now, stuckAfterMs }: StuckTiming,
): Finding[] {
  const inUse = heldNodes(maintenances);
  const findings = leases
    .toSorted((a, b) => compareNames(a.metadata.name, b.metadata.name))
    .flatMap((lease): Finding[] => {
      const { name } = lease.metadata;
      const object = `lease/${lease.metadata.namespace}/${name}`;
      const problem = leaseProblemOf(lease, now);
      if (problem !== undefined)
        return [warning(problem.message, 'kubectl maintenance lease list shows all holders', object)];
      const isOurs = lease.spec.holderIdentity === ourHolder;
      const heldMs = now - Date.parse(lease.spec.acquireTime ?? '');
      return isOurs && !inUse.has(name) && heldMs > stuckAfterMs
        ? [
            warning(
              `the worker holds the Lease of node ${name}, and no maintenance has cordoned the node`,
              'check that a worker is the leader, which releases it',
              object,
            ),
          ]
        : [];
    });
  return listedFindings(findings, `${numbered(leases.length, 'maintenance Lease')}: each is free or renewed`);
}

export interface NodeFacts {
  readonly nodes: readonly Node[];
  /** Names of cordoned nodes whose cordon the worker has set. */
  readonly cordonedByUs: ReadonlySet<string>;
  readonly maintenances: readonly NodeMaintenance[];
  readonly readinesses: readonly NodeReadiness[];
  readonly pods: readonly Pod[];
  /** The identity Leases of node agents, named as their nodes. */
  readonly agentLeases: readonly Lease[];
}

/** Checks what is left on nodes without a maintenance, and nodes whose readiness gates do not become ready. */
export function nodeFindings(facts: NodeFacts, timing: StuckTiming): Finding[] {
  const held = heldNodes(facts.maintenances);
  const readinesses = new Map(facts.readinesses.map((one) => [one.metadata.name, one]));
  const findings = facts.nodes
    .toSorted((a, b) => compareNames(a.metadata.name, b.metadata.name))
    .flatMap((node) => [
      ...gateFindings(node, readinesses.get(node.metadata.name), timing),
      ...(held.has(node.metadata.name) ? [] : leftovers(node, facts)),
      ...heldManifests(node, facts, timing),
    ]);
  return listedFindings(
    [...findings, ...heldPods(facts, held)],
    `${numbered(facts.nodes.length, 'node')}: no cordon, condition, taint or held manifest is left over`,
  );
}

function gateFindings(
  node: Node,
  readiness: NodeReadiness | undefined,
  { now, stuckAfterMs }: StuckTiming,
): Finding[] {
  if (!hasTaint(node, READINESS_TAINT)) return [];
  const { name } = node.metadata;
  const object = `node/${name}`;
  const { status } = readiness ?? {};
  const ready = status?.conditions.find(({ type }) => type === 'Ready');
  const sinceMs = now - Date.parse(ready?.lastTransitionTime ?? node.metadata.creationTimestamp ?? '');
  if (!(sinceMs > stuckAfterMs)) return [];
  if (readiness === undefined || readiness.spec.readinessGates.length === 0)
    return [
      error(
        `it has the taint ${READINESS_TAINT.key} and no readiness gate`,
        'check that the leader runs with readiness gates enabled: it removes the taint; without readiness gates remove it by hand',
        object,
      ),
    ];
  const closed = (status?.readiness ?? []).filter((gate) => !gate.ready);
  const gates = closed.map((gate) => `${gate.name}${gate.message === undefined ? '' : ` (${gate.message})`}`);
  const why = gates.length === 0 ? 'its gates are not evaluated' : `gates are not ready: ${listed(gates)}`;
  return [
    warning(
      `no pod is scheduled there for ${durationText(sinceMs)}: ${why}`,
      `kubectl get nodereadiness ${name} -o yaml shows each gate: start its pods, or remove the gate`,
      object,
    ),
  ];
}

/** Returns findings about leftovers of maintenances, which a healthy worker removes in stage Complete. */
function leftovers(node: Node, { cordonedByUs }: NodeFacts): Finding[] {
  const { name } = node.metadata;
  const object = `node/${name}`;
  const conditions = ['MaintenanceInProgress', 'DrainInProgress'].filter((type) =>
    isTrue(node.status?.conditions, type),
  );
  return [
    ...(isCordoned(node) && cordonedByUs.has(name)
      ? [
          warning(
            'the worker has cordoned it, and no maintenance holds it any more',
            `uncordon it when it is ready for pods (kubectl uncordon ${name})`,
            object,
          ),
        ]
      : []),
    ...(conditions.length > 0
      ? [
          warning(
            `${conditions.join(' and ')} ${conditions.length === 1 ? 'is' : 'are'} True, and no maintenance holds it`,
            'check that a worker is the leader, which removes them',
            object,
          ),
        ]
      : []),
  ];
}

/** Static pods that the agent has not put back: it needs a moment for that, or does not run, or cannot. */
function heldManifests(node: Node, facts: NodeFacts, { now }: StuckTiming): Finding[] {
  const { name } = node.metadata;
  const lease = facts.agentLeases.find(({ metadata }) => metadata.name === name);
  const count = lease === undefined ? 0 : heldManifestsOf(lease);
  if (count === 0 || drainingMaintenances(node, facts.maintenances).length > 0) return [];
  const isLive = nodeAgentOf(lease, new Date(now)).kind === 'Live';
  return [
    warning(
      `its agent holds ${numbered(count, 'manifest')} of static pods${isLive ? '' : ', does not report any more'}, and no maintenance drains the node`,
      isLive
        ? `the agent puts them back within a minute; if it does not, its log on node ${name} says why (journalctl -u node-maintenance-agent)`
        : `start the agent on node ${name}, or run "node-maintenance-agent return" there: both put them back`,
      `node/${name}`,
    ),
  ];
}

/** Pods of DaemonSets that a maintenance keeps off their node. */
function heldPods({ pods, nodes }: NodeFacts, held: ReadonlySet<string>): Finding[] {
  const existing = new Set(nodes.map(({ metadata }) => metadata.name));
  const left = pods.filter(({ spec }) => {
    const node = spec.madeForNode ?? '';
    return spec.schedulingGates?.includes(maintenanceGate) === true && existing.has(node) && !held.has(node);
  });
  if (left.length === 0) return [];
  return [
    warning(
      `${numbered(left.length, 'pod')} (${listed(left.map(podName))}) still ${left.length === 1 ? 'has' : 'have'} scheduling gate ${maintenanceGate}, and no maintenance holds the node`,
      'check that a worker is the leader, which removes the gate',
    ),
  ];
}
