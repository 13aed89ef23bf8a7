import { readdirSync, readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { DefaultLogger, Runtime, Worker } from '@temporalio/worker';
import { workflowBundle } from '../kit/workflows.ts';

const folder = new URL('histories/', import.meta.url);
const shapes = readdirSync(folder).map((file) => file.replace('.json', ''));
const historyOf = (shape: string) =>
  JSON.parse(readFileSync(new URL(`${shape}.json`, folder), 'utf8')) as object;

let bundle: { code: string };

beforeAll(async () => {
  Runtime.install({ logger: new DefaultLogger('ERROR') });
  bundle = await workflowBundle();
});

describe('a history that was recorded from the real system', () => {
  test.each(shapes)('replays with the current workflow: %s', async (shape) => {
    await Worker.runReplayHistory({ workflowBundle: bundle }, historyOf(shape));
  });

  test('fails to replay with a workflow that calls another activity', async () => {
    // Renaming the first activity in the bundle is the smallest change of a workflow's commands.
    const changed = { code: bundle.code.replaceAll('startStage', 'beginStage') };
    expect(changed.code).not.toBe(bundle.code);
    const replay = Worker.runReplayHistory(
      { workflowBundle: changed },
      historyOf('idle-cordon-drain-complete'),
    );
    await expect(replay).rejects.toThrow(/Nondeterminism|TMPRL1100/);
  });
});
