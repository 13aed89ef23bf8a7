import { InvalidArgumentError, Option } from 'commander';
import { TASK_QUEUE, workflowIdOf } from '../../api/names.ts';
import type { MaintenanceInput } from '../../api/maintenanceInput.ts';
import { printError } from '../output.ts';

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
export async function printWorkflowLinks({ temporalUi }: UiOptions, names: readonly string[]): Promise<void> {
  if (temporalUi === undefined || names.length === 0 || !isInteractive()) return;
  const workflows = await workflowsUrl(temporalUi);
  for (const name of names) printError(`Temporal UI: ${workflows}/${encodeURIComponent(workflowIdOf(name))}`);
}

/** Prints a link to the form that starts a maintenance, and its input, which the form does not accept as a parameter. */
export async function printStartFormLink({ temporalUi }: UiOptions, input: MaintenanceInput): Promise<void> {
  if (temporalUi === undefined || !isInteractive()) return;
  const filled = {
    workflowId: workflowIdOf(input.name),
    taskQueue: TASK_QUEUE,
    workflowType: 'nodeMaintenance',
  };
  const form = `${await workflowsUrl(temporalUi)}/start-workflow?${new URLSearchParams(filled).toString()}`;
  printError(`Start it in the Temporal UI: ${form}`);
  const json = JSON.stringify(input);
  printError(
    `  Input: ${json.length > maxInputLength ? 'too long to print; see docs/how-to/temporal-ui.md' : json}`,
  );
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
