import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { SandboxError } from '../sandbox/errors.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';

const run = promisify(execFile);

/** Runs kubectl in the directory of the sandbox. Returns its output. Throws SandboxError. */
export type Kubectl = (...args: string[]) => Promise<string>;

/** Limit of the output. The metrics of the apiserver are the longest output. */
const maxOutputBytes = 64 * 1024 * 1024;

export function kubectlOf(sandbox: Sandbox, signal: AbortSignal): Kubectl {
  const env = { KUBECONFIG: sandbox.kubeconfig, HOME: sandbox.dir, PATH: sandbox.bin };
  return async (...args) => {
    try {
      const options = { cwd: sandbox.dir, env, signal, maxBuffer: maxOutputBytes };
      return (await run(join(sandbox.bin, 'kubectl'), args, options)).stdout;
    } catch (error) {
      signal.throwIfAborted();
      const output = String((error as { stderr?: string }).stderr || error).trim();
      throw new SandboxError(`${commandLine(args)} failed: ${output}`, { cause: error });
    }
  };
}

/** Returns the error output of a failed kubectl command. Rethrows all other errors. */
export function errorOutputOf(error: unknown): string {
  const { stderr } = ((error as Error).cause ?? {}) as { stderr?: string };
  if (!stderr) throw error;
  return stderr.trim();
}

/** Returns the command as a shell command line. */
export function commandLine(args: readonly string[]): string {
  const quoted = args.map((arg) =>
    /^[\w@%+=:,./-]+$/.test(arg) ? arg : `'${arg.replaceAll("'", `'\\''`)}'`,
  );
  return ['kubectl', ...quoted].join(' ');
}
