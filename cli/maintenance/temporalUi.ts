import { type Command, Option } from 'commander';
import type { TemporalNames } from '../../api/names.ts';
import type { MaintenanceInput } from '../../api/maintenanceInput.ts';
import type { Kube } from '../../kube/client.ts';
import { errorMessage } from '../../kube/errors.ts';
import { claimedNames } from '../clusterClaim.ts';
import { printError, UsageError } from '../output.ts';
import { connectTemporal } from '../temporal.ts';

/** Longer inputs are not printed. */
const maxInputLength = 1_500;

/** Base URL of the Temporal UI. */
export interface UiOptions {
  /** The URL as the user wrote it. */
  readonly temporalUi?: string;
}

export function uiOption(): Option {
  return new Option('--temporal-ui <url>', 'URL of the Temporal UI; prints links to its pages').env(
    'TEMPORAL_UI_ADDRESS',
  );
}

/** Throws a UsageError for an argument that is no URL. One from the environment must not stop a command: there are no links. */
export function requireUiArgument(command: Command): void {
  const { temporalUi } = command.optsWithGlobals<UiOptions>();
  const isArgument = command.getOptionValueSourceWithGlobals('temporalUi') === 'cli';
  if (isArgument && uiAddress(temporalUi ?? '') === undefined)
    throw new UsageError(`--temporal-ui: ${expectedAddress}`);
}

const expectedAddress = 'expected a URL such as http://localhost:8233';

function uiAddress(text: string): string | undefined {
  const url = URL.parse(text.includes('://') ? text : `http://${text}`);
  if (url === null || !/^https?:$/.test(url.protocol)) return undefined;
  return `${url.origin}${url.pathname}`.replace(/\/+$/, '');
}

/** Returns the URL of the UI, without a trailing slash, if links are to be printed: logs do not need them. */
function uiForLinks({ temporalUi = '' }: UiOptions): string | undefined {
  if (!process.stderr.isTTY || temporalUi === '') return undefined;
  const address = uiAddress(temporalUi);
  if (address === undefined) printError(`Temporal UI: no link: TEMPORAL_UI_ADDRESS: ${expectedAddress}`);
  return address;
}

/** Prints links to the workflows of maintenances, if standard error is a terminal and the URL of the UI is known. */
export async function printWorkflowLinks(
  kube: Kube,
  options: UiOptions,
  names: readonly string[],
): Promise<void> {
  const temporalUi = names.length === 0 ? undefined : uiForLinks(options);
  if (temporalUi === undefined) return;
  await withNames(kube, temporalUi, ({ maintenanceId }, workflows) => {
    for (const name of names)
      printError(`Temporal UI: ${workflows}/${encodeURIComponent(maintenanceId(name))}`);
  });
}

/** Prints a link to the form that starts a maintenance, and its input, which the form does not accept as a parameter. */
export async function printStartFormLink(
  kube: Kube,
  options: UiOptions,
  input: MaintenanceInput,
): Promise<void> {
  const temporalUi = uiForLinks(options);
  if (temporalUi === undefined) return;
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
      printLinks(await temporal.answered(() => claimedNames(kube, temporal)), await workflowsUrl(ui));
    } finally {
      await temporal.connection.close();
    }
  } catch (error) {
    printError(`Temporal UI: no link: ${errorMessage(error)}`);
  }
}

async function workflowsUrl(ui: string): Promise<string> {
  // Imported on demand because it is large and most commands do not need it.
  const { loadClientConnectConfig } = await import('@temporalio/envconfig');
  const { namespace = 'default' } = loadClientConnectConfig();
  return `${ui}/namespaces/${encodeURIComponent(namespace)}/workflows`;
}
