import { describe, expect, test } from '@jest/globals';
import type { Condition } from '../../../api/core.ts';
import { EVICTION_REQUEST, FIELD_MANAGER, IMPERATIVE_RESPONDER } from '../../../api/names.ts';
import {
  evictionControllers,
  imperativeResponders,
  type ObservedEviction,
  otherController,
  otherImperativeResponder,
} from '../../../domain/evictionRequests/otherControllers.ts';

const time = '2026-11-25T12:00:00Z';
const sinceMs = Date.parse(time);
const before = '2026-11-25T11:00:00Z';
const managed = (manager: string, fieldsV1: object) => ({
  metadata: { managedFields: [{ manager, time, fieldsV1 }] },
});
const responder = (...fields: string[]) => ({
  'f:status': {
    'f:responders': {
      [`k:{"name":"${IMPERATIVE_RESPONDER}"}`]: Object.fromEntries(fields.map((field) => [`f:${field}`, {}])),
    },
  },
});

describe('Another controller is recognized by the fields that it has written', () => {
  test.each([
    { when: 'the conditions of an Eviction', fields: { 'f:status': { 'f:conditions': {} } }, found: true },
    { when: 'its target responders', fields: { 'f:status': { 'f:targetResponders': {} } }, found: true },
    {
      when: 'not its spec: a user may create an Eviction that is then requested',
      fields: { 'f:spec': { 'f:target': {} } },
      found: false,
    },
    { when: 'not the report of a responder', fields: responder('heartbeatTime'), found: false },
    { when: 'not a label', fields: { 'f:metadata': { 'f:labels': { 'f:a': {} } } }, found: false },
  ])('$when', ({ fields, found }) => {
    expect(evictionControllers(managed('kcm', fields)).length > 0).toBe(found);
    expect(evictionControllers(managed(FIELD_MANAGER, fields))).toEqual([]);
  });

  test('the imperative responder by its heartbeat, and not by the start that the controller sets', () => {
    expect(imperativeResponders(managed('kcm', responder('heartbeatTime')))).toHaveLength(1);
    expect(imperativeResponders(managed('kcm', responder('name', 'startTime')))).toEqual([]);
  });
});

const condition = (status: Condition['status']): Condition => ({
  type: 'TargetEvicted',
  status,
  reason: 'PodDeleted',
  message: '',
  lastTransitionTime: time,
});

function eviction(differs: { writtenAt: string; isFinal: boolean; isRequested?: boolean }): ObservedEviction {
  const { apiVersion, kind } = EVICTION_REQUEST;
  const owner = { apiVersion, kind, name: 'r', uid: 'r' };
  const writer = { manager: 'kcm', timeMs: Date.parse(differs.writtenAt) };
  return {
    metadata: { name: 'e', ...(differs.isRequested !== false && { ownerReferences: [owner] }) },
    spec: { target: { pod: { name: 'web', uid: '00000000-0000-4000-8000-000000000001' } } },
    status: { conditions: [condition(differs.isFinal ? 'True' : 'False')] },
    controllers: [writer],
    imperativeResponders: [writer],
  };
}

describe('Another controller counts', () => {
  test.each([
    {
      when: 'its Eviction is in progress',
      of: eviction({ writtenAt: before, isFinal: false }),
      yields: true,
    },
    { when: 'it has written since we lead', of: eviction({ writtenAt: time, isFinal: true }), yields: true },
    {
      when: 'not if it was switched off before, and left an Eviction that is final',
      of: eviction({ writtenAt: before, isFinal: true }),
      yields: false,
    },
  ])('$when', ({ of, yields }) => {
    expect(otherController(of, sinceMs)).toBe(yields ? 'kcm' : undefined);
    expect(otherImperativeResponder(of, sinceMs)).toBe(yields ? 'kcm' : undefined);
  });

  test('not if nobody has requested the Eviction, which a user has created', () => {
    expect(
      otherController(eviction({ writtenAt: time, isFinal: false, isRequested: false }), sinceMs),
    ).toBeUndefined();
  });
});
