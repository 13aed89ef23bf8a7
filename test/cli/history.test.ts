import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import { rowsOf } from '../../cli/historyRows.ts';

/** Runs that were recorded from the real system. */
const recorded = (shape: string) => {
  const file = new URL(`../replay/histories/${shape}.json`, import.meta.url);
  return rowsOf(historyFromJSON(JSON.parse(readFileSync(file, 'utf8'))));
};
const deedsOf = (shape: string) => recorded(shape).map(({ who, what }) => `${who ?? '?'}: ${what}`);

describe('the history of a run tells who did what', () => {
  test('to the object, by signal and by update, and what the worker came to', () => {
    expect(deedsOf('pause-resume-cancel')).toEqual([
      'worker: starts the workflow {"name":"pause-resume-cancel"}',
      '?: asks for stage Drain (generation 1, as told by worker)',
      'worker: begins stage Cordon',
      'worker: begins stage Drain',
      'worker: update pause',
      'worker: signal resume',
      'worker: has drained the nodes',
      'worker: signal advance {"to":"nonsense"}',
      'worker: update cancel',
      '?: asks for stage Complete (generation 2, as told by worker)',
      'worker: begins stage Complete',
      'worker: has given the nodes back',
      '?: the workflow is over',
    ]);
  });

  test('with the time of each, oldest first', () => {
    const times = recorded('idle-cordon-drain-complete').map(({ time }) => time);
    expect(times).toEqual(times.toSorted());
    expect(times[0]).toBe('2026-11-21T09:19:42.411Z');
  });

  test('entry by entry of the drain plan', () => {
    expect(deedsOf('idle-cordon-drain-complete')).toContain(
      'worker: has evacuated entry 1 of the drain plan',
    );
  });

  test('and why it has failed', () => {
    expect(deedsOf('refused').at(-1)).toBe(
      '?: the workflow has failed: nodes[0]: there is no node "no-such-node"; kubectl get nodes lists them',
    );
  });

  test('and nobody has done what is only carried over into a continued run', () => {
    expect(deedsOf('continued-as-new')[0]).toBe('worker: has drained the nodes');
  });

  test('of a window too', () => {
    expect(deedsOf('window-approved-and-cancelled')).toContain('worker: update advance {"node":"node-1"}');
  });
});
