import { InvalidArgumentError, Option } from 'commander';
import { TASK_QUEUE, workflowIdOf } from '../api/names.ts';
import type { MaintenanceInput } from '../api/maintenanceInput.ts';
import { complain } from './output.ts';

/** Characters that somebody copies from a terminal. */
const longestInput = 1_500;

/** Where the Temporal UI is, as people have it in their browser. */
export interface UiOptions {
  /** Without a slash at its end. */
  readonly temporalUi?: string;
}

export function uiOption(): Option {
  return new Option('--temporal-ui <url>', 'of the Temporal UI, to print links to its pages')
    .env('TEMPORAL_UI_ADDRESS')
    .argParser(uiAddress);
}

function uiAddress(text: string): string {
  const url = URL.parse(text.includes('://') ? text : `http://${text}`);
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new InvalidArgumentError('expected an address such as http://localhost:8233');
  return `${url.origin}${url.pathname}`.replace(/\/+$/, '');
}

/** Tells somebody at a terminal where the runs of maintenances are seen; says nothing when it does not know where the UI is. */
export async function tellRunPages({ temporalUi }: UiOptions, names: readonly string[]): Promise<void> {
  if (temporalUi === undefined || names.length === 0 || !isRead()) return;
  const workflows = await workflowsPage(temporalUi);
  for (const name of names) complain(`Temporal UI: ${workflows}/${encodeURIComponent(workflowIdOf(name))}`);
}

/** Tells them where a maintenance can be started with a form, and what to give it as its input, which the form takes from no link. */
export async function tellStartForm({ temporalUi }: UiOptions, input: MaintenanceInput): Promise<void> {
  if (temporalUi === undefined || !isRead()) return;
  const filled = {
    workflowId: workflowIdOf(input.name),
    taskQueue: TASK_QUEUE,
    workflowType: 'nodeMaintenance',
  };
  const form = `${await workflowsPage(temporalUi)}/start-workflow?${new URLSearchParams(filled).toString()}`;
  complain(`Start it in the Temporal UI: ${form}`);
  const json = JSON.stringify(input);
  complain(`  Input: ${json.length > longestInput ? 'too long to be shown; see docs/temporal-ui.md' : json}`);
}

/** By a person: logs have no use for links. */
function isRead(): boolean {
  return process.stderr.isTTY;
}

async function workflowsPage(ui: string): Promise<string> {
  // It is large, and most runs do without it.
  const { loadClientConnectConfig } = await import('@temporalio/envconfig');
  const { namespace = 'default' } = loadClientConnectConfig();
  return `${ui}/namespaces/${encodeURIComponent(namespace)}/workflows`;
}
