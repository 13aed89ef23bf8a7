import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseAllDocuments, stringify } from 'yaml';
import type { KubeObject } from '../../api/core.ts';
import { WORK_NAMESPACE } from '../../api/names.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { type Kubectl, kubectlOf, succeeds } from './kubectl.ts';

const deploy = fileURLToPath(new URL('../../deploy', import.meta.url));

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

  test('allows privileged pods with the component privileged-work', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'overlay-'));
    try {
      const [resources, components] = [deploy, join(deploy, 'privileged-work')].map((path) => [
        relative(dir, path),
      ]);
      await writeFile(join(dir, 'kustomization.yaml'), stringify({ resources, components }));
      const rendered = parseAllDocuments(await succeeds(kubectl(['kustomize', dir])));
      const objects = rendered.map((document) => document.toJS() as KubeObject);
      const namespace = objects.find(
        ({ kind, metadata }) => kind === 'Namespace' && metadata.name === WORK_NAMESPACE,
      );
      expect(namespace?.metadata.labels).toMatchObject({
        'pod-security.kubernetes.io/enforce': 'privileged',
        'pod-security.kubernetes.io/warn': 'privileged',
      });
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  });
});
