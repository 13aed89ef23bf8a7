import { folderChanges } from '../../kit/unsyncedFolders.ts';
import { link, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ManifestFolders } from '../../../agent/staticPods/folders.ts';
import { silentLog } from '../../../kube/log.ts';

// A process of its own: moves manifests in the folder that it is started with, and prints for each step which folders it has changed and not synced.

const [dir = ''] = process.argv.slice(2);
const [staticPodPath, holdDirectory] = [join(dir, 'manifests'), join(dir, 'new/parent/held')];
const folders = new ManifestFolders({ staticPodPath, holdDirectory }, silentLog);
const placed = (folder: string, file: string) =>
  writeFile(join(folder, file), `{ kind: Pod, metadata: { name: ${file} } }`);

const steps: Record<string, () => Promise<unknown>> = {
  prepare: () => folders.prepare(),
  hold: () => folders.hold('web.yaml'),
  'put back': () => folders.putBack('web.yaml'),
  'set aside': () => folders.setAside('old.yaml'),
  exempt: () => folders.addExempt('kube-system/etcd'),
  'complete a move': () => folders.read(),
};

await mkdir(staticPodPath);
await placed(staticPodPath, 'web.yaml');
for (const [step, run] of Object.entries(steps)) {
  if (step === 'set aside') await placed(holdDirectory, 'old.yaml');
  if (step === 'complete a move')
    await link(join(staticPodPath, 'web.yaml'), join(holdDirectory, 'web.yaml'));
  folderChanges();
  await run();
  process.stdout.write(`${JSON.stringify({ step, ...folderChanges() })}\n`);
}
