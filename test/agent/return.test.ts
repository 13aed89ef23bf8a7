import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { returnHeld } from '../../agent/return.ts';
import { silentLog } from '../../kube/log.ts';

let folder: string;
const manifestOf = (pod: string) =>
  `apiVersion: v1\nkind: Pod\nmetadata: {name: ${pod}}\nspec: {containers: [{name: main, image: fake}]}\n`;
const paths = () => ({
  staticPodPath: join(folder, 'manifests'),
  holdDirectory: join(folder, 'held-manifests'),
});

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'nm-return-'));
  for (const path of Object.values(paths())) await mkdir(path);
});

afterEach(() => rm(folder, { recursive: true, force: true }));

test('puts back what is held, but for a manifest whose pod has got another one', async () => {
  const { staticPodPath, holdDirectory } = paths();
  await writeFile(join(holdDirectory, 'web.yaml'), manifestOf('web'));
  await writeFile(join(holdDirectory, 'db.yaml'), manifestOf('db'));
  await writeFile(join(staticPodPath, 'web-v2.yaml'), manifestOf('web'));
  await expect(returnHeld(paths(), silentLog)).rejects.toThrow(
    `${join(holdDirectory, 'web.yaml')}: not put back into ${staticPodPath}: ${join(staticPodPath, 'web-v2.yaml')} is a manifest of the same pod`,
  );
  expect((await readdir(staticPodPath)).toSorted()).toEqual(['db.yaml', 'web-v2.yaml']);
  await rm(join(staticPodPath, 'web-v2.yaml'));
  await returnHeld(paths(), silentLog);
  expect((await readdir(staticPodPath)).toSorted()).toEqual(['db.yaml', 'web.yaml']);
});
