import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import type { KubeObject } from '../../api/core.ts';
import {
  EVACUATION,
  INSTIGATOR_FINALIZER,
  MAINTENANCE_FINALIZER,
  NODE_DISRUPTION_BUDGET,
  NODE_MAINTENANCE,
  NODE_READINESS,
  NODE_READINESS_POLICY,
  MAINTENANCE_WINDOW,
} from '../../api/names.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { selecting } from '../api/objects.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { type Health, LuaInterpreter } from '../kit/lua.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

// deploy/argocd with the interpreter of Argo CD, and with objects that a real apiserver has stored.

const deploy = fileURLToPath(new URL('../../deploy', import.meta.url));

let sandbox: Sandbox;
let c: TestCluster;
let lua: LuaInterpreter;
let settings: Record<string, string>;

beforeAll(async () => {
  [sandbox, lua] = await Promise.all([testSandbox(), LuaInterpreter.start()]);
  c = await testCluster(sandbox, { prefix: 'argocd' });
  const configMap = parse(await readFile(join(deploy, 'argocd/argocd-cm.yaml'), 'utf8')) as {
    data: Record<string, string>;
  };
  settings = configMap.data;
});

afterAll(async () => {
  await lua?.stop();
  await c?.close();
  await releaseSandbox(sandbox);
});

interface Kind {
  group: string;
  apiVersion: string;
  kind: string;
}

interface State {
  when: string;
  metadata?: Partial<KubeObject['metadata']>;
  spec?: object;
  /** Without the generation, which it is observed at. */
  status?: object;
  /** How many generations the status lags behind. */
  behind?: number;
  want: Health;
}

const lastTransitionTime = '2026-11-23T12:00:00Z';
const condition = (type: string, status: string, reason: string, message = `${reason}.`) => ({
  type,
  status,
  reason,
  message,
  lastTransitionTime,
});

/** Stores the object with its status, and returns the health that Argo CD shows. */
async function healthOf(
  resource: Resource,
  { group, apiVersion, kind }: Kind,
  object: { metadata: KubeObject['metadata']; spec: object },
  { status, behind = 0 }: Pick<State, 'status' | 'behind'>,
): Promise<Health> {
  const stored = (await c.admin.create(resource, {
    apiVersion,
    kind,
    ...object,
  } as KubeObject)) as KubeObject;
  const { namespace, name, generation = 1 } = stored.metadata;
  const key = { ...(namespace && { namespace }), name };
  const observedGeneration = generation - behind;
  const given = status as { conditions?: object[] } | undefined;
  if (given !== undefined) {
    const conditions = given.conditions?.map((one) => ({ ...one, observedGeneration }));
    const isObserved = kind !== EVACUATION.kind;
    const body = {
      status: { ...given, ...(isObserved && { observedGeneration }), ...(conditions && { conditions }) },
    };
    await c.admin.mergePatch(resource, key, body, { subresource: 'status' });
  }
  const current = await c.admin.get(resource, key);
  const health = await lua.run(settings[`resource.customizations.health.${group}_${kind}`] ?? '', {
    apiVersion,
    kind,
    ...current,
  });
  const finalizers = { metadata: { finalizers: null } };
  await c.admin.mergePatch(resource, key, finalizers);
  await c.admin.delete(resource, key, { uid: stored.metadata.uid ?? '' });
  return health;
}

const nodeSelector = selecting({ key: 'rack', operator: 'In', values: ['nowhere'] });
const started = (stage: string) => ({ stageStatuses: [{ name: stage, startTimestamp: lastTransitionTime }] });
const held = { finalizers: [MAINTENANCE_FINALIZER] };

describe('a NodeMaintenance', () => {
  const drain = { spec: { stage: 'Drain' }, metadata: held };
  const inDrain = (...conditions: object[]) => ({ ...started('Drain'), conditions });
  const states: State[] = [
    {
      when: 'in Idle',
      want: { status: 'Healthy', message: 'Idle: nothing is done to the nodes' },
    },
    {
      when: 'that no worker has seen',
      spec: { stage: 'Drain' },
      want: { status: 'Progressing', message: 'Drain has not started yet' },
    },
    {
      when: 'in Drain that is still in Cordon',
      ...drain,
      status: started('Cordon'),
      want: { status: 'Progressing', message: 'Drain has not started yet' },
    },
    {
      when: 'in Cordon',
      spec: { stage: 'Cordon' },
      metadata: held,
      status: { ...started('Cordon'), conditions: [condition('NodeLeasesHeld', 'True', 'Held')] },
      want: { status: 'Healthy', message: 'The nodes are cordoned' },
    },
    {
      when: 'that waits for a Lease',
      spec: { stage: 'Cordon' },
      metadata: held,
      status: {
        ...started('Cordon'),
        conditions: [condition('NodeLeasesHeld', 'False', 'Waiting', 'n1: held by x.')],
      },
      want: { status: 'Progressing', message: 'n1: held by x.' },
    },
    {
      when: 'that has just started to drain',
      ...drain,
      status: started('Drain'),
      want: { status: 'Progressing', message: 'The nodes are being drained' },
    },
    {
      when: 'that drains',
      ...drain,
      status: inDrain(condition('Drained', 'False', 'Draining', '3 pods are left.')),
      want: { status: 'Progressing', message: '3 pods are left.' },
    },
    {
      when: 'with a pod that cannot leave',
      ...drain,
      status: inDrain(condition('Drained', 'False', 'Blocked', 'Pod a/b: the budget never allows it.')),
      want: { status: 'Degraded', message: 'Pod a/b: the budget never allows it.' },
    },
    {
      when: 'that is drained',
      ...drain,
      status: inDrain(condition('Drained', 'True', 'AllPodsTerminated', 'No pod is left on the nodes.')),
      want: { status: 'Healthy', message: 'No pod is left on the nodes.' },
    },
    {
      when: 'that is paused',
      ...drain,
      status: inDrain(
        condition('Drained', 'False', 'Draining'),
        condition('Paused', 'True', 'PauseRequested', 'Paused by jane.'),
      ),
      want: { status: 'Suspended', message: 'Paused by jane.' },
    },
    {
      when: 'that its requester may not maintain',
      ...drain,
      status: inDrain(condition('NodesAuthorized', 'False', 'NotAuthorized', 'jane may not delete n1.')),
      want: { status: 'Degraded', message: 'jane may not delete n1.' },
    },
    {
      when: 'that waits for Temporal',
      ...drain,
      status: { conditions: [condition('Progressing', 'False', 'TemporalUnavailable', 'Temporal is away.')] },
      want: { status: 'Progressing', message: 'Temporal is away.' },
    },
    {
      when: 'whose workflow is stalled',
      ...drain,
      status: inDrain(condition('Stalled', 'True', 'WorkflowTaskFailed', 'The workflow task fails.')),
      want: { status: 'Degraded', message: 'The workflow task fails.' },
    },
    {
      when: 'in Complete whose nodes are not returned yet',
      spec: { stage: 'Complete' },
      metadata: held,
      status: started('Complete'),
      want: { status: 'Progressing', message: 'Complete: the nodes are being returned to service' },
    },
    {
      when: 'that is complete, whatever happened before',
      spec: { stage: 'Complete' },
      status: {
        ...started('Complete'),
        conditions: [
          condition('Drained', 'False', 'Blocked'),
          condition('Stalled', 'True', 'WorkflowFailed'),
        ],
      },
      want: { status: 'Healthy', message: 'Complete: the nodes are returned to service' },
    },
  ];
  test.each(states)('$when is $want.status', async ({ metadata, spec, want, ...state }) => {
    const object = { metadata: { name: c.named('nm'), ...metadata }, spec: { nodeSelector, ...spec } };
    expect(await healthOf(resources.nodeMaintenances, NODE_MAINTENANCE, object, state)).toEqual(want);
  });
});

describe('a MaintenanceWindow', () => {
  const valid = condition('Valid', 'True', 'Valid', '');
  const scheduled = condition('Scheduled', 'True', 'Scheduled', '');
  const ready = { conditions: [valid, scheduled], nextTime: '2026-11-28T02:00:00Z' };
  const opened = { workflowId: 'w', runId: 'r', start: '2026-11-23T10:00:00Z', end: '2026-11-23T14:00:00Z' };
  const progress = (failed: number, failures: object[] = []) => ({
    progress: { revision: 'r', summary: '1/3', nodes: 3, done: 1, failed, failures },
  });
  const notScheduled = (status: string, reason: string) => ({
    conditions: [valid, condition('Scheduled', status, reason)],
  });
  const states: State[] = [
    {
      when: 'that no worker has seen',
      want: { status: 'Progressing', message: 'No worker has reconciled the window yet' },
    },
    {
      when: 'that was changed since',
      behind: 1,
      status: ready,
      want: { status: 'Progressing', message: 'No worker has reconciled the window yet' },
    },
    {
      when: 'that is closed',
      status: ready,
      want: { status: 'Healthy', message: 'Opens at 2026-11-28T02:00:00Z' },
    },
    {
      when: 'that does not open any more',
      status: { conditions: [valid, scheduled] },
      want: { status: 'Healthy', message: 'Closed' },
    },
    {
      when: 'that is open',
      status: { ...ready, ...progress(0), active: opened },
      want: { status: 'Healthy', message: 'Open until 2026-11-23T14:00:00Z: 1/3 nodes are done' },
    },
    {
      when: 'that was just opened',
      status: { ...ready, active: opened },
      want: { status: 'Healthy', message: 'Open until 2026-11-23T14:00:00Z: 0 nodes are done' },
    },
    {
      when: 'that waits for approval',
      status: {
        ...ready,
        active: { ...opened, waiting: { reason: 'ApprovalNeeded', message: 'Waiting for approval.' } },
      },
      want: { status: 'Suspended', message: 'Waiting for approval.' },
    },
    {
      when: 'that is paused while it is open',
      status: {
        ...ready,
        active: { ...opened, waiting: { reason: 'Paused', message: 'The window is paused.' } },
      },
      want: { status: 'Suspended', message: 'The window is paused.' },
    },
    ...['Paused', 'Suspended', 'PausedInTemporal'].map((reason) => ({
      when: `with reason ${reason}`,
      status: notScheduled('False', reason),
      want: { status: 'Suspended', message: `${reason}.` },
    })),
    {
      when: 'whose Schedule is rejected',
      status: notScheduled('False', 'Rejected'),
      want: { status: 'Degraded', message: 'Rejected.' },
    },
    {
      when: 'that waits for Temporal',
      status: notScheduled('Unknown', 'TemporalUnavailable'),
      want: { status: 'Progressing', message: 'TemporalUnavailable.' },
    },
    {
      when: 'whose key is missing',
      status: notScheduled('Unknown', 'KeyMissing'),
      want: { status: 'Degraded', message: 'KeyMissing.' },
    },
    {
      when: 'that is not valid',
      status: {
        conditions: [
          condition('Valid', 'False', 'Invalid', 'schedule: never.'),
          condition('Scheduled', 'False', 'InvalidSpec'),
        ],
      },
      want: { status: 'Degraded', message: 'schedule: never.' },
    },
    {
      when: 'with a failed node',
      status: { ...ready, ...progress(1, [{ node: 'n1', reason: 'JobFailed', message: 'The Job failed.' }]) },
      want: { status: 'Degraded', message: 'Node n1 failed (JobFailed): The Job failed.' },
    },
    {
      when: 'with failed nodes that it does not name',
      status: { ...ready, ...progress(2) },
      want: { status: 'Degraded', message: '2 nodes failed' },
    },
    {
      when: 'whose workflow is stalled',
      status: { conditions: [valid, scheduled, condition('Stalled', 'True', 'WorkflowFailed')] },
      want: { status: 'Degraded', message: 'WorkflowFailed.' },
    },
  ];
  test.each(states)('$when is $want.status', async ({ want, ...state }) => {
    const schedule = { cron: '0 2 * * 6', timeZone: 'UTC', duration: '4h' };
    const object = { metadata: { name: c.named('mw') }, spec: { schedule, nodeSelector } };
    expect(await healthOf(resources.maintenanceWindows, MAINTENANCE_WINDOW, object, state)).toEqual(want);
  });
});

describe('a NodeReadinessPolicy', () => {
  const applied = condition('GatesApplied', 'True', 'AsExpected');
  const states: State[] = [
    {
      when: 'that no worker has seen',
      want: { status: 'Progressing', message: 'No worker has reconciled the policy yet' },
    },
    {
      when: 'that is applied',
      status: { nodes: 3, conditions: [applied, condition('NotAllNodesSelected', 'False', 'EveryNode')] },
      want: { status: 'Healthy', message: 'The gates are set on 3 nodes' },
    },
    ...[
      ['GatesApplied', 'InProgress', 'Progressing'],
      ['GatesApplied', 'Conflict', 'Degraded'],
      ['GatesApplied', 'TooManyGates', 'Degraded'],
      ['NodesAuthorized', 'NotAuthorized', 'Degraded'],
      ['TaintTolerated', 'TaintNotTolerated', 'Degraded'],
      ['OnePodPerNode', 'TooManyPods', 'Degraded'],
      ['SelectorsMatch', 'NoPods', 'Progressing'],
    ].map(([type = '', reason = '', status = '']) => ({
      when: `with reason ${reason}`,
      status: {
        conditions: [...(type === 'GatesApplied' ? [] : [applied]), condition(type, 'False', reason)],
      },
      want: { status, message: `${reason}.` },
    })),
  ];
  test.each(states)('$when is $want.status', async ({ want, ...state }) => {
    const readinessGates = [
      { name: 'cni', namespace: 'kube-system', selector: { matchLabels: { app: 'cni' } } },
    ];
    const object = { metadata: { name: c.named('nrp') }, spec: { nodeSelector, readinessGates } };
    expect(await healthOf(resources.nodeReadinessPolicies, NODE_READINESS_POLICY, object, state)).toEqual(
      want,
    );
  });
});

describe('a NodeReadiness', () => {
  const states: State[] = [
    {
      when: 'that no worker has seen',
      want: { status: 'Progressing', message: 'No worker has reconciled the gates yet' },
    },
    ...[
      ['True', 'GatesReady', 'Healthy'],
      ['False', 'GatesNotReady', 'Progressing'],
      ['False', 'GatesLost', 'Progressing'],
      ['False', 'Flapping', 'Degraded'],
    ].map(([value = '', reason = '', status = '']) => ({
      when: `with reason ${reason}`,
      status: { conditions: [condition('Ready', value, reason)] },
      want: { status, message: `${reason}.` },
    })),
  ];
  test.each(states)('$when is $want.status', async ({ want, ...state }) => {
    const object = { metadata: { name: c.named('node') }, spec: { readinessGates: [] } };
    expect(await healthOf(resources.nodeReadinesses, NODE_READINESS, object, state)).toEqual(want);
  });
});

describe('a NodeDisruptionBudget', () => {
  const states: State[] = [
    {
      when: 'that no worker has seen',
      want: { status: 'Progressing', message: 'No worker has reconciled the budget yet' },
    },
    {
      when: 'with nodes available',
      status: {
        allowed: 3,
        outOfService: 1,
        conditions: [condition('Exhausted', 'False', 'NodesAvailable')],
      },
      want: { status: 'Healthy', message: '1 of 3 allowed nodes are out of service' },
    },
    {
      when: 'that is used up',
      status: { allowed: 3, outOfService: 3, conditions: [condition('Exhausted', 'True', 'LimitReached')] },
      want: { status: 'Healthy', message: '3 of 3 allowed nodes are out of service' },
    },
    {
      when: 'that allows no node',
      status: { allowed: 0, outOfService: 0, conditions: [condition('Exhausted', 'True', 'NoneAllowed')] },
      want: { status: 'Suspended', message: 'NoneAllowed.' },
    },
  ];
  test.each(states)('$when is $want.status', async ({ want, ...state }) => {
    const object = { metadata: { name: c.named('pool') }, spec: { maxUnavailable: 1 } };
    expect(await healthOf(resources.nodeDisruptionBudgets, NODE_DISRUPTION_BUDGET, object, state)).toEqual(
      want,
    );
  });
});

describe('an Evacuation', () => {
  let node: string;
  beforeAll(async () => {
    node = await c.nodeNamed('n');
  });

  const states: State[] = [
    { when: 'that is new', want: { status: 'Progressing', message: 'The pod is asked to leave its node' } },
    {
      when: 'that an evacuator serves',
      status: { message: 'The replacement starts.' },
      want: { status: 'Progressing', message: 'The replacement starts.' },
    },
    {
      when: 'that waits for its budget',
      status: { conditions: [condition('Blocked', 'True', 'DisruptionBudget')] },
      want: { status: 'Progressing', message: 'DisruptionBudget.' },
    },
    {
      when: 'that a user has to help',
      status: { conditions: [condition('Blocked', 'True', 'DisruptionBudgetNeverAllows')] },
      want: { status: 'Degraded', message: 'DisruptionBudgetNeverAllows.' },
    },
  ];
  test.each(states)('$when is $want.status', async ({ want, ...state }) => {
    const pod = await c.podOn(node);
    const { metadata, spec } = c.evacuation(pod, [INSTIGATOR_FINALIZER]);
    expect(await healthOf(resources.evacuations, EVACUATION, { metadata, spec }, state)).toEqual(want);
  });
});

test('the settings are merged into those of Argo CD by the documented command', async () => {
  const document = await readFile(join(deploy, '../docs/how-to/gitops.md'), 'utf8');
  const command = /^kubectl patch configmap argocd-cm .*$/m.exec(document)?.[0] ?? 'false';
  const [namespaced, name] = ['argocd', 'argocd-cm'];
  await c.namespaceNamed(namespaced);
  const data = { url: 'https://argocd.example.com' };
  const configMap = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace: namespaced, name }, data };
  await succeeds(kubectlOf(sandbox)(['create', '-f', '-'], configMap));
  const options = { cwd: join(deploy, '..'), env: { ...sandbox.env, HOME: sandbox.dir } };
  await promisify(execFile)('bash', ['-c', command], options);
  const get = ['get', 'configmap', name, '-n', namespaced, '-o', 'json'];
  const stored = JSON.parse(await succeeds(kubectlOf(sandbox)(get))) as { data: object };
  expect(stored.data).toEqual({ ...data, ...settings });
});
