import { describe, expect, test } from '@jest/globals';
import type { Lease, Node, PodDisruptionBudget } from '../../../api/core.ts';
import type { Evacuation, EvacuationStatus } from '../../../api/evacuation.ts';
import type { MaintenanceWindow } from '../../../api/maintenanceWindow.ts';
import { MAINTENANCE_FINALIZER, MAINTENANCE_GATE, READINESS_TAINT } from '../../../api/names.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import type { NodeReadiness } from '../../../api/nodeReadiness.ts';
import { budgetFindings } from '../../../domain/doctor/budgets.ts';
import { evacuationFindings, evacuatorFindings } from '../../../domain/doctor/evacuations.ts';
import { maintenanceFindings, windowFindings } from '../../../domain/doctor/maintenances.ts';
import { nodeDisruptionBudgetFindings } from '../../../domain/doctor/nodeDisruptionBudgets.ts';
import { leaseFindings, nodeFindings } from '../../../domain/doctor/nodes.ts';
import { emptyStatus, newNodeStatus } from '../../../domain/maintenance/status.ts';
import { gate, pod } from '../../kit/builders.ts';

const now = Date.parse('2026-01-01T12:00:00Z');
const timing = { now, stuckAfterMs: 300_000 };
const ago = (minutes: number) => new Date(now - minutes * 60_000).toISOString();

type Condition = [type: string, status: 'True' | 'False', kind: string];

interface Differs {
  stage?: NodeMaintenance['spec']['stage'];
  conditions?: Condition[];
  observed?: number;
  startedMinutesAgo?: number;
  finalizers?: string[];
  deletionTimestamp?: string;
}

function maintenance(name: string, differs: Differs = {}): NodeMaintenance {
  const { stage = 'Drain', conditions = [], observed = 1, startedMinutesAgo = 60, ...metadata } = differs;
  return {
    metadata: {
      name,
      generation: 1,
      creationTimestamp: ago(60),
      finalizers: [MAINTENANCE_FINALIZER],
      ...metadata,
    },
    spec: { stage, nodeSelector: { nodeSelectorTerms: [] } },
    status: {
      ...emptyStatus,
      observedGeneration: observed,
      stageStatuses: [{ name: stage, startTimestamp: ago(startedMinutesAgo) }],
      nodeStatuses: [{ ...newNodeStatus('node-1'), unschedulableBefore: false }],
      conditions: conditions.map(([type, status, kind]) => ({
        type,
        status,
        reason: kind,
        message: `${type} says why.`,
        lastTransitionTime: ago(60),
      })),
    },
  };
}

describe('a maintenance', () => {
  test.each<{ when: string; differs: Differs; want?: string; text?: string }>([
    { when: 'drains', differs: { conditions: [['Drained', 'False', 'Draining']] } },
    { when: 'is paused', differs: { conditions: [['Paused', 'True', 'PauseRequested']] } },
    { when: 'was deleted a moment ago', differs: { stage: 'Idle', deletionTimestamp: ago(1) } },
    {
      when: 'was deleted long ago',
      differs: { deletionTimestamp: ago(20), finalizers: ['example.com/cmdb'] },
      want: 'error',
      text: 'it was deleted 20 min ago and still has finalizers example.com/cmdb',
    },
    {
      when: 'has stalled',
      differs: { conditions: [['Stalled', 'True', 'WorkflowTaskFailed']] },
      want: 'error',
      text: 'Stalled says why.',
    },
    {
      when: 'waits for Temporal',
      differs: { conditions: [['Progressing', 'False', 'TemporalUnavailable']] },
      want: 'error',
      text: 'Progressing says why.',
    },
    { when: 'has just been changed', differs: { observed: 0, startedMinutesAgo: 1 } },
    { when: 'was changed long ago', differs: { observed: 0 }, want: 'error', text: 'no worker has observed' },
    {
      when: 'is blocked',
      differs: { conditions: [['Drained', 'False', 'Blocked']] },
      want: 'warning',
      text: 'Drained says why.',
    },
    {
      when: 'waits for volumes since long ago',
      differs: { conditions: [['Drained', 'False', 'VolumesAttached']] },
      want: 'warning',
      text: 'Drained says why.',
    },
    {
      when: 'has just started to wait for volumes',
      differs: { conditions: [['Drained', 'False', 'VolumesAttached']], startedMinutesAgo: 1 },
    },
    {
      when: 'waits for the Lease of another client',
      differs: {
        conditions: [
          ['Drained', 'False', 'WaitingForNodeLease'],
          ['NodeLeasesHeld', 'False', 'Waiting'],
        ],
      },
      want: 'warning',
      text: 'NodeLeasesHeld says why.',
    },
    {
      when: 'is not authorized',
      differs: { stage: 'Cordon', conditions: [['NodesAuthorized', 'False', 'NotAuthorized']] },
      want: 'warning',
      text: 'NodesAuthorized says why.',
    },
    { when: 'completes', differs: { stage: 'Complete', startedMinutesAgo: 1 } },
    {
      when: 'has been completing for long',
      differs: { stage: 'Complete' },
      want: 'error',
      text: 'completing for 60 min',
    },
    { when: 'is complete', differs: { stage: 'Complete', finalizers: [] } },
  ])('that $when', ({ differs, want = 'ok', text = 'none is stuck' }) => {
    const findings = maintenanceFindings([maintenance('rack-7', differs)], timing);
    expect(findings).toMatchObject([{ result: want, message: expect.stringContaining(text) }]);
    if (want !== 'ok')
      expect(findings).toMatchObject([{ object: 'nodemaintenance/rack-7', remedy: expect.any(String) }]);
  });
});

const moved = pod({
  name: 'web',
  uid: 'u1',
  annotations: { 'evacuation.coordination.k8s.io/priority_move.example.com': '5/app' },
});

function evacuation(
  differs: Partial<Evacuation['metadata']> = {},
  status?: Partial<EvacuationStatus>,
): Evacuation {
  return {
    metadata: {
      name: 'u1-web',
      namespace: 'default',
      creationTimestamp: ago(60),
      finalizers: ['x/y'],
      ...differs,
    },
    spec: { podRef: { name: 'web', uid: 'u1' }, progressDeadlineSeconds: 1800 },
    ...(status && {
      status: {
        activeEvacuatorCompleted: false,
        failedEvictionCounter: 0,
        message: '',
        conditions: [],
        ...status,
      },
    }),
  };
}

describe('a window', () => {
  const window = (conditions: Condition[], minutes = 60): MaintenanceWindow => ({
    metadata: { name: 'os-patch', creationTimestamp: ago(minutes) },
    spec: {} as MaintenanceWindow['spec'],
    status: {
      conditions: conditions.map(([type, status, kind]) => ({
        type,
        status,
        reason: kind,
        message: `${type} says why.`,
        lastTransitionTime: ago(60),
      })),
    } as NonNullable<MaintenanceWindow['status']>,
  });
  const withStatus = (differs: object): MaintenanceWindow => {
    const scheduled = window([['Scheduled', 'True', 'Scheduled']]);
    const status = { ...scheduled.status, ...differs } as NonNullable<MaintenanceWindow['status']>;
    return { ...scheduled, status };
  };
  test.each<{ when: string; one: MaintenanceWindow; want: string; text: string }>([
    {
      when: 'is scheduled',
      one: window([['Valid', 'True', 'Valid']]),
      want: 'ok',
      text: '1 MaintenanceWindow',
    },
    {
      when: 'is suspended',
      one: window([['Scheduled', 'False', 'Suspended']]),
      want: 'ok',
      text: '1 MaintenanceWindow',
    },
    { when: 'is new', one: window([], 1), want: 'ok', text: '1 MaintenanceWindow' },
    { when: 'no worker has seen', one: window([]), want: 'warning', text: 'No worker has reconciled' },
    {
      when: 'is invalid',
      one: window([['Valid', 'False', 'Invalid']]),
      want: 'warning',
      text: 'Valid says why.',
    },
    {
      when: 'has stalled',
      one: window([['Stalled', 'True', 'WorkflowFailed']]),
      want: 'error',
      text: 'Stalled says why.',
    },
    {
      when: 'has stopped at failed nodes',
      one: withStatus({ active: { waiting: { reason: 'TooManyFailures', message: '1 node has failed' } } }),
      want: 'warning',
      text: '1 node has failed',
    },
    {
      when: 'has failed nodes and is closed',
      one: withStatus({ progress: { failed: 2 } }),
      want: 'warning',
      text: 'the maintenance of 2 nodes failed',
    },
    {
      when: 'waits for an approval',
      one: withStatus({
        active: { waiting: { reason: 'ApprovalNeeded', message: 'why' } },
        progress: { failed: 0 },
      }),
      want: 'ok',
      text: '1 MaintenanceWindow',
    },
  ])('that $when', ({ one, want, text }) => {
    expect(windowFindings([one], timing)).toMatchObject([
      { result: want, message: expect.stringContaining(text) },
    ]);
  });
});

describe('an Evacuation', () => {
  test.each([
    { when: 'its pod exists', one: evacuation(), pods: [moved] },
    { when: 'its pod has just gone', one: evacuation({ creationTimestamp: ago(1) }), pods: [] },
    {
      when: 'its pod is gone',
      one: evacuation(),
      pods: [],
      want: 'its pod is gone, and finalizers x/y are left',
    },
    {
      when: 'it was deleted long ago',
      one: evacuation({ deletionTimestamp: ago(9) }),
      pods: [moved],
      want: 'it was deleted 9 min ago',
    },
    {
      when: 'it is blocked',
      one: evacuation(
        {},
        {
          conditions: [
            {
              type: 'Blocked',
              status: 'True',
              reason: 'EvictionRejected',
              message: 'No.',
              lastTransitionTime: ago(1),
            },
          ],
        },
      ),
      pods: [moved],
      want: 'No.',
    },
  ])('when $when', ({ one, pods, want }) => {
    const [finding] = evacuationFindings([one], pods, timing);
    expect(finding).toMatchObject(
      want === undefined
        ? { result: 'ok' }
        : { result: 'warning', object: 'evacuation/default/u1-web', message: expect.stringContaining(want) },
    );
  });
});

describe('an evacuator class that pods name', () => {
  const active = {
    activeEvacuatorClass: 'move.example.com',
    message: 'Waiting for move.example.com to respond; next: x.',
  };
  const silentSince = (minutes: number) => ({
    ...active,
    activeEvacuatorSince: ago(minutes),
    evacuationProgressTimestamp: ago(minutes),
  });
  test.each([
    { when: 'no pod names one', pods: [pod()], evacuations: [], leading: [], want: 'ok' },
    {
      when: 'a program has its Lease',
      pods: [moved],
      evacuations: [],
      leading: ['move.example.com'],
      want: 'ok',
    },
    {
      when: 'a program has responded',
      pods: [moved],
      evacuations: [evacuation({}, { ...silentSince(9), evacuationProgressTimestamp: ago(1) })],
      leading: [],
      want: 'ok',
    },
    { when: 'nothing shows a program', pods: [moved], evacuations: [], leading: [], want: 'warning' },
    {
      when: 'none has responded yet',
      pods: [moved],
      evacuations: [evacuation({}, silentSince(0.1))],
      leading: [],
      want: 'warning',
    },
    {
      when: 'none responds',
      pods: [moved],
      evacuations: [evacuation({}, silentSince(9))],
      leading: [],
      want: 'error',
    },
  ])('$when: $want', ({ pods, evacuations, leading, want }) => {
    const findings = evacuatorFindings({ pods, evacuations, leading: new Set(leading) }, timing);
    expect(findings.map(({ result }) => result)).toEqual([want]);
    if (want !== 'ok') expect(findings[0]?.remedy).toContain('priority_move.example.com');
  });
});

describe('a PodDisruptionBudget', () => {
  const budget = (name: string, differs: Partial<PodDisruptionBudget['spec']>): PodDisruptionBudget => ({
    metadata: { name, namespace: 'default', generation: 1 },
    spec: { selector: { matchLabels: { app: 'db' } }, ...differs },
    status: {
      observedGeneration: 1,
      disruptionsAllowed: 0,
      currentHealthy: 1,
      desiredHealthy: 0,
      expectedPods: 1,
    },
  });
  const db = pod({ name: 'db-1', labels: { app: 'db' } });
  const never = budget('db', { maxUnavailable: 0 });

  test('that never allows a disruption is named with its remedy', () => {
    expect(budgetFindings([db], [never])).toEqual([
      expect.objectContaining({
        result: 'warning',
        object: 'poddisruptionbudget/default/db',
        message:
          'PodDisruptionBudget default/db can never allow a disruption: add a replica or relax the budget (1 pod)',
      }),
    ]);
  });

  test.each([
    { when: 'it selects no pod', pods: [pod()], budgets: [never] },
    {
      when: 'its pod has an evacuator',
      pods: [{ ...db, metadata: { ...db.metadata, annotations: moved.metadata.annotations ?? {} } }],
      budgets: [never],
    },
    {
      when: 'its pod is finished',
      pods: [{ ...db, status: { phase: 'Succeeded', ready: false } }],
      budgets: [never],
    },
    { when: 'it allows one', pods: [db], budgets: [budget('db', { maxUnavailable: 1 })] },
  ])('is ok when $when', ({ pods, budgets }) => {
    expect(budgetFindings(pods, budgets)).toMatchObject([{ result: 'ok' }]);
  });

  test('beside another one for the same pod is reported', () => {
    const both = [budget('a', { maxUnavailable: 1 }), budget('b', { maxUnavailable: 1 })];
    expect(budgetFindings([db], both)).toMatchObject([
      {
        result: 'warning',
        message: expect.stringContaining('more than one PodDisruptionBudget (default/a, default/b)'),
      },
    ]);
  });

  test('beside another one is reported, too, if its pod has an evacuator that leaves it to the eviction API', () => {
    const both = [budget('a', { maxUnavailable: 1 }), budget('b', { maxUnavailable: 1 })];
    const annotated = (annotations: Record<string, string>) => [
      { ...db, metadata: { ...db.metadata, annotations } },
    ];
    const builtIn = { 'evacuation.coordination.k8s.io/priority_deployment.apps.k8s.io': '10000/controller' };
    expect(budgetFindings(annotated(builtIn), both)).toMatchObject([{ result: 'warning' }]);
    const foreign = { 'evacuation.coordination.k8s.io/priority_migrate.example.com': '10000/controller' };
    expect(budgetFindings(annotated(foreign), both)).toMatchObject([{ result: 'ok' }]);
  });

  test('of nodes is named if it allows no node or selects none', () => {
    const nodeDisruptionBudget = (name: string, reason: string, status: 'True' | 'False') => ({
      metadata: { name },
      spec: { maxUnavailable: 1 },
      status: {
        conditions: [
          { type: 'Exhausted', status, reason, message: `${reason}.`, lastTransitionTime: ago(1) },
        ],
        observedGeneration: 1,
        nodes: 1,
        allowed: 1,
        outOfService: 0,
        reservations: [],
      },
    });
    const { status: _status, ...unreconciled } = nodeDisruptionBudget('new', 'LimitReached', 'True');
    const fine = [
      nodeDisruptionBudget('cluster', 'NodesAvailable', 'False'),
      nodeDisruptionBudget('full', 'LimitReached', 'True'),
      unreconciled,
    ];
    expect(nodeDisruptionBudgetFindings(fine)).toEqual([]);
    const wrong = [
      nodeDisruptionBudget('gpu', 'NoNodeSelected', 'False'),
      nodeDisruptionBudget('api', 'NoneAllowed', 'True'),
    ];
    expect(nodeDisruptionBudgetFindings([...wrong, ...fine])).toMatchObject([
      {
        result: 'warning',
        message: 'NoneAllowed',
        object: 'nodedisruptionbudget/api',
        remedy: 'increase its spec.maxUnavailable, unless no window is to start a node',
      },
      { result: 'warning', message: 'NoNodeSelected', object: 'nodedisruptionbudget/gpu' },
    ]);
  });
});

describe('a maintenance Lease', () => {
  const ourHolder = 'nodemaintenance.k8s.io/nm';
  const lease = (differs: Partial<Lease['spec']>): Lease => ({
    metadata: { name: 'node-1', namespace: 'kube-node-maintenance' },
    spec: {
      holderIdentity: ourHolder,
      leaseDurationSeconds: 900,
      acquireTime: ago(60),
      renewTime: ago(1),
      ...differs,
    },
  });
  test.each([
    { when: 'of a maintenance', one: lease({}), maintenances: [maintenance('rack-7')], want: 'ok' },
    { when: 'of no maintenance', one: lease({}), maintenances: [], want: 'warning' },
    { when: 'acquired a moment ago', one: lease({ acquireTime: ago(1) }), maintenances: [], want: 'ok' },
    {
      when: 'that nobody renews',
      one: lease({ holderIdentity: 'other', renewTime: ago(30) }),
      maintenances: [],
      want: 'warning',
    },
    {
      when: 'of an administrator',
      one: lease({ holderIdentity: 'kubeadm: jane', renewTime: ago(3000) }),
      maintenances: [],
      want: 'ok',
    },
  ])('$when: $want', ({ one, maintenances, want }) => {
    expect(leaseFindings({ leases: [one], maintenances, ourHolder }, timing)).toMatchObject([
      { result: want },
    ]);
  });
});

describe('a node', () => {
  const node = (differs: Partial<Node['spec']> = {}, conditions: string[] = []): Node => ({
    metadata: { name: 'node-1', creationTimestamp: ago(60) },
    spec: differs,
    status: {
      conditions: conditions.map((type) => ({
        type,
        status: 'True',
        reason: 'x',
        message: '',
        lastTransitionTime: ago(60),
      })),
    },
  });
  const tainted = node({ taints: [READINESS_TAINT] });
  const readiness = (minutes: number): NodeReadiness => ({
    metadata: { name: 'node-1' },
    spec: { readinessGates: [gate('cni')] },
    status: {
      observedGeneration: 1,
      readiness: [
        {
          name: 'cni',
          definition: 'x',
          ready: false,
          reason: 'NoPods',
          message: 'no pod runs',
          pods: 0,
          lastTransitionTime: ago(minutes),
        },
      ],
      gates: '0/1',
      blockedBy: 'cni',
      losses: 0,
      conditions: [
        {
          type: 'Ready',
          status: 'False',
          reason: 'GatesNotReady',
          message: '',
          lastTransitionTime: ago(minutes),
        },
      ],
    },
  });
  const held = {
    ...pod({ name: 'agent' }),
    spec: { schedulingGates: [MAINTENANCE_GATE], madeForNode: 'node-1' },
  };
  const cordoned = node({ unschedulable: true });
  const none = {
    cordonedByUs: new Set<string>(),
    maintenances: [],
    readinesses: [],
    pods: [],
    agentLeases: [],
  };
  const agentLease = (heldManifests: string, renewed = 0, name = 'node-1'): Lease => ({
    metadata: { name, annotations: { 'nodemaintenance.k8s.io/held-static-pods': heldManifests } },
    spec: { holderIdentity: name, leaseDurationSeconds: 60, renewTime: ago(renewed) },
  });
  const selecting = (stage: NodeMaintenance['spec']['stage']): NodeMaintenance => {
    const named = { key: 'metadata.name', operator: 'In' as const, values: ['node-1'] };
    const nodeSelector = { nodeSelectorTerms: [{ matchFields: [named] }] };
    return { ...maintenance('rack-7', { stage }), spec: { stage, nodeSelector } };
  };

  test.each([
    { when: 'in service', facts: { ...none, nodes: [node()] } },
    { when: 'that someone else cordoned', facts: { ...none, nodes: [cordoned] } },
    {
      when: 'under maintenance',
      facts: {
        ...none,
        nodes: [node({ unschedulable: true }, ['MaintenanceInProgress'])],
        cordonedByUs: new Set(['node-1']),
        maintenances: [maintenance('rack-7')],
        pods: [held],
      },
    },
    {
      when: 'that the worker left cordoned',
      facts: { ...none, nodes: [cordoned], cordonedByUs: new Set(['node-1']) },
      want: 'warning',
      text: 'the worker has cordoned it',
    },
    {
      when: 'with conditions of no maintenance',
      facts: { ...none, nodes: [node({}, ['MaintenanceInProgress', 'DrainInProgress'])] },
      want: 'warning',
      text: 'MaintenanceInProgress and DrainInProgress are True',
    },
    {
      when: 'with held pods of no maintenance',
      facts: { ...none, nodes: [node()], pods: [held] },
      want: 'warning',
      text: 'default/agent',
    },
    {
      when: 'whose agent holds manifests for a drain',
      facts: { ...none, nodes: [node()], maintenances: [selecting('Drain')], agentLeases: [agentLease('2')] },
    },
    {
      when: 'whose agent holds nothing',
      facts: { ...none, nodes: [node()], agentLeases: [agentLease('0'), agentLease('x')] },
    },
    {
      when: 'that does not exist, whose agent held manifests',
      facts: { ...none, nodes: [node()], agentLeases: [agentLease('2', 0, 'node-2')] },
    },
    {
      when: 'whose agent holds manifests after the maintenance',
      facts: {
        ...none,
        nodes: [node()],
        maintenances: [selecting('Complete')],
        agentLeases: [agentLease('1')],
      },
      want: 'warning',
      text: 'its agent holds 1 manifest of static pods, and no maintenance drains the node',
      remedy: 'journalctl -u node-maintenance-agent',
    },
    {
      when: 'whose agent holds manifests and has stopped',
      facts: { ...none, nodes: [node()], agentLeases: [agentLease('2', 10)] },
      want: 'warning',
      text: 'its agent holds 2 manifests of static pods, does not report any more, and no maintenance drains the node',
      remedy: 'run "node-maintenance-agent return" there',
    },
    {
      when: 'with a taint and no gate',
      facts: { ...none, nodes: [tainted] },
      want: 'error',
      text: 'no readiness gate',
    },
    {
      when: 'with a gate that has just closed',
      facts: { ...none, nodes: [tainted], readinesses: [readiness(1)] },
    },
    {
      when: 'with a gate that stays closed',
      facts: { ...none, nodes: [tainted], readinesses: [readiness(30)] },
      want: 'warning',
      text: 'no pod is scheduled there for 30 min: gates are not ready: cni (no pod runs)',
    },
  ])('$when', ({ facts, want = 'ok', text = 'left over', remedy }) => {
    expect(nodeFindings(facts, timing)).toMatchObject([
      {
        result: want,
        message: expect.stringContaining(text),
        ...(remedy !== undefined && { remedy: expect.stringContaining(remedy) }),
      },
    ]);
  });
});
