import { CommanderError } from 'commander';
import { createLogger, toLog } from '../process/log.ts';
import { type AgentConfig, parseAgentConfig } from './config.ts';
import { runAgent } from './run.ts';

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
  await runAgent(config, toLog(logger), stop.signal);
  logger.info('Stopped');
  process.exit(0);
} catch (error) {
  if (stop.signal.aborted) process.exit(0);
  logger.fatal({ err: error }, error instanceof Error ? error.message : String(error));
  process.exit(1);
}

function configOrExit(): AgentConfig {
  try {
    return parseAgentConfig(process.argv.slice(2), process.env);
  } catch (error) {
    if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : 2);
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(2);
  }
}
