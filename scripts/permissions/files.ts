import { createReadStream } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseAllDocuments } from 'yaml';
import { root } from '../tools.ts';
import {
  type AuditEvent,
  type Manifest,
  type Permission,
  permissionsIn,
  type Request,
  requestsIn,
} from './compare.ts';

/** Returns the permissions that deploy/ grants to ServiceAccounts, with those of its optional parts. */
export async function readPermissions(dir = join(root, 'deploy')): Promise<Permission[]> {
  const names = await readdir(dir, { recursive: true });
  const texts = names
    // The templates of the chart are made from the others.
    .filter((name) => name.endsWith('.yaml') && !name.startsWith('chart/'))
    .map((name) => readFile(join(dir, name), 'utf8'));
  const documents = (await Promise.all(texts)).flatMap((text) => parseAllDocuments(text));
  return permissionsIn(documents.map((document) => document.toJS() as Manifest));
}

/** Returns the requests of the worker in these audit logs. */
export async function readRequests(files: readonly string[]): Promise<Request[]> {
  const requests: Request[] = [];
  for (const file of files)
    for await (const line of createInterface({ input: createReadStream(file) })) {
      // An apiserver that was killed leaves the beginning of an event.
      if (line.endsWith('}')) requests.push(...requestsIn(JSON.parse(line) as AuditEvent));
    }
  return requests;
}
