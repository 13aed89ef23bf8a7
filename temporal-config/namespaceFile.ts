import { readFileSync } from 'node:fs';

/** Returns the text of namespace.yaml, also in programs that are bundled into another folder. The bundled commands contain it (scripts/embeddedFiles.ts). */
export function namespaceFile(): string {
  return readFileSync(new URL('../temporal-config/namespace.yaml', import.meta.url), 'utf8');
}
