import type { Command } from 'commander';
import type { WindowSummary } from '../../domain/windows/summary.ts';
import type { Kube } from '../../kube/client.ts';
import { resources } from '../../kube/resources.ts';
import { type ClusterOptions, withCluster } from '../cluster.ts';
import { permittedToRead } from '../maintenance/maintenances.ts';
import { outputOption } from '../options.ts';
import { formatList, print, printError, type Structured, UsageError } from '../output.ts';
import { windowName } from '../windowName.ts';
import { windowNotFound, windowSummaries } from './windowObjects.ts';
import { type Viewer, viewerAt, windowLines, windowsTable } from './windowsView.ts';
import { followWindows } from './windowsWatch.ts';

interface WindowsOptions extends ClusterOptions {
  readonly watch?: boolean;
  readonly output?: Structured;
}

/** Adds `kubectl maintenance windows`. */
export function addWindowsVerb(program: Command): void {
  program
    .command('windows')
    .description('list maintenance windows: when they open, their progress, and what they wait for')
    .argument('[window]', 'name of a MaintenanceWindow, to list its nodes too')
    .option('-w, --watch', 'watch until interrupted: redraws in a terminal, prints changes otherwise')
    .addOption(outputOption())
    .action((name: string | undefined, _options, command: Command) =>
      run(name === undefined ? undefined : windowName(name), command.optsWithGlobals()),
    );
}

async function run(name: string | undefined, { watch, output, ...cluster }: WindowsOptions): Promise<void> {
  if (watch === true && output !== undefined) throw new UsageError('specify --watch or --output, not both');
  await withCluster(cluster, async (kube) => {
    if (watch === true) return followWindows(kube, name);
    const summaries = await permittedToRead(readSummaries(kube, name));
    printSummaries(summaries, { name, output, viewer: viewerAt(kube.now()) });
  });
}

async function readSummaries(kube: Kube, name: string | undefined): Promise<WindowSummary[]> {
  const [windows, maintenances] = await Promise.all([
    kube.list(resources.maintenanceWindows),
    kube.list(resources.nodeMaintenances),
  ]);
  const input = { windows: windows.items, maintenances: maintenances.items, name };
  const summaries = windowSummaries(input, kube.now());
  if (name !== undefined && summaries.length === 0) throw windowNotFound(name);
  return summaries;
}

interface PrintOptions {
  name: string | undefined;
  output: Structured | undefined;
  viewer: Viewer;
}

function printSummaries(summaries: readonly WindowSummary[], { name, output, viewer }: PrintOptions): void {
  const [first] = summaries;
  if (output !== undefined) print(formatList(summaries, output));
  else if (first === undefined) printError('No MaintenanceWindows found.');
  else print(name === undefined ? windowsTable(summaries, viewer) : windowLines(first, viewer).join('\n'));
}
