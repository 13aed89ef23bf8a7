import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  IdentityAnnotation,
  INSTIGATOR_FINALIZER,
  MAINTENANCE_FINALIZER,
  MAINTENANCE_GATE,
  RebootAnnotation,
  REBOOT_REQUIRED_MANAGER,
  RELEASED_ANNOTATION,
  UNCORDONED_BY_ANNOTATION,
  WINDOW_FINALIZER,
  leaseHolderOf,
} from '../../../api/names.ts';
import type { UninstallChoices, UninstallFacts } from '../../../domain/uninstall/facts.ts';
import { type UninstallItem, uninstallPhases } from '../../../domain/uninstall/item.ts';
import { planUninstall } from '../../../domain/uninstall/plan.ts';
import { carriedOut } from './simulation.ts';

const now = Date.parse('2026-01-01T12:00:00Z');
const namespace = 'node-maintenance';
const plain: UninstallChoices = { crds: false, helmObjects: false };
const whole: UninstallChoices = { crds: true, helmObjects: false };

const none: UninstallFacts = {
  now,
  namespace,
  leader: undefined,
  maintenances: [],
  windows: [],
  evacuations: [],
  evictionRequests: [],
  readinesses: [],
  readinessPolicies: [],
  budgets: [],
  nodes: [],
  pods: [],
  jobs: [],
  nodeLeases: [],
  agentLeases: [],
  processLeases: [],
  installed: [],
  definitions: [],
  namespaces: [],
  temporal: { kind: 'Reachable', runs: [], schedules: [], claims: [] },
};
const facts = (differs: object): UninstallFacts => ({ ...none, ...differs });
const meta = (name: string, differs: object = {}) => ({
  name,
  uid: `uid-${name}`,
  resourceVersion: '1',
  ...differs,
});
const texts = (items: readonly UninstallItem[]) =>
  items.map(({ kind, name, verb }) => `${kind} ${name}: ${verb}`);
const planned = (differs: object, choices = plain) => texts(planUninstall(facts(differs), choices));

const cordonedBy = (manager: string) => [{ manager, fieldsV1: { 'f:spec': { 'f:unschedulable': {} } } }];
const node = (name: string, manager?: string) => ({
  metadata: meta(name, manager === undefined ? {} : { managedFields: cordonedBy(manager) }),
  spec: { ...(manager !== undefined && { unschedulable: true }) },
});
const maintenance = (name: string, nodes: Record<string, boolean | undefined>, differs: object = {}) => ({
  metadata: meta(name, { finalizers: [MAINTENANCE_FINALIZER], ...differs }),
  spec: { stage: 'Drain' },
  status: {
    nodeStatuses: Object.entries(nodes).map(([key, unschedulableBefore]) => ({
      nodeRef: { name: key },
      unschedulableBefore,
    })),
  },
});
const lease = (name: string, holderIdentity: string) => ({
  metadata: meta(name, { uid: `lease-${name}`, namespace: 'kube-node-maintenance' }),
  spec: { holderIdentity, leaseDurationSeconds: 900, renewTime: new Date(now).toISOString() },
});

describe('the cordon of a node', () => {
  test.each([
    { when: 'the maintenance has set it', record: false, by: 'node-maintenance', verb: 'uncordon' },
    { when: 'another client has set it since', record: false, by: 'kubectl', verb: 'keep' },
    {
      when: 'the apiserver does not know who has set it',
      record: false,
      by: 'ancient-changes',
      verb: 'uncordon',
    },
    { when: 'it was there before', record: true, by: 'kubectl', verb: 'keep' },
    { when: 'the maintenance only waited for the node', record: undefined, by: 'kubectl', verb: 'keep' },
    { when: 'the record is lost', record: undefined, by: 'node-maintenance', verb: 'uncordon' },
  ])('when $when: $verb', ({ record, by, verb }) => {
    const items = planned({ nodes: [node('a', by)], maintenances: [maintenance('m', { a: record })] });
    expect(items).toContain(`Node a: ${verb}`);
    expect(items.filter((text) => text.startsWith('Node a'))).toHaveLength(1);
  });

  test('stays while another client holds the Lease, who may be working on the node', () => {
    const found = { nodes: [node('a', 'node-maintenance')], maintenances: [maintenance('m', { a: false })] };
    const heldBy = (holder: string) => planned({ ...found, nodeLeases: [lease('a', holder)] });
    expect(heldBy('kubeadm: jane')).toContain('Node a: left');
    expect(heldBy('backup')).toEqual(expect.arrayContaining(['Node a: left', 'Lease a: keep']));
    expect(heldBy(leaseHolderOf(namespace))).toEqual(
      expect.arrayContaining(['Node a: uncordon', 'Lease a: delete']),
    );
  });

  test('of a completed maintenance is that of another client', () => {
    const completed = maintenance('m', { a: false }, { finalizers: [] });
    const found = {
      nodes: [node('a', 'kubectl')],
      maintenances: [{ ...completed, spec: { stage: 'Complete' } }],
    };
    expect(planned(found)).toContain('Node a: keep');
  });
});

describe('Helm', () => {
  const ofHelm = {
    labels: { 'app.kubernetes.io/managed-by': 'Helm' },
    annotations: { 'meta.helm.sh/release-name': 'nm' },
  };
  const installed = [
    {
      kind: 'Deployment',
      metadata: meta('node-maintenance-worker', { namespace, ...ofHelm }),
      spec: { replicas: 2 },
    },
    { kind: 'ClusterRole', metadata: meta('node-maintenance-view', ofHelm) },
    { kind: 'ClusterRoleBinding', metadata: meta('node-maintenance-worker', { uid: 'binding', ...ofHelm }) },
    {
      kind: 'MutatingAdmissionPolicyBinding',
      metadata: meta('daemonset-gate.nodemaintenance.k8s.io', ofHelm),
    },
  ];

  test('removes what it has installed, but for what acts or permits to act', () => {
    expect(planned({ installed })).toEqual([
      'ClusterRoleBinding node-maintenance-worker: delete',
      'Deployment node-maintenance-worker: scale to 0',
      'MutatingAdmissionPolicyBinding daemonset-gate.nodemaintenance.k8s.io: delete',
      'ClusterRole node-maintenance-view: keep',
    ]);
    const [first] = planUninstall(facts({ installed }), plain).filter(({ verb }) => verb === 'keep');
    expect(first?.reason).toBe('Helm removes it: helm uninstall nm');
  });

  test('keeps a Secret that cert-manager would write again', () => {
    const annotations = { 'cert-manager.io/certificate-name': 'node-maintenance-webhook' };
    const secret = { kind: 'Secret', metadata: meta('node-maintenance-webhook', { annotations }) };
    expect(planned({ installed: [secret] })).toEqual(['Secret node-maintenance-webhook: keep']);
  });

  test('keeps the namespace of such a Secret', () => {
    const annotations = { 'cert-manager.io/certificate-name': 'node-maintenance-webhook' };
    const secret = { kind: 'Secret', metadata: meta('node-maintenance-webhook', { annotations }) };
    const labels = { 'app.kubernetes.io/part-of': 'node-maintenance' };
    const ns = { kind: 'Namespace', metadata: meta('ns', { labels }), contents: [secret] };
    expect(planned({ installed: [secret], namespaces: [ns] })).toEqual([
      'Namespace ns: keep',
      'Secret node-maintenance-webhook: keep',
    ]);
  });

  test('is done without if the user asks for it', () => {
    const verbs = planUninstall(facts({ installed }), { ...plain, helmObjects: true }).map(
      ({ verb }) => verb,
    );
    expect(new Set(verbs)).toEqual(new Set(['delete']));
  });
});

describe('a node on which a Job of a window works', () => {
  const job = (differs: object = {}) => ({
    metadata: meta('work-1', {
      namespace: 'node-maintenance-work',
      annotations: { 'nodemaintenance.k8s.io/node': 'n1' },
      ...differs,
    }),
  });
  const nodes = [node('n1', 'node-maintenance')];
  const window = { metadata: meta('os-patch'), spec: {}, status: { active: { runId: 'r' } } };
  const ofWindow = { labels: { 'nodemaintenance.k8s.io/window': 'os-patch' } };

  test('is uncordoned when the Job, and with it its pods, are gone', () => {
    expect(planned({ nodes, jobs: [job()] })).toEqual(['Job work-1: delete', 'Node n1: wait']);
    const deleted = job({ deletionTimestamp: '2026-01-01T12:00:00Z' });
    expect(planned({ nodes, jobs: [deleted] })).toEqual(['Job work-1: wait', 'Node n1: wait']);
    expect(planned({ nodes })).toEqual(['Node n1: uncordon']);
  });

  test('is left to its window, which a worker closes, and is not completed beside it', () => {
    const one = maintenance('os-patch-n1', { n1: false }, ofWindow);
    const asked = (differs: object) =>
      texts(
        planUninstall(facts({ leader: 'w', maintenances: [one], ...differs }), plain).filter(
          ({ phase }) => phase === 'Ask',
        ),
      );
    expect(asked({ windows: [window] })).toEqual(['MaintenanceWindow os-patch: cancel']);
    expect(asked({ windows: [{ ...window, status: {} }] })).toEqual(['NodeMaintenance os-patch-n1: delete']);
  });
});

describe('a namespace', () => {
  const labels = { 'app.kubernetes.io/part-of': 'node-maintenance' };
  const of = (contents: object[], differs: object = { labels }) =>
    planned({ namespaces: [{ kind: 'Namespace', metadata: meta('ns', differs), contents }] });

  test('is deleted with what belongs to the installation', () => {
    expect(of([{ kind: 'Service', metadata: meta('s', { labels }) }])).toEqual(['Namespace ns: delete']);
  });

  test('is deleted with the Leases of agents', () => {
    const agentLease = {
      kind: 'Lease',
      metadata: meta('node-1', { labels: { 'k8s.io/component': 'node-maintenance-agent' } }),
    };
    const namespaces = [{ kind: 'Namespace', metadata: meta('ns', { labels }), contents: [agentLease] }];
    expect(planned({ namespaces, agentLeases: [agentLease] })).toEqual(['Namespace ns: delete']);
    expect(planned({ namespaces, agentLeases: [{ metadata: meta('node-2') }] })).toEqual([
      'Namespace ns: keep',
    ]);
  });

  test('stays if others have something in it, or have created it', () => {
    expect(of([{ kind: 'Secret', metadata: meta('temporal-tls') }])).toEqual(['Namespace ns: keep']);
    expect(of([], {})).toEqual(['Namespace ns: keep']);
  });
});

describe('an Evacuation', () => {
  const evacuation = (differs: object, status: object = {}) => ({
    metadata: meta('e', { namespace: 'shop', ...differs }),
    status,
  });

  test.each([
    { that: 'only we requested', finalizers: [INSTIGATOR_FINALIZER], status: {}, verb: 'delete' },
    {
      that: 'cannot be cancelled',
      finalizers: [INSTIGATOR_FINALIZER],
      status: { evacuationCancellationPolicy: 'Forbid' },
      verb: 'allow cancellation',
    },
    {
      that: 'others requested, too',
      finalizers: ['evacuation.coordination.k8s.io/instigator_b', INSTIGATOR_FINALIZER],
      status: {},
      verb: 'remove finalizer',
    },
    {
      that: 'others requested',
      finalizers: ['evacuation.coordination.k8s.io/instigator_b'],
      status: {},
      verb: 'keep',
    },
    { that: 'a user requested', finalizers: undefined, status: {}, verb: 'keep' },
  ])('that $that: $verb', ({ finalizers, status, verb }) => {
    expect(planned({ evacuations: [evacuation({ finalizers }, status)] })).toEqual([`Evacuation e: ${verb}`]);
  });

  test.each([
    {
      by: 'others',
      finalizers: ['evacuation.coordination.k8s.io/instigator_b'],
      why: 'requested by others: evacuation.coordination.k8s.io/instigator_b',
    },
    { by: 'a user', finalizers: [], why: 'a user has requested it' },
  ])('that was requested by $by stays, and the reason says so', ({ finalizers, why }) => {
    const found = facts({ evacuations: [evacuation({ finalizers })] });
    expect(planUninstall(found, plain)).toMatchObject([{ verb: 'keep', reason: why }]);
    expect(planUninstall(found, whole)).toMatchObject([
      { verb: 'left', reason: `${why}; delete it, and run the command again for the CRDs` },
    ]);
  });

  test('is followed by an EvictionRequest of node maintenance, which is deleted', () => {
    const evictionRequests = [{ metadata: meta('r'), spec: {} }];
    expect(planned({ evictionRequests })).toEqual(['EvictionRequest r: delete']);
  });

  test('of others keeps its CRD', () => {
    const definitions = [
      {
        kind: 'CustomResourceDefinition',
        metadata: meta('evacuations.x'),
        spec: { names: { kind: 'Evacuation' } },
      },
    ];
    const left = planUninstall(facts({ evacuations: [evacuation({})], definitions }), whole);
    expect(texts(left)).toEqual(['Evacuation e: left', 'CustomResourceDefinition evacuations.x: left']);
  });
});

describe('Temporal that does not answer', () => {
  test('is reported with the commands that remove what is there', () => {
    const temporal = {
      kind: 'Unreachable',
      problem: 'no response',
      cluster: 'berlin-1',
      clusterName: 'berlin-1',
    };
    const items = planUninstall(
      facts({ temporal, maintenances: [maintenance('m', {})], windows: [{ metadata: meta('os') }] }),
      plain,
    );
    expect(items.filter(({ phase }) => phase === 'Temporal').map(({ reason }) => reason)).toEqual([
      'temporal schedule delete --schedule-id berlin-1.maintenance-window-os',
      expect.stringMatching(/^no response; run the command again with TEMPORAL_ADDRESS/),
      'temporal workflow terminate --workflow-id berlin-1.node-maintenance-m',
      'temporal workflow terminate --workflow-id node-maintenance.berlin-1',
    ]);
  });
});

describe('an agent', () => {
  const agent = (held: string | undefined, renewedAt: number) => ({
    metadata: meta('a', {
      namespace: 'kube-node-maintenance-agent',
      annotations: held === undefined ? {} : { [IdentityAnnotation.HeldStaticPods]: held },
    }),
    spec: {
      holderIdentity: 'a_1',
      leaseDurationSeconds: 60,
      renewTime: new Date(renewedAt).toISOString(),
    },
  });

  test.each([
    { that: 'holds nothing', lease: agent(undefined, now), want: [] },
    { that: 'says what is no number', lease: agent('many', now), want: [] },
    { that: 'holds manifests', lease: agent('2', now), want: ['NodeAgent a: wait'] },
    { that: 'does not report any more', lease: agent('2', now - 61_000), want: ['NodeAgent a: left'] },
  ])('that $that: $want', ({ lease: found, want }) => {
    expect(planned({ agentLeases: [found] })).toEqual(want);
  });

  test('puts them back before it loses its permissions', () => {
    const binding = {
      kind: 'ClusterRoleBinding',
      metadata: meta('node-maintenance-agent', { uid: 'binding' }),
    };
    expect(planned({ agentLeases: [agent('1', now)], installed: [binding] })).toEqual([
      'NodeAgent a: wait',
      'ClusterRoleBinding node-maintenance-agent: delete',
    ]);
  });
});

describe('a running worker', () => {
  const window = { metadata: meta('os'), status: { active: { runId: 'r1' } } };

  test('is asked to close windows and to complete maintenances, before it is stopped', () => {
    const items = planUninstall(
      facts({ leader: 'w', windows: [window], maintenances: [maintenance('m', {})] }),
      plain,
    );
    expect(texts(items.filter(({ phase }) => phase === 'Ask' || phase === 'Stop'))).toEqual([
      'MaintenanceWindow os: cancel',
      'NodeMaintenance m: delete',
      'Worker w: wait',
    ]);
  });

  test('is asked once', () => {
    const cancelled = { ...window, status: { active: { runId: 'r1', requests: { cancelled: true } } } };
    const annotated = {
      ...window,
      metadata: meta('os', { annotations: { 'nodemaintenance.k8s.io/cancel': 'r1' } }),
    };
    for (const one of [cancelled, annotated])
      expect(planned({ leader: 'w', windows: [one] })).toContain('MaintenanceWindow os: wait');
  });
});

test.each([
  { who: 'its agent', manager: REBOOT_REQUIRED_MANAGER, want: true },
  { who: 'a user', manager: 'kubectl-annotate', want: false },
])('a node needs no reboot any more if $who has said that it does: $want', ({ manager, want }) => {
  const key = RebootAnnotation.Required;
  const managedFields = [{ manager, fieldsV1: { 'f:metadata': { 'f:annotations': { [`f:${key}`]: {} } } } }];
  const asking = { metadata: meta('n', { annotations: { [key]: 'kernel' }, managedFields }), spec: {} };
  const removed = planned({ nodes: [asking] }).filter((item) => item.includes('remove annotation'));
  expect(removed).toHaveLength(want ? 1 : 0);
});

const names = fc.constantFrom('a', 'b', 'c');
const managers = fc.constantFrom(undefined, 'node-maintenance', 'kubectl');
const taint = { key: 'readiness.k8s.io/gates', effect: 'NoSchedule' };
const foreignTaint = { key: 'other', effect: 'NoExecute' };

const someNode = fc
  .record({
    name: names,
    manager: managers,
    tainted: fc.boolean(),
    conditions: fc.boolean(),
    note: fc.boolean(),
    held: fc.constantFrom(undefined, 'karpenter.sh/do-not-disrupt'),
    rebooting: fc.boolean(),
  })
  .map(({ name, manager, tainted, conditions, note, held, rebooting }) => ({
    metadata: meta(name, {
      uid: `node-${name}`,
      annotations: {
        ...(note && { [UNCORDONED_BY_ANNOTATION]: 'jane', mine: 'x' }),
        ...(held && { [held]: 'true', [`${held}-of-another`]: 'true' }),
        ...(rebooting && { [RebootAnnotation.Requested]: 'boot-1', [RebootAnnotation.Started]: 'boot-1' }),
      },
      managedFields: [
        ...(manager === undefined ? [] : cordonedBy(manager)),
        ...(held
          ? [
              {
                manager: 'node-maintenance',
                fieldsV1: { 'f:metadata': { 'f:annotations': { [`f:${held}`]: {} } } },
              },
            ]
          : []),
        ...(conditions
          ? [
              {
                manager: 'node-maintenance-conditions',
                fieldsV1: { 'f:status': { 'f:conditions': { 'k:{"type":"Drained"}': {} } } },
              },
            ]
          : []),
      ],
    }),
    spec: {
      ...(manager !== undefined && { unschedulable: true }),
      taints: tainted ? [foreignTaint, taint] : [foreignTaint],
    },
    status: { conditions: [{ type: 'Drained' }, { type: 'Ready' }] },
  }));
const unique = <T extends { metadata: { name: string } }>(one: fc.Arbitrary<T>) =>
  fc.uniqueArray(one, { selector: ({ metadata }) => metadata.name, maxLength: 3 });
const someMaintenance = fc
  .record({
    name: names,
    stage: fc.constantFrom('Idle', 'Cordon', 'Drain', 'Complete'),
    held: fc.boolean(),
    recorded: fc.uniqueArray(names),
    waiting: fc.uniqueArray(names),
    others: fc.boolean(),
  })
  .map(({ name, stage, held, recorded, waiting, others }) => {
    // Which nodes were cordoned before is one fact: a maintenance that joins others takes it over from them.
    const before = Object.fromEntries([
      ...waiting.map((key) => [key, undefined] as const),
      ...recorded.map((key) => [key, key === 'b'] as const),
    ]);
    const finalizers = [...(others ? ['example.com/x'] : []), ...(held ? [MAINTENANCE_FINALIZER] : [])];
    return { ...maintenance(name, before, { uid: `nm-${name}`, finalizers }), spec: { stage } };
  });
const someWindow = fc
  .record({ name: names, held: fc.boolean(), open: fc.boolean() })
  .map(({ name, held, open }) => ({
    metadata: meta(name, { uid: `mw-${name}`, finalizers: held ? [WINDOW_FINALIZER] : [] }),
    status: open ? { active: { runId: 'r' } } : {},
  }));
const someEvacuation = fc
  .record({ name: names, ours: fc.boolean(), others: fc.boolean(), forbidden: fc.boolean() })
  .map(({ name, ours, others, forbidden }) => ({
    metadata: meta(name, {
      uid: `e-${name}`,
      namespace: 'shop',
      finalizers: [...(others ? ['x'] : []), ...(ours ? [INSTIGATOR_FINALIZER] : [])],
    }),
    status: forbidden ? { evacuationCancellationPolicy: 'Forbid' } : {},
  }));
const release = JSON.stringify({
  deployment: { name: 'd', uid: 'd' },
  replicaSet: { name: 'rs', uid: 'rs' },
  podTemplateHash: 'h',
  releasedAt: '2026-01-01T00:00:00Z',
});
const somePod = fc
  .record({ name: names, gates: fc.boolean(), released: fc.constantFrom(undefined, release, 'nonsense') })
  .map(({ name, gates, released }) => ({
    metadata: meta(name, {
      uid: `p-${name}`,
      namespace: 'shop',
      annotations: released === undefined ? {} : { [RELEASED_ANNOTATION]: released },
    }),
    spec: { schedulingGates: gates ? [{ name: 'mine' }, { name: MAINTENANCE_GATE }] : [{ name: 'mine' }] },
  }));
const someLease = fc
  .record({ name: names, holder: fc.constantFrom('', 'kubeadm', 'other', leaseHolderOf(namespace)) })
  .map(({ name, holder }) => lease(name, holder));

const someFacts = fc.record({
  leader: fc.option(fc.constant('w'), { nil: undefined }),
  nodes: unique(someNode),
  maintenances: unique(someMaintenance),
  windows: unique(someWindow),
  evacuations: unique(someEvacuation),
  pods: unique(somePod),
  nodeLeases: unique(someLease),
});
const someChoices = fc.record({ crds: fc.boolean(), helmObjects: fc.boolean() });

const isPending = ({ action }: UninstallItem) => action.kind !== 'Keep' && action.kind !== 'Blocked';

/** Several items about one object are decided at the same time: those whose tests fail change nothing. */
function attempted(current: UninstallFacts, item: UninstallItem): UninstallFacts {
  try {
    return carriedOut(current, item);
  } catch (error) {
    expect(String(error)).toContain('test of ');
    return current;
  }
}

/** Carries out the phases in order. The worker that is asked does nothing: the command continues without it. */
function uninstalled(start: UninstallFacts, choices: UninstallChoices): UninstallFacts {
  let current = start;
  for (const phase of uninstallPhases)
    for (let pass = 0; pass < 10; pass++) {
      const items = planUninstall(current, choices).filter((item) => item.phase === phase && isPending(item));
      if (items.length === 0) break;
      current = items.reduce(attempted, current);
    }
  return current;
}

describe('for anything that can be found', () => {
  test('it ends, and what is left is named', () => {
    fc.assert(
      fc.property(someFacts, someChoices, (found, choices) => {
        const end = uninstalled(facts(found), choices);
        expect(planUninstall(end, choices).filter(isPending)).toEqual([]);
        const left = new Set(planUninstall(end, choices).map(({ kind, name }) => `${kind} ${name}`));
        for (const { metadata } of end.evacuations) expect(left).toContain(`Evacuation ${metadata.name}`);
        for (const { metadata } of end.maintenances)
          expect(left).toContain(`NodeMaintenance ${metadata.name}`);
        for (const one of end.nodes)
          if (one.spec.unschedulable) expect(left).toContain(`Node ${one.metadata.name}`);
      }),
    );
  });

  test('nothing of ours stays on nodes, pods and objects, and nothing of others is taken', () => {
    fc.assert(
      fc.property(someFacts, someChoices, (found, choices) => {
        const end = uninstalled(facts(found), choices);
        for (const one of end.nodes) {
          expect(one.spec.taints).toEqual([foreignTaint]);
          expect(one.metadata.annotations?.[UNCORDONED_BY_ANNOTATION]).toBeUndefined();
        }
        for (const [index, one] of end.nodes.entries())
          expect(Object.keys(one.metadata.annotations ?? {})).toEqual(
            Object.keys(found.nodes[index]?.metadata['annotations' as never] ?? {}).filter(
              (key) => key === 'mine' || key.endsWith('-of-another'),
            ),
          );
        for (const pod of end.pods) {
          expect(pod.spec.schedulingGates).toEqual([{ name: 'mine' }]);
          expect(pod.metadata.annotations).toEqual({});
        }
        for (const { metadata } of [...end.maintenances, ...end.windows, ...end.evacuations])
          for (const finalizer of [MAINTENANCE_FINALIZER, WINDOW_FINALIZER, INSTIGATOR_FINALIZER])
            expect(metadata.finalizers ?? []).not.toContain(finalizer);
        const foreign = found.evacuations.filter(({ metadata }) =>
          (metadata as { finalizers?: string[] }).finalizers?.includes('x'),
        );
        expect(end.evacuations).toHaveLength(
          foreign.length +
            found.evacuations.filter(
              ({ metadata }) => (metadata as { finalizers?: string[] }).finalizers?.length === 0,
            ).length,
        );
      }),
    );
  });

  test('an interruption changes nothing about the end', () => {
    fc.assert(
      fc.property(someFacts, someChoices, fc.nat({ max: 20 }), (found, choices, count) => {
        const pending = planUninstall(facts(found), choices).filter(isPending);
        const current = pending.slice(0, count).reduce(attempted, facts(found));
        expect(uninstalled(current, choices)).toEqual(uninstalled(facts(found), choices));
      }),
    );
  });
});
