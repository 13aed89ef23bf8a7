import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import type { KubeObject } from '../../api/core.ts';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import { MAINTENANCE_WINDOW, NODE_MAINTENANCE } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { resources } from '../../kube/resources.ts';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { selectNodes } from '../kit/resources.ts';
import { eventually } from '../kit/eventually.ts';
import { LuaInterpreter } from '../kit/lua.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, type World } from '../kit/world.ts';

// A worker next to a client that applies manifests from git again and again, as Argo CD does with server-side apply and self-heal: it takes
// over the fields of the manifest, no matter which client has written them.

let world: World;
let worker: WorkerProcess;
let lua: LuaInterpreter;
let settings: Record<string, string>;

beforeAll(async () => {
  [world, lua] = await Promise.all([createWorld({ nodes: 2 }), LuaInterpreter.start()]);
  worker = startWorker(world.sandbox);
  await worker.ready();
  const file = new URL('../../deploy/argocd/argocd-cm.yaml', import.meta.url);
  settings = (parse(await readFile(file, 'utf8')) as { data: Record<string, string> }).data;
});
afterAll(async () => {
  await lua?.stop();
  await worker?.kill();
  await world?.close();
});

const maintenance = (...args: string[]) => kubectlOf(world.sandbox)(['maintenance', ...args]);

const healed = <T extends KubeObject>(manifest: object): Promise<T> => {
  const { kind } = manifest as KubeObject;
  const resource = kind === NODE_MAINTENANCE.kind ? resources.nodeMaintenances : resources.maintenanceWindows;
  const options = { fieldManager: 'argocd-controller', force: true };
  return world.kube.apply<KubeObject>(resource, manifest as KubeObject, options) as Promise<T>;
};

/**
 * Applies the manifest as the kustomize-controller of Flux does: what managers whose names begin with kubectl have written becomes its own
 * first, so that it removes what the manifest does not contain. With `ssa: Merge` it leaves that out.
 */
async function fluxed(
  manifest: KubeObject,
  { merge = false, manager = 'kustomize-controller' } = {},
): Promise<void> {
  const { kind, metadata } = manifest;
  const plural = kind === NODE_MAINTENANCE.kind ? 'nodemaintenances' : 'maintenancewindows';
  const get = ['get', plural, metadata.name, '-o', 'json', '--show-managed-fields'];
  const stored = JSON.parse(await succeeds(kubectlOf(world.sandbox)(get))) as {
    metadata: { managedFields: { manager: string; subresource?: string }[] };
  };
  const managedFields = stored.metadata.managedFields.map((entry) =>
    entry.manager.startsWith('kubectl') && entry.subresource === undefined
      ? { ...entry, manager, operation: 'Apply' }
      : entry,
  );
  const patch = JSON.stringify([{ op: 'replace', path: '/metadata/managedFields', value: managedFields }]);
  const rename = ['patch', plural, metadata.name, '--type=json', '-p', patch];
  if (!merge) await succeeds(kubectlOf(world.sandbox)(rename));
  const apply = ['apply', '--server-side', '--force-conflicts', `--field-manager=${manager}`, '-f', '-'];
  await succeeds(kubectlOf(world.sandbox)(apply, manifest));
}

const differs = (manifest: object) =>
  kubectlOf(world.sandbox)(
    ['diff', '--server-side', '--force-conflicts', '--field-manager=argocd-controller', '-f', '-'],
    manifest,
  );

const healthOf = ({ kind }: { kind: string }, object: object) =>
  lua.run(settings[`resource.customizations.health.${NODE_MAINTENANCE.group}_${kind}`] ?? '', object);

describe('a window in git', () => {
  const manifest = {
    apiVersion: MAINTENANCE_WINDOW.apiVersion,
    kind: MAINTENANCE_WINDOW.kind,
    metadata: { name: 'os-patch' },
    spec: {
      schedule: { cron: '0 3 * * *', timeZone: 'UTC', duration: '1h', exceptions: ['2098-12-24'] },
      nodeSelector: selectNodes(['node-2']),
      suspend: false,
    },
  };
  const windowNow = async () =>
    (await world.kube.get(resources.maintenanceWindows, { name: 'os-patch' })) as MaintenanceWindow;
  const nextDate = async () => (await windowNow()).status?.nextTime?.slice(0, 10);

  test('stays paused and keeps skipping an opening, however often it is applied again', async () => {
    await healed(manifest);
    await eventually('it to be scheduled', async () => expect(await nextDate()).toBeDefined());
    const next = (await nextDate()) ?? '';
    await succeeds(maintenance('window', 'skip', 'os-patch'));
    await eventually('the opening to be skipped', async () =>
      expect((await nextDate()) ?? next).not.toBe(next),
    );
    await succeeds(maintenance('window', 'pause', 'os-patch', '--reason', 'outage'));
    await eventually('it to be paused', async () => {
      expect(await nextDate()).toBeUndefined();
      expect(await healthOf(MAINTENANCE_WINDOW, await windowNow())).toMatchObject({ status: 'Suspended' });
    });
    for (let times = 1; times <= 3; times++) {
      const { metadata } = await healed<MaintenanceWindow>(manifest);
      expect(metadata).toMatchObject({
        generation: 1,
        annotations: {
          'nodemaintenance.k8s.io/paused': 'outage',
          'nodemaintenance.k8s.io/skipped-dates': next,
        },
      });
    }
    expect(await differs(manifest)).toMatchObject({ code: 0, stdout: '' });
    await fluxed(manifest);
    expect((await windowNow()).metadata).toMatchObject({
      generation: 1,
      annotations: {
        'nodemaintenance.k8s.io/paused': 'outage',
        'nodemaintenance.k8s.io/skipped-dates': next,
      },
    });
    await succeeds(maintenance('window', 'resume', 'os-patch'));
    await eventually('it to be scheduled again', async () => {
      expect((await nextDate()) ?? next).not.toBe(next);
      expect(await healthOf(MAINTENANCE_WINDOW, await windowNow())).toMatchObject({ status: 'Healthy' });
    });
  });
});

describe('a maintenance in git', () => {
  const manifest = {
    apiVersion: NODE_MAINTENANCE.apiVersion,
    kind: NODE_MAINTENANCE.kind,
    metadata: { name: 'rack-7' },
    spec: { nodeSelector: selectNodes(['node-1']), reason: 'firmware' },
  };
  const withStage = (stage: string) => ({ ...manifest, spec: { ...manifest.spec, stage } });
  const current = async () => (await world.maintenance('rack-7')) as NodeMaintenance;

  test('whose manifest leaves the stage out is advanced by the CLI, and does not differ from its manifest', async () => {
    await healed(manifest);
    expect(await healthOf(NODE_MAINTENANCE, await current())).toMatchObject({ status: 'Healthy' });
    await succeeds(maintenance('advance', 'rack-7', '--to', 'Drain'));
    await world.eventually('rack-7', 'it is drained', drained);
    for (let times = 1; times <= 3; times++)
      expect((await healed<NodeMaintenance>(manifest)).spec.stage).toBe('Drain');
    expect(await differs(manifest)).toMatchObject({ code: 0, stdout: '' });
    expect(await healthOf(NODE_MAINTENANCE, await current())).toMatchObject({ status: 'Healthy' });
  });

  test('is not changed by Flux, if it merges', async () => {
    await fluxed(manifest, { merge: true });
    expect((await current()).spec.stage).toBe('Drain');
    // Another name, which owns nothing yet.
    const other = fluxed(manifest, { manager: 'flux' });
    await expect(other).rejects.toThrow('stage cannot go from Drain back to Idle');
    expect((await current()).spec.stage).toBe('Drain');
  });

  test('is never moved back by a manifest with an earlier stage, which the apiserver rejects', async () => {
    await expect(healed(withStage('Cordon'))).rejects.toThrow('stage cannot go from Drain back to Cordon');
    expect((await current()).spec.stage).toBe('Drain');
  });

  test('is completed by its manifest', async () => {
    await healed(withStage('Complete'));
    await world.eventually('rack-7', 'it is complete', finished);
    expect(await healthOf(NODE_MAINTENANCE, await current())).toEqual({
      status: 'Healthy',
      message: 'Complete: the nodes are returned to service',
    });
    expect(await differs(withStage('Complete'))).toMatchObject({ code: 0, stdout: '' });
  });
});
