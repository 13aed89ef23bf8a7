import { parseAllDocuments } from 'yaml';
import type { KubeObject } from '../../api/core.ts';
import { WORK_NAMESPACE } from '../../api/names.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { type Kubectl, kubectlOf, succeeds } from './kubectl.ts';

let sandbox: Sandbox | undefined;
let kubectl: Kubectl;

beforeAll(async () => {
  sandbox = await testSandbox();
  kubectl = kubectlOf(sandbox);
});

afterAll(() => releaseSandbox(sandbox));

const pod = (spec: object = {}) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'work', namespace: WORK_NAMESPACE },
  spec: { containers: [{ name: 'main', image: 'none' }], restartPolicy: 'Never', ...spec },
});
const privileged = [{ name: 'main', image: 'none', securityContext: { privileged: true } }];
const volumes = [{ name: 'host', hostPath: { path: '/' } }];

/** Asks the apiserver without storing anything. */
const created = (object: object) => kubectl(['create', '--dry-run=server', '-f', '-'], object);

async function rendered(folder: string): Promise<KubeObject[]> {
  const documents = parseAllDocuments(await succeeds(kubectl(['kustomize', folder])));
  return documents.map((document) => document.toJS() as KubeObject);
}

describe('the namespace of the Jobs of windows', () => {
  test.each([
    { what: 'a privileged container', spec: { containers: privileged } },
    { what: 'the processes of the node', spec: { hostPID: true } },
    { what: 'the network of the node', spec: { hostNetwork: true } },
    { what: 'the files of the node', spec: { volumes } },
  ])('rejects a pod with $what', async ({ spec }) => {
    const { code, stderr } = await created(pod(spec));
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringContaining('violates PodSecurity "baseline:latest"'),
    });
  });

  test('accepts other pods', async () => {
    expect(await created(pod())).toMatchObject({ code: 0, stderr: '' });
  });

  test('allows privileged pods with deploy/privileged-work, which contains the rest of deploy/window-jobs', async () => {
    const [privilegedWork, windowJobs] = await Promise.all([
      rendered('deploy/privileged-work'),
      rendered('deploy/window-jobs'),
    ]);
    const isNamespace = ({ kind }: KubeObject) => kind === 'Namespace';
    expect(privilegedWork.find(isNamespace)?.metadata).toMatchObject({
      name: WORK_NAMESPACE,
      labels: {
        'pod-security.kubernetes.io/enforce': 'privileged',
        'pod-security.kubernetes.io/warn': 'privileged',
      },
    });
    const others = (objects: KubeObject[]) => objects.filter((object) => !isNamespace(object));
    expect(others(privilegedWork)).toEqual(others(windowJobs));
    const applied = kubectl(['apply', '--server-side', '--dry-run=server', '-k', 'deploy/privileged-work']);
    expect(await applied).toMatchObject({ code: 0, stderr: '' });
  });

  test('is not part of deploy/, nor is anything in it', async () => {
    const objects = await rendered('deploy');
    expect(objects.length).toBeGreaterThan(0);
    expect(
      objects.filter(({ metadata }) => [metadata.name, metadata.namespace].includes(WORK_NAMESPACE)),
    ).toEqual([]);
  });
});
