import type { ProcessSummary } from '../leases/processSummary.ts';
import { listed } from '../common/names.ts';
import { numbered } from '../common/text.ts';
import { durationText, error, type Finding, listedFindings, ok, warning } from './finding.ts';

export interface ProcessFacts {
  readonly namespace: string;
  /** Version of the plugin. */
  readonly version: string;
  readonly processes: readonly ProcessSummary[];
  /** Holder of the leader election Lease; undefined if it has expired or was released. */
  readonly leader: string | undefined;
  /** The Lease of the election, held by any process; undefined if there is none. RFC 3339. */
  readonly electedAt: string | undefined;
  readonly now: number;
}

/** Checks the processes of the installation, and which of them leads the control loops. */
export function processFindings(facts: ProcessFacts): Finding[] {
  const { processes, namespace } = facts;
  const live = processes.filter(({ state }) => state === 'Live');
  const stale = processes.filter(({ state }) => state === 'Stale').map(nameOf);
  return [
    ...(live.length > 0
      ? [
          ok(
            `${live.length} live ${live.length === 1 ? 'process' : 'processes'}: ${listed(live.map(nameOf))}`,
          ),
        ]
      : [noneAlive(facts)]),
    ...(stale.length > 0
      ? [
          warning(
            `${listed(stale)} no longer ${stale.length === 1 ? 'renews its' : 'renew their'} identity Lease`,
            `check whether ${stale.length === 1 ? 'it runs' : 'they run'} and reach the apiserver (kubectl -n ${namespace} get pods); the Lease of a process that has ended is deleted within an hour`,
          ),
        ]
      : []),
    leaderFinding(facts),
    ...versionFindings(facts, live),
  ];
}

function nameOf({ component, host }: ProcessSummary): string {
  return `${component.replace('node-maintenance-', '')} on ${host}`;
}

function logsRemedy(namespace: string): string {
  return `check its log, which says what it waits for (kubectl -n ${namespace} logs deployment/node-maintenance-worker)`;
}

function noneAlive({ leader, namespace }: ProcessFacts): Finding {
  return leader === undefined
    ? error(
        `no process of the installation runs in namespace ${namespace}`,
        `start the worker; if it runs, ${logsRemedy(namespace)}`,
      )
    : warning(
        `no process publishes an identity Lease in namespace ${namespace}`,
        'remove --identity-leases false, so that processes and their versions are listed',
      );
}

function leaderFinding({ leader, processes, electedAt, namespace, now }: ProcessFacts): Finding {
  if (leader === undefined) {
    const since = Date.parse(electedAt ?? '');
    const text = Number.isNaN(since) ? '' : ` for ${durationText(now - since)}`;
    return error(
      `no process is the leader of the control loops${text}: evacuations, readiness taints and starts of maintenances wait`,
      `start a worker; if one runs, ${logsRemedy(namespace)}`,
      `lease/${namespace}/node-maintenance-controllers`,
    );
  }
  const found = processes.find((one) => one.leader);
  return found === undefined
    ? warning(
        `the leader of the control loops, ${leader}, publishes no identity Lease`,
        'it runs with --identity-leases false, or is of another release: upgrade it',
      )
    : ok(`${nameOf(found)} leads the control loops`);
}

function versionFindings({ version }: ProcessFacts, live: readonly ProcessSummary[]): Finding[] {
  const versions = [...new Set(live.flatMap((one) => one.version ?? []))].toSorted();
  if (versions.length > 1)
    return [
      warning(
        `processes of several releases run: ${versions.join(', ')}`,
        'complete the upgrade, or roll it back',
      ),
    ];
  const [only] = versions;
  return only === undefined || only === version
    ? []
    : [
        warning(
          `the processes run release ${only}, and this plugin is of release ${version}`,
          `use the plugin of release ${only}`,
        ),
      ];
}

/** How far a clock differs from the apiserver's: positive if it is ahead. */
export interface ClockFacts {
  readonly clock: string;
  readonly skewMs: number;
}

/** Clocks are compared with times of whole seconds. */
const toleratedSkewMs = 5_000;

/** Checks clocks: Leases and certificates rely on them. */
export function clockFindings(clocks: readonly ClockFacts[], local: number): Finding[] {
  const skewed = clocks.filter(({ skewMs }) => Math.abs(skewMs) > toleratedSkewMs);
  const remedy = 'synchronize it (NTP): Leases, tokens and certificates rely on it';
  const findings = skewed
    .toSorted((a, b) => Math.abs(b.skewMs) - Math.abs(a.skewMs))
    .map(({ clock, skewMs }) =>
      warning(`the clock of ${clock} is ${skewText(skewMs)} that of the apiserver`, remedy),
    );
  const own =
    Math.abs(local) > toleratedSkewMs
      ? [warning(`the clock of this host is ${skewText(local)} that of the apiserver`, remedy)]
      : [];
  return listedFindings(
    [...own, ...findings],
    `this host and ${numbered(clocks.length, 'client')} that ${clocks.length === 1 ? 'renews a Lease' : 'renew Leases'} agree with the apiserver to ${toleratedSkewMs / 1_000} s`,
  );
}

function skewText(skewMs: number): string {
  return `${durationText(Math.abs(skewMs))} ${skewMs > 0 ? 'ahead of' : 'behind'}`;
}
