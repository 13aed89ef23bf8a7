import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../../scripts/tools.ts';

interface PackageFile {
  name: string;
  version: string;
  private?: boolean;
  license: string;
  workspaces?: string[];
  dependencies?: Record<string, string>;
  peerDependencies?: Record<string, string>;
}

const read = (path: string) => JSON.parse(readFileSync(join(root, path), 'utf8')) as PackageFile;
const own = read('package.json');
const workspaces = (own.workspaces ?? []).map((folder) => ({ folder, ...read(`${folder}/package.json`) }));

test('the worker is not published, its workspaces are', () => {
  expect(own.private).toBe(true);
  expect(workspaces.map(({ folder }) => folder)).toEqual(['api', 'evacuator-kit', 'node-lease', 'cli']);
  for (const workspace of workspaces) {
    expect(workspace).not.toHaveProperty('private');
    expect(workspace.license).toBe('Apache-2.0');
  }
});

// Tests of this repository run with what the root pins.
test.each(workspaces)(
  '$name takes the versions of dependencies that are tested here, and newer ones',
  (workspace) => {
    const versions = Object.fromEntries(workspaces.map(({ name, version }) => [name, version]));
    const ranges = { ...workspace.dependencies, ...workspace.peerDependencies };
    const expected = Object.keys(ranges).map((name) => [
      name,
      `^${versions[name] ?? own.dependencies?.[name]}`,
    ]);
    expect(ranges).toEqual(Object.fromEntries(expected));
  },
);
