import { Component } from '../../api/names.ts';
import type { Kube } from '../../kube/client.ts';
import { errorOf } from '../../kube/errors.ts';
import { packageVersion } from '../../process/packageVersion.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { reviewManifests } from '../../worker/installation.ts';
import { type InstallationState, watchInstallation } from '../../worker/installationWatch.ts';
import { createMetrics } from '../../worker/metrics/metrics.ts';
import { eventually, throughout } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { withMembers } from '../kit/withMembers.ts';
import { connect, recordedLog } from '../kube/fixtures.ts';

let sandbox: Sandbox;
let admin: Kube;

beforeAll(async () => {
  sandbox = await testSandbox();
  admin = connect(sandbox.kubeconfig);
});

afterAll(async () => {
  await admin?.close();
  await releaseSandbox(sandbox);
});

const forbidden = () =>
  errorOf(
    { verb: 'get', resource: 'customresourcedefinitions' },
    {
      status: 403,
      text: JSON.stringify({ kind: 'Status', reason: 'Forbidden', message: 'RBAC: not loaded' }),
    },
  );

/** Watches the installation of the sandbox. With `denied`, the apiserver answers as one that has not loaded all roles yet. */
async function watched(confirmMs: number) {
  const answers = { denied: false, denials: 0 };
  const kube = withMembers(admin, {
    get: (async (...request: Parameters<Kube['get']>) => {
      if (!answers.denied || request[0].kind !== 'CustomResourceDefinition') return admin.get(...request);
      answers.denials += 1;
      throw forbidden();
    }) as Kube['get'],
  });
  const check = {
    kube,
    namespace: 'node-maintenance',
    component: Component.Worker,
    readinessGates: true,
    release: packageVersion(),
  };
  const state: InstallationState = {};
  const [log, metrics, stop] = [recordedLog(), createMetrics(), new AbortController()];
  const watching = watchInstallation(check, {
    review: await reviewManifests(check),
    state,
    log,
    metrics,
    signal: stop.signal,
    everyMs: 20,
    confirmMs,
  });
  return {
    answers,
    state,
    log,
    async ended() {
      stop.abort();
      await watching;
    },
  };
}

test('what an apiserver denies while it starts is no difference', async () => {
  const { answers, state, log, ended } = await watched(60_000);
  answers.denied = true;
  await eventually('a check', () => expect(answers.denials).toBeGreaterThan(0));
  await throughout('no report', 300, () => expect(state.installation).toBeUndefined());
  await ended();
  expect(log.lines).toEqual([]);
});

test('what it still denies later is reported, until it does not', async () => {
  const { answers, state, log, ended } = await watched(20);
  answers.denied = true;
  await eventually('the report', () =>
    expect(state.installation).toContain('nodemaintenances.nodemaintenance.k8s.io is missing'),
  );
  answers.denied = false;
  await eventually('its end', () => expect(state.installation).toBeUndefined());
  await ended();
  expect(log.lines.map(({ level }) => level)).toEqual(['error', 'info']);
});
