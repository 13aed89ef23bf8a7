import { describe, expect, test } from '@jest/globals';
import { WINDOW_LABEL, WindowAnnotation } from '../../../api/names.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { stoppedReasonOf, endsByItself } from '../../../domain/windows/stoppedReason.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';
import { nodeCancelled, nodeSucceeded } from '../../../domain/windows/nodeResult.ts';

const now = new Date('2026-01-01T00:10:00Z');
const condition = (type: string, status: 'True' | 'False' | 'Unknown', reason = 'Any') => ({
  type,
  status,
  reason,
  message: '',
  lastTransitionTime: '2026-01-01T00:00:00Z',
});
const maintenance = (conditions: ReturnType<typeof condition>[], work?: string): NodeMaintenance => ({
  apiVersion: 'node-maintenance.k8s.io/v1alpha1',
  kind: 'NodeMaintenance',
  metadata: {
    name: 'rack-7',
    ...(work !== undefined && {
      labels: { [WINDOW_LABEL]: 'nightly' },
      annotations: { [WindowAnnotation.WorkType]: work },
    }),
  },
  spec: { nodeSelector: { nodeSelectorTerms: [] }, stage: 'Drain' },
  status: { ...emptyStatus, conditions },
});
const drained = condition('Drained', 'True');
const result = (facts: { status: string; reason: string; type: string }) =>
  condition(facts.type, facts.status as 'True', facts.reason);

describe('what keeps a drain from returning its nodes', () => {
  test.each([
    { when: 'nothing', conditions: [condition('Drained', 'False', 'Draining')], want: undefined },
    { when: 'a pause', conditions: [condition('Paused', 'True'), drained], want: 'Paused' },
    { when: 'a resumed drain', conditions: [condition('Paused', 'False')], want: undefined },
    {
      when: 'a Lease of another client',
      conditions: [condition('NodeLeasesHeld', 'False', 'Waiting')],
      want: 'WaitingForNodeLease',
    },
    {
      when: 'a missing permission',
      conditions: [condition('NodesAuthorized', 'False')],
      want: 'NotAuthorized',
    },
    { when: 'a stuck pod', conditions: [condition('Drained', 'False', 'Blocked')], want: 'Blocked' },
    { when: 'a user who has not completed it', conditions: [drained], want: 'Drained' },
    {
      when: 'nothing but the work of its window',
      conditions: [drained, condition('WorkSucceeded', 'Unknown')],
      work: 'Job',
      want: undefined,
    },
    {
      when: 'nothing, because its window is about to begin its work',
      conditions: [{ ...drained, lastTransitionTime: '2026-01-01T00:09:30Z' }],
      work: 'Job',
      want: undefined,
    },
    {
      when: 'the next opening of its window, which has closed',
      conditions: [drained],
      work: 'Job',
      want: 'Drained',
    },
    { when: 'a user who works, in a window', conditions: [drained], work: 'None', want: 'Drained' },
    {
      when: 'the failure of its work',
      conditions: [drained, condition('Succeeded', 'False', 'JobFailed')],
      work: 'Job',
      want: 'Drained',
    },
  ])('is $when: $want', ({ conditions, work, want }) => {
    expect(stoppedReasonOf(maintenance(conditions, work), now)).toBe(want);
  });

  test('a node whose work was cancelled, or is done, is returned by its window', () => {
    expect(endsByItself(maintenance([drained, result(nodeCancelled)], 'Reboot'), now)).toBe(true);
    expect(endsByItself(maintenance([drained, result(nodeSucceeded)], 'Job'), now)).toBe(true);
  });
});
