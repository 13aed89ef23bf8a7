import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { WorkflowHandle } from '@temporalio/client';
import { mutating, validating, type WebhookConfiguration } from '../../admission/registration.ts';
import type { KubeObject, Node, Pod } from '../../api/core.ts';
import { Component, VERSION_LABEL, WEBHOOK_CONFIGURATION } from '../../api/names.ts';
import { Informer } from '../../kube/informer.ts';
import { silentLog } from '../../kube/log.ts';
import { type RawPod, resources } from '../../kube/resources.ts';
import { trimPod } from '../../kube/transform.ts';
import { readManifests } from '../../manifests/read.ts';
import { renderManifests, withLabels } from '../../manifests/render.ts';
import { reviewManifests, reviewWebhooks } from '../../worker/installation.ts';
import { type InstallationState, watchInstallation } from '../../worker/installationWatch.ts';
import { freePort } from '../../worker/http.ts';
import { createMetrics } from '../../worker/metrics/metrics.ts';
import { packageVersion } from '../../process/packageVersion.ts';
import { type Kubectl, kubectlOf, succeeds } from '../api/kubectl.ts';
import { eventually } from '../kit/eventually.ts';
import { chart, ensureHelm, Helm } from '../kit/helm.ts';
import { type PreviousRelease, unpackPreviousRelease } from '../kit/previousRelease.ts';
import { selectNodes } from '../kit/resources.ts';
import { deployWithAddress, postRendererFor } from '../kit/webhookAddress.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, stageStarted, type World } from '../kit/world.ts';
import { recordedLog } from '../kube/fixtures.ts';
import { Windows } from './windows.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
/** Arguments of a worker: the admission server is a process of its own, as in deploy/. */
const args = ['--components', 'controllers'];

let dir: string;
let previous: PreviousRelease;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'nm-release-'));
  previous = await unpackPreviousRelease(dir);
  await ensureHelm();
}, 1_800_000);

afterAll(() => rm(dir, { recursive: true, force: true }));

/** A way to install manifests. */
interface Installer {
  install(): Promise<unknown>;
  upgrade(): Promise<unknown>;
  rollback(): Promise<unknown>;
}

/** Installs webhooks that call the admission servers of the test, one after the other, at this port. */
type InstallerOf = (world: World, port: number) => Promise<Installer>;

const byKubectl: InstallerOf = async ({ sandbox }, port) => {
  const [older, newer] = await Promise.all([
    deployWithAddress(dir, { source: previous.source, port }),
    deployWithAddress(dir, { source: root, port }),
  ]);
  const apply = (folder: string) =>
    eventually(`${folder} to be applied`, () =>
      succeeds(kubectlOf(sandbox)(['apply', '--server-side', '--force-conflicts', '-k', folder])),
    );
  return { install: () => apply(older), upgrade: () => apply(newer), rollback: () => apply(older) };
};

const byHelm: InstallerOf = async ({ sandbox }, port) => {
  const helm = new Helm(await ensureHelm(), sandbox.dir, sandbox.env);
  const release = ['--namespace', 'node-maintenance'];
  // The processes of the test take the place of the pods.
  const values = ['--create-namespace', '--set', 'worker.replicas=0,admission.replicas=0'];
  const apply = async (command: string, of: string, source: string) => {
    const rendered = ['--post-renderer', await postRendererFor(dir, { source, port })];
    return helm.output(command, 'nm', of, ...release, ...values, ...rendered);
  };
  return {
    install: () => apply('install', join(previous.source, 'deploy', 'chart'), previous.source),
    upgrade: () => apply('upgrade', chart, root),
    rollback: () => helm.output('rollback', 'nm', '1', ...release),
  };
};

/** Watches for what no change of releases may cause. */
class Invariants {
  readonly violations: string[] = [];
  /** Nodes that must stay cordoned. */
  readonly cordoned = new Set<string>();
  /** Nodes that pods may be removed from. */
  readonly draining = new Set<string>();
  /** Nodes that are cordoned, as the informer shows them. */
  readonly #observed = new Set<string>();
  readonly #stop = new AbortController();

  constructor({ kube }: World) {
    const nodes = new Informer<Node>({ kube, resource: resources.nodes, log: silentLog });
    nodes.subscribe(
      ({
        object: {
          metadata: { name },
          spec,
        },
      }) => {
        if (spec.unschedulable === true) {
          this.#observed.add(name);
          return;
        }
        // The informer may be behind the test that has seen the cordon.
        if (this.#observed.delete(name) && this.cordoned.has(name))
          this.violations.push(`node ${name} was uncordoned during its maintenance`);
      },
    );
    const pods = new Informer<Pod, RawPod>({
      kube,
      resource: resources.pods,
      transform: trimPod,
      log: silentLog,
    });
    pods.subscribe(({ type, object: { metadata, spec } }) => {
      const isRemoved = type === 'Deleted' || metadata.deletionTimestamp !== undefined;
      if (isRemoved && !this.draining.has(spec.nodeName ?? ''))
        this.violations.push(`pod ${metadata.name} was removed from ${spec.nodeName}, which was not drained`);
    });
    for (const informer of [nodes, pods]) informer.start(this.#stop.signal);
    this.#watchRegistration(kube);
  }

  /** A server that is registered stays so, whatever is installed: until it has registered itself again, the apiserver would deny requests. */
  #watchRegistration(kube: World['kube']): void {
    for (const resource of [validating, mutating]) {
      const fieldSelector = `metadata.name=${WEBHOOK_CONFIGURATION}`;
      const informer = new Informer<WebhookConfiguration>({ kube, resource, fieldSelector, log: silentLog });
      const registered = new Set<string>();
      informer.subscribe(({ object }) => {
        for (const { name, clientConfig } of object.webhooks) {
          if (clientConfig.caBundle !== undefined) registered.add(name);
          else if (registered.has(name)) this.violations.push(`webhook ${name} lost its authority`);
        }
      });
      informer.start(this.#stop.signal);
    }
  }

  close(): void {
    this.#stop.abort();
  }
}

interface AuditEvent {
  verb: string;
  requestURI: string;
  requestReceivedTimestamp: string;
  responseStatus?: { code?: number };
}

/** Returns the requests of the project's accounts that RBAC or a policy has denied since then. */
async function deniedIn(auditLogs: string, sinceMs: number): Promise<string[]> {
  const names = await readdir(auditLogs);
  const texts = await Promise.all(names.map((name) => readFile(join(auditLogs, name), 'utf8')));
  const events = texts
    .flatMap((text) => text.split('\n'))
    .filter((line) => line.endsWith('}'))
    .map((line) => JSON.parse(line) as AuditEvent)
    .filter(({ requestReceivedTimestamp }) => Date.parse(requestReceivedTimestamp) >= sinceMs);
  expect(events.length).toBeGreaterThan(0);
  return (
    events
      .filter(({ responseStatus }) => responseStatus?.code === 403)
      .map(({ verb, requestURI }) => `${verb} ${requestURI.split('?')[0]}`)
      // Jobs of windows are not enabled here: the worker waits for the permission.
      .filter((request) => !request.includes('/namespaces/node-maintenance-work/jobs'))
  );
}

/** The node that she may delete. */
const janesNode = 'node-8';

/** Makes jane an operator of one node. */
async function permitJane(kubectl: Kubectl): Promise<void> {
  const role = ['--verb=delete', '--resource=nodes', `--resource-name=${janesNode}`];
  await succeeds(kubectl(['create', 'clusterrole', 'jane', ...role]));
  for (const name of ['jane', 'node-maintenance-operator'])
    await succeeds(
      kubectl(['create', 'clusterrolebinding', `jane-${name}`, `--clusterrole=${name}`, '--user=jane']),
    );
}

describe.each([
  { by: 'kubectl apply -k', installerOf: byKubectl },
  { by: 'helm upgrade', installerOf: byHelm },
])('an upgrade from the previous release by $by, and back,', ({ installerOf }) => {
  let world: World;
  let windows: Windows;
  let installer: Installer;
  let invariants: Invariants;
  let worker: WorkerProcess;
  let admission: WorkerProcess;
  const started: WorkerProcess[] = [];
  let port: number;
  let window: WorkflowHandle;
  let auditLogs: string;
  let startedAtMs: number;

  beforeAll(async () => {
    auditLogs = await mkdtemp(join(dir, 'audit-'));
    world = await createWorld({ nodes: 8, install: false, ownServers: true, auditLogs });
    port = await freePort();
    installer = await installerOf(world, port);
    await installer.install();
    const kubectl = kubectlOf(world.sandbox);
    // The test opens its window from Temporal.
    await succeeds(kubectl(['apply', '-k', join(root, 'deploy', 'temporal-user')]));
    await permitJane(kubectl);
    windows = await Windows.in(world, { patched: ['node-5'] });
    worker = startWorker(world.sandbox, { args, source: previous.source });
    admission = startServer({ source: previous.source });
    started.push(worker);
    await Promise.all([worker.ready(), admission.ready()]);
    startedAtMs = Date.now();
    invariants = new Invariants(world);
  });

  afterAll(async () => {
    for (const one of started) await one.kill();
    invariants?.close();
    windows?.close();
    await world?.close();
  });

  function startServer(options: { source?: string }): WorkerProcess {
    const ofServer = ['--components', 'admission', '--webhook-port', String(port)];
    const server = startWorker(world.sandbox, { args: ofServer, ...options });
    started.push(server);
    return server;
  }

  /** Unlike pods behind a Service, both would need the same port: the next server starts when the last one has ended. */
  async function replaceServer(options: { source?: string }): Promise<void> {
    expect(await admission.stop()).toBe(0);
    admission = startServer(options);
    await eventually('the next server to be ready', async () =>
      expect(await admission.readyz()).toMatch(/^200 ok/),
    );
  }

  /** Creates a maintenance as jane, of whose requests the apiserver asks the admission server. The last one that it asks for is created. */
  const decidesFor = async (name: string) => {
    const create = (node: string) =>
      kubectlOf(world.sandbox)(['create', '--as', 'jane', '-f', '-'], {
        apiVersion: 'nodemaintenance.k8s.io/v1alpha1',
        kind: 'NodeMaintenance',
        metadata: { name },
        spec: { nodeSelector: selectNodes([node]) },
      });
    const message = 'user "jane" may not delete node "node-1"';
    expect(await create('node-1')).toMatchObject({ code: 1, stderr: expect.stringContaining(message) });
    expect(await create(janesNode)).toMatchObject({ code: 0 });
  };

  const soonDecidesFor = (name: string) =>
    eventually('the apiserver to reach the server', () => decidesFor(name));

  /** Replaces the worker as a rolling update does: the next process is there before the last one ends. */
  async function replaceWorker(options: { source?: string }): Promise<void> {
    const next = startWorker(world.sandbox, { args, ...options });
    started.push(next);
    await eventually('the next worker to be ready', async () =>
      expect(await next.readyz()).toMatch(/^200 ok/),
    );
    expect(await worker.stop()).toBe(0);
    worker = next;
  }

  const cordonedBy = async (name: string, node: string) => {
    await world.eventually(name, 'it cordons', (one) => stageStarted(one, 'Cordon'));
    await eventually(`${node} to be cordoned`, async () => expect(await windows.isCordoned(node)).toBe(true));
    invariants.cordoned.add(node);
  };

  const drain = async (name: string, node: string) => {
    await world.placePods(node, 2);
    invariants.draining.add(node);
    await world.apply(name, { nodes: [node], stage: 'Drain' });
    await world.eventually(name, 'it is drained', drained);
    invariants.cordoned.add(node);
  };

  const complete = async (name: string, node: string) => {
    invariants.cordoned.delete(node);
    await world.patch(name, { stage: 'Complete' });
    await world.eventually(name, 'it is finished', finished);
    expect(await windows.isCordoned(node)).toBe(false);
  };

  /** The specs that users wrote, and the Schedule that a window has made of them. */
  const wanted = async () => {
    const [maintenances, all] = await Promise.all([
      world.kube.list(resources.nodeMaintenances),
      world.kube.list(resources.maintenanceWindows),
    ]);
    const specs = [...maintenances.items, ...all.items].map(({ metadata, spec }) => ({
      name: metadata.name,
      uid: metadata.uid,
      generation: metadata.generation,
      spec,
    }));
    const { spec, action, state } = await windows.scheduleOf('patch').describe();
    return { specs, schedule: { spec, action, paused: state.paused } };
  };

  const changingNothing = async (change: () => Promise<unknown>) => {
    const before = await wanted();
    await change();
    expect(await wanted()).toEqual(before);
  };

  test('begins with maintenances in every stage, a blocked one, a window with a Schedule, and a decision of the server', async () => {
    await soonDecidesFor('jane-before');
    await world.apply('idle', { nodes: ['node-1'], stage: 'Idle' });
    await world.eventually('idle', 'it is observed', (one) => stageStarted(one, 'Idle'));
    await world.apply('cordoned', { nodes: ['node-2'], stage: 'Cordon' });
    await cordonedBy('cordoned', 'node-2');
    await drain('drained', 'node-3');
    await world.placePods('node-4', 3, { labels: { app: 'quorum' } });
    await world.budget('quorum', { app: 'quorum' }, { minAvailable: 3 });
    await world.apply('blocked', { nodes: ['node-4'], stage: 'Drain' });
    await world.eventually('blocked', 'it evacuates', ({ status }) => (status?.podsEvacuating ?? 0) > 0);
    invariants.cordoned.add('node-4');
    await windows.setBudget(7);
    await windows.applied('patch', { pool: 'patched' });
    await eventually('the Schedule', () => windows.scheduleOf('patch').describe());
    window = await windows.open('patch');
    await windows.inProgress(window, 'node-5');
    await eventually('node-5 to be cordoned', async () =>
      expect(await windows.isCordoned('node-5')).toBe(true),
    );
    invariants.cordoned.add('node-5');
  });

  const differs = (installed: string, own: string) =>
    new RegExp(
      `^200 ok, but the installed manifests are of release ${installed} and this process of release ${own} `,
    );
  const newerThanPrevious = () => differs(packageVersion(), previous.version);
  const olderThanThis = () => differs(previous.version, packageVersion());

  test('the processes of the previous release continue with the new manifests, also after a restart, and say so', async () => {
    await changingNothing(() => installer.upgrade());
    await decidesFor('jane-upgraded');
    await world.patch('idle', { stage: 'Cordon' });
    await cordonedBy('idle', 'node-1');
    await changingNothing(() => replaceWorker({ source: previous.source }));
    expect(await worker.readyz()).toMatch(newerThanPrevious());
    await replaceServer({ source: previous.source });
    expect(await admission.readyz()).toMatch(newerThanPrevious());
    await soonDecidesFor('jane-upgraded-restarted');
    await drain('drained-by-the-previous', 'node-6');
  });

  test('the new processes take over, and find their own manifests', async () => {
    await changingNothing(() => replaceWorker({}));
    await worker.ready();
    expect(await worker.metrics()).toMatch(/^node_maintenance_installed_manifests\{state="same"\} [1-9]/m);
    await changingNothing(() => replaceServer({}));
    await admission.ready();
    await soonDecidesFor('jane-new');
    await complete('drained', 'node-3');
    await drain('drained-by-the-new', 'node-7');
  });

  test('the new processes continue with the manifests of the previous release, also after a restart, and say so', async () => {
    await changingNothing(() => installer.rollback());
    await decidesFor('jane-rolled-back');
    await complete('idle', 'node-1');
    await changingNothing(() => replaceWorker({}));
    expect(await worker.readyz()).toMatch(olderThanThis());
    expect(await worker.metrics()).toMatch(/^node_maintenance_installed_manifests\{state="older"\} [1-9]/m);
    expect(worker.log()).toContain('The installed manifests belong to another release');
    await replaceServer({});
    expect(await admission.readyz()).toMatch(olderThanThis());
    expect(admission.log()).toContain('The webhook configurations belong to another release');
    await soonDecidesFor('jane-rolled-back-restarted');
    await complete('drained-by-the-previous', 'node-6');
  });

  test('the previous processes take over again, and everything ends as requested', async () => {
    await changingNothing(() => replaceWorker({ source: previous.source }));
    await changingNothing(() => replaceServer({ source: previous.source }));
    await soonDecidesFor('jane-after');
    await complete('cordoned', 'node-2');
    await complete('drained-by-the-new', 'node-7');
    const budget = { namespace: 'default', name: 'quorum' };
    const { uid = '' } = (await world.kube.get(resources.podDisruptionBudgets, budget))?.metadata ?? {};
    invariants.draining.add('node-4');
    await world.kube.delete(resources.podDisruptionBudgets, budget, { uid });
    await world.eventually('blocked', 'it is drained', drained);
    await complete('blocked', 'node-4');
    invariants.cordoned.delete('node-5');
    await window.executeUpdate('advance', { args: [{ node: 'node-5' }] });
    expect(await window.result()).toMatchObject({ done: 1, failed: [], remaining: 0 });
    await windows.schedulable(['node-5']);
  });

  test('no node was uncordoned early, no pod removed twice or from another node, no webhook lost its authority, and no request was denied', async () => {
    expect(invariants.violations).toEqual([]);
    for (const evacuations of world.record.evacuations.values()) expect(evacuations.size).toBe(1);
    expect(new Set(world.record.gone).size).toBe(world.record.gone.length);
    expect(await deniedIn(auditLogs, startedAtMs)).toEqual([]);
  });
});

describe('a process of this release', () => {
  let world: World;
  let worker: WorkerProcess;
  const [major, minor] = packageVersion().split('.').map(Number);
  const later = (minors: number) => `${major}.${(minor ?? 0) + minors}.0`;

  beforeAll(async () => {
    world = await createWorld({ nodes: 2, install: false, ownServers: true });
    await installed(packageVersion());
  });

  afterAll(async () => {
    await worker?.kill();
    await world?.close();
  });

  const ownCheck = () => ({
    kube: world.kube,
    namespace: 'node-maintenance',
    component: Component.Worker,
    readinessGates: true,
    release: packageVersion(),
  });

  /** Applies the manifests as those of another release. */
  async function installed(
    release: string,
    change: (manifests: KubeObject[]) => KubeObject[] = (same) => same,
  ): Promise<void> {
    const manifests = change(renderManifests(await readManifests())).map((manifest) =>
      withLabels(manifest, { [VERSION_LABEL]: release }),
    );
    const list = { apiVersion: 'v1', kind: 'List', items: manifests };
    await eventually('the manifests to be applied', () =>
      succeeds(kubectlOf(world.sandbox)(['apply', '--server-side', '--force-conflicts', '-f', '-'], list)),
    );
  }

  /** Changes the schema of the status of NodeMaintenances. */
  const withStatus = (change: (fields: Record<string, object>) => void) => (manifests: KubeObject[]) => {
    const copy = structuredClone(manifests);
    const crd = copy.find(
      ({ kind, metadata }) =>
        kind === 'CustomResourceDefinition' && metadata.name.startsWith('nodemaintenances.'),
    ) as unknown as {
      spec: {
        versions: [{ schema: { openAPIV3Schema: { properties: { status: { properties: object } } } } }];
      };
    };
    change(
      crd.spec.versions[0].schema.openAPIV3Schema.properties.status.properties as Record<string, object>,
    );
    return copy;
  };

  async function restart(): Promise<void> {
    await worker?.kill();
    worker = startWorker(world.sandbox, { args });
  }

  test('that restarts after the manifests of the next minor version works, and says so', async () => {
    await installed(
      later(1),
      withStatus((fields) => {
        fields['addedLater'] = { type: 'string', description: 'A field of the next release.' };
      }),
    );
    await restart();
    await eventually('the worker to be ready', async () =>
      expect(await worker.readyz()).toMatch(
        new RegExp(
          `^200 ok, but the installed manifests are of release ${later(1)} and this process of release `,
        ),
      ),
    );
    const webhooks = await reviewWebhooks(ownCheck());
    expect(webhooks).toMatchObject({ problems: [], counts: { newer: 2 } });
    await world.placePods('node-1', 2);
    await world.apply('with-the-next', { nodes: ['node-1'], stage: 'Drain' });
    await world.eventually('with-the-next', 'it is drained', drained);
    await world.patch('with-the-next', { stage: 'Complete' });
    await world.eventually('with-the-next', 'it is finished', finished);
  });

  test('that runs reports the manifests of two minor versions later, and a restart waits for others', async () => {
    const check = ownCheck();
    const state: InstallationState = {};
    const [log, metrics, stop] = [recordedLog(), createMetrics(), new AbortController()];
    const review = await reviewManifests(check);
    const watching = watchInstallation(check, {
      review,
      state,
      log,
      metrics,
      signal: stop.signal,
      everyMs: 50,
      confirmMs: 50,
    });
    await eventually('the next release to be reported', () =>
      expect(state.installation).toContain(`are of release ${later(1)} and`),
    );
    await installed(later(2));
    const problem = `belong to release ${later(2)}, and this process to release ${packageVersion()}, which works with releases`;
    await eventually('the release after it to be reported', () => {
      expect(state.installation).toContain(problem);
      expect(log.lines.at(-1)).toMatchObject({ level: 'error' });
    });
    expect(await metrics.scrape()).toMatch(
      /^node_maintenance_installed_manifests\{state="unsupported"\} [1-9]/m,
    );
    await restart();
    await eventually('the worker to name the releases', async () =>
      expect(await worker.readyz()).toContain(problem),
    );
    expect(worker.log()).not.toContain('Informers synced');
    await installed(packageVersion());
    await worker.ready();
    await eventually('this release to be reported', () => expect(state.installation).toBeUndefined());
    stop.abort();
    await watching;
  });

  test('does not start with a CRD of its release that lacks a field that it writes', async () => {
    await installed(
      packageVersion(),
      withStatus((fields) => delete fields['drainPosition']),
    );
    await restart();
    const problem =
      'CustomResourceDefinition nodemaintenances.nodemaintenance.k8s.io lacks NodeMaintenance.status.drainPosition';
    await eventually('the worker to name the field', async () =>
      expect(await worker.readyz()).toContain(problem),
    );
    await installed(packageVersion());
    await worker.ready();
  });
});
