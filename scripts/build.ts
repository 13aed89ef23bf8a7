import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { bundleCommands } from './bundle.ts';
import { root, toolEnvironment } from './tools.ts';

/** `npm run build`: writes dist/, which the package consists of: the libraries, compiled, and the commands, bundled. */

const dist = join(root, 'dist');
rmSync(dist, { recursive: true, force: true });
const { status } = spawnSync('tsc', ['--project', 'tsconfig.build.json'], {
  cwd: root,
  env: toolEnvironment(),
  stdio: 'inherit',
});
if (status === 0) await bundleCommands(join(dist, 'cli'));
else process.exitCode = 1;
