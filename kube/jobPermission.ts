import { WORK_NAMESPACE } from '../api/names.ts';
import { findMissingRules } from './authorization.ts';
import type { Kube } from './client.ts';
import { resources } from './resources.ts';

/** Resolves with whether this client may create the Jobs of windows. */
export type JobPermission = () => Promise<boolean>;

/** An answer is used for this long, so that a permission that is granted or withdrawn takes effect soon. */
const validMs = 5_000;

/** Asks the apiserver, which is the only place where Jobs of windows are enabled, and remembers the answer for a short time. */
export function jobPermission(kube: Kube): JobPermission {
  let last: { answer: Promise<boolean>; at: number } | undefined;
  return () => {
    const now = performance.now();
    if (last !== undefined && now - last.at < validMs) return last.answer;
    const asked = { answer: mayCreateJobs(kube), at: now };
    last = asked;
    asked.answer.catch(() => {
      if (last === asked) last = undefined;
    });
    return asked.answer;
  };
}

async function mayCreateJobs(kube: Kube): Promise<boolean> {
  const { group, plural: resource } = resources.jobs;
  const rule = { group, resource, verbs: ['create'], namespace: WORK_NAMESPACE };
  return (await findMissingRules(kube, [rule])).length === 0;
}
