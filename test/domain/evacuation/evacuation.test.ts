import fc from 'fast-check';
import type { Pod } from '../../../api/core.ts';
import type { Evacuation } from '../../../api/evacuation.ts';
import { INSTIGATOR_FINALIZER, MAINTENANCE_FINALIZER } from '../../../api/names.ts';
import type { NodeMaintenance, NodeMaintenanceStage } from '../../../api/nodeMaintenance.ts';
import {
  currentEvacuation,
  evacuationName,
  evacuationsByPod,
  isAboutToBeWithdrawn,
  isEvacuationName,
  isKeptByOthers,
  replacementName,
} from '../../../domain/evacuation/evacuation.ts';

const uids = fc.uuid();
const podNames = fc.stringMatching(/^[a-z0-9]([-a-z0-9.]{0,240}[a-z0-9])?$/);
const isObjectName = /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/;

describe('the name of an Evacuation that replaces a deleted one', () => {
  test('is the name of the pod, and the start of the UID of the deleted one', () => {
    const pod = { uid: 'f5823a89', name: 'web' };
    expect(replacementName(pod, { name: 'e', uid: '0123456789' })).toBe('f5823a89-web-01234567');
  });

  test('is a valid name that belongs to the pod, and differs from that of the deleted one', () => {
    fc.assert(
      fc.property(uids, podNames, uids, uids, (uid, name, first, second) => {
        const pod = { uid, name };
        const [one, two] = [first, second].map((deleted) => replacementName(pod, { name: '', uid: deleted }));
        expect(one).toMatch(isObjectName);
        expect(one?.length).toBeLessThanOrEqual(253);
        expect(isEvacuationName(one ?? '', pod)).toBe(true);
        expect(isEvacuationName(evacuationName(pod), pod)).toBe(true);
        expect(one).not.toBe(evacuationName(pod));
        expect(one === two).toBe(first.slice(0, 8) === second.slice(0, 8));
      }),
    );
  });

  test.each(['other', 'f5823a89-web-', 'f5823a89-web-0123456', 'f5823a89-other-01234567', ''])(
    'is not "%s"',
    (name) => {
      expect(isEvacuationName(name, { uid: 'f5823a89', name: 'web' })).toBe(false);
    },
  );
});

const evacuation = (
  name: string,
  { deletedAt, finalizers = [] }: { deletedAt?: string; finalizers?: string[] } = {},
): Evacuation => ({
  metadata: { name, finalizers, ...(deletedAt !== undefined && { deletionTimestamp: deletedAt }) },
  spec: { podRef: { name: 'web', uid: 'u' }, progressDeadlineSeconds: 1800 },
});

test('an Evacuation is of the pod with its namespace, name and UID alone', () => {
  const pod = { metadata: { namespace: 'shop', name: 'web', uid: 'u' } } as Pod;
  const own = { ...evacuation('own'), metadata: { name: 'own', namespace: 'shop' } };
  const elsewhere = { ...own, metadata: { name: 'forged', namespace: 'tenant' } };
  const renamed = { ...own, spec: { ...own.spec, podRef: { name: 'other', uid: 'u' } } };
  expect([...evacuationsByPod([pod], [own, elsewhere, renamed])]).toEqual([['u', own]]);
  expect(evacuationsByPod([pod], [elsewhere, renamed]).size).toBe(0);
});

describe('the Evacuation of a pod that counts', () => {
  const early = evacuation('early', { deletedAt: '2026-01-01T12:00:00Z' });
  const late = evacuation('late', { deletedAt: '2026-01-01T12:00:01Z' });
  const live = evacuation('live-replacement');

  test.each([
    { when: 'there is none', given: [], want: undefined },
    { when: 'one is not deleted', given: [late, live, early], want: live },
    { when: 'all are deleted: the one that was deleted last', given: [early, late], want: late },
  ])('$when', ({ given, want }) => {
    expect(currentEvacuation(given)).toBe(want);
    expect(currentEvacuation(given.toReversed())).toBe(want);
  });
});

describe('an Evacuation is kept by others', () => {
  const now = new Date('2026-01-01T12:00:20Z');
  const longAgo = '2026-01-01T12:00:09Z';
  const theirs = 'example.com/theirs';

  test.each([
    { when: 'it is not deleted', differs: { finalizers: [theirs] }, want: false },
    { when: 'it is deleted', differs: { deletedAt: longAgo, finalizers: [theirs] }, want: true },
    {
      when: 'it was deleted a moment ago: they may remove their finalizers',
      differs: { deletedAt: '2026-01-01T12:00:10Z', finalizers: [theirs] },
      want: false,
    },
    {
      when: 'only our finalizer is left',
      differs: { deletedAt: longAgo, finalizers: [INSTIGATOR_FINALIZER] },
      want: false,
    },
  ])('$when: $want', ({ differs, want }) => {
    expect(isKeptByOthers(evacuation('e', differs), now)).toBe(want);
  });

  test('unless its cancellation is forbidden: then it is still in effect', () => {
    const deleted = evacuation('e', { deletedAt: longAgo, finalizers: [theirs] });
    const status = { evacuationCancellationPolicy: 'Forbid' } as NonNullable<Evacuation['status']>;
    expect(isKeptByOthers({ ...deleted, status }, now)).toBe(false);
  });
});

describe('an Evacuation is about to be withdrawn', () => {
  const node = { metadata: { name: 'node-1' } };
  const ours = evacuation('e', { finalizers: [INSTIGATOR_FINALIZER] });

  function maintenance(
    stage: NodeMaintenanceStage,
    { on = 'node-1', deleted = false, finalizers = [MAINTENANCE_FINALIZER] } = {},
  ): NodeMaintenance {
    const matchFields = [{ key: 'metadata.name', operator: 'In' as const, values: [on] }];
    return {
      metadata: { name: stage, finalizers, ...(deleted && { deletionTimestamp: '2026-01-01T12:00:00Z' }) },
      spec: { stage, nodeSelector: { nodeSelectorTerms: [{ matchFields }] } },
      status: {
        nodeStatuses: [],
        stageStatuses:
          finalizers.length > 0 ? [] : [{ name: 'Complete', startTimestamp: '2026-01-01T12:00:00Z' }],
      },
    } as unknown as NodeMaintenance;
  }

  const complete = maintenance('Complete');
  test.each([
    { when: 'the only maintenance of its node completes', given: [complete], want: true },
    { when: 'the only one is deleted', given: [maintenance('Drain', { deleted: true })], want: true },
    {
      when: 'another one holds the node, and does not drain it',
      given: [complete, maintenance('Cordon')],
      want: true,
    },
    { when: 'another one drains the node', given: [complete, maintenance('Drain')], want: false },
    {
      when: 'another one drains another node',
      given: [complete, maintenance('Drain', { on: 'node-2' })],
      want: true,
    },
    {
      when: 'the one that completes is of another node',
      given: [maintenance('Complete', { on: 'node-2' })],
      want: false,
    },
    {
      when: 'the one has completed: its Evacuation would be gone',
      given: [maintenance('Complete', { finalizers: [] })],
      want: false,
    },
    { when: 'there is none: it was created by hand', given: [], want: false },
  ])('$when: $want', ({ given, want }) => {
    expect(isAboutToBeWithdrawn(ours, node, given)).toBe(want);
  });

  test.each([
    { when: 'the maintenance was removed before it was completed', given: [], want: true },
    { when: 'another one drains the node', given: [maintenance('Drain')], want: false },
    { when: 'another one drains another node', given: [maintenance('Drain', { on: 'node-2' })], want: true },
  ])('once it was: $want if $when', ({ given, want }) => {
    expect(isAboutToBeWithdrawn(ours, node, given, true)).toBe(want);
  });

  test.each([
    { when: 'nobody instigates it', of: evacuation('e') },
    {
      when: 'another instigator needs it, too',
      of: evacuation('e', { finalizers: [INSTIGATOR_FINALIZER, 'example.com/theirs'] }),
    },
    {
      when: 'its cancellation is forbidden',
      of: {
        ...ours,
        status: { evacuationCancellationPolicy: 'Forbid' } as NonNullable<Evacuation['status']>,
      },
    },
  ])('not if $when', ({ of }) => {
    expect(isAboutToBeWithdrawn(of, node, [complete])).toBe(false);
  });
});
