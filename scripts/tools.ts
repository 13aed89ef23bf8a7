import { readFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { parse } from 'yaml';

/** The root directory of the repository. */
export const root = join(import.meta.dirname, '..');

/**
 * Returns the arguments of Node with which `npm start` runs the worker. They limit uncollected garbage, which would otherwise
 * be more than half of the worker's memory, so measurements and demos use them too. `program` takes the place of the one of the checkout.
 */
export function workerArguments(program?: string): string[] {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    scripts: { start: string };
  };
  const [, ...args] = scripts.start.split(' ');
  return args.map((arg) => (arg.endsWith('.ts') ? (program ?? join(root, arg)) : arg));
}

/** Returns the NODE_OPTIONS of deploy/worker. */
export function deployedNodeOptions(): string {
  const file = join(root, 'deploy', 'worker', 'deployment.yaml');
  const { spec } = parse(readFileSync(file, 'utf8')) as Deployment;
  const { env } = spec.template.spec.containers[0];
  return env.find(({ name }) => name === 'NODE_OPTIONS')?.value ?? '';
}

/** Returns the environment by which the image configures malloc. */
export function mallocEnvironment(): Record<string, string> {
  const settings = readFileSync(join(root, 'Dockerfile'), 'utf8').matchAll(/^ {2}(MALLOC_\w+)=(\d+) \\$/gm);
  return Object.fromEntries(Array.from(settings, ([, name = '', value = '']) => [name, value]));
}

interface Deployment {
  spec: { template: { spec: { containers: [{ env: { name: string; value?: string }[] }] } } };
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
