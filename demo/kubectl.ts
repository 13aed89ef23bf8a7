import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { SandboxError } from '../sandbox/errors.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';

const run = promisify(execFile);

/** Runs kubectl as a person in the sandbox's directory would; resolves with what it printed. Throws SandboxError. */
export type Kubectl = (...args: string[]) => Promise<string>;

/** Bytes; the apiserver's metrics are the longest thing that is read. */
const longestOutput = 64 * 1024 * 1024;

export function kubectlOf(sandbox: Sandbox, signal: AbortSignal): Kubectl {
  const env = { KUBECONFIG: sandbox.kubeconfig, HOME: sandbox.dir, PATH: sandbox.bin };
  return async (...args) => {
    try {
      const options = { cwd: sandbox.dir, env, signal, maxBuffer: longestOutput };
      return (await run(join(sandbox.bin, 'kubectl'), args, options)).stdout;
    } catch (error) {
      signal.throwIfAborted();
      const complaint = String((error as { stderr?: string }).stderr || error).trim();
      throw new SandboxError(`${commandLine(args)} failed: ${complaint}`, { cause: error });
    }
  };
}

/** What kubectl said when it failed; whatever else went wrong is thrown again. */
export function complaintOf(error: unknown): string {
  const { stderr } = ((error as Error).cause ?? {}) as { stderr?: string };
  if (!stderr) throw error;
  return stderr.trim();
}

/** The command as one would type it. */
export function commandLine(args: readonly string[]): string {
  const quoted = args.map((arg) =>
    /^[\w@%+=:,./-]+$/.test(arg) ? arg : `'${arg.replaceAll("'", `'\\''`)}'`,
  );
  return ['kubectl', ...quoted].join(' ');
}
