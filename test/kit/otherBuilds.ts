/** Returns the bundle of a build whose workflow of this type fails every workflow task. */
export function withBrokenWorkflow(code: string, type: 'nodeMaintenance' | 'maintenanceWindow'): string {
  return replaced(
    code,
    `async function ${type}(input, previousRun) {`,
    "$& throw new Error('a broken build');",
  );
}

/**
 * Returns the bundle of a build that waits before its first activity. It runs maintenances like this one, but cannot replay the history
 * of any that this one has started.
 */
export function withAnotherFirstCommand(code: string): string {
  const [, workflowPackage] =
    /async function start\(run, input\) \{[^}]+\} = \(0,(\w+)\.workflowInfo\)/.exec(code) ?? [];
  const wait = `await ${workflowPackage}.condition(() => false, 10);`;
  return replaced(code, 'async function start(run, input) {', `$& ${wait}`);
}

function replaced(code: string, text: string, by: string): string {
  if (code.split(text).length !== 2) throw new Error(`the bundle does not contain "${text}" once`);
  return code.replace(text, by);
}
