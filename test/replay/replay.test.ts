import { readdirSync, readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { DefaultLogger, Runtime, Worker } from '@temporalio/worker';
import { bundleWorkflows } from '../../worker/bundle.ts';

const folder = new URL('histories/', import.meta.url);
const shapes = readdirSync(folder).map((file) => file.replace('.json', ''));
const historyOf = (shape: string) =>
  JSON.parse(readFileSync(new URL(`${shape}.json`, folder), 'utf8')) as object;

let workflowBundle: { code: string };

beforeAll(async () => {
  Runtime.install({ logger: new DefaultLogger('ERROR') });
  workflowBundle = await bundleWorkflows();
});

describe('a run that was recorded from the real system', () => {
  test.each(shapes)('replays with the workflow as it is now: %s', async (shape) => {
    await Worker.runReplayHistory({ workflowBundle }, historyOf(shape));
  });

  test('goes red when the workflow takes another course', async () => {
    // The stage that is begun first, renamed in the bundle: what an unguarded change of the sequence amounts to.
    const changed = { code: workflowBundle.code.replaceAll('beginStage', 'startStage') };
    expect(changed.code).not.toBe(workflowBundle.code);
    const replay = Worker.runReplayHistory(
      { workflowBundle: changed },
      historyOf('idle-cordon-drain-complete'),
    );
    await expect(replay).rejects.toThrow(/Nondeterminism|TMPRL1100/);
  });
});
