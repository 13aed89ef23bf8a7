import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { gzipSync } from 'node:zlib';
import { writeExecutable } from '../plugin/executable.ts';
import { licensesOf } from '../plugin/licenses.ts';
import { root } from '../tools.ts';

/**
 * `npm run agent-package` writes the Debian package of the node agent to dist/agent-package: one executable that needs no Node.js, its systemd unit, and
 * what logind, D-Bus and the kubelet read. Requires dpkg-deb.
 */

const name = 'node-maintenance-agent';
const output = join(root, 'dist', 'agent-package');
const tree = join(output, 'root');
const sources = join(root, 'deploy', 'agent');
const documents = `usr/share/doc/${name}`;
const tokenFolder = `etc/${name}`;

/** Where the files of deploy/agent/systemd are installed. The drop-in of the kubelet is for administrators to link: not every node needs it. */
const systemdFiles = {
  'node-maintenance-agent.service': 'usr/lib/systemd/system',
  'node-maintenance-kubelet-bus.service': 'usr/lib/systemd/system',
  'logind.conf.d/99-node-maintenance-agent.conf': 'usr/lib/systemd/logind.conf.d',
  'dbus/io.k8s.nodemaintenance.Agent.conf': 'usr/share/dbus-1/system.d',
  'kubelet.service.d/20-node-maintenance-agent.conf': `usr/share/${name}/kubelet.service.d`,
};

async function main(): Promise<number> {
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    console.error(
      `npm run agent-package builds for linux on x64, and only there (this is ${process.platform} on ${process.arch})`,
    );
    return 1;
  }
  rmSync(output, { recursive: true, force: true });
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
  const inputs = await writeProgram();
  for (const [file, folder] of Object.entries(systemdFiles))
    installed(join(sources, 'systemd', file), join(folder, file.split('/').at(-1) ?? ''));
  installed(join(sources, 'debian', `${name}.default`), `etc/default/${name}`);
  installed(join(sources, 'debian', 'lintian-overrides'), `usr/share/lintian/overrides/${name}`);
  // The kubelet's folder may be younger than the agent, and must be writable to it.
  for (const folder of ['etc/kubernetes', tokenFolder]) mkdirSync(join(tree, folder), { recursive: true });
  writeDocuments(version, inputs);
  writeControl(version);
  setModes();
  const file = join(output, `${name}_${version}_amd64.deb`);
  const changedAt = changeTime();
  const env = { ...process.env, SOURCE_DATE_EPOCH: String(changedAt) };
  // The same package for the same files, no matter who builds it and when.
  execFileSync('find', [tree, '-exec', 'touch', '--no-dereference', `--date=@${changedAt}`, '{}', '+']);
  execFileSync('dpkg-deb', ['--root-owner-group', '-Zxz', '-z1', '--build', tree, file], {
    stdio: 'pipe',
    env,
  });
  const sha256 = createHash('sha256').update(readFileSync(file)).digest('hex');
  writeFileSync(`${file}.sha256`, `${sha256}  ${relative(output, file)}\n`);
  console.log(
    `Wrote ${relative(root, file)} (${Math.round(statSync(file).size / 1e6)} MB, sha256 ${sha256})`,
  );
  console.log('To undo: rm -r dist/agent-package');
  return 0;
}

async function writeProgram(): Promise<string[]> {
  mkdirSync(join(tree, 'usr/bin'), { recursive: true });
  return writeExecutable(join(tree, 'usr/bin', name), 'agent/executable.ts');
}

function installed(source: string, path: string, mode = 0o644): void {
  const target = join(tree, path);
  mkdirSync(dirname(target), { recursive: true });
  copyFileSync(source, target);
  chmodSync(target, mode);
}

function writeDocuments(version: string, inputs: readonly string[]): void {
  installed(join(sources, 'debian', 'copyright'), `${documents}/copyright`);
  const compressed = (text: string) => gzipSync(text, { level: 9 });
  writeFileSync(join(tree, documents, 'LICENSES.txt.gz'), compressed(licensesOf(inputs)));
  const changelog = readFileSync(join(sources, 'debian', 'changelog'), 'utf8').replace('VERSION', version);
  writeFileSync(join(tree, documents, 'changelog.gz'), compressed(changelog));
}

/** Writes the control files, with the size in KiB and the checksums of what is installed. */
function writeControl(version: string): void {
  const files = readdirSync(tree, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(tree, join(entry.parentPath, entry.name)))
    .toSorted();
  const size = files.reduce((sum, file) => sum + Math.ceil(statSync(join(tree, file)).size / 1024), 0);
  const control = readFileSync(join(sources, 'debian', 'control'), 'utf8')
    .replace('VERSION', version)
    .replace('INSTALLED-SIZE', String(size));
  const sums = files.map(
    (file) =>
      `${createHash('md5')
        .update(readFileSync(join(tree, file)))
        .digest('hex')}  ${file}\n`,
  );
  mkdirSync(join(tree, 'DEBIAN'));
  writeFileSync(join(tree, 'DEBIAN', 'control'), control);
  writeFileSync(join(tree, 'DEBIAN', 'md5sums'), sums.join(''));
  writeFileSync(join(tree, 'DEBIAN', 'conffiles'), `/etc/default/${name}\n`);
  for (const script of ['postinst', 'prerm', 'postrm'])
    installed(join(sources, 'debian', script), join('DEBIAN', script), 0o755);
}

/** Only root may list the folder of the token. */
function setModes(): void {
  for (const entry of readdirSync(tree, { recursive: true, withFileTypes: true }))
    if (entry.isDirectory()) chmodSync(join(entry.parentPath, entry.name), 0o755);
  chmodSync(tree, 0o755);
  chmodSync(join(tree, tokenFolder), 0o700);
}

/** Returns the time of the latest change, in seconds since the epoch. */
function changeTime(): number {
  const [, date = ''] =
    / {2}(\w{3}, .*)$/m.exec(readFileSync(join(sources, 'debian', 'changelog'), 'utf8')) ?? [];
  return Date.parse(date) / 1_000;
}

process.exitCode = await main();
