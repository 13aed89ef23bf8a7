import { CommanderError } from 'commander';
import { readClientCa } from '../admission/clientCa.ts';
import { type Config, parseConfig } from './config.ts';
import { createLogger } from '../process/log.ts';
import { runWorker } from './run.ts';
import { runAdmission } from './runAdmission.ts';

const config = configOrExit();
const logger = createLogger(config.logLevel);
const stop = new AbortController();
for (const name of ['SIGTERM', 'SIGINT'] as const) {
  process.once(name, () => {
    logger.info({ signal: name }, 'Stopping');
    stop.abort();
  });
}

try {
  const run = config.components.has('controllers') ? runWorker : runAdmission;
  // Before anything is waited for: a wrong file is no reason to wait.
  if (config.webhookClients !== undefined) await readClientCa(config.webhookClients.caFile);
  await run(config, logger, stop.signal);
  logger.info('Stopped');
  process.exit(0);
} catch (error) {
  if (stop.signal.aborted) process.exit(0);
  logger.fatal({ err: error }, error instanceof Error ? error.message : String(error));
  process.exit(1);
}

function configOrExit(): Config {
  try {
    return parseConfig(process.argv.slice(2), process.env);
  } catch (error) {
    if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : 2);
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(2);
  }
}
