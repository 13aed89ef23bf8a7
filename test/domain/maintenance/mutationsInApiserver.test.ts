import { expect, test } from '@jest/globals';
import type { Condition } from '../../../api/core.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { mutationsCondition } from '../../../domain/maintenance/mutationsInApiserver.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';

const reported = (status: Condition['status'], kind: string): Condition => ({
  type: 'MutationsInApiserver',
  status,
  reason: kind,
  message: '',
  lastTransitionTime: '2026-01-01T12:00:00Z',
});

function maintenance(conditions: Condition[], stage: 'Drain' | 'Complete' = 'Drain'): NodeMaintenance {
  return {
    metadata: { name: 'rack-7' },
    spec: { stage, nodeSelector: { nodeSelectorTerms: [] } },
    status: {
      ...emptyStatus,
      conditions,
      stageStatuses: [{ name: stage, startTimestamp: '2026-01-01T12:00:00Z' }],
    },
  };
}

test.each([
  { when: 'policies are installed', policies: 'Installed', conditions: [], want: undefined },
  { when: 'they are not served', policies: 'NotServed', conditions: [], want: 'False PoliciesNotServed' },
  {
    when: 'that is reported',
    policies: 'NotServed',
    conditions: [reported('False', 'PoliciesNotServed')],
    want: undefined,
  },
  {
    when: 'the control plane was upgraded',
    policies: 'NotInstalled',
    conditions: [reported('False', 'PoliciesNotServed')],
    want: 'False PoliciesNotInstalled',
  },
  {
    when: 'the installation was applied again',
    policies: 'Installed',
    conditions: [reported('False', 'PoliciesNotInstalled')],
    want: 'True PoliciesInstalled',
  },
  {
    when: 'that is reported, too',
    policies: 'Installed',
    conditions: [reported('True', 'PoliciesInstalled')],
    want: undefined,
  },
] as const)('$when: $want', ({ policies, conditions, want }) => {
  const facts = mutationsCondition(maintenance([...conditions]), policies);
  expect(facts && `${facts.status} ${facts.reason}`).toBe(want);
});

test('what is weaker is named', () => {
  expect(mutationsCondition(maintenance([]), 'NotServed')?.message).toBe(
    'The apiserver does not serve MutatingAdmissionPolicies (Kubernetes before 1.36), so webhooks of the admission server replace them. While no admission server runs: only the worker can create or change maintenances; a pod of a DaemonSet returns to a drained node, and is evacuated again.',
  );
});

test.each([
  { when: 'is finished', one: maintenance([], 'Complete') },
  { when: 'no run has seen', one: { ...maintenance([]), status: undefined } },
])('a maintenance that $when gets none', ({ one }) => {
  expect(mutationsCondition(one as NodeMaintenance, 'NotServed')).toBeUndefined();
});
