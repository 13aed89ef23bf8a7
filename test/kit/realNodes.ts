import { realNodeProblem } from '../../sandbox/realNodes/requirements.ts';

/** What this machine lacks for containers and real nodes; undefined if it has everything. `npm run debian-packages` installs the packages. */
export const missingForContainers = realNodeProblem();

/** A test with containers or real nodes. Where the machine cannot run them, it says so in one line. */
export function withContainers(name: string, check: () => Promise<void>): void {
  test(name, async () => {
    if (missingForContainers === undefined) await check();
    else process.stderr.write(`skipped, because ${missingForContainers}: ${name}\n`);
  });
}
