import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { deployedNodeOptions, root, workerArguments } from '../../scripts/tools.ts';

const read = (path: string) => readFileSync(join(root, path), 'utf8');
const dockerfile = read('Dockerfile');
const { version, dependencies } = JSON.parse(read('package.json')) as {
  version: string;
  dependencies: Record<string, string>;
};

/** Returns the arguments of Node in an instruction of the Dockerfile, up to the program. */
function flagsIn(instruction: 'RUN' | 'ENTRYPOINT'): string[] {
  const list = new RegExp(`^${instruction} (\\[.*\\])$`, 'm').exec(dockerfile)?.[1] ?? '[]';
  const [node, ...args] = JSON.parse(list) as string[];
  expect(node).toBe('node');
  return args.slice(0, args.indexOf('/app/worker/main.js'));
}

describe('the Dockerfile', () => {
  test('starts the worker with the flags of npm start, and compiles its code for them', () => {
    const flags = workerArguments().filter((arg) => arg.startsWith('--'));
    expect(flagsIn('ENTRYPOINT')).toEqual(flags);
    expect(flagsIn('RUN')).toEqual(flags);
  });

  test('compiles the code for the options of deploy/worker', () => {
    expect(dockerfile).toContain(`NODE_OPTIONS=${deployedNodeOptions()} \\\n`);
  });

  test('builds with the version of Node in package.json', () => {
    expect(dockerfile).toContain(`ARG BUILD_IMAGE=docker.io/library/node:${dependencies['node']}-`);
  });

  test('has the version of the package', () => {
    expect(dockerfile).toContain(`ARG VERSION=${version}\n`);
  });
});

test.each(['deploy/worker', 'deploy/admission-server'])('%s runs the image of this version', (folder) => {
  const { spec } = parse(read(`${folder}/deployment.yaml`)) as {
    spec: { template: { spec: { containers: { image: string }[] } } };
  };
  expect(spec.template.spec.containers.map(({ image }) => image)).toEqual([`node-maintenance:${version}`]);
});
