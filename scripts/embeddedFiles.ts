import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Plugin } from 'esbuild';
import { root } from './tools.ts';

/** Folders with which `kubectl maintenance doctor` compares an installation. */
const deployFolders = ['.', 'admission', 'agent', 'crd', 'rbac', 'version'];

/** Puts files that the commands read into their bundle: the plugin is one file, and the npm package has only commands. */
export const withEmbeddedFiles: Plugin = {
  name: 'with-embedded-files',
  setup: (esbuild) => {
    esbuild.onLoad({ filter: /\/manifests\/deployFiles\.ts$/ }, () => ({
      contents: `const files = new Map(${JSON.stringify(deployFiles())});
export function deployFile(path) {
  const text = files.get(path);
  if (text === undefined) throw new Error('This program does not contain deploy/' + path);
  return text;
}`,
    }));
    esbuild.onLoad({ filter: /\/process\/packageVersion\.ts$/ }, () => ({
      contents: `export const packageVersion = () => ${JSON.stringify((JSON.parse(textOf('package.json')) as { version: string }).version)};`,
    }));
    esbuild.onLoad({ filter: /\/temporal-config\/namespaceFile\.ts$/ }, () => ({
      contents: `export const namespaceFile = () => ${JSON.stringify(textOf('temporal-config', 'namespace.yaml'))};`,
    }));
  },
};

function deployFiles(): [path: string, text: string][] {
  return deployFolders.flatMap((folder) =>
    readdirSync(join(root, 'deploy', folder))
      .filter((name) => name.endsWith('.yaml'))
      .toSorted()
      .map((name): [string, string] => [join(folder, name), textOf('deploy', folder, name)]),
  );
}

function textOf(...path: string[]): string {
  return readFileSync(join(root, ...path), 'utf8');
}
