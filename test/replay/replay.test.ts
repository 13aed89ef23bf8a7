import { readdirSync, readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { DefaultLogger, Runtime, Worker } from '@temporalio/worker';
import { workflowBundle } from '../kit/workflows.ts';

const folder = new URL('histories/', import.meta.url);
const shapes = readdirSync(folder).map((file) => file.replace('.json', ''));
const historyOf = (shape: string) =>
  JSON.parse(readFileSync(new URL(`${shape}.json`, folder), 'utf8')) as object;

/** The exports of spans; a run that has no trace makes none. */
const exports: unknown[] = [];
const sinks = {
  exporter: { export: { fn: (...spans: unknown[]) => void exports.push(spans), callDuringReplay: true } },
};

interface History {
  events: { workflowExecutionStartedEventAttributes?: object }[];
}

let bundle: { code: string };
/** The workflows of a worker that exports traces. */
let traced: { code: string };

beforeAll(async () => {
  Runtime.install({ logger: new DefaultLogger('ERROR') });
  bundle = await workflowBundle();
  traced = await workflowBundle({ traces: true });
});

describe('a history that was recorded from the real system', () => {
  test.each(shapes)('replays with the current workflow: %s', async (shape) => {
    await Worker.runReplayHistory({ workflowBundle: bundle }, historyOf(shape));
  });

  test.each(shapes)(
    'replays with a worker that exports traces, although its run had none: %s',
    async (shape) => {
      await Worker.runReplayHistory({ workflowBundle: traced, sinks }, historyOf(shape));
      expect(exports).toEqual([]);
    },
  );

  test.each([
    { header: 'no JSON', data: 'x' },
    { header: 'no context', data: '{"traceparent":7}' },
    { header: 'null', data: 'null' },
  ])(
    'replays with a worker that exports traces if a client has sent a header with $header',
    async ({ data }) => {
      const history = structuredClone(historyOf('idle-cordon-drain-complete')) as History;
      const attributes = history.events[0]?.workflowExecutionStartedEventAttributes;
      const encoded = (text: string) => Buffer.from(text).toString('base64');
      Object.assign(attributes ?? {}, {
        header: {
          fields: { '_tracer-data': { metadata: { encoding: encoded('json/plain') }, data: encoded(data) } },
        },
      });
      await Worker.runReplayHistory({ workflowBundle: traced, sinks }, history);
      expect(exports).toEqual([]);
    },
  );

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
