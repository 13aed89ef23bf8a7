import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** The programs of the image that tests run, by their sources. */
const bundled = {
  'agent/main.ts': 'agent/main.js',
  'temporal-config/main.ts': 'temporal-config/main.js',
  'worker/codecServer/main.ts': 'worker/codecServer.js',
  'worker/replay/main.ts': 'worker/replay.js',
} as const;

/** Returns the path of a program: that of the image, which starts in half the time or less, or its source if `npm test` has written none. */
export function programOf(source: keyof typeof bundled): string {
  const { NM_TEST_WORKER: worker } = process.env;
  return worker ? join(dirname(worker), '..', bundled[source]) : join(root, source);
}
