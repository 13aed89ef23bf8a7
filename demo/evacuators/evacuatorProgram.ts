import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse, stringify } from 'yaml';
import type { DemoProcess } from '../program.ts';
import type { Environment } from '../environment.ts';
import { evacuatorAccount } from './fixtures.ts';

/** Starts the data migration with a token of its ServiceAccount, and with no other permissions. */
export async function startDataMigration({ sandbox, kubectl, start }: Environment): Promise<DemoProcess> {
  const { namespace, name } = evacuatorAccount;
  const token = (await kubectl('create', 'token', name, '--namespace', namespace)).trim();
  const config = parse(readFileSync(sandbox.kubeconfig, 'utf8')) as { users: { user: object }[] };
  const users = config.users.map((user) => ({ ...user, user: { token } }));
  const kubeconfig = join(sandbox.dir, `${name}.kubeconfig`);
  writeFileSync(kubeconfig, stringify({ ...config, users }), { mode: 0o600 });
  const program = fileURLToPath(new URL('./dataMigration.ts', import.meta.url));
  return start({ name, args: [program], kubeconfig });
}
