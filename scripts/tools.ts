import { readFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** The root directory of the repository. */
export const root = join(import.meta.dirname, '..');

/**
 * Returns the arguments of Node with which `npm start` runs the worker. They limit uncollected garbage, which would otherwise
 * be more than half of the worker's memory, so measurements and demos use them too.
 */
export function workerArguments(): string[] {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    scripts: { start: string };
  };
  const [, ...args] = scripts.start.split(' ');
  return args.map((arg) => (arg.endsWith('.ts') ? join(root, arg) : arg));
}

/** Returns an environment whose PATH begins with the project's own tools, including Node. */
export function toolEnvironment(extra: Record<string, string> = {}): NodeJS.ProcessEnv {
  const bin = join(root, 'node_modules', '.bin');
  return { ...process.env, ...extra, PATH: `${bin}${delimiter}${process.env['PATH'] ?? ''}` };
}

/** The environment with which Jest runs ES modules, without Node's warning about them. */
export const jestOptions = {
  NODE_OPTIONS: '--experimental-vm-modules --disable-warning=ExperimentalWarning',
};
