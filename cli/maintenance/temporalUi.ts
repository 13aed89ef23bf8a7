import { InvalidArgumentError, Option } from 'commander';
import type { TemporalNames } from '../../api/names.ts';
import type { MaintenanceInput } from '../../api/maintenanceInput.ts';
import type { Kube } from '../../kube/client.ts';
import { errorMessage } from '../../kube/errors.ts';
import { claimedNames } from '../clusterClaim.ts';
import { printError } from '../output.ts';
import { connectTemporal } from '../temporal.ts';

/** Longer inputs are not printed. */
const maxInputLength = 1_500;

/** Base URL of the Temporal UI. */
export interface UiOptions {
  /** Without a trailing slash. */
  readonly temporalUi?: string;
}

export function uiOption(): Option {
  return new Option('--temporal-ui <url>', 'URL of the Temporal UI; prints links to its pages')
    .env('TEMPORAL_UI_ADDRESS')
    .argParser(uiAddress);
}

function uiAddress(text: string): string {
  const url = URL.parse(text.includes('://') ? text : `http://${text}`);
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new InvalidArgumentError('expected a URL such as http://localhost:8233');
  return `${url.origin}${url.pathname}`.replace(/\/+$/, '');
}

/** Prints links to the workflows of maintenances, if standard error is a terminal and the URL of the UI is known. */
export async function printWorkflowLinks(
  kube: Kube,
  { temporalUi }: UiOptions,
  names: readonly string[],
): Promise<void> {
  if (temporalUi === undefined || names.length === 0 || !isInteractive()) return;
  await withNames(kube, temporalUi, ({ maintenanceId }, workflows) => {
    for (const name of names)
      printError(`Temporal UI: ${workflows}/${encodeURIComponent(maintenanceId(name))}`);
  });
}

/** Prints a link to the form that starts a maintenance, and its input, which the form does not accept as a parameter. */
export async function printStartFormLink(
  kube: Kube,
  { temporalUi }: UiOptions,
  input: MaintenanceInput,
): Promise<void> {
  if (temporalUi === undefined || !isInteractive()) return;
  await withNames(kube, temporalUi, ({ maintenanceId, taskQueue }, workflows) => {
    const filled = { workflowId: maintenanceId(input.name), taskQueue, workflowType: 'nodeMaintenance' };
    const form = `${workflows}/start-workflow?${new URLSearchParams(filled).toString()}`;
    printError(`Start it in the Temporal UI: ${form}`);
  });
  const json = JSON.stringify(input);
  printError(
    `  Input: ${json.length > maxInputLength ? 'too long to print; see docs/how-to/temporal-ui.md' : json}`,
  );
}

/** Calls `print` with the names of the cluster in Temporal. Links are an extra: without them, the command succeeds all the same. */
async function withNames(
  kube: Kube,
  ui: string,
  printLinks: (names: TemporalNames, workflows: string) => void,
): Promise<void> {
  try {
    const temporal = await connectTemporal();
    try {
      printLinks(await claimedNames(kube, temporal), await workflowsUrl(ui));
    } finally {
      await temporal.connection.close();
    }
  } catch (error) {
    printError(`Temporal UI: no link: ${errorMessage(error)}`);
  }
}

/** Logs do not need links. */
function isInteractive(): boolean {
  return process.stderr.isTTY;
}

async function workflowsUrl(ui: string): Promise<string> {
  // Imported on demand because it is large and most commands do not need it.
  const { loadClientConnectConfig } = await import('@temporalio/envconfig');
  const { namespace = 'default' } = loadClientConnectConfig();
  return `${ui}/namespaces/${encodeURIComponent(namespace)}/workflows`;
}
