import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** A package of Debian in the base of the image. */
export interface DebianPackage {
  name: string;
  version: string;
  architecture: string;
}

/** Packages with which Node and Temporal's SDK are linked, and the certificates of public authorities. */
const packages = ['libc6', 'libgcc-s1', 'libstdc++6', 'ca-certificates', 'base-files'];

/** Documentation, and what only a shell or other languages need. */
const unused = [
  'etc/update-motd.d',
  'usr/lib/x86_64-linux-gnu/gconv',
  'usr/lib/aarch64-linux-gnu/gconv',
  'usr/share/bug',
  'usr/share/gcc',
  'usr/share/lintian',
  'usr/share/man',
  'usr/sbin',
];

const run = promisify(execFile);

/**
 * Writes the files of a base image into `folder`, from the packages that apt-get downloads, without installing them. Like distroless it says in
 * /var/lib/dpkg/status.d which packages it consists of, where scanners look for them.
 */
export async function writeDebianBase(folder: string): Promise<DebianPackage[]> {
  const downloads = `${folder}.packages`;
  for (const directory of [folder, downloads]) {
    rmSync(directory, { recursive: true, force: true });
    mkdirSync(directory, { recursive: true });
  }
  await run('apt-get', ['download', '--quiet', ...packages], { cwd: downloads });
  const found: DebianPackage[] = [];
  for (const file of readdirSync(downloads)) {
    const archive = join(downloads, file);
    await run('dpkg-deb', ['--extract', archive, folder]);
    found.push(await recordPackage(archive, folder));
  }
  for (const path of unused) rmSync(join(folder, path), { recursive: true, force: true });
  writeCertificates(folder);
  writeUsers(folder);
  rmSync(downloads, { recursive: true });
  return found;
}

async function recordPackage(archive: string, folder: string): Promise<DebianPackage> {
  const { stdout: control } = await run('dpkg-deb', ['--field', archive]);
  const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(control)?.[1] ?? '';
  const found = { name: field('Package'), version: field('Version'), architecture: field('Architecture') };
  const directory = join(folder, 'var', 'lib', 'dpkg', 'status.d');
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, found.name), control);
  return found;
}

/** Writes the file that the installation of ca-certificates would write. */
function writeCertificates(folder: string): void {
  const source = join(folder, 'usr', 'share', 'ca-certificates', 'mozilla');
  const certificates = readdirSync(source).toSorted();
  const directory = join(folder, 'etc', 'ssl', 'certs');
  mkdirSync(directory, { recursive: true });
  writeFileSync(
    join(directory, 'ca-certificates.crt'),
    certificates.map((name) => readFileSync(join(source, name), 'utf8')).join(''),
  );
}

function writeUsers(folder: string): void {
  writeFileSync(
    join(folder, 'etc', 'passwd'),
    'root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n',
  );
  writeFileSync(join(folder, 'etc', 'group'), 'root:x:0:\nnonroot:x:65532:\n');
  mkdirSync(join(folder, 'home', 'nonroot'), { recursive: true });
}
