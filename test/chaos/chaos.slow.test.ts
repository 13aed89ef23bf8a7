import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { createTestbed, sandboxOptions, type Testbed } from './testbed.ts';
import { runScenario } from './run.ts';
import { scenarioOf } from './scenario.ts';
import { violationText } from './violationText.ts';

// Some of the runs of `npm run chaos`, with servers of their own: faults of them would be faults of other tests.

describe.each([
  { evictionApi: 'evacuation', seeds: [1, 2] },
  { evictionApi: 'lifecycle', seeds: [3] },
  { evictionApi: 'auto', seeds: [3] },
] as const)('whatever fails, all promises are kept with $evictionApi', ({ evictionApi, seeds }) => {
  let dir: string;
  let sandbox: Sandbox | undefined;
  let testbed: Testbed | undefined;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'nm-chaos-'));
    const served = await sandboxOptions(dir, evictionApi);
    sandbox = await testSandbox({ nodes: 1, ...served });
    testbed = await createTestbed(sandbox, served.auditLogs ?? '', evictionApi);
  });

  afterAll(async () => {
    await testbed?.close();
    await releaseSandbox(sandbox);
    await rm(dir, { recursive: true, force: true });
  });

  test.each(seeds)('in the world of seed %d', async (seed) => {
    const progress: string[] = [];
    const result = await runScenario(testbed as Testbed, scenarioOf(seed, evictionApi), {
      report: (line) => progress.push(line),
    });
    const violations = result.violations.map((violation) => violationText(violation, { seed, evictionApi }));
    expect({ violations, ...(violations.length > 0 && { progress }) }).toEqual({ violations: [] });
  });
});
