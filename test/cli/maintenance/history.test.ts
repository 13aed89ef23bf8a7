import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import { historyFromJSON, type History } from '@temporalio/common/lib/proto-utils.js';
import { rowsOf } from '../../../cli/maintenance/historyRows.ts';

const fileOf = (shape: string) =>
  readFileSync(new URL(`../../replay/histories/${shape}.json`, import.meta.url), 'utf8');
/** Returns the rows of a run that was recorded from the real system. */
const recorded = (shape: string) => rowsOf(historyFromJSON(JSON.parse(fileOf(shape))));
const effectsOf = (shape: string) => recorded(shape).map(({ who, what }) => `${who ?? '?'}: ${what}`);

describe('the history of a run', () => {
  test('contains changes of the object, signals, updates, and actions of the worker', () => {
    expect(effectsOf('pause-resume-cancel')).toEqual([
      'worker: started the workflow {"name":"pause-resume-cancel"}',
      'worker: reported generation 1: stage Drain, requested by user sandbox-admin',
      'worker: started stage Cordon',
      'worker: started stage Drain',
      'worker: update pause',
      'worker: signal resume',
      'worker: drained the nodes',
      'worker: signal advance {"to":"nonsense"}',
      'worker: update cancel',
      'worker: reported generation 2: stage Complete, requested by user nodemaintenance.k8s.io:temporal',
      'worker: started stage Complete',
      'worker: uncordoned the nodes',
      '?: the workflow completed',
    ]);
  });

  test('is sorted by time, oldest first', () => {
    const times = recorded('idle-cordon-drain-complete').map(({ time }) => time);
    expect(times).toEqual(times.toSorted());
    const [started] = (
      JSON.parse(fileOf('idle-cordon-drain-complete')) as { events: { eventTime: string }[] }
    ).events;
    // Without the digits beyond milliseconds.
    expect(times[0]).toBe(started?.eventTime.replace(/(\.\d{3})\d*Z$/, '$1Z'));
  });

  test('contains each drained tier', () => {
    const result = (step: object) => ({ payloads: [defaultPayloadConverter.toPayload(step) as Payload] });
    const drained = { number: 1, total: 3, pods: 'Default pods with priority up to 1000' };
    const step = { kind: 'TierDrained', position: 4, nodes: ['node-1'] };
    const effect = (of: object) =>
      rowsOf({
        events: [
          { eventId: '1', activityTaskScheduledEventAttributes: { activityType: { name: 'drain' } } },
          {
            activityTaskCompletedEventAttributes: { scheduledEventId: '1', result: result(of) },
          },
        ],
      } as unknown as History).map(({ what }) => what);
    expect(effect({ ...step, drained })).toEqual([
      'drained tier 1 of 3: Default pods with priority up to 1000',
    ]);
    expect(effect(step)).toEqual(['reached the next tier']);
    expect(effectsOf('idle-cordon-drain-complete')).toContain('worker: reached the next tier');
  });

  test('contains the requests that users made by annotation of a window, each once', () => {
    const encoded = (...values: unknown[]) => ({
      payloads: values.map((value) => defaultPayloadConverter.toPayload(value) as Payload),
    });
    const none = { approved: false, approvedNodes: [] as string[], paused: false, cancelled: false };
    const counts = { revision: 'r', nodes: 2, done: 0, remaining: 2, inProgress: [], failed: [] };
    const effect = (known: unknown, requests?: object) => {
      const activity = { activityType: { name: 'rollOut' }, input: encoded({}, known) };
      const result = encoded({ kind: 'Progressed', state: { ...counts, ...(requests && { requests }) } });
      return rowsOf({
        events: [
          { eventId: '1', activityTaskScheduledEventAttributes: activity },
          { activityTaskCompletedEventAttributes: { scheduledEventId: '1', result } },
        ],
      } as unknown as History).map(({ what }) => what);
    };
    expect(effect(none)).toEqual([]);
    expect(effect(none, none)).toEqual([]);
    const approved = { ...none, approvedNodes: ['n1', 'n2'] };
    expect(effect({ ...none, approvedNodes: ['n1'] }, approved)).toEqual([
      'read from the window: approve {"nodes":["n2"]}',
    ]);
    expect(effect(approved, { ...approved, approved: true, paused: true })).toEqual([
      'read from the window: approve, pause',
    ]);
    expect(effect({ ...none, paused: true }, { ...none, cancelled: true })).toEqual([
      'read from the window: resume, cancel',
    ]);
    expect(effect('forged', { ...none, paused: 'forged' })).toEqual([]);
  });

  test('contains the reason of a failure', () => {
    expect(effectsOf('rejected').at(-1)).toBe(
      '?: the workflow failed: nodes[0]: there is no node "no-such-node"; kubectl get nodes lists them',
    );
  });

  test('attributes what a signal claims to the client that sent it', () => {
    const claim = {
      uid: 'u',
      kind: 'StageChanged',
      stage: 'Complete',
      generation: 9,
      requestedBy: 'user root',
    };
    const payloads = [defaultPayloadConverter.toPayload(claim) as Payload];
    const signal = { signalName: 'observe', identity: 'mallory@laptop', input: { payloads } };
    const events = [{ workflowExecutionSignaledEventAttributes: signal }];
    expect(rowsOf({ events } as unknown as History)).toMatchObject([
      { who: 'mallory@laptop', what: 'reported generation 9: stage Complete, requested by user root' },
    ]);
  });

  test('does not repeat the state that a continued run carries over', () => {
    const effects = effectsOf('continued-as-new');
    expect(effects.length).toBeGreaterThan(0);
    expect(effects.filter((effect) => effect.includes('started the workflow'))).toEqual([]);
  });

  test('also covers windows', () => {
    expect(effectsOf('window-approved-and-cancelled')).toContain('worker: update advance {"node":"node-1"}');
  });
});
