import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { auditOptions, type Testbed, createTestbed } from './testbed.ts';
import { runScenario } from './run.ts';
import { scenarioOf } from './scenario.ts';
import { violationText } from './violationText.ts';

// Two of the runs of `npm run chaos`, with servers of their own: faults of them would be faults of other tests.

let dir: string;
let sandbox: Sandbox | undefined;
let testbed: Testbed | undefined;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'nm-chaos-'));
  const audit = await auditOptions(dir);
  sandbox = await testSandbox({ nodes: 1, ...audit });
  testbed = await createTestbed(sandbox, audit.auditLogs ?? '');
});
afterAll(async () => {
  await testbed?.close();
  await releaseSandbox(sandbox);
  await rm(dir, { recursive: true, force: true });
});

const seeds = [1, 2];

describe('whatever fails, all promises are kept', () => {
  test.each(seeds)('in the world of seed %d', async (seed) => {
    const progress: string[] = [];
    const result = await runScenario(testbed as Testbed, scenarioOf(seed), {
      report: (line) => progress.push(line),
    });
    const violations = result.violations.map((violation) => violationText(violation, seed));
    expect({ violations, ...(violations.length > 0 && { progress }) }).toEqual({ violations: [] });
  });
});
