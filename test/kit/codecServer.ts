import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { eventuallyHolds } from './eventually.ts';
import { programOf } from './program.ts';

const main = programOf('worker/codecServer/main.ts');

/** A codec server, as an operator runs it. */
export interface CodecServerProcess {
  port: number;
  log(): string;
  stop(): Promise<void>;
}

/** Starts it on a free port. */
export async function startCodecServer(args: string[], env: NodeJS.ProcessEnv): Promise<CodecServerProcess> {
  const child = spawn(process.execPath, [main, '--port', '0', ...args], {
    env: { ...process.env, NODE_OPTIONS: '', ...env },
  });
  const log = outputOf(child);
  const started = await eventuallyHolds(
    'the codec server to listen',
    () => ({ exitCode: child.exitCode, port: /"port":(\d+)/.exec(log())?.[1], log: log() }),
    ({ exitCode, port }) => exitCode !== null || port !== undefined,
  );
  if (started.port === undefined) throw new Error(`exit code ${child.exitCode}: ${log()}`);
  return { port: Number(started.port), log, stop: () => stopped(child) };
}

/** Runs it until it ends by itself, because of its settings. */
export async function codecServerExit(
  args: string[],
  env: NodeJS.ProcessEnv,
): Promise<{ code: number | null; output: string }> {
  const child = spawn(process.execPath, [main, '--port', '0', ...args], {
    env: { ...process.env, NODE_OPTIONS: '', ...env },
  });
  const output = outputOf(child);
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, output: output() };
}

function outputOf({ stdout, stderr }: ReturnType<typeof spawn>): () => string {
  let output = '';
  for (const stream of [stdout, stderr]) stream?.on('data', (chunk: Buffer) => (output += chunk.toString()));
  return () => output;
}

async function stopped(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  await exited;
}
