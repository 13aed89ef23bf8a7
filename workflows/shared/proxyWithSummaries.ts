import { type ActivityInterfaceFor, type ActivityOptions, proxyActivities } from '@temporalio/workflow';

/** Returns proxies of the named activities, each with the summary that the Temporal UI shows for it. */
export function proxyWithSummaries<Activities extends object, Name extends keyof Activities & string>(
  options: ActivityOptions,
  summaries: Record<Name, string>,
): Pick<ActivityInterfaceFor<Activities>, Name> {
  const names = Object.keys(summaries) as Name[];
  const proxied = names.map((name) => {
    const proxy = proxyActivities<Activities>({ ...options, summary: summaries[name] });
    return [name, proxy[name]] as const;
  });
  return Object.fromEntries(proxied) as Pick<ActivityInterfaceFor<Activities>, Name>;
}
