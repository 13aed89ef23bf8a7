import type { Command } from 'commander';
import type { WindowSummary } from '../domain/windowSummary.ts';
import type { Kube } from '../kube/client.ts';
import { resources } from '../kube/resources.ts';
import { type ClusterOptions, withCluster } from './cluster.ts';
import { permittedToLook } from './maintenances.ts';
import { outputOption } from './options.ts';
import { complain, say, type Structured, structured, UsageError } from './output.ts';
import { noWindow, summed, windowName } from './windowObjects.ts';
import { type Look, lookAt, windowLines, windowsTable } from './windowsView.ts';
import { followWindows } from './windowsWatch.ts';

interface WindowsOptions extends ClusterOptions {
  readonly watch?: boolean;
  readonly output?: Structured;
}

/** kubectl maintenance windows */
export function addWindowsVerb(program: Command): void {
  program
    .command('windows')
    .description('show maintenance windows: when they open, how far they have come, what they wait for')
    .argument('[window]', 'name of a MaintenanceWindow, to see the turns of its nodes too')
    .option('-w, --watch', 'until it is interrupted: a view that is drawn anew in a terminal, else lines')
    .addOption(outputOption())
    .action((name: string | undefined, _options, command: Command) =>
      run(name === undefined ? undefined : windowName(name), command.optsWithGlobals()),
    );
}

async function run(name: string | undefined, { watch, output, ...cluster }: WindowsOptions): Promise<void> {
  if (watch === true && output !== undefined) throw new UsageError('give --watch or --output, not both');
  await withCluster(cluster, async (kube) => {
    if (watch === true) await followWindows(kube, name);
    else show(await permittedToLook(summaries(kube, name)), { name, output, look: lookAt(kube.now()) });
  });
}

async function summaries(kube: Kube, name: string | undefined): Promise<WindowSummary[]> {
  const [windows, maintenances] = await Promise.all([
    kube.list(resources.maintenanceWindows),
    kube.list(resources.nodeMaintenances),
  ]);
  const found = summed({ windows: windows.items, maintenances: maintenances.items, name }, kube.now());
  if (name !== undefined && found.length === 0) throw noWindow(name);
  return found;
}

interface Shown {
  name: string | undefined;
  output: Structured | undefined;
  look: Look;
}

function show(found: readonly WindowSummary[], { name, output, look }: Shown): void {
  const [first] = found;
  if (output !== undefined) say(structured(found, output));
  else if (first === undefined) complain('There is no MaintenanceWindow.');
  else say(name === undefined ? windowsTable(found, look) : windowLines(first, look).join('\n'));
}
