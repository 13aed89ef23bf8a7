import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { parseAllDocuments } from 'yaml';
import type { KubeObject, LabelSelector } from '../../api/core.ts';
import { selectsLabels } from '../../domain/common/labelSelector.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

let sandbox: Sandbox | undefined;

beforeAll(async () => {
  sandbox = await testSandbox();
});

afterAll(() => releaseSandbox(sandbox));

interface Rendered extends KubeObject {
  kind: string;
  spec: { selector?: LabelSelector; template: { metadata: { labels: Record<string, string> } } };
}

/** Renders a folder as `kubectl apply -k` does. */
async function rendered(folder: string, kind: string): Promise<Rendered | undefined> {
  const path = fileURLToPath(new URL(`../../${folder}`, import.meta.url));
  const { stdout } = await promisify(execFile)('kubectl', ['kustomize', path], { env: sandbox?.env ?? {} });
  const objects = parseAllDocuments(stdout).map((document) => document.toJS() as Rendered);
  return objects.find((object) => object.kind === kind);
}

test.each(['deploy/worker', 'deploy/admission-server', 'docs/examples/temporal-worker-controller'])(
  'the PodDisruptionBudget of %s selects the pods of its workload',
  async (folder) => {
    const budget = await rendered(folder, 'PodDisruptionBudget');
    const workload = (await rendered(folder, 'Deployment')) ?? (await rendered(folder, 'WorkerDeployment'));
    const labels = workload?.spec.template.metadata.labels ?? {};
    const { matchLabels } = budget?.spec.selector ?? {};
    expect(matchLabels).toMatchObject({ 'app.kubernetes.io/name': labels['app.kubernetes.io/name'] });
    expect(selectsLabels({ matchLabels }, labels)).toBe(true);
  },
);
