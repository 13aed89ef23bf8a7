import { hostname, userInfo } from 'node:os';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Lease } from '../../api/core.ts';
import { NODE_LEASE_NAMESPACE } from '../../api/names.ts';
import { type PreviousHolder, reasonProblem } from '../../domain/leases/administrator.ts';
import { type LeaseSummary, summaryOf } from '../../domain/leases/summary.ts';
import { whoAmI } from '../../kube/authorization.ts';
import type { Kube } from '../../kube/client.ts';
import { errorMessage } from '../../kube/errors.ts';
import { resources } from '../../kube/resources.ts';
import { acquireAsAdministrator, releaseAsAdministrator } from '../../node-lease/administrator.ts';
import { withRemedy } from '../../node-lease/remedy.ts';
import { type ClusterOptions, withCluster } from '../cluster.ts';
import {
  ago,
  duration,
  formatList,
  print,
  printError,
  CommandError,
  escapeForTerminal,
  type Structured,
} from '../output.ts';
import { type Column, table } from '../terminal/table.ts';
import { addRunVerb } from './run.ts';

/** kubectl maintenance lease list | acquire | release | run */
export function addLeaseVerbs(program: Command): void {
  const lease = program
    .command('lease')
    .description(
      'list the maintenance Leases of nodes, acquire or release them as an administrator, or hold one while a command runs (KEP-1411)',
    )
    .helpCommand(false);
  lease
    .command('list')
    .description('list the holders of all nodes')
    .addOption(new Option('-o, --output <format>').choices(['wide', 'json', 'yaml']))
    .action((_options, command: Command) => list(command.optsWithGlobals()));
  lease
    .command('acquire')
    .description('hold nodes as an administrator until you release them')
    .argument('<node...>')
    .requiredOption('--reason <text>', 'why the nodes are held', parseReason)
    .option('--force', 'take over a held Lease; its holder may still be working on the node')
    .action((nodes: string[], _options, command: Command) => acquire(nodes, command.optsWithGlobals()));
  lease
    .command('release')
    .description('release nodes that you hold')
    .argument('<node...>')
    .option('--force', 'release the hold of another user, who may still be working on the node', false)
    .action((nodes: string[], _options, command: Command) => release(nodes, command.optsWithGlobals()));
  addRunVerb(lease);
}

const readRemedy = 'bind the ClusterRole node-maintenance-view';
const remedy = `bind the ClusterRole node-maintenance-operator, and in namespace ${NODE_LEASE_NAMESPACE} the Role node-maintenance-lease-administrator`;

function parseReason(text: string): string {
  const problem = reasonProblem(text);
  if (problem !== undefined) throw new InvalidArgumentError(problem);
  return text.trim();
}

async function list({
  output,
  ...cluster
}: ClusterOptions & { output?: 'wide' | Structured }): Promise<void> {
  await withCluster(cluster, async (kube) => {
    const summaries = await withRemedy(summariesOf(kube), readRemedy);
    const now = kube.now().getTime();
    if (output === 'json' || output === 'yaml') print(formatList(summaries, output));
    else if (summaries.length === 0) printError('No nodes found.');
    else print(table(columns(now, output === 'wide'), summaries));
  });
}

/** Returns a summary for every node, and for every Lease without a node. */
async function summariesOf(kube: Kube): Promise<LeaseSummary[]> {
  const [nodes, leases] = await Promise.all([
    kube.list(resources.nodes),
    kube.list(resources.leases, { namespace: NODE_LEASE_NAMESPACE }),
  ]);
  const byNode = new Map<string, Lease | undefined>([
    ...nodes.items.map(({ metadata }) => [metadata.name, undefined] as const),
    ...leases.items.map((lease) => [lease.metadata.name, lease] as const),
  ]);
  const now = kube.now().getTime();
  return [...byNode.keys()].toSorted().map((node) => summaryOf(node, byNode.get(node), now));
}

function columns(now: number, isWide: boolean): Column<LeaseSummary>[] {
  const usual: Column<LeaseSummary>[] = [
    { title: 'NODE', cell: ({ node }) => node },
    { title: 'STATE', cell: ({ state }) => state },
    { title: 'HOLDER', cell: ({ holder, reason: why }) => who(holder, why) },
    { title: 'RENEWED', cell: ({ renewTime }) => ago(renewTime, now) },
    { title: 'EXPIRES', cell: (summary) => expiry(summary, now) },
    { title: 'REASON', cell: ({ reason, problem }) => reason ?? problem?.reason },
  ];
  if (!isWide) return usual;
  return [
    ...usual.slice(0, -1),
    { title: 'ACQUIRED', cell: ({ acquireTime }) => ago(acquireTime, now) },
    { title: 'DURATION', cell: ({ leaseDurationSeconds: s }) => (s === undefined ? s : duration(s * 1_000)) },
    { title: 'TRANSITIONS', cell: ({ leaseTransitions }) => leaseTransitions?.toString() },
    { title: 'REASON', cell: ({ reason, problem }) => reason ?? problem?.message },
  ];
}

/** Removes the reason, which has its own column. */
function who(holder: string | undefined, why: string | undefined): string | undefined {
  return why === undefined ? holder : holder?.slice(0, -`: ${why}`.length);
}

function expiry({ state, expireTime }: LeaseSummary, now: number): string | undefined {
  return state === 'HeldByAdministrator' ? 'never' : ago(expireTime, now);
}

interface ForceOptions extends ClusterOptions {
  readonly force?: boolean;
}

async function acquire(
  nodes: readonly string[],
  { reason: why, force = false, ...cluster }: ForceOptions & { reason: string },
): Promise<void> {
  await withCluster(cluster, async (kube) => {
    const hold = { user: await userOf(kube), host: hostname(), reason: why };
    await each(nodes, async (node) => {
      const outcome = await acquireAsAdministrator(kube, node, hold, { force });
      if (outcome.kind === 'HeldByAnother')
        throw new CommandError(heldMessage(node, outcome, kube, 'take it over with --force'));
      return `node/${node} acquired by ${escapeForTerminal(hold.user)}${previousText(outcome.previous)}`;
    });
  });
}

function previousText(from: PreviousHolder | undefined): string {
  if (from === undefined) return '';
  const holder = escapeForTerminal(from.holder);
  return from.isForced
    ? `, taken over from ${holder}, who may still be working on the node`
    : `, previously held by ${holder}`;
}

async function release(nodes: readonly string[], { force = false, ...cluster }: ForceOptions): Promise<void> {
  await withCluster(cluster, async (kube) => {
    const administrator = { user: await userOf(kube), host: hostname() };
    await each(nodes, async (node) => {
      const outcome = await releaseAsAdministrator(kube, node, administrator, { force });
      if (outcome.kind === 'HeldByAnother')
        throw new CommandError(heldMessage(node, outcome, kube, 'release it with --force'));
      return outcome.kind === 'NotHeld'
        ? `node/${node} was not held`
        : `node/${node} released, previously held by ${escapeForTerminal(outcome.holder)}`;
    });
  });
}

function userOf(kube: Kube): Promise<string> {
  return withRemedy(
    whoAmI(kube).then((user) => user ?? userInfo().username),
    remedy,
  );
}

function heldMessage(
  node: string,
  { holder, until }: { readonly holder: string; readonly until: number | undefined },
  kube: Kube,
  forceHint: string,
): string {
  const remainingMs = until === undefined ? undefined : until - kube.now().getTime();
  const expires =
    remainingMs === undefined ? 'does not expire' : `expires in ${duration(remainingMs)} unless renewed`;
  return `node/${node} is held by ${escapeForTerminal(holder)}, ${expires}: wait, or ${forceHint}`;
}

/** Runs `act` for each node in sequence, continues after errors, and sets the exit code if any failed. */
async function each(nodes: readonly string[], act: (node: string) => Promise<string>): Promise<void> {
  let failures = 0;
  for (const node of nodes) {
    try {
      print(await withRemedy(act(node), remedy));
    } catch (error) {
      failures++;
      printError(`error: ${errorMessage(error)}`);
    }
  }
  if (failures > 0) process.exitCode = 1;
}
