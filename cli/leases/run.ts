import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { constants, hostname, userInfo } from 'node:os';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { leaseClientProblem } from '../../domain/leases/lease.ts';
import { whoAmI } from '../../kube/authorization.ts';
import { errorMessage } from '../../kube/errors.ts';
import { NodeHeldError, NodeLeaseLostError, nodeLeases, type Waiting } from '../../node-lease/index.ts';
import { type ClusterOptions, withCluster } from '../cluster.ts';
import { escapeForTerminal, printError } from '../output.ts';

/**
 * Exit codes besides that of the command, as those of timeout(1). A command that a signal ended has 128 and the number of the signal, as in a shell.
 */
const ExitCode = {
  /** The Lease was lost, and the command was sent SIGTERM. */
  Lost: 124,
  /** The command was not started: the node is held by another client, or does not exist, or permissions are missing. */
  NotRun: 125,
  NotExecutable: 126,
  NotFound: 127,
  /** Plus the number of a signal. */
  Signal: 128,
} as const;

interface RunOptions extends ClusterOptions {
  readonly holder?: string;
  readonly duration: number;
  readonly wait: boolean;
  readonly gracePeriod: number;
}

const defaultDurationSeconds = 900;
/** The name of a holder has at most 253 characters. */
const maxUserLength = 150;

/** Adds kubectl maintenance lease run. */
export function addRunVerb(lease: Command): void {
  lease
    .command('run')
    .description('hold a node while a command runs, and stop the command if the Lease is lost')
    .usage('[options] <node> -- <command> [argument...]')
    .argument('<node>')
    .argument('<command>', 'everything after -- is the command')
    .argument('[argument...]')
    .option('--holder <name>', 'name of the holder; default: one that no other client has', parseHolder)
    .addOption(
      new Option('--duration <seconds>', 'how long others wait for this process if it stops renewing')
        .argParser(parseLeaseDuration)
        .default(defaultDurationSeconds),
    )
    .addOption(
      new Option('--grace-period <seconds>', 'time between SIGTERM and SIGKILL when the Lease is lost')
        .argParser(wholeSeconds)
        .default(10),
    )
    .option('--no-wait', 'fail if another client holds the node')
    .action(async (...given: [node: string, program: string, args: string[], options: object, Command]) => {
      const [node, program, args, , command] = given;
      process.exitCode = await run(node, [program, ...args], command.optsWithGlobals());
    });
}

function parseHolder(holder: string): string {
  const problem = leaseClientProblem({ holder, leaseDurationSeconds: defaultDurationSeconds });
  if (problem !== undefined) throw new InvalidArgumentError(problem);
  return holder;
}

function parseLeaseDuration(text: string): number {
  const seconds = wholeSeconds(text);
  if (leaseClientProblem({ holder: 'any', leaseDurationSeconds: seconds }) !== undefined)
    throw new InvalidArgumentError('expected 1 to 3600 seconds');
  return seconds;
}

function wholeSeconds(text: string): number {
  if (!/^\d{1,5}$/.test(text)) throw new InvalidArgumentError('expected a whole number of seconds');
  return Number(text);
}

/** Resolves with the exit code. */
async function run(node: string, command: readonly string[], options: RunOptions): Promise<number> {
  const signals = new Signals();
  try {
    return await hold(node, command, options, signals);
  } catch (error) {
    if (signals.received !== undefined) return ExitCode.Signal + constants.signals[signals.received];
    printError(`error: ${leaseErrorMessage(error)}`);
    return error instanceof NodeLeaseLostError ? ExitCode.Lost : ExitCode.NotRun;
  } finally {
    signals.dispose();
  }
}

async function hold(
  node: string,
  command: readonly string[],
  { holder, duration, wait, gracePeriod, ...cluster }: RunOptions,
  signals: Signals,
): Promise<number> {
  const leases = nodeLeases({
    ...cluster,
    holder: holder ?? (await uniqueHolder(cluster)),
    leaseDurationSeconds: duration,
  });
  try {
    const act = (lost: AbortSignal) => execute(command, { lost, gracePeriod, signals });
    const onWaiting = (waiting: Waiting) => printError(`waiting: ${heldBy(waiting)}`);
    return await leases.hold(node, act, { signal: signals.beforeStart, wait, onWaiting });
  } finally {
    await leases.close();
  }
}

/** The prefix is none that KEP-1411 reserves, whatever the name of the user. */
function uniqueHolder(cluster: ClusterOptions): Promise<string> {
  return withCluster(cluster, async (kube) => {
    const user = (await whoAmI(kube)) ?? userInfo().username;
    return `lease-run/${user.slice(0, maxUserLength)}@${hostname()}_${crypto.randomUUID().slice(0, 8)}`;
  });
}

function heldBy({ node, holder, until }: Waiting): string {
  const expires =
    until === undefined ? 'which does not expire' : `until ${until.toISOString()} unless renewed`;
  return `node/${node} is held by ${escapeForTerminal(holder)}, ${expires}`;
}

function leaseErrorMessage(error: unknown): string {
  if (error instanceof NodeHeldError && error.node !== undefined)
    return `${heldBy({ node: error.node, holder: error.holder, until: error.until })}: wait, or leave out --no-wait`;
  if (error instanceof NodeLeaseLostError) return `${errorMessage(error)}; the command has ended`;
  return errorMessage(error);
}

interface Execution {
  /** Aborts when the Lease is lost. */
  readonly lost: AbortSignal;
  readonly gracePeriod: number;
  readonly signals: Signals;
}

/** Resolves with the exit code of the command. */
async function execute(
  [program = '', ...args]: readonly string[],
  { lost, gracePeriod, signals }: Execution,
): Promise<number> {
  const child = spawn(program, args, { stdio: 'inherit' });
  const ended = endOf(child);
  signals.passTo(child);
  let killTimer: NodeJS.Timeout | undefined;
  const stop = () => {
    child.kill('SIGTERM');
    killTimer = setTimeout(() => child.kill('SIGKILL'), gracePeriod * 1_000);
  };
  lost.addEventListener('abort', stop, { once: true });
  if (lost.aborted) stop();
  try {
    return await ended;
  } finally {
    clearTimeout(killTimer);
    lost.removeEventListener('abort', stop);
  }
}

/** Resolves with the exit code when the command has ended, or could not be started. */
export function endOf(child: ChildProcess): Promise<number> {
  return new Promise((resolve) => {
    child.once('exit', (code, signal) =>
      resolve(code ?? ExitCode.Signal + (signal === null ? 0 : constants.signals[signal])),
    );
    child.on('error', (error: NodeJS.ErrnoException) => {
      if (child.pid !== undefined) {
        // Of another user, such as with sudo. The node is held until the command has ended.
        printError(`warning: the command cannot be stopped, and continues: ${errorMessage(error)}`);
        return;
      }
      printError(`error: ${errorMessage(error)}`);
      resolve(error.code === 'ENOENT' ? ExitCode.NotFound : ExitCode.NotExecutable);
    });
  });
}

const passedOn = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const;
/** A terminal sends these to the command too, which is in the same process group. */
const sentByTerminal: readonly string[] = ['SIGINT', 'SIGQUIT'];

/** Reports whether this process is in the foreground of a terminal, even if its input comes from elsewhere. */
function isInForeground(): boolean {
  try {
    const stat = readFileSync('/proc/self/stat', 'utf8');
    // After the name of the program: state, parent, process group, session, terminal, process group in its foreground (proc_pid_stat(5)).
    const [, , group, , , foreground] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return group === foreground;
  } catch {
    return process.stdin.isTTY;
  }
}

/** Passes signals of this process on to the command. Before it is started, they end the wait for the node. */
class Signals {
  readonly #stop = new AbortController();
  #child: ChildProcess | undefined;
  #received: NodeJS.Signals | undefined;
  readonly #onSignal = (signal: NodeJS.Signals) => {
    if (this.#child === undefined) {
      this.#received ??= signal;
      this.#stop.abort(new Error(`interrupted by ${signal}`));
    } else if (!(sentByTerminal.includes(signal) && isInForeground())) {
      this.#child.kill(signal);
    }
  };

  constructor() {
    for (const signal of passedOn) process.on(signal, this.#onSignal);
  }

  /** Aborts with a signal that arrives before the command was started. */
  get beforeStart(): AbortSignal {
    return this.#stop.signal;
  }

  /** The signal that arrived before the command was started. */
  get received(): NodeJS.Signals | undefined {
    return this.#received;
  }

  passTo(child: ChildProcess): void {
    this.#child = child;
  }

  dispose(): void {
    for (const signal of passedOn) process.off(signal, this.#onSignal);
  }
}
