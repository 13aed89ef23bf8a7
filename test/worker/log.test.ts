import { expect, test } from '@jest/globals';
import { pino } from 'pino';
import { temporalNames } from '../../api/names.ts';
import { runtimeLogging } from '../../worker/log.ts';

/** Returns the lines that the runtime writes at `level`, parsed. */
function logged(level: string, cluster: string | undefined, meta: Record<string, unknown>): unknown[] {
  const lines: string[] = [];
  const logger = pino({ level, base: null, timestamp: false }, { write: (line: string) => lines.push(line) });
  const runtime = runtimeLogging(logger, temporalNames(cluster)).logger;
  // The SDK passes the time of a line under this symbol.
  const fields = { ...meta, [Symbol.for('log_timestamp')]: 1_795_831_200_123_456_789n };
  runtime?.info('Stage started', fields);
  runtime?.debug('Activity started', fields);
  return lines.map((line) => JSON.parse(line));
}

const info = { level: 30, time: '2026-11-28T02:00:00.123Z', msg: 'Stage started' };

test.each([
  {
    when: 'an activity',
    meta: { workflowId: 'node-maintenance-rack-7', workflowRunId: 'r1', taskToken: 'secret' },
    want: { maintenance: 'rack-7', workflowId: 'node-maintenance-rack-7', runId: 'r1' },
  },
  {
    when: 'a workflow',
    meta: { workflowId: 'node-maintenance-rack-7', runId: 'r1' },
    want: { maintenance: 'rack-7', workflowId: 'node-maintenance-rack-7', runId: 'r1' },
  },
  {
    when: 'a window',
    meta: { workflowId: 'maintenance-window-os-patch-2026-11-22T02:00:00Z', runId: 'r1' },
    want: { window: 'os-patch', workflowId: 'maintenance-window-os-patch-2026-11-22T02:00:00Z', runId: 'r1' },
  },
  {
    when: 'a run in a shared namespace',
    cluster: 'berlin-1',
    meta: { workflowId: 'berlin-1.node-maintenance-rack-7' },
    want: { maintenance: 'rack-7', workflowId: 'berlin-1.node-maintenance-rack-7' },
  },
  {
    when: 'a run of another cluster',
    cluster: 'berlin-1',
    meta: { workflowId: 'node-maintenance-rack-7' },
    want: { workflowId: 'node-maintenance-rack-7' },
  },
  { when: 'the SDK', meta: { sdkComponent: 'worker' }, want: { sdkComponent: 'worker' } },
])(
  'a log line of $when names its object and run, has the time at which it was logged, and contains no token',
  ({ cluster, meta, want }) => {
    expect(logged('info', cluster, meta)).toEqual([{ ...info, ...want }]);
  },
);

test('the level of the worker applies to Temporal', () => {
  expect(logged('debug', undefined, {})).toHaveLength(2);
  expect(logged('warn', undefined, {})).toEqual([]);
});
