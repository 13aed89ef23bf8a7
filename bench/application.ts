import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { writeApplication } from '../scripts/image/application.ts';
import { deployedNodeOptions, workerArguments } from '../scripts/tools.ts';

/** How a worker is started. */
export interface WorkerProgram {
  /** Arguments of Node. */
  args: readonly string[];
  env: Readonly<Record<string, string>>;
  /** Folder of compiled code. Workers of the image cannot add to it: each gets a copy. */
  compiled?: string | undefined;
}

/** Writes the programs of the image to a folder, compiled as they are in the image, and returns how their worker is started. */
export async function installWorker(folder: string): Promise<WorkerProgram> {
  await writeApplication(folder);
  const args = workerArguments(join(folder, 'worker', 'main.js'));
  const compiled = join(folder, '.compiled');
  const env = { NODE_ENV: 'production', NODE_OPTIONS: deployedNodeOptions(), NODE_COMPILE_CACHE: compiled };
  await promisify(execFile)(process.execPath, [...args, '--help'], { env: { ...process.env, ...env } });
  return { args, env, compiled };
}

/** Returns how the worker of the checkout is started: its CPU profiles name the sources. */
export function checkedOutWorker(profiles: string): WorkerProgram {
  const args = ['--cpu-prof', `--cpu-prof-dir=${profiles}`, ...workerArguments()];
  return { args, env: { NODE_OPTIONS: deployedNodeOptions() } };
}
