import { describe, expect, test } from '@jest/globals';
import { REQUESTED_BY_ANNOTATION, REQUESTER_ANNOTATION, STARTED_BY } from '../../../api/names.ts';
import { recordOfUser, recordOfWindow } from '../../../domain/common/requester.ts';
import type { KubeEvent } from '../../../kube/resources.ts';
import { type AuditedObject, rowsOfObject } from '../../../cli/maintenance/objectRows.ts';

const createdAt = '2026-11-22T10:00:00Z';
const object = (differs: Partial<AuditedObject> = {}, annotations: Record<string, string> = {}) => ({
  metadata: { name: 'rack-7', creationTimestamp: createdAt, generation: 2, annotations },
  spec: { stage: 'Drain' },
  ...differs,
});
const linesOf = (...args: Parameters<typeof rowsOfObject>) =>
  rowsOfObject(...args).map(({ time, who, what }) => `${time.slice(11, 19)} ${who ?? '?'}: ${what}`);

const event = (differs: Partial<KubeEvent>) =>
  ({
    metadata: { name: 'rack-7.1' },
    reason: 'TierDrained',
    message: 'Tier 1 is drained.',
    count: 1,
    lastTimestamp: '2026-11-22T10:02:00Z',
    source: { component: 'node-maintenance' },
    ...differs,
  }) as KubeEvent;

describe('what an object and its Events hold', () => {
  test('is stages, conditions, requests and Events, oldest first', () => {
    const fieldsV1 = { 'f:spec': { 'f:stage': {} } };
    const managedFields = [
      { manager: 'kubectl-edit', time: '2026-11-22T10:01:00Z', fieldsV1 },
      {
        manager: 'node-maintenance',
        time: '2026-11-22T10:09:00Z',
        subresource: 'status',
        fieldsV1: { 'f:status': {} },
      },
    ];
    const metadata = {
      ...object({}, { [REQUESTED_BY_ANNOTATION]: 'user jane (field manager kubectl-edit)' }).metadata,
      managedFields,
    };
    const status = {
      stageStatuses: [
        { name: 'Idle', startTimestamp: '2026-11-22T10:00:01Z' },
        { name: 'Drain', startTimestamp: '2026-11-22T10:01:01Z' },
      ],
      conditions: [
        {
          type: 'Drained',
          status: 'True' as const,
          reason: 'AllPodsTerminated',
          message: 'No pod is left on the nodes.',
          lastTransitionTime: '2026-11-22T10:03:00Z',
        },
      ],
    };
    expect(linesOf(object({ metadata, status }), [event({ count: 3 })])).toEqual([
      '10:00:00 ?: the object was created',
      '10:00:01 ?: started stage Idle',
      '10:01:00 user jane (field manager kubectl-edit): changed the spec last, to generation 2: stage Drain',
      '10:01:01 ?: started stage Drain',
      '10:02:00 node-maintenance: Event TierDrained: Tier 1 is drained. (3 times)',
      '10:03:00 ?: condition Drained became True, now AllPodsTerminated: No pod is left on the nodes.',
    ]);
  });

  test.each([
    { by: { [REQUESTER_ANNOTATION]: recordOfUser('jane') }, who: 'user jane' },
    { by: { [REQUESTER_ANNOTATION]: recordOfWindow('os-patch') }, who: 'window os-patch' },
    { by: { [REQUESTER_ANNOTATION]: 'nonsense' }, who: '?' },
  ])('names $who from the record of the requester', ({ by, who }) => {
    expect(linesOf(object({}, by), [])).toContain(
      `10:00:00 ${who}: changed the spec last, to generation 2: stage Drain`,
    );
  });

  test('names the Temporal client that started the workflow, and a deletion that waits', () => {
    const { metadata } = object({}, { [STARTED_BY]: 'temporal-cli:jane@laptop (unverified)' });
    const deleted = { ...metadata, deletionTimestamp: '2026-11-22T11:00:00Z' };
    expect(linesOf(object({ metadata: deleted }), [])).toEqual([
      '10:00:00 Temporal client temporal-cli:jane@laptop (unverified): the object was created',
      '10:00:00 ?: changed the spec last, to generation 2: stage Drain',
      '11:00:00 ?: the object was deleted, and waits for its finalizers',
    ]);
  });

  test('is what the Events say if the object is gone, and nothing without them', () => {
    expect(linesOf(undefined, [event({})])).toEqual([
      '10:02:00 node-maintenance: Event TierDrained: Tier 1 is drained.',
    ]);
    expect(linesOf(undefined, [])).toEqual([]);
  });
});
