import { Command, Option } from 'commander';
import { connectKube, type Kube } from '../kube/client.ts';
import { silentLog } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import type { Subject } from './check.ts';
import { checks, examine, type Result } from './suite.ts';
import { errorMessage } from './until.ts';

/** npm run conformance -- --kubeconfig FILE */

interface Options {
  kubeconfig?: string;
  subject?: Subject;
  slow: boolean;
}

const subjects: readonly Subject[] = ['apiserver', 'controller', 'imperative responder'];
const marks = { Passed: 'ok', Failed: 'FAILED', NotApplicable: 'n/a' } as const;
/** Checks that run at the same time, in namespaces of their own. */
const parallel = 4;

const options = new Command('npm run conformance --')
  .description(
    'Examines whether the apiserver and the controllers of a cluster keep what lifecycle.k8s.io/v1alpha1 (EvictionRequest, Eviction) demands and promises. Creates namespaces conformance-..., and deletes them. Needs an administrator.',
  )
  .option('--kubeconfig <file>', 'the cluster; default: KUBECONFIG')
  .addOption(new Option('--subject <subject>', 'examine only this one').choices(subjects))
  .option('--slow', 'also what takes more than a minute: the heartbeat deadline takes 21 minutes', false)
  .parse()
  .opts<Options>();

try {
  process.exitCode = await main(options);
} catch (error) {
  process.stderr.write(`${errorMessage(error)}\n`);
  process.exitCode = 1;
}

/** Prints a table. Returns the exit code: 1 if a check has failed. */
async function main({ kubeconfig, subject, slow }: Options): Promise<number> {
  const kube = connectKube({ kubeconfig, userAgent: 'node-maintenance-conformance', log: silentLog });
  try {
    await requireApi(kube);
    const chosen = checks.filter(
      (check) =>
        (subject === undefined || check.subject === subject) && (slow || check.minutes === undefined),
    );
    print(`Kubernetes ${await kube.serverVersion()}: ${chosen.length} checks`);
    const results: Result['kind'][] = [];
    const waiting = [...chosen];
    const work = async () => {
      for (let check = waiting.shift(); check !== undefined; check = waiting.shift()) {
        const result = await examine(kube, check);
        results.push(result.kind);
        print(`${marks[result.kind].padEnd(6)}  ${check.subject.padEnd(20)}  ${check.rule}`);
        if (result.kind !== 'Passed') print(`        ${result.reason}`);
      }
    };
    await Promise.all(Array.from({ length: parallel }, work));
    const count = (kind: Result['kind']) => results.filter((one) => one === kind).length;
    print(`${count('Passed')} passed, ${count('Failed')} failed, ${count('NotApplicable')} not applicable`);
    return count('Failed') === 0 ? 0 : 1;
  } finally {
    await kube.close();
  }
}

async function requireApi(kube: Kube): Promise<void> {
  for (const resource of [resources.evictionRequests, resources.evictions])
    if (!(await kube.serves(resource)))
      throw new Error(
        'the apiserver does not serve lifecycle.k8s.io/v1alpha1: Kubernetes 1.37 needs --feature-gates=EvictionRequestAPI=true and --runtime-config=lifecycle.k8s.io/v1alpha1=true',
      );
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
