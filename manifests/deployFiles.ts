import { readFileSync } from 'node:fs';

/** Returns the text of a file of deploy/, such as `crd/kustomization.yaml`. The bundled commands contain the texts (scripts/embeddedFiles.ts). */
export function deployFile(path: string): string {
  return readFileSync(new URL(`../deploy/${path}`, import.meta.url), 'utf8');
}
