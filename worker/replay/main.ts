import { readFile } from 'node:fs/promises';
import { Client, Connection } from '@temporalio/client';
import type { WorkflowBundle } from '@temporalio/worker';
import { Command, CommanderError } from 'commander';
import { CLUSTER_NAME_PATTERN } from '../../api/names.ts';
import { escapeUnprintable } from '../../api/text.ts';
import { numbered } from '../../domain/common/text.ts';
import { payloadSettings, temporalSettings } from '../../temporal-config/connection.ts';
import { explainFailure, oneLine } from '../../temporal-config/connectionErrors.ts';
import { loadWorkflows } from '../bundle.ts';
import { createLogger, toLog } from '../../process/log.ts';
import { packageVersion } from '../../process/packageVersion.ts';
import { historiesIn, historiesOf, openRunsOf, type RecordedRun } from './histories.ts';
import { replay, type Replayed } from './replay.ts';

/** `npm run replay -- --from-server | FILE...`. Exit code: 0 every run can continue with this build, 1 some cannot, 2 not tried. */

interface Options {
  fromServer: boolean;
  cluster?: string;
  query?: string;
  workflowBundle?: string;
}

const answerTimeoutMs = 5_000;

const program = new Command('npm run replay --')
  .description(
    'Replays histories of workflows with the workflows of this build: shows before an upgrade whether running maintenances and windows can continue with it. Writes nothing.',
  )
  .argument('[files...]', 'histories that temporal workflow show --output json has written')
  .option('--from-server', 'replay the open runs of this cluster in the Temporal namespace', false)
  .option('--cluster <name>', 'with --from-server: the --cluster of the workers (NODE_MAINTENANCE_CLUSTER)')
  .option(
    '--query <query>',
    'with --from-server: list filter for the runs, instead of the open runs of the cluster',
  )
  .option('--workflow-bundle <file>', 'workflows of another build (node worker/printBundle.ts > FILE)')
  .addHelpText(
    'after',
    `
Exit codes: 0 every run can continue with this build, 1 some cannot, 2 invalid arguments, or Temporal did not answer.
Temporal:   TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE... and temporal.toml, as for the worker; NODE_MAINTENANCE_PAYLOAD_KEYS if payloads are encrypted.`,
  )
  .exitOverride()
  .action(async (files: string[], options: Options) => {
    process.exitCode = await replayRuns(files, options);
  });

try {
  await program.parseAsync(process.argv.slice(2), { from: 'user' });
} catch (error) {
  if (!(error instanceof CommanderError)) console.error(`error: ${escapeUnprintable(oneLine(error))}`);
  process.exitCode = error instanceof CommanderError && error.exitCode === 0 ? 0 : 2;
}

async function replayRuns(files: readonly string[], options: Options): Promise<number> {
  if (options.fromServer === files.length > 0)
    throw new Error('expected either --from-server or files with histories: see --help');
  return options.fromServer ? replayFromServer(options) : report(options, historiesIn(files));
}

async function replayFromServer(options: Options): Promise<number> {
  const cluster = options.cluster ?? process.env['NODE_MAINTENANCE_CLUSTER'];
  if (cluster !== undefined && !CLUSTER_NAME_PATTERN.test(cluster))
    throw new Error(`--cluster: expected lower case letters, digits and "-" (got "${cluster}")`);
  const query = options.query ?? openRunsOf(cluster);
  const settings = temporalSettings();
  const { connectionOptions, namespace, dataConverter } = settings;
  const connection = await explainFailure(settings, () =>
    Connection.connect({ ...connectionOptions, connectTimeout: answerTimeoutMs }),
  );
  try {
    const client = new Client({ connection, namespace, dataConverter });
    return await report(options, historiesOf(client, query));
  } finally {
    await connection.close();
  }
}

async function report({ workflowBundle }: Options, runs: AsyncIterable<RecordedRun>): Promise<number> {
  const { dataConverter } = payloadSettings();
  const options = { workflowBundle: await bundleOf(workflowBundle), dataConverter };
  let count = 0;
  let failed = 0;
  for await (const replayed of replay(options, runs)) {
    count += 1;
    if (replayed.problem !== undefined) failed += 1;
    // Any client of the namespace may start a workflow, and name it.
    console.log(escapeUnprintable(lineOf(replayed)));
  }
  const build = workflowBundle ?? `build ${packageVersion()}`;
  const outcome = failed === 0 ? 'all can continue' : `${failed} cannot continue`;
  console.log(
    count === 0
      ? `No run was found to replay with ${build}.`
      : `${numbered(count, 'run')} replayed with ${build}: ${outcome}.`,
  );
  return failed === 0 ? 0 : 1;
}

/** The workflows of this build, or those in a file, which may be of any build. */
async function bundleOf(file: string | undefined): Promise<WorkflowBundle> {
  if (file !== undefined) return { code: await readFile(file, 'utf8') };
  return loadWorkflows({ file: undefined, traces: false }, toLog(createLogger('warn')));
}

function lineOf({ workflowId, runId, events, problem }: Replayed): string {
  const run = [workflowId, runId, numbered(events, 'event')].filter(Boolean).join('  ');
  return problem === undefined ? `ok      ${run}` : `failed  ${run}: ${problem}`;
}
