import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { Sandbox } from '../../sandbox/sandbox.ts';

export interface Answer {
  code: number;
  stdout: string;
  stderr: string;
}

export type Kubectl = (args: string[], object?: object) => Promise<Answer>;

/** kubectl as the sandbox's administrator, its cache kept there; `object` goes to standard input as JSON (for `-f -`). */
export function kubectlOf({ bin, env, dir }: Sandbox): Kubectl {
  // It ends before it has to collect garbage, which takes a fifth of its processor time.
  const variables = { ...env, HOME: dir, GOGC: 'off' };
  return async (args, object) => {
    const child = spawn(join(bin, 'kubectl'), args, { env: variables, stdio: 'pipe' });
    // kubectl may exit without having read it; the exit code says why.
    child.stdin.on('error', () => undefined);
    child.stdin.end(object ? JSON.stringify(object) : '');
    const [stdout, stderr, [code]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close'),
    ]);
    return { code: code as number, stdout, stderr };
  };
}

/** The same, for a command that must succeed: resolves to its output. */
export async function succeeds(answer: Promise<Answer>): Promise<string> {
  const { code, stdout, stderr } = await answer;
  if (code !== 0) throw new Error(`kubectl exited with ${code}: ${stderr.trim()}`);
  return stdout;
}
