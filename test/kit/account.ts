import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { kubectlOf, succeeds } from '../api/kubectl.ts';

export interface Account {
  namespace: string;
  name: string;
}

/** Writes a kubeconfig for a ServiceAccount, with the access of its pods, to a file in `dir`. */
export async function kubeconfigOf(
  sandbox: Sandbox,
  { namespace, name }: Account,
  dir: string,
): Promise<string> {
  const kubectl = kubectlOf(sandbox);
  const token = (await succeeds(kubectl(['create', 'token', name, '-n', namespace]))).trim();
  const config = parse(await readFile(sandbox.kubeconfig, 'utf8')) as {
    users: { user: object }[];
    contexts: { context: { namespace?: string } }[];
  };
  for (const entry of config.users) entry.user = { token };
  for (const { context } of config.contexts) context.namespace = namespace;
  const path = join(dir, `${namespace}-${name}.kubeconfig`);
  await writeFile(path, stringify(config));
  return path;
}
