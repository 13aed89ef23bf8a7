import { spawnSync } from 'node:child_process';
import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { bundleCommands } from './bundle.ts';
import { root, toolEnvironment } from './tools.ts';

/** `npm run build`: writes dist/, which the package consists of: the libraries, compiled, and the commands, bundled. */

/** With these `kubectl maintenance doctor` compares an installation. */
const commandFiles = [
  'deploy/kustomization.yaml',
  'deploy/namespaces.yaml',
  'deploy/user-roles.yaml',
  'deploy/crd',
  'deploy/admission',
  'deploy/rbac',
  'temporal-config/namespace.yaml',
];

const dist = join(root, 'dist');
rmSync(dist, { recursive: true, force: true });
const { status } = spawnSync('tsc', ['--project', 'tsconfig.build.json'], {
  cwd: root,
  env: toolEnvironment(),
  stdio: 'inherit',
});
if (status === 0) {
  await bundleCommands(join(dist, 'cli'));
  for (const path of commandFiles) cpSync(join(root, path), join(dist, path), { recursive: true });
} else process.exitCode = 1;
