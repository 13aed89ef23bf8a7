import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, test } from '@jest/globals';
import { parseAllDocuments } from 'yaml';
import type { KubeObject } from '../../api/core.ts';
import { WORK_NAMESPACE } from '../../api/names.ts';
import { readInstallation, readManifests } from '../../manifests/read.ts';
import { renderManifests } from '../../manifests/render.ts';

const manifests = await readManifests();
const run = promisify(execFile);

const named = (rendered: readonly KubeObject[], kind: string, name: string) =>
  rendered.find((one) => one.kind === kind && one.metadata.name === name);

describe('the manifests of an installation', () => {
  test('in the default namespace are those of deploy/', () => {
    expect(renderManifests(manifests)).toEqual(manifests);
  });

  test('in another namespace name the default one nowhere', () => {
    const text = JSON.stringify(renderManifests(manifests, { namespace: 'berlin' }));
    const names = text.matchAll(/(?<![\w-])node-maintenance(?![\w-])/g);
    const partOf = text.matchAll(/"app.kubernetes.io\/part-of":"node-maintenance"/g);
    expect([...names]).toHaveLength([...partOf].length);
  });

  test('in another namespace keep everything else', () => {
    const moved = JSON.stringify(renderManifests(manifests, { namespace: 'berlin' }));
    const back = moved
      .replaceAll('"berlin"', '"node-maintenance"')
      .replaceAll(':berlin:', ':node-maintenance:')
      .replaceAll("('berlin')", "('node-maintenance')");
    expect(JSON.parse(back)).toEqual(manifests);
  });

  test.each([
    { where: 'a comparison', expression: "request.namespace == 'node-maintenance'" },
    { where: 'a group', expression: "'system:serviceaccounts:node-maintenance' in request.userInfo.groups" },
    { where: 'a text in double quotes', expression: 'authorizer.group("").namespace("node-maintenance")' },
  ])('cannot be rendered if $where would still name the default namespace', ({ expression }) => {
    const policy = {
      kind: 'ValidatingAdmissionPolicy',
      metadata: { name: 'p' },
      spec: { validations: [{ expression }] },
    } as KubeObject;
    expect(() => renderManifests([policy], { namespace: 'berlin' })).toThrow(
      'deploy/: ValidatingAdmissionPolicy.p.spec.validations.0.expression names namespace node-maintenance',
    );
  });

  test.each([
    '',
    'Berlin',
    'a.b',
    "x'||true||'",
    'a'.repeat(64),
    'kube-node-maintenance',
    'kube-node-maintenance-agent',
    'node-maintenance-work',
  ])('cannot be rendered for namespace "%s"', (namespace) => {
    expect(() => renderManifests(manifests, { namespace })).toThrow(/^namespace: /);
  });

  test('register the Service unless hosts are allowed', () => {
    const clientConfigs = (rendered: readonly KubeObject[]) =>
      (
        named(rendered, 'MutatingWebhookConfiguration', 'nodemaintenance.k8s.io') as unknown as {
          webhooks: { clientConfig: object }[];
        }
      ).webhooks.map(({ clientConfig }) => clientConfig);
    expect(clientConfigs(renderManifests(manifests, { namespace: 'berlin' }))).toEqual([
      {
        service: {
          namespace: 'berlin',
          name: 'node-maintenance-admission',
          path: '/evacuations',
          port: 443,
        },
      },
    ]);
    const withHosts = renderManifests(manifests, { webhookHosts: ['2001:db8::1', '127.0.0.1'] });
    expect(clientConfigs(withHosts)).toEqual([{ url: 'https://[2001:db8::1]:9443/evacuations' }]);
    const { metadata } = named(withHosts, 'MutatingWebhookConfiguration', 'nodemaintenance.k8s.io') ?? {};
    expect(metadata?.annotations).toEqual({
      'nodemaintenance.k8s.io/webhook-hosts': '2001:db8::1,127.0.0.1',
    });
  });

  test('contain what Jobs of windows need only where they are enabled', async () => {
    const jobs = ({ metadata }: KubeObject) => [metadata.name, metadata.namespace].includes(WORK_NAMESPACE);
    expect(manifests.filter(jobs)).toEqual([]);
    const enabled = await readInstallation({ windowJobs: { kind: 'Enabled', podSecurity: 'baseline' } });
    expect(enabled.filter(jobs).map(({ kind }) => kind)).toEqual(
      expect.arrayContaining(['Namespace', 'ServiceAccount', 'Role', 'RoleBinding', 'NetworkPolicy']),
    );
  });

  test('limit the pods of Jobs as chosen', async () => {
    const options = { windowJobs: { kind: 'Enabled', podSecurity: 'restricted' } } as const;
    const rendered = renderManifests(await readInstallation(options), options);
    expect(named(rendered, 'Namespace', WORK_NAMESPACE)?.metadata.labels).toMatchObject({
      'pod-security.kubernetes.io/enforce': 'restricted',
      'pod-security.kubernetes.io/warn': 'restricted',
    });
  });
});

describe('npm run manifests', () => {
  const command = (...args: string[]) => run(process.execPath, ['manifests/main.ts', ...args]);

  test('prints the manifests as YAML', async () => {
    const args = ['--namespace', 'berlin', '--webhook-host', '192.0.2.1', '192.0.2.2'];
    const { stdout } = await command(...args, '--window-jobs', '--work-pod-security', 'privileged');
    const windowJobs = { kind: 'Enabled', podSecurity: 'privileged' } as const;
    expect(parseAllDocuments(stdout).map((document) => document.toJS() as unknown)).toEqual(
      renderManifests(await readInstallation({ windowJobs }), {
        namespace: 'berlin',
        webhookHosts: ['192.0.2.1', '192.0.2.2'],
        windowJobs,
      }),
    );
  });

  test('rejects pod security for Jobs that are not enabled', async () => {
    await expect(command('--work-pod-security', 'privileged')).rejects.toMatchObject({
      code: 1,
      stdout: '',
      stderr: '--work-pod-security: requires --window-jobs\n',
    });
  });

  test('rejects an invalid namespace with one line', async () => {
    await expect(command('--namespace', 'Berlin')).rejects.toMatchObject({
      code: 1,
      stdout: '',
      stderr: 'namespace: expected a DNS label, such as node-maintenance (got "Berlin")\n',
    });
  });
});

test('no policy adds a list of objects: the apiserver of Kubernetes 1.36 panics when it converts one', () => {
  const policies = manifests.filter(({ kind }) => kind === 'MutatingAdmissionPolicy');
  expect(policies).not.toEqual([]);
  expect(JSON.stringify(policies)).not.toMatch(/\[\s*Object\./);
});
