import { describe, expect, test } from '@jest/globals';
import type { NodeSelectorTerm } from '../../../api/core.ts';
import { SHUTDOWN_BOOT_ID_ANNOTATION } from '../../../api/names.ts';
import type { NodeMaintenance, NodeMaintenanceStage } from '../../../api/nodeMaintenance.ts';
import {
  adoption,
  nextShutdownStep,
  selectsOnly,
  shutdownMaintenance,
} from '../../../domain/shutdown/maintenance.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';

const nodeStatus = {
  nodeRef: { name: 'node-1' },
  drainTargets: [],
  drainMessage: '',
  podsPendingEvacuation: 0,
  podsEvacuating: 0,
};
const shutdown = { node: 'node-1', bootId: 'boot-2', drainPlan: [] };

interface Existing {
  /** Undefined: without the annotation. */
  bootId?: string | undefined;
  stage?: NodeMaintenanceStage;
  drained?: boolean;
  observedGeneration?: number;
  deleted?: boolean;
  authorized?: false;
  node?: string;
}

function existing({
  stage = 'Drain',
  drained = false,
  observedGeneration = 3,
  deleted = false,
  node = 'node-1',
  authorized,
  ...given
}: Existing): NodeMaintenance {
  const { bootId } = { bootId: 'boot-2', ...given };
  const { metadata, spec } = shutdownMaintenance({ ...shutdown, node });
  const condition = { type: 'Drained', status: drained ? ('True' as const) : ('False' as const) };
  return {
    metadata: {
      ...metadata,
      uid: 'uid-1',
      generation: 3,
      annotations: bootId === undefined ? {} : { [SHUTDOWN_BOOT_ID_ANNOTATION]: bootId },
      ...(deleted && { deletionTimestamp: '2026-01-01T00:00:00Z' }),
    },
    spec: { ...spec, stage },
    status: {
      ...emptyStatus,
      observedGeneration,
      nodeStatuses: authorized === undefined ? [] : [{ ...nodeStatus, authorized }],
      conditions: [{ ...condition, reason: 'r', message: '', lastTransitionTime: '' }],
    },
  };
}

test('a maintenance that becomes that of a shutdown changes its spec, whatever it was', () => {
  for (const bootId of ['boot-1', 'boot-2', 'boot-3']) {
    const before = existing({ bootId });
    const once = adoption(before, 'boot-2');
    expect(once.reason).not.toBe(before.spec.reason);
    const twice = adoption({ ...before, spec: { ...before.spec, reason: once.reason } }, 'boot-2');
    expect(twice.reason).not.toBe(once.reason);
    expect(once.annotations).toEqual({ [SHUTDOWN_BOOT_ID_ANNOTATION]: 'boot-2' });
  }
});

describe('a selector is that of a shutdown of node-1', () => {
  const byName = (...values: string[]) => ({ key: 'metadata.name', operator: 'In' as const, values });
  const term = { matchFields: [byName('node-1')] };
  test.each<{ when: string; nodeSelectorTerms: NodeSelectorTerm[]; want: boolean }>([
    { when: 'it selects the node by its name', nodeSelectorTerms: [term], want: true },
    { when: 'it has no term', nodeSelectorTerms: [], want: false },
    {
      when: 'it selects another node',
      nodeSelectorTerms: [{ matchFields: [byName('node-2')] }],
      want: false,
    },
    {
      when: 'it selects another node, too',
      nodeSelectorTerms: [{ matchFields: [byName('node-1', 'node-2')] }],
      want: false,
    },
    { when: 'it has another term', nodeSelectorTerms: [term, term], want: false },
    {
      when: 'it has another field',
      nodeSelectorTerms: [{ matchFields: [byName('node-1'), byName('node-1')] }],
      want: false,
    },
    { when: 'it has no field', nodeSelectorTerms: [{ matchFields: [] }], want: false },
    {
      when: 'it has an expression',
      nodeSelectorTerms: [{ ...term, matchExpressions: [{ key: 'a', operator: 'Exists' }] }],
      want: false,
    },
    {
      when: 'it selects all other nodes',
      nodeSelectorTerms: [{ matchFields: [{ ...byName('node-1'), operator: 'NotIn' }] }],
      want: false,
    },
    {
      when: 'its field is another one',
      nodeSelectorTerms: [{ matchFields: [{ ...byName('node-1'), key: 'metadata.uid' }] }],
      want: false,
    },
    {
      when: 'its field has no value',
      nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In' }] }],
      want: false,
    },
  ])('$when: $want', ({ nodeSelectorTerms, want }) => {
    const spec = { nodeSelector: { nodeSelectorTerms }, stage: 'Drain' as const };
    expect(selectsOnly({ spec }, 'node-1')).toBe(want);
  });
});

describe('the maintenance of a shutdown', () => {
  test('drains exactly its node', () => {
    expect(shutdownMaintenance({ ...shutdown, drainPlan: [{ podPriority: 5, podType: 'Default' }] })).toEqual(
      {
        metadata: {
          name: 'shutdown-node-1',
          annotations: { 'nodemaintenance.k8s.io/shutdown-boot-id': 'boot-2' },
        },
        spec: {
          nodeSelector: {
            nodeSelectorTerms: [
              { matchFields: [{ key: 'metadata.name', operator: 'In', values: ['node-1'] }] },
            ],
          },
          stage: 'Drain',
          drainPlan: [{ podPriority: 5, podType: 'Default' }],
          reason: 'The node is shutting down: boot boot-2 ends.',
        },
      },
    );
  });

  test.each<{ when: string; is: Existing | undefined; drainingUid?: string; want: string }>([
    { when: 'there is none', is: undefined, want: 'Create' },
    { when: 'it drains', is: {}, want: 'Draining' },
    { when: 'it is drained', is: { drained: true }, want: 'Drained' },
    {
      when: 'it was drained before its last change',
      is: { drained: true, observedGeneration: 2 },
      want: 'Draining',
    },
    { when: 'that of an earlier boot still drains', is: { bootId: 'boot-1', drained: true }, want: 'Adopt' },
    { when: 'it has not reached Drain', is: { stage: 'Idle' }, want: 'Adopt' },
    {
      when: 'that of an earlier boot is complete',
      is: { bootId: 'boot-1', stage: 'Complete' },
      want: 'Delete',
    },
    {
      when: 'that of a cancelled shutdown of this boot is complete',
      is: { stage: 'Complete' },
      want: 'Delete',
    },
    { when: 'its requester may not maintain the node', is: { authorized: false }, want: 'Adopt' },
    {
      when: 'its requester could not maintain the node before its last change',
      is: { authorized: false, observedGeneration: 2 },
      want: 'Draining',
    },
    { when: 'it is being deleted', is: { stage: 'Complete', deleted: true }, want: 'AwaitDeletion' },
    { when: 'a user completes it', is: { stage: 'Complete' }, drainingUid: 'uid-1', want: 'EndedByUser' },
    {
      when: 'a user deletes it',
      is: { stage: 'Complete', deleted: true },
      drainingUid: 'uid-1',
      want: 'AwaitDeletion',
    },
    { when: 'it selects another node', is: { node: 'node-2' }, want: 'Foreign' },
    { when: 'that of a user drains', is: { bootId: undefined }, want: 'Draining' },
    { when: 'that of a user is drained', is: { bootId: undefined, drained: true }, want: 'Drained' },
    { when: 'that of a user does not drain', is: { bootId: undefined, stage: 'Cordon' }, want: 'Foreign' },
    { when: 'that of a user is complete', is: { bootId: undefined, stage: 'Complete' }, want: 'Foreign' },
    {
      when: 'that of a user who may not maintain the node drains',
      is: { bootId: undefined, authorized: false },
      want: 'Foreign',
    },
  ])('$when: $want', ({ is, drainingUid, want }) => {
    const maintenance = is === undefined ? undefined : existing(is);
    expect(nextShutdownStep(maintenance, { ...shutdown, drainingUid }).kind).toBe(want);
  });
});
