import { compare, problemsOf, usageTable } from './permissions/compare.ts';
import { readPermissions, readRequests } from './permissions/files.ts';

/**
 * `node scripts/verbs.ts FILE...` compares the permissions in deploy/ with the requests in audit logs, which
 * `NM_AUDIT_LOGS=DIRECTORY npm test -- FILE...` writes. Prints how often each permission was used, then those that were not used and the
 * requests that were denied, and exits 1 if there are any.
 */
async function main(files: readonly string[]): Promise<number> {
  if (files.length === 0) {
    console.error('Usage: node scripts/verbs.ts FILE...');
    return 2;
  }
  const [granted, requests] = await Promise.all([readPermissions(), readRequests(files)]);
  const problems = problemsOf(compare(granted, requests));
  console.log(usageTable(granted, requests));
  for (const problem of problems) console.error(problem);
  return problems.length === 0 ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
