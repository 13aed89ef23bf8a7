import { realNodeProblem } from '../../sandbox/realNodes/requirements.ts';

/** What this machine lacks for real nodes; undefined if it has everything. `scripts/debianPackages.ts` installs the packages. */
export const missingForRealNodes = realNodeProblem();

/** A test with real nodes. Where the machine cannot run them, it says so in one line. */
export function withRealNodes(name: string, check: () => Promise<void>): void {
  test(name, async () => {
    if (missingForRealNodes === undefined) await check();
    else process.stderr.write(`skipped, because ${missingForRealNodes}: ${name}\n`);
  });
}
