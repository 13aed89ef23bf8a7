import { expect, test } from '@jest/globals';
import type { Job } from '../../../api/core.ts';
import { isJobRunning } from '../../../domain/common/job.ts';

const job = (...conditions: { type: string; status: 'True' | 'False' }[]) =>
  ({ metadata: { name: 'patch' }, status: { conditions } }) as unknown as Job;

test.each([
  { when: 'no Job', given: undefined, want: false },
  { when: 'a Job without a status', given: { metadata: { name: 'patch' } } as Job, want: true },
  { when: 'a Job that is suspended', given: job({ type: 'Suspended', status: 'True' }), want: true },
  { when: 'a Job that has not failed', given: job({ type: 'Failed', status: 'False' }), want: true },
  { when: 'a Job that is complete', given: job({ type: 'Complete', status: 'True' }), want: false },
  {
    when: 'a Job that has failed, after another condition',
    given: job({ type: 'FailureTarget', status: 'True' }, { type: 'Failed', status: 'True' }),
    want: false,
  },
])('$when may have running pods: $want', ({ given, want }) => {
  expect(isJobRunning(given)).toBe(want);
});
