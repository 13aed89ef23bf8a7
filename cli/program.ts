import { Command, CommanderError } from 'commander';
import { wordsOf } from '../kube/errors.ts';
import { addLeaseVerbs } from './lease.ts';
import { complain } from './output.ts';
import { addWorkersVerb } from './workers.ts';

/** Resolves with the exit code: 0 done, 1 refused or failed, 2 usage. */
export async function run(argv: readonly string[]): Promise<number> {
  try {
    await commandLine().parseAsync(argv, { from: 'user' });
    return process.exitCode === undefined ? 0 : Number(process.exitCode);
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    complain(`error: ${wordsOf(error)}`);
    return 1;
  }
}

function commandLine(): Command {
  const program = new Command('kubectl maintenance')
    .description('Maintenance of nodes: who has them, and which processes see to it.')
    .option('--kubeconfig <file>', 'instead of KUBECONFIG and ~/.kube/config')
    .option('--context <name>', 'of the kubeconfig, instead of the current one')
    .helpCommand(false)
    .exitOverride();
  addLeaseVerbs(program);
  addWorkersVerb(program);
  return program;
}
