import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { runScenario } from './run.ts';
import { type EvictionApi, scenarioOf, shortened } from './scenario.ts';
import { createTestbed, sandboxOptions, type Testbed } from './testbed.ts';
import { violationText } from './violationText.ts';

interface Group {
  evictionApi: EvictionApi;
  seeds: readonly number[];
}

/** Declares short runs of `npm run chaos`, with servers of their own: faults of them would be faults of other tests. The groups share them. */
export function testShortRuns(...groups: readonly [Group, ...Group[]]): void {
  let dir: string;
  let sandbox: Sandbox;
  let auditLogs: string;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'nm-chaos-'));
    const served = await sandboxOptions(dir, groups[0].evictionApi);
    auditLogs = served.auditLogs ?? '';
    sandbox = await testSandbox({ nodes: 1, ...served });
  });

  afterAll(async () => {
    await releaseSandbox(sandbox);
    await rm(dir, { recursive: true, force: true });
  });

  describe.each(groups)(
    'whatever fails, all promises are kept with $evictionApi',
    ({ evictionApi, seeds }) => {
      let testbed: Testbed;

      beforeAll(async () => void (testbed = await createTestbed(sandbox, auditLogs, evictionApi)));
      afterAll(() => testbed?.close());

      test.each(seeds)('in the world of seed %d', async (seed) => {
        const progress: string[] = [];
        const result = await runScenario(testbed, shortened(scenarioOf(seed, evictionApi)), {
          report: (line) => progress.push(line),
        });
        const again = { seed, evictionApi, short: true };
        const violations = result.violations.map((violation) => violationText(violation, again));
        expect({ violations, ...(violations.length > 0 && { progress }) }).toEqual({ violations: [] });
      });
    },
  );
}
