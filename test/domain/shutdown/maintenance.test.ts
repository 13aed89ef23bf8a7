import { describe, expect, test } from '@jest/globals';
import { SHUTDOWN_BOOT_ID_ANNOTATION } from '../../../api/names.ts';
import type { NodeMaintenance, NodeMaintenanceStage } from '../../../api/nodeMaintenance.ts';
import { nextShutdownStep, shutdownMaintenance } from '../../../domain/shutdown/maintenance.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';

const shutdown = { node: 'node-1', bootId: 'boot-2', drainPlan: [] };

interface Existing {
  bootId?: string;
  stage?: NodeMaintenanceStage;
  drained?: boolean;
  observedGeneration?: number;
  deleted?: boolean;
  node?: string;
}

function existing({
  bootId = 'boot-2',
  stage = 'Drain',
  drained = false,
  observedGeneration = 3,
  deleted = false,
  node = 'node-1',
}: Existing): NodeMaintenance {
  const { metadata, spec } = shutdownMaintenance({ ...shutdown, node });
  const condition = { type: 'Drained', status: drained ? ('True' as const) : ('False' as const) };
  return {
    metadata: {
      ...metadata,
      uid: 'uid-1',
      generation: 3,
      annotations: { [SHUTDOWN_BOOT_ID_ANNOTATION]: bootId },
      ...(deleted && { deletionTimestamp: '2026-01-01T00:00:00Z' }),
    },
    spec: { ...spec, stage },
    status: {
      ...emptyStatus,
      observedGeneration,
      conditions: [{ ...condition, reason: 'r', message: '', lastTransitionTime: '' }],
    },
  };
}

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
          reason: 'The node is shutting down.',
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
    { when: 'it is being deleted', is: { stage: 'Complete', deleted: true }, want: 'AwaitDeletion' },
    { when: 'a user completes it', is: { stage: 'Complete' }, drainingUid: 'uid-1', want: 'EndedByUser' },
    {
      when: 'a user deletes it',
      is: { stage: 'Complete', deleted: true },
      drainingUid: 'uid-1',
      want: 'AwaitDeletion',
    },
    { when: 'it selects another node', is: { node: 'node-2' }, want: 'Foreign' },
  ])('$when: $want', ({ is, drainingUid, want }) => {
    const maintenance = is === undefined ? undefined : existing(is);
    expect(nextShutdownStep(maintenance, { ...shutdown, drainingUid }).kind).toBe(want);
  });
});
