import { hostname, userInfo } from 'node:os';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Lease } from '../api/core.ts';
import { NODE_LEASE_NAMESPACE } from '../api/names.ts';
import { type Predecessor, reasonProblem } from '../domain/administrator.ts';
import { type LeaseSummary, summaryOf } from '../domain/leaseSummary.ts';
import { ownUsername } from '../kube/authorization.ts';
import type { Kube } from '../kube/client.ts';
import { wordsOf } from '../kube/errors.ts';
import { resources } from '../kube/resources.ts';
import { acquireAsAdministrator, releaseAsAdministrator } from '../node-lease/administrator.ts';
import { withRemedy } from '../node-lease/remedy.ts';
import { type ClusterOptions, withCluster } from './cluster.ts';
import {
  age,
  type Column,
  complain,
  duration,
  Refusal,
  say,
  shown,
  type Structured,
  structured,
  table,
} from './output.ts';

/** kubectl maintenance lease list | acquire | release */
export function addLeaseVerbs(program: Command): void {
  const lease = program
    .command('lease')
    .description('The maintenance Leases of nodes: who has a node, and to hold one yourself (KEP-1411)')
    .helpCommand(false);
  lease
    .command('list')
    .description('show who has which node')
    .addOption(new Option('-o, --output <format>').choices(['wide', 'json', 'yaml']))
    .action((_options, command: Command) => list(command.optsWithGlobals()));
  lease
    .command('acquire')
    .description('hold nodes by hand: nobody else takes them until you release them')
    .argument('<node...>')
    .requiredOption('--reason <text>', 'why, for whoever wants the nodes meanwhile', reason)
    .option('--force', 'take it over from whoever has it, who may be at work')
    .action((nodes: string[], _options, command: Command) => acquire(nodes, command.optsWithGlobals()));
  lease
    .command('release')
    .description('end your hold of nodes')
    .argument('<node...>')
    .option('--force', "end also another's hold, who may be at work", false)
    .action((nodes: string[], _options, command: Command) => release(nodes, command.optsWithGlobals()));
}

const remedy = `bind the ClusterRole node-maintenance-operator, and in namespace ${NODE_LEASE_NAMESPACE} the Role node-maintenance-lease-administrator`;

function reason(text: string): string {
  const problem = reasonProblem(text);
  if (problem !== undefined) throw new InvalidArgumentError(problem);
  return text.trim();
}

async function list({
  output,
  ...cluster
}: ClusterOptions & { output?: 'wide' | Structured }): Promise<void> {
  await withCluster(cluster, async (kube) => {
    const summaries = await withRemedy(summariesOf(kube), remedy);
    const now = kube.now().getTime();
    if (output === 'json' || output === 'yaml') say(structured(summaries, output));
    else if (summaries.length === 0) complain('No nodes found.');
    else say(table(columns(now, output === 'wide'), summaries));
  });
}

/** Of every node, and of every Lease without a node. */
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
    { title: 'REASON', cell: ({ reason: why, concern }) => why ?? concern?.reason },
  ];
  if (!isWide) return usual;
  return [
    ...usual.slice(0, -1),
    { title: 'ACQUIRED', cell: ({ acquireTime }) => ago(acquireTime, now) },
    { title: 'DURATION', cell: ({ leaseDurationSeconds: s }) => (s === undefined ? s : duration(s * 1_000)) },
    { title: 'TRANSITIONS', cell: ({ leaseTransitions }) => leaseTransitions?.toString() },
    { title: 'REASON', cell: ({ reason: why, concern }) => why ?? concern?.message },
  ];
}

/** The reason has a column of its own. */
function who(holder: string | undefined, why: string | undefined): string | undefined {
  return why === undefined ? holder : holder?.slice(0, -`: ${why}`.length);
}

function ago(time: string | undefined, now: number): string | undefined {
  const text = age(time, now);
  return text === undefined || text.startsWith('in ') ? text : `${text} ago`;
}

function expiry({ state, expireTime }: LeaseSummary, now: number): string | undefined {
  return state === 'Administrator' ? 'never' : ago(expireTime, now);
}

interface OrderOptions extends ClusterOptions {
  readonly force?: boolean;
}

async function acquire(
  nodes: readonly string[],
  { reason: why, force = false, ...cluster }: OrderOptions & { reason: string },
): Promise<void> {
  await withCluster(cluster, async (kube) => {
    const hold = { user: await userOf(kube), host: hostname(), reason: why };
    await each(nodes, async (node) => {
      const outcome = await acquireAsAdministrator(kube, node, hold, { force });
      if (outcome.kind === 'HeldByAnother')
        throw new Refusal(refusalOf(node, outcome, kube, 'take it over with --force'));
      return `node/${node} is held for ${shown(hold.user)}${before(outcome.from)}`;
    });
  });
}

function before(from: Predecessor | undefined): string {
  if (from === undefined) return '';
  const holder = shown(from.holder);
  return from.isOusted ? `, taken from ${holder}, who may be at work` : `, it was held by ${holder}`;
}

async function release(nodes: readonly string[], { force = false, ...cluster }: OrderOptions): Promise<void> {
  await withCluster(cluster, async (kube) => {
    const administrator = { user: await userOf(kube), host: hostname() };
    await each(nodes, async (node) => {
      const outcome = await releaseAsAdministrator(kube, node, administrator, { force });
      if (outcome.kind === 'HeldByAnother')
        throw new Refusal(refusalOf(node, outcome, kube, 'end that hold with --force'));
      return outcome.kind === 'NotHeld'
        ? `node/${node} was held by nobody`
        : `node/${node} released, it was held by ${shown(outcome.holder)}`;
    });
  });
}

function userOf(kube: Kube): Promise<string> {
  return withRemedy(
    ownUsername(kube).then((user) => user ?? userInfo().username),
    remedy,
  );
}

function refusalOf(
  node: string,
  { holder, until }: { readonly holder: string; readonly until: number | undefined },
  kube: Kube,
  byForce: string,
): string {
  const leftMs = until === undefined ? undefined : until - kube.now().getTime();
  const expires = leftMs === undefined ? 'does not expire' : `expires in ${duration(leftMs)} unless renewed`;
  return `node/${node} is held by ${shown(holder)}, which ${expires}: wait, or ${byForce}`;
}

/** One after the other, whatever becomes of the others; rejects when one was refused. */
async function each(nodes: readonly string[], act: (node: string) => Promise<string>): Promise<void> {
  let failures = 0;
  for (const node of nodes) {
    try {
      say(await withRemedy(act(node), remedy));
    } catch (error) {
      failures++;
      complain(`error: ${wordsOf(error)}`);
    }
  }
  if (failures > 0) process.exitCode = 1;
}
