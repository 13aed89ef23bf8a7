import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { parseAllDocuments, stringify } from 'yaml';
import type { KubeObject } from '../../api/core.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { type Kubectl, kubectlOf, succeeds } from '../api/kubectl.ts';
import { selecting } from '../api/objects.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

// The component deploy/argocd in an empty cluster: the test applies one wave after the other, as Argo CD does.

const deploy = fileURLToPath(new URL('../../deploy', import.meta.url));

let dir: string;
let sandbox: Sandbox;
let kubectl: Kubectl;
/** The objects of each wave, in the order of the waves. */
let waves: [string, KubeObject[]][];

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'nm-argocd-'));
  sandbox = await testSandbox({ install: false, nodes: 3 });
  kubectl = kubectlOf(sandbox);
  const path = (folder: string) => relative(dir, join(deploy, folder));
  const overlay = {
    resources: ['.', 'admission-server', 'worker'].map(path),
    components: [path('argocd')],
  };
  await writeFile(join(dir, 'kustomization.yaml'), stringify(overlay));
  const found = new Map<string, KubeObject[]>();
  for (const document of parseAllDocuments(await succeeds(kubectl(['kustomize', dir])))) {
    const object = document.toJS() as KubeObject;
    const wave = object.metadata.annotations?.['argocd.argoproj.io/sync-wave'] ?? 'none';
    found.set(wave, [...(found.get(wave) ?? []), object]);
  }
  waves = [...found].toSorted(([a], [b]) => Number(a) - Number(b));
});

afterAll(async () => {
  await releaseSandbox(sandbox);
  await rm(dir, { recursive: true, force: true });
});

test('the sync waves cover every object of the installation: the worker comes last, and what confines it before', () => {
  const kindsOf = (objects: readonly KubeObject[]) => [
    ...new Set(
      objects.map(({ kind = '', metadata }) =>
        kind === 'Deployment' ? `Deployment ${metadata.name}` : kind,
      ),
    ),
  ];
  const policies = ['MutatingAdmissionPolicy', 'ValidatingAdmissionPolicy'];
  expect(waves.map(([wave, objects]) => [wave, kindsOf(objects).toSorted()])).toEqual([
    ['-5', ['CustomResourceDefinition', 'Namespace']],
    ['-4', expect.arrayContaining(['ClusterRole', 'ResourceQuota', 'ServiceAccount'])],
    [
      '-3',
      [
        ...policies.flatMap((kind) => [kind, `${kind}Binding`]),
        'MutatingWebhookConfiguration',
        'ValidatingWebhookConfiguration',
      ].toSorted(),
    ],
    ['-2', ['Deployment node-maintenance-admission']],
    ['-1', ['Deployment node-maintenance-worker']],
  ]);
});

/** Waits as Argo CD does before it applies the next wave. */
async function untilHealthy(objects: readonly KubeObject[]): Promise<void> {
  for (const { kind, metadata } of objects) {
    if (kind === 'CustomResourceDefinition')
      await succeeds(kubectl(['wait', '--for=condition=Established', `crd/${metadata.name}`]));
    // The pods of simulated nodes become ready.
    if (kind === 'Deployment')
      await succeeds(
        kubectl(['rollout', 'status', `deployment/${metadata.name}`, '-n', metadata.namespace ?? '']),
      );
  }
}

const applyAll = (items: readonly object[]) =>
  kubectl(['apply', '--server-side', '--field-manager=argocd-controller', '-f', '-'], {
    apiVersion: 'v1',
    kind: 'List',
    items,
  });

test('each wave is accepted at once when the one before is healthy, and objects of users after the last one', async () => {
  for (const [, objects] of waves) {
    expect(await applyAll(objects)).toMatchObject({ code: 0, stderr: '' });
    await untilHealthy(objects);
  }
  const window = {
    apiVersion: 'nodemaintenance.k8s.io/v1alpha1',
    kind: 'MaintenanceWindow',
    metadata: { name: 'os-patch' },
    spec: {
      schedule: { cron: '0 2 * * 6', timeZone: 'UTC', duration: '4h' },
      nodeSelector: selecting({ key: 'rack', operator: 'In', values: ['nowhere'] }),
    },
  };
  expect(await applyAll([window])).toMatchObject({ code: 0, stderr: '' });
  // What was applied in an earlier wave is as its manifest says: nothing is to be synchronized.
  const diff = await kubectl(['diff', '--server-side', '--field-manager=argocd-controller', '-f', '-'], {
    apiVersion: 'v1',
    kind: 'List',
    items: waves.flatMap(([, objects]) => objects),
  });
  expect(diff).toMatchObject({ code: 0, stdout: '' });
});
