import { stderr, stdin } from 'node:process';
import { createInterface } from 'node:readline/promises';
import { type Command, Option } from 'commander';
import { clusterInTaskQueue } from '../../api/names.ts';
import { shortUid } from '../../domain/common/clusterName.ts';
import type { TemporalFacts, UninstallChoices } from '../../domain/uninstall/facts.ts';
import type { UninstallItem } from '../../domain/uninstall/item.ts';
import { planUninstall } from '../../domain/uninstall/plan.ts';
import type { Kube } from '../../kube/client.ts';
import { errorMessage } from '../../kube/errors.ts';
import { clusterObjects } from '../../temporal-config/clusterObjects.ts';
import { type ClusterOptions, withCluster } from '../cluster.ts';
import { clusterUid } from '../clusterClaim.ts';
import { duration, namespaceName, outputOption } from '../options.ts';
import { CommandError, escapeLines, formatList, print, type Structured, UsageError } from '../output.ts';
import { connectTemporal, type Temporal } from '../temporal.ts';
import { type Column, table } from '../terminal/table.ts';
import { installedNamespace, observeCluster, taskQueueOfWorkers } from './observe.ts';
import { requireRights } from './rights.ts';
import { carryOut } from './run.ts';

interface UninstallOptions extends ClusterOptions, UninstallChoices {
  readonly plan: boolean;
  readonly yes: boolean;
  readonly namespace?: string;
  /** Value of --timeout in milliseconds. */
  readonly timeout: number;
  readonly output?: Structured;
}

const defaultTimeout = '5m';

/** kubectl maintenance uninstall */
export function addUninstallVerb(program: Command): void {
  program
    .command('uninstall')
    .description(
      'return all nodes to service as they were, and remove node maintenance from the cluster and from Temporal',
    )
    .option('--plan', 'only list what was found, and what would be done with it', false)
    .option('--crds', 'also delete the CRDs, and everything that users have written with them', false)
    .option('--helm-objects', 'also delete what Helm has installed, instead of helm uninstall', false)
    .option(
      '-n, --namespace <name>',
      'namespace of the installation; default: the one that its policies name',
      namespaceName,
    )
    .addOption(
      new Option(
        '--timeout <duration>',
        'how long a running worker may take to return nodes to service, and then each phase of the command; 0: no timeout',
      )
        .argParser(duration)
        .default(duration(defaultTimeout), defaultTimeout),
    )
    .option('--yes', 'do not ask for confirmation', false)
    .addOption(outputOption())
    .action((_options, command: Command) => uninstall(command.optsWithGlobals()));
}

async function uninstall(options: UninstallOptions): Promise<void> {
  const { plan: isPlan, yes, output } = options;
  if (!isPlan && !yes && !stdin.isTTY)
    throw new UsageError('specify --plan to list what would be done, or --yes to do it without confirmation');
  if (!isPlan && !yes && output !== undefined)
    throw new UsageError('-o needs --plan, or --yes: the question is for a person');
  await withCluster(options, async (kube) => {
    if (!isPlan) await requireRights(kube);
    const namespace = options.namespace ?? (await installedNamespace(kube));
    const temporal = await TemporalObserver.connect(kube, namespace);
    try {
      const plan = async () =>
        planUninstall(await observeCluster(kube, namespace, await temporal.facts()), options);
      const items = await plan();
      if (isPlan) {
        print(planText(items, output));
        return;
      }
      if (!yes && !(await isConfirmed(items))) return;
      const left = await carryOut({ kube, temporal: temporal.client, plan, timeoutMs: options.timeout });
      report(left, output);
    } finally {
      await temporal.close();
    }
  });
}

/** Asks on standard error: standard output is for the result. */
async function isConfirmed(items: readonly UninstallItem[]): Promise<boolean> {
  const terminal = createInterface({ input: stdin, output: stderr });
  console.error(escapeLines(planText(items)));
  try {
    return /^y(es)?$/i.test((await terminal.question('Do this? [y/N] ')).trim());
  } finally {
    terminal.close();
  }
}

function planText(items: readonly UninstallItem[], output?: Structured): string {
  if (output !== undefined) return formatList(items.map(shown), output);
  return items.length === 0 ? 'Nothing of node maintenance was found.' : table(columns, items);
}

const columns: readonly Column<UninstallItem>[] = [
  { title: 'PHASE', cell: ({ phase }) => phase },
  { title: 'KIND', cell: ({ kind }) => kind },
  { title: 'NAME', cell: ({ namespace, name }) => (namespace === undefined ? name : `${namespace}/${name}`) },
  { title: 'ACTION', cell: ({ verb }) => verb },
  { title: 'REASON', cell: ({ reason }) => reason },
];

/** An item for scripts, without the requests. */
function shown({ phase, kind, namespace, name, verb, reason, action }: UninstallItem) {
  const isLeft = action.kind === 'Keep' || action.kind === 'Blocked';
  return {
    phase,
    kind,
    ...(namespace !== undefined && { namespace }),
    name,
    action: verb,
    left: isLeft,
    ...(reason !== undefined && { reason }),
  };
}

function report(left: readonly UninstallItem[], output: Structured | undefined): void {
  if (output !== undefined) print(formatList(left.map(shown), output));
  else if (left.length === 0) print('Node maintenance is uninstalled.');
  else print(`Node maintenance is uninstalled, except for:\n${table(columns, left)}`);
  const blocked = left.filter(({ action }) => action.kind === 'Blocked');
  if (blocked.length > 0)
    throw new CommandError(`${blocked.length} of these need an action of yours: REASON names it`);
}

/**
 * Looks at the Temporal of the usual settings. If it does not answer at the start, the command does the rest and names what stays there. If it stops to
 * answer later, the command stops: what it had found there would be forgotten.
 */
class TemporalObserver {
  readonly client: Temporal | undefined;
  readonly #uid: string;
  readonly #clusterName: string | undefined;
  #problem: string | undefined;
  #hasAnswered = false;

  private constructor(
    uid: string,
    clusterName: string | undefined,
    client: Temporal | undefined,
    problem?: string,
  ) {
    this.#uid = uid;
    this.#clusterName = clusterName;
    this.client = client;
    this.#problem = problem;
  }

  static async connect(kube: Kube, namespace: string): Promise<TemporalObserver> {
    const uid = await clusterUid(kube);
    const taskQueue = await taskQueueOfWorkers(kube, namespace);
    const clusterName = taskQueue === undefined ? undefined : clusterInTaskQueue(taskQueue);
    try {
      const client = await connectTemporal({ identity: 'kubectl maintenance uninstall' });
      const observer = new TemporalObserver(uid, clusterName, client);
      if (taskQueue !== undefined) await observer.#requireClaim();
      return observer;
    } catch (error) {
      return new TemporalObserver(uid, clusterName, undefined, errorMessage(error));
    }
  }

  /** Workers have run: if this Temporal does not know the cluster, it is not theirs. */
  async #requireClaim(): Promise<void> {
    const facts = await this.facts();
    if (facts.kind === 'Unreachable' || facts.claims.length > 0 || this.client === undefined) return;
    const { namespace, address } = this.client;
    this.#problem = `Temporal namespace ${namespace} at ${address} is not the one of the workers of this cluster`;
  }

  async facts(): Promise<TemporalFacts> {
    const { client } = this;
    if (client === undefined || this.#problem !== undefined) return this.#unreachable();
    try {
      const found = await client.answered(() => clusterObjects(client.client, this.#uid));
      this.#hasAnswered = true;
      return { kind: 'Reachable', ...found };
    } catch (error) {
      if (this.#hasAnswered)
        throw new CommandError(
          `Temporal does not answer any more: ${errorMessage(error)}; what was done stays done: remove the cause, and run the command again`,
        );
      this.#problem = errorMessage(error);
      return this.#unreachable();
    }
  }

  #unreachable(): TemporalFacts {
    return {
      kind: 'Unreachable',
      problem: this.#problem ?? 'Temporal does not answer',
      cluster: this.#clusterName ?? shortUid(this.#uid),
      clusterName: this.#clusterName,
    };
  }

  async close(): Promise<void> {
    await this.client?.connection.close();
  }
}
