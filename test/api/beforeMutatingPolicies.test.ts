import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { parseAllDocuments, stringify } from 'yaml';
import type { KubeObject } from '../../api/core.ts';
import { readManifests } from '../../manifests/read.ts';
import { renderManifests } from '../../manifests/render.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

let sandbox: Sandbox | undefined;

beforeAll(async () => {
  sandbox = await testSandbox();
});

afterAll(() => releaseSandbox(sandbox));

test('deploy/before-1.36 renders the manifests that npm run manifests prints for such a version', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'nm-overlay-'));
  try {
    const deploy = relative(dir, fileURLToPath(new URL('../../deploy', import.meta.url)));
    const overlay = { resources: [deploy], components: [`${deploy}/before-1.36`] };
    await writeFile(join(dir, 'kustomization.yaml'), stringify(overlay));
    const { stdout } = await promisify(execFile)('kubectl', ['kustomize', dir], {
      env: sandbox?.env ?? {},
      maxBuffer: 10_000_000,
    });
    const rendered = parseAllDocuments(stdout).map((document) => document.toJS() as KubeObject);
    const expected = renderManifests(await readManifests(), { mutatingPolicies: false });
    const byName = (objects: readonly KubeObject[]) =>
      Object.fromEntries(
        objects.map((one) => [`${one.kind}/${one.metadata.namespace}/${one.metadata.name}`, one]),
      );
    // Each appended operation puts its webhook before the ones of deploy/ or after them: the apiserver calls them in any order.
    const sorted = (objects: readonly KubeObject[]) =>
      objects.map((object) =>
        'webhooks' in object
          ? {
              ...object,
              webhooks: (object.webhooks as { name: string }[]).toSorted((a, b) =>
                a.name < b.name ? -1 : 1,
              ),
            }
          : object,
      );
    expect(byName(sorted(rendered))).toEqual(byName(sorted(expected)));
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
});
