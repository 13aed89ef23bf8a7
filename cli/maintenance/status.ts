import type { Command } from 'commander';
import { type MaintenanceSummary, summaryOf } from '../../domain/maintenance/summary.ts';
import type { Kube } from '../../kube/client.ts';
import { type ClusterOptions, withCluster } from '../cluster.ts';
import { ConnectionStatus } from '../terminal/connectionStatus.ts';
import { LiveStatus } from './live.ts';
import { maintenanceName } from './maintenances.ts';
import { outputOption } from '../options.ts';
import { formatList, print, printError, type Structured, UsageError } from '../output.ts';
import { createScreen } from '../terminal/screen.ts';
import { statusLines } from './statusView.ts';
import { printWorkflowLinks, type UiOptions } from './temporalUi.ts';
import { type Watching, watchMaintenances } from './watching.ts';

interface StatusOptions extends ClusterOptions, UiOptions {
  readonly watch?: boolean;
  readonly output?: Structured;
}

/** kubectl maintenance status */
export function addStatusVerb(program: Command): void {
  program
    .command('status')
    .description(
      'show the status of maintenances: tier, remaining pods, blockers, readiness gates and the estimated time',
    )
    .argument('[name...]', 'names of NodeMaintenances; default: all whose nodes are not all back in service')
    .option(
      '-w, --watch',
      'watch until all of them are finished: redraws in a terminal, prints lines otherwise',
    )
    .addOption(outputOption())
    .action((names: string[], _options, command: Command) =>
      run(names.map(maintenanceName), command.optsWithGlobals()),
    );
}

async function run(names: readonly string[], options: StatusOptions): Promise<void> {
  const { watch, output, ...cluster } = options;
  if (watch === true && output !== undefined) throw new UsageError('specify --watch or --output, not both');
  await withCluster(cluster, async (kube) => {
    const stop = new AbortController();
    const scope = { names: names.length === 0 ? undefined : names };
    try {
      const connection = new ConnectionStatus(printError);
      const watching = await watchMaintenances(kube, scope, { signal: stop.signal, connection });
      const missing = names.filter((name) => watching.maintenance(name) === undefined);
      for (const name of missing)
        printError(`error: NodeMaintenance "${name}" not found; kubectl get nm lists them`);
      if (missing.length > 0) process.exitCode = 1;
      // The errors say all that there is to say.
      if (names.length > 0 && missing.length === names.length) return;
      if (watch === true) await follow(watching);
      else show(kube, watching, output);
      if (watch !== true && output === undefined)
        await printWorkflowLinks(kube, options, namesShown(watching));
    } finally {
      stop.abort();
    }
  });
}

/** Returns no names if there are many: the links would not be useful. */
function namesShown(watching: Watching): string[] {
  const names = watching.maintenances().map(({ metadata }) => metadata.name);
  return names.length > maxLinks ? [] : names;
}

const maxLinks = 3;

function show(kube: Kube, watching: Watching, output: Structured | undefined): void {
  const summaries = watching.maintenances().map((one) => summaryOf(watching.summaryInputOf(one)));
  const now = kube.now().getTime();
  if (output !== undefined) print(formatList(summaries, output));
  else if (summaries.length === 0) printError('No maintenance is in progress.');
  else print(summaries.map((one) => statusLines(one, now).join('\n')).join('\n\n'));
}

/** Watches until every node is back in service or its maintenance is deleted. */
async function follow(watching: Watching): Promise<void> {
  const omitted = watching.pinNames();
  if (omitted > 0) printError(`${omitted} more maintenances are in progress: specify the names to watch`);
  const live = new LiveStatus(createScreen(process.stdout), watching);
  try {
    for (;;) {
      const change = watching.changed();
      const summaries = live.show();
      if (summaries.length === 0) printError('No maintenance is in progress.');
      if (summaries.every(isFinished)) return;
      // Limits the refresh rate, and refreshes durations without a change.
      await watching.sleep(minRefreshMs);
      await Promise.race([change, watching.sleep(maxRefreshMs)]);
    }
  } finally {
    live.end();
  }
}

function isFinished({ completed, nodes }: MaintenanceSummary): boolean {
  return completed && nodes.every(({ outOfServiceReasons = [] }) => outOfServiceReasons.length === 0);
}

const minRefreshMs = 200;
const maxRefreshMs = 1_000;
