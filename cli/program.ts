import { Command, CommanderError } from 'commander';
import { wordsOf } from '../kube/errors.ts';
import { addCompletionVerbs } from './completion.ts';
import { addLeaseVerbs } from './lease.ts';
import { addHistoryVerb } from './history.ts';
import { complain, UsageError } from './output.ts';
import { addPlanVerb } from './plan.ts';
import { addStartVerb } from './start.ts';
import { addStatusVerb } from './status.ts';
import { addSteeringVerbs } from './steer.ts';
import { addWindowVerbs } from './steerWindow.ts';
import { addWindowsVerb } from './windows.ts';
import { uiOption } from './temporalUi.ts';
import { addWorkersVerb } from './workers.ts';

/** Resolves with the exit code: 0 done, 1 refused or failed, 2 usage. */
export async function run(argv: readonly string[]): Promise<number> {
  endQuietlyWithoutReaders();
  try {
    await commandLine().parseAsync(argv, { from: 'user' });
    return process.exitCode === undefined ? 0 : Number(process.exitCode);
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    complain(`error: ${wordsOf(error)}`);
    return error instanceof UsageError ? 2 : 1;
  }
}

/** `| head` has read enough: nobody is left to tell anything. */
function endQuietlyWithoutReaders(): void {
  for (const stream of [process.stdout, process.stderr])
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
      process.exit();
    });
}

function commandLine(): Command {
  const program = new Command('kubectl maintenance')
    .description('Maintenance of nodes: take them out of service, watch it, and give them back (KEP-4212).')
    .option('--kubeconfig <file>', 'instead of KUBECONFIG and ~/.kube/config')
    .option('--context <name>', 'of the kubeconfig, instead of the current one')
    .addOption(uiOption())
    .helpCommand(false)
    .exitOverride();
  addPlanVerb(program);
  addStartVerb(program);
  addStatusVerb(program);
  addSteeringVerbs(program);
  addHistoryVerb(program);
  addWindowsVerb(program);
  addWindowVerbs(program);
  addLeaseVerbs(program);
  addWorkersVerb(program);
  addCompletionVerbs(program);
  return program;
}
