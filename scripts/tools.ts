import { readFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** The root of the repository. */
export const root = join(import.meta.dirname, '..');

/**
 * How `npm start` runs the worker: the arguments of Node. They bound the garbage that waits to be collected, which would
 * otherwise be more than half of what the worker holds; whoever measures or shows a worker runs it like this.
 */
export function workerArguments(): string[] {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    scripts: { start: string };
  };
  const [, ...args] = scripts.start.split(' ');
  return args.map((arg) => (arg.endsWith('.ts') ? join(root, arg) : arg));
}

/** An environment in which the project's own tools come first, and Node with them. */
export function toolEnvironment(extra: Record<string, string> = {}): NodeJS.ProcessEnv {
  const bin = join(root, 'node_modules', '.bin');
  return { ...process.env, ...extra, PATH: `${bin}${delimiter}${process.env['PATH'] ?? ''}` };
}

/** What Jest needs on top, to run ES modules; Node's warning that it can do so is of no use to anybody. */
export const jestOptions = {
  NODE_OPTIONS: '--experimental-vm-modules --disable-warning=ExperimentalWarning',
};
