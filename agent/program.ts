import { CommanderError } from 'commander';
import { createLogger, toLog } from '../process/log.ts';
import { parseAgentConfig, parseReturnPaths } from './config.ts';
import { returnHeld } from './return.ts';
import { runAgent } from './run.ts';

/** Runs the agent, or `return`, and resolves to the exit code: 1 if it failed, 2 for an invalid setting. `name` is that of the program in `--help`. */
export async function runProgram(
  argv: readonly string[],
  env: NodeJS.ProcessEnv,
  name?: string,
): Promise<number> {
  const [first, ...others] = argv;
  try {
    if (first === 'return') {
      const paths = parseReturnPaths(others, env, name);
      return await returned(() => returnHeld(paths, toLog(createLogger('info'))));
    }
    const config = parseAgentConfig(argv, env, name);
    const logger = createLogger(config.logLevel);
    return await untilStopped(logger, (signal) => runAgent(config, toLog(logger), signal));
  } catch (error) {
    // commander has printed it.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    return 2;
  }
}

async function returned(run: () => Promise<void>): Promise<number> {
  try {
    await run();
    return 0;
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    return 1;
  }
}

async function untilStopped(
  logger: ReturnType<typeof createLogger>,
  run: (signal: AbortSignal) => Promise<void>,
): Promise<number> {
  const stop = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT'] as const) {
    process.once(name, () => {
      logger.info({ signal: name }, 'Stopping');
      stop.abort();
    });
  }
  try {
    await run(stop.signal);
    logger.info('Stopped');
    return 0;
  } catch (error) {
    if (stop.signal.aborted) return 0;
    logger.fatal({ err: error }, error instanceof Error ? error.message : String(error));
    return 1;
  }
}
