import { execFile } from 'node:child_process';
import { lstat, mkdir, mkdtemp, readFile, readlink, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { ManifestFolders } from '../../../agent/staticPods/folders.ts';
import { silentLog } from '../../../kube/log.ts';

// The folders of the node agent, without a cluster.

const program = fileURLToPath(new URL('../kit/movedManifests.ts', import.meta.url));

let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'nm-folders-'));
});

afterEach(() => rm(dir, { recursive: true, force: true }));

test('what has been done to manifests survives a power loss: every changed folder is synced', async () => {
  const env = { ...process.env, NODE_OPTIONS: '' };
  const { stdout } = await promisify(execFile)(process.execPath, [program, dir], { env });
  const [manifests, held] = [join(dir, 'manifests'), join(dir, 'new/parent/held')];
  const aside = join(held, 'set-aside');
  const parents = [dir, join(dir, 'new'), join(dir, 'new/parent'), held];
  const steps = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as object);
  expect(steps).toEqual(
    [
      { step: 'prepare', changed: parents },
      { step: 'hold', changed: [manifests, held] },
      { step: 'put back', changed: [manifests, held] },
      { step: 'set aside', changed: [held, aside] },
      { step: 'exempt', changed: [join(held, 'put-back-in-outage')] },
      { step: 'complete a move', changed: [held] },
    ].map((step) => ({ ...step, unsynced: [], early: [] })),
  );
});

describe('a manifest that is a symbolic link', () => {
  const pod = 'kind: Pod\nmetadata: { name: web, labels: { tier: control-plane } }\n';

  test.each([
    { what: 'relative', target: () => '../sources/web.yaml' },
    { what: 'relative, through another link', target: () => '..data/web.yaml' },
    { what: 'absolute', target: () => join(dir, 'sources/web.yaml') },
  ])('is known while it is held, and put back as it was: $what', async ({ target }) => {
    const paths = { staticPodPath: join(dir, 'manifests'), holdDirectory: join(dir, 'deeply/held') };
    const folders = new ManifestFolders(paths, silentLog);
    for (const folder of ['manifests', 'sources']) await mkdir(join(dir, folder));
    await writeFile(join(dir, 'sources/web.yaml'), pod);
    await symlink('../sources', join(paths.staticPodPath, '..data'));
    const [file, link] = ['web.yaml', join(paths.staticPodPath, 'web.yaml')];
    await symlink(target(), link);
    await folders.prepare();
    const { present } = await folders.read();
    expect(present).toMatchObject([{ file, name: 'web', labels: { tier: 'control-plane' } }]);
    expect(await folders.hold(file)).toBe(true);
    expect(await folders.read()).toEqual({
      present: [],
      unreadable: [],
      held: [{ file, manifest: present[0] }],
    });
    expect(await folders.putBack(file)).toBe(true);
    expect((await lstat(link)).isSymbolicLink()).toBe(true);
    expect([await readlink(link), await readFile(link, 'utf8')]).toEqual([target(), pod]);
    expect(await folders.read()).toEqual({ present, unreadable: [], held: [] });
  });
});
