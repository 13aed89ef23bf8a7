import { describe, expect, test } from '@jest/globals';
import {
  type PolledKind,
  type PollerFacts,
  type TemporalFacts,
  temporalFindings,
  type TemporalNamespaceFacts,
} from '../../../domain/doctor/temporal.ts';

const day = 86_400;
const known = <T>(value: T) => ({ kind: 'Known', value }) as const;
const denied = { kind: 'Unknown', problem: 'Request unauthorized.' } as const;
const complete = known({ missing: [], mistyped: [], command: '' });

const namespace = (differs: Partial<TemporalNamespaceFacts> = {}): TemporalNamespaceFacts => ({
  name: 'prod',
  retentionSeconds: known(30 * day),
  attributes: complete,
  ...differs,
});
const poller = (host: string, polls: PollerFacts['polls']): PollerFacts => ({
  worker: { identity: `1@${host}`, namespace: 'prod', taskQueue: 'node-maintenance' },
  host,
  polls,
});
const polls = (differs: Partial<Record<PolledKind, number | undefined>> = {}) =>
  known({ workflow: 4_000, activity: 50_000, longRunning: 30_000, ...differs });
const never = { workflow: undefined, activity: undefined, longRunning: undefined };
type Available = Extract<TemporalFacts, { kind: 'Available' }>;
const facts: Available = {
  kind: 'Available',
  address: 'temporal:7233',
  namespaces: [namespace()],
  pollers: [poller('a', polls())],
  // Without an endpoint nothing waits and nobody polls; with one, a delivery waits for moments.
  notifications: [
    { taskQueue: 'node-maintenance-notifications', waiting: 0, polledMs: undefined },
    { taskQueue: 'node-maintenance-notifications.berlin-1', waiting: 1, polledMs: 3_000 },
  ],
  claims: known(['node-maintenance']),
  requiredRetentionSeconds: 30 * day,
};
const problems = (differs: Partial<Available>) =>
  temporalFindings({ ...facts, ...differs }).filter(({ result }) => result !== 'ok');

describe('Temporal', () => {
  test('is ok when workers poll, the cluster has its claim, and the namespace has what runs need', () => {
    expect(temporalFindings(facts).map(({ result }) => result)).toEqual(['ok', 'ok', 'ok', 'ok', 'ok']);
  });

  test.each<{ when: string; differs: Partial<Available>; want: string; text: string; remedy: string }>([
    {
      when: 'the namespace does not exist',
      differs: { namespaces: [namespace({ retentionSeconds: known(undefined), attributes: denied })] },
      want: 'error',
      text: 'namespace prod of Temporal does not exist',
      remedy: 'npm run temporal-config -- apply',
    },
    {
      when: 'histories are deleted early',
      differs: { namespaces: [namespace({ retentionSeconds: known(3 * day) })] },
      want: 'warning',
      text: 'keeps histories of closed runs for 3 days only, and 30 days are expected',
      remedy: '--retention 30d',
    },
    {
      when: 'the retention may not be read',
      differs: { namespaces: [namespace({ retentionSeconds: { kind: 'Unknown', problem: 'denied' } })] },
      want: 'warning',
      text: 'retention of namespace prod not checked: denied',
      remedy: 'grant this user read access to the namespace',
    },
    {
      when: 'search attributes are missing',
      differs: {
        namespaces: [
          namespace({
            attributes: known({ missing: ['MaintenanceNodes'], mistyped: [], command: 'create it' }),
          }),
        ],
      },
      want: 'error',
      text: 'no search attribute MaintenanceNodes',
      remedy: 'create it',
    },
    {
      when: 'a search attribute has another type',
      differs: {
        namespaces: [
          namespace({ attributes: known({ missing: [], mistyped: ['MaintenanceNodes'], command: '' }) }),
        ],
      },
      want: 'error',
      text: 'MaintenanceNodes of namespace prod has another type',
      remedy: 'search-attribute remove',
    },
    {
      when: 'attributes cannot be listed, as in Temporal Cloud',
      differs: { namespaces: [namespace({ attributes: denied })] },
      want: 'warning',
      text: 'not checked: Request unauthorized.',
      remedy: 'Temporal Cloud',
    },
    {
      when: 'the cluster has no claim',
      differs: { claims: known([]) },
      want: 'error',
      text: 'has claimed its names',
      remedy: 'TEMPORAL_NAMESPACE',
    },
    {
      when: 'no live worker polls',
      differs: { pollers: [poller('a', polls(never)), poller('b', polls({ activity: 600_000 }))] },
      want: 'error',
      text: 'a (node-maintenance: workflows never, activities never, long-running activities never), b (node-maintenance: activities last 10 min ago)',
      remedy: 'log of these workers',
    },
    {
      when: 'one of two does not poll',
      differs: { pollers: [poller('a', polls()), poller('b', polls(never))] },
      want: 'warning',
      text: 'b (node-maintenance: workflows never, activities never, long-running activities never)',
      remedy: 'log of these workers',
    },
    {
      when: 'one does not poll for long-running activities',
      differs: { pollers: [poller('a', polls()), poller('b', polls({ longRunning: undefined }))] },
      want: 'warning',
      text: 'b (node-maintenance: long-running activities never)',
      remedy: 'log of these workers',
    },
    {
      when: 'notifications wait and no worker delivers them',
      differs: {
        notifications: [{ taskQueue: 'node-maintenance-notifications', waiting: 2, polledMs: 600_000 }],
      },
      want: 'warning',
      text: '2 notifications wait on task queue node-maintenance-notifications, which no worker polls',
      remedy: '--notify-url',
    },
    {
      when: 'pollers cannot be described',
      differs: { pollers: [poller('a', denied)] },
      want: 'warning',
      text: 'pollers not checked: Request unauthorized.',
      remedy: 'read access',
    },
  ])('is reported when $when', ({ differs, want, text, remedy }) => {
    const [finding, ...more] = problems(differs);
    expect(more).toEqual([]);
    expect(finding).toMatchObject({
      result: want,
      message: expect.stringContaining(text),
      remedy: expect.stringContaining(remedy),
    });
  });

  test('that this user cannot reach is a warning, unless the worker reports the same', () => {
    const unavailable = { kind: 'Unavailable', problem: 'no response from x' } as const;
    const results = (reported: string[] | undefined) =>
      temporalFindings({ ...unavailable, reported }).map(({ result }) => result);
    expect(results(undefined)).toEqual(['warning']);
    expect(results([])).toEqual(['warning', 'ok']);
    expect(results(['Temporal is unavailable'])).toEqual(['warning', 'error']);
  });
});
