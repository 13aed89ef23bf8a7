import { globSync, statSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { expect, test } from '@jest/globals';

const root = join(import.meta.dirname, '../..');

/** Folders of test/ that mirror no source folder: what they test is in several, or in none. Their subfolders are theirs. */
const withoutSource = [
  'agent/kit',
  'api/fixtures',
  'argocd',
  'bench/recorded',
  'chaos',
  'chart',
  'e2e',
  'fuzz',
  'kit',
  'monitoring',
  'plugin',
  'release',
  'replay',
  'static',
];

function isFolder(path: string): boolean {
  return statSync(join(root, path), { throwIfNoEntry: false })?.isDirectory() ?? false;
}

function hasSource(path: string): boolean {
  return !withoutSource.some((folder) => path === folder || path.startsWith(`${folder}/`));
}

const paths = globSync('test/**', { cwd: root }).map((path) => relative('test', path));
const folders = paths.filter((path) => path !== '' && isFolder(join('test', path)));
const files = paths.filter((path) => path.endsWith('.test.ts') && hasSource(path));

test('every folder of test/ mirrors a source folder', () => {
  expect(folders.length).toBeGreaterThan(50);
  expect(folders.filter((folder) => hasSource(folder) && !isFolder(folder))).toEqual([]);
});

test('the folders that mirror none exist, and have no counterpart', () => {
  expect(withoutSource.filter((folder) => !folders.includes(folder) || isFolder(folder))).toEqual([]);
});

test('a test with the name of a source is in the folder that mirrors its folder', () => {
  const misplaced = files.flatMap((file) => {
    const source = basename(file).replace(/(\.slow|\.long)?\.test\.ts$/, '.ts');
    const sources = globSync(join(dirname(file), '**', source), { cwd: root, exclude: ['**/node_modules'] });
    return sources.length === 0 || sources.includes(join(dirname(file), source))
      ? []
      : [`${file}: ${sources.join(', ')}`];
  });
  expect(files.length).toBeGreaterThan(200);
  expect(misplaced).toEqual([]);
});
