import type { Command } from 'commander';
import { type MaintenanceSummary, summaryOf } from '../domain/maintenanceSummary.ts';
import type { Kube } from '../kube/client.ts';
import { type ClusterOptions, withCluster } from './cluster.ts';
import { ContactLines } from './contact.ts';
import { LiveStatus } from './live.ts';
import { maintenanceName } from './maintenances.ts';
import { outputOption } from './options.ts';
import { complain, say, type Structured, structured, UsageError } from './output.ts';
import { createScreen } from './screen.ts';
import { statusLines } from './statusView.ts';
import { tellRunPages, type UiOptions } from './temporalUi.ts';
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
      'how it stands with maintenances: tier, pods left, what blocks, gates, and how long it may take',
    )
    .argument('[name...]', 'of NodeMaintenances; without: all whose nodes are not all back')
    .option('-w, --watch', 'until all of them are over: a view that is drawn anew in a terminal, else lines')
    .addOption(outputOption())
    .action((names: string[], _options, command: Command) =>
      run(names.map(maintenanceName), command.optsWithGlobals()),
    );
}

async function run(names: readonly string[], options: StatusOptions): Promise<void> {
  const { watch, output, ...cluster } = options;
  if (watch === true && output !== undefined) throw new UsageError('give --watch or --output, not both');
  await withCluster(cluster, async (kube) => {
    const stop = new AbortController();
    const interest = { names: names.length === 0 ? undefined : names };
    try {
      const contact = new ContactLines(complain);
      const watching = await watchMaintenances(kube, interest, { signal: stop.signal, contact });
      const missing = names.filter((name) => watching.maintenance(name) === undefined);
      for (const name of missing)
        complain(`error: there is no NodeMaintenance "${name}"; kubectl get nm lists them`);
      if (missing.length > 0) process.exitCode = 1;
      if (watch === true) await follow(watching);
      else show(kube, watching, output);
      if (watch !== true && output === undefined) await tellRunPages(options, namesShown(watching));
    } finally {
      stop.abort();
    }
  });
}

/** None of many: nobody looks at all of them. */
function namesShown(watching: Watching): string[] {
  const names = watching.maintenances().map(({ metadata }) => metadata.name);
  return names.length > mostPages ? [] : names;
}

const mostPages = 3;

function show(kube: Kube, watching: Watching, output: Structured | undefined): void {
  const summaries = watching.maintenances().map((one) => summaryOf(watching.sightOf(one)));
  const now = kube.now().getTime();
  if (output !== undefined) say(structured(summaries, output));
  else if (summaries.length === 0) complain('No maintenance is under way.');
  else say(summaries.map((one) => statusLines(one, now).join('\n')).join('\n\n'));
}

/** Until every node is back, or its maintenance is no more. */
async function follow(watching: Watching): Promise<void> {
  const tooMany = watching.settle();
  if (tooMany > 0) complain(`${tooMany} more maintenances are under way: name those that you want to follow`);
  const live = new LiveStatus(createScreen(process.stdout), watching);
  try {
    for (;;) {
      const change = watching.changed();
      const summaries = live.show();
      if (summaries.length === 0) complain('No maintenance is under way.');
      if (summaries.every(isBack)) return;
      // Not more often than somebody can read, and at least as often as clocks move.
      await watching.rest(shortestRest);
      await Promise.race([change, watching.rest(longestRest)]);
    }
  } finally {
    live.end();
  }
}

function isBack({ givenBack, nodes }: MaintenanceSummary): boolean {
  return givenBack && nodes.every(({ obstacles = [] }) => obstacles.length === 0);
}

/** Milliseconds. */
const shortestRest = 200;
const longestRest = 1_000;
