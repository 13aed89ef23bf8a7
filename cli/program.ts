import { Command, CommanderError } from 'commander';
import { errorMessage } from '../kube/errors.ts';
import { addAgentVerbs } from './agent/agent.ts';
import { addCompletionVerbs } from './completion/completion.ts';
import { addLeaseVerbs } from './leases/lease.ts';
import { addDoctorVerb } from './doctor/doctor.ts';
import { addHistoryVerb } from './maintenance/history.ts';
import { printError, UsageError, writeUsageError } from './output.ts';
import { addPlanVerb } from './maintenance/plan.ts';
import { addReportVerb } from './report/report.ts';
import { addStartVerb } from './maintenance/start.ts';
import { addStatusVerb } from './maintenance/status.ts';
import { addStageVerbs } from './maintenance/stage.ts';
import { addWindowVerbs } from './windows/window.ts';
import { addWindowsVerb } from './windows/windows.ts';
import { addUninstallVerb } from './uninstall/uninstall.ts';
import { requireUiArgument, uiOption } from './maintenance/temporalUi.ts';
import { addWorkersVerb } from './workers/workers.ts';

/** Resolves with the exit code: 0 success, 1 rejected or failed, 2 invalid usage. */
export async function run(argv: readonly string[]): Promise<number> {
  exitOnBrokenPipe();
  try {
    await commandLine().parseAsync(argv, { from: 'user' });
    return process.exitCode === undefined ? 0 : Number(process.exitCode);
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    printError(`error: ${errorMessage(error)}`);
    return error instanceof UsageError ? 2 : 1;
  }
}

/** Exits silently if the reader of a pipe has closed it, such as `| head`, with the exit code of a program that SIGPIPE ends. */
function exitOnBrokenPipe(): void {
  for (const stream of [process.stdout, process.stderr])
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
      process.exit(process.exitCode ?? brokenPipe);
    });
}

/** 128 and the number of SIGPIPE. */
const brokenPipe = 141;

function commandLine(): Command {
  const program = new Command('kubectl maintenance')
    .description(
      'Declarative node maintenance: cordon, drain and uncordon nodes, and watch the progress (KEP-4212).',
    )
    .option('--kubeconfig <file>', 'path of the kubeconfig; default: KUBECONFIG or ~/.kube/config')
    .option('--context <name>', 'context of the kubeconfig; default: the current one')
    .addOption(uiOption())
    .hook('preAction', (_program, command) => requireUiArgument(command))
    .helpCommand(false)
    .configureOutput({ writeErr: writeUsageError })
    .exitOverride();
  addPlanVerb(program);
  addStartVerb(program);
  addStatusVerb(program);
  addStageVerbs(program);
  addHistoryVerb(program);
  addReportVerb(program);
  addWindowsVerb(program);
  addWindowVerbs(program);
  addLeaseVerbs(program);
  addAgentVerbs(program);
  addWorkersVerb(program);
  addUninstallVerb(program);
  addDoctorVerb(program);
  addCompletionVerbs(program);
  return program;
}
