import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, toolEnvironment } from '../tools.ts';
import type { DebianPackage } from './debianBase.ts';

/** CycloneDX, as far as this project reads and changes it. */
interface Sbom {
  components: Component[];
  dependencies: { ref: string; dependsOn: string[] }[];
}

interface Component {
  type: string;
  name: string;
  version: string;
  purl: string;
  'bom-ref': string;
}

/**
 * Returns the software bill of materials of an image: of npm's for all dependencies only the packages that the programs really contain, with Node and
 * the packages of the base.
 *
 * @param packages folders of packages, relative to the root
 */
export function sbomOf(packages: readonly string[], base: readonly DebianPackage[]): Sbom {
  const text = execFileSync('npm', ['sbom', '--sbom-format=cyclonedx'], {
    cwd: root,
    env: toolEnvironment(),
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });
  const all = JSON.parse(text) as Sbom;
  const contained = new Set(['node', ...packages.map(nameAndVersionOf)]);
  const components = all.components.filter(
    ({ name, version }) => contained.has(name) || contained.has(`${name}@${version}`),
  );
  const refs = new Set(components.map((component) => component['bom-ref']));
  return {
    ...all,
    components: [...components, ...base.map(debianComponent)],
    dependencies: all.dependencies
      .filter(({ ref }) => refs.has(ref))
      .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((other) => refs.has(other)) })),
  };
}

function nameAndVersionOf(folder: string): string {
  const text = readFileSync(join(root, folder, 'package.json'), 'utf8');
  const { name, version } = JSON.parse(text) as { name: string; version: string };
  return `${name}@${version}`;
}

function debianComponent({ name, version, architecture }: DebianPackage): Component {
  const purl = `pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=${architecture}`;
  return { type: 'library', name, version, purl, 'bom-ref': purl };
}
