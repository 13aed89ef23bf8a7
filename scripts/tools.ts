import { delimiter, join } from 'node:path';

/** The root of the repository. */
export const root = join(import.meta.dirname, '..');

/** An environment in which the project's own tools come first, and Node with them. */
export function toolEnvironment(extra: Record<string, string> = {}): NodeJS.ProcessEnv {
  const bin = join(root, 'node_modules', '.bin');
  return { ...process.env, ...extra, PATH: `${bin}${delimiter}${process.env['PATH'] ?? ''}` };
}

/** What Jest needs on top, to run ES modules; Node's warning that it can do so is of no use to anybody. */
export const jestOptions = {
  NODE_OPTIONS: '--experimental-vm-modules --disable-warning=ExperimentalWarning',
};
