import type { Job } from '../../api/core.ts';

/** Reports whether a Job may still have running pods. */
export function isJobRunning(job: Job | undefined): job is Job {
  const hasEnded = job?.status?.conditions?.some(
    ({ type, status }) => status === 'True' && (type === 'Complete' || type === 'Failed'),
  );
  return job !== undefined && hasEnded !== true;
}
