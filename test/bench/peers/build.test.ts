import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildOperator, sourceOf } from '../../../bench/peers/build.ts';

const name = 'node-maintenance-operator';
const options = { report: () => undefined, signal: new AbortController().signal };

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'nm-peers-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

test('Without PEERS_SOURCE, the reason says what it is for', async () => {
  expect(await buildOperator(name, { env: {}, ...options })).toEqual({
    kind: 'Unavailable',
    reason:
      'PEERS_SOURCE is not set: name a folder in which node-maintenance-operator/ contains its public sources',
  });
});

test('A folder without the sources is named', () => {
  expect(sourceOf(name, { PEERS_SOURCE: folder })).toMatchObject({
    reason: expect.stringContaining(`PEERS_SOURCE is ${folder}, without ${name}/go.mod: `),
  });
});

test('The sources are those in the folder of the name', async () => {
  const source = join(folder, name);
  await mkdir(source);
  await writeFile(join(source, 'go.mod'), 'module example.com/peer\n\ngo 1.26\n');
  expect(sourceOf(name, { PEERS_SOURCE: folder })).toBe(source);
});

test('Sources that cannot be built give the reason of Go', async () => {
  const source = join(folder, name);
  await mkdir(source);
  await writeFile(join(source, 'go.mod'), 'module example.com/peer\n\ngo 1.26\n');
  const env = { ...process.env, PEERS_SOURCE: folder, XDG_CACHE_HOME: folder };
  expect(await buildOperator(name, { env, ...options })).toMatchObject({
    kind: 'Unavailable',
    reason: expect.stringContaining(`Building ${name} failed: `),
  });
});
