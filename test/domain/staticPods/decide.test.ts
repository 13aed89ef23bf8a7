import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Node } from '../../../api/core.ts';
import type { Evacuation } from '../../../api/evacuation.ts';
import type { DrainPlanEntry, NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import {
  controlPlaneOf,
  decideStaticPods,
  decideWithoutNode,
  type StaticPodDecision,
  type StaticPodFacts,
} from '../../../domain/staticPods/decide.ts';
import { type HeldManifest, type Manifest, manifestOf, podKey } from '../../../domain/staticPods/manifest.ts';

const node: Node = { metadata: { name: 'node-1', labels: { rack: 'r1' } }, spec: {} };

const manifest = (name: string, differs: Partial<Manifest> = {}): Manifest => ({
  file: `${name}.yaml`,
  name,
  namespace: 'kube-system',
  labels: {},
  annotations: {},
  priority: 0,
  gracePeriodSeconds: 30,
  ...differs,
});
const held = (one: Manifest): HeldManifest => ({ file: one.file, manifest: one });

const upTo = (podPriority: number): DrainPlanEntry => ({ podType: 'Static', podPriority });
const everyStaticPod = [upTo(2_147_483_647)];

interface MaintenanceDiffers {
  name?: string;
  stage?: NodeMaintenance['spec']['stage'];
  targets?: DrainPlanEntry[];
  node?: string;
  reason?: string;
  metadata?: Partial<NodeMaintenance['metadata']>;
}

const maintenance = ({
  name = 'rack-7',
  stage = 'Drain',
  targets = everyStaticPod,
  node: selected = 'node-1',
  reason = 'OS upgrade',
  metadata = {},
}: MaintenanceDiffers = {}): NodeMaintenance =>
  ({
    metadata: { name, ...metadata },
    spec: {
      stage,
      reason,
      nodeSelector: {
        nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: [selected] }] }],
      },
    },
    status: {
      nodeStatuses: [
        {
          nodeRef: { name: 'node-1' },
          drainTargets: targets,
          drainMessage: '',
          podsPendingEvacuation: 0,
          podsEvacuating: 0,
        },
      ],
    },
  }) as unknown as NodeMaintenance;

const evacuation = (
  one: Pick<Manifest, 'name' | 'namespace'>,
  status: Partial<Evacuation['status']> = { activeEvacuatorClass: 'kubelet.k8s.io' },
  metadata: Partial<Evacuation['metadata']> = {},
): Evacuation =>
  ({
    metadata: { name: `uid-${one.name}`, namespace: one.namespace, ...metadata },
    spec: { podRef: { name: `${one.name}-node-1`, uid: 'uid' }, progressDeadlineSeconds: 1800 },
    status,
  }) as Evacuation;

const decide = (facts: Partial<StaticPodFacts>): StaticPodDecision =>
  decideStaticPods({
    node,
    present: [],
    held: [],
    evacuations: [],
    maintenances: [],
    exempt: new Set(),
    ...facts,
  });

const web = manifest('web');
const files = (ones: readonly { file: string }[]) => ones.map(({ file }) => file);
const heldFiles = ({ hold }: StaticPodDecision) => files(hold.map((one) => one.manifest));

describe('a manifest in the folder of the kubelet', () => {
  const requested = { evacuations: [evacuation(web)], maintenances: [maintenance()] };

  test.each<{ when: string; facts: Partial<StaticPodFacts>; hold: boolean }>([
    { when: 'its Evacuation is assigned and its node drained: held', facts: requested, hold: true },
    { when: 'no Evacuation asks for it: left', facts: { ...requested, evacuations: [] }, hold: false },
    { when: 'no maintenance selects the node: left', facts: { ...requested, maintenances: [] }, hold: false },
    {
      when: 'the maintenance only cordons: left',
      facts: { ...requested, maintenances: [maintenance({ stage: 'Cordon' })] },
      hold: false,
    },
    {
      when: 'another node is drained: left',
      facts: { ...requested, maintenances: [maintenance({ node: 'node-2' })] },
      hold: false,
    },
    {
      when: 'the drain targets contain no static pods yet: left',
      facts: { ...requested, maintenances: [maintenance({ targets: [] })] },
      hold: false,
    },
    {
      when: 'another evacuator is active: left',
      facts: {
        ...requested,
        evacuations: [evacuation(web, { activeEvacuatorClass: 'migrate.example.com' })],
      },
      hold: false,
    },
    {
      when: 'the Evacuation is withdrawn: left',
      facts: {
        ...requested,
        evacuations: [evacuation(web, undefined, { deletionTimestamp: '2026-01-01T00:00:00Z' })],
      },
      hold: false,
    },
    {
      when: 'the Evacuation is for a pod of another namespace: left',
      facts: { ...requested, evacuations: [evacuation({ name: 'web', namespace: 'default' })] },
      hold: false,
    },
    {
      when: 'the Evacuation is for the pod of another node: left',
      facts: {
        ...requested,
        evacuations: [
          {
            ...evacuation(web),
            spec: { podRef: { name: 'web-node-2', uid: '' }, progressDeadlineSeconds: 1 },
          },
        ],
      },
      hold: false,
    },
    {
      when: 'its priority equals the drain target: held',
      facts: {
        present: [manifest('web', { priority: 7000 })],
        evacuations: requested.evacuations,
        maintenances: [maintenance({ targets: [upTo(7000)] })],
      },
      hold: true,
    },
    {
      when: 'its priority is greater than the drain target: left',
      facts: {
        present: [manifest('web', { priority: 7001 })],
        evacuations: requested.evacuations,
        maintenances: [maintenance({ targets: [upTo(7000)] })],
      },
      hold: false,
    },
    {
      when: 'its priority is known to the apiserver alone: held with the first static pods',
      facts: {
        present: [manifest('web', { priority: undefined })],
        evacuations: requested.evacuations,
        maintenances: [maintenance({ targets: [upTo(-5)] })],
      },
      hold: true,
    },
    {
      when: 'it was put back in an outage: left until the drain ends',
      facts: { ...requested, exempt: new Set([podKey(web)]) },
      hold: false,
    },
    {
      when: 'a manifest of this file is held already: held, too, without another Evacuation',
      facts: { held: [held(web)], maintenances: requested.maintenances },
      hold: true,
    },
    {
      when: 'a manifest of this pod is held already, from another file: held, too',
      facts: { held: [held(manifest('web', { file: 'old.yaml' }))], maintenances: requested.maintenances },
      hold: true,
    },
  ])('$when', ({ facts, hold }) => {
    const decision = decide({ present: [web], ...facts });
    expect(heldFiles(decision)).toEqual(hold ? ['web.yaml'] : []);
  });
});

describe('a static pod of the control plane', () => {
  const consent = { 'nodemaintenance.k8s.io/evacuate-control-plane': 'true' };
  const facts = (one: Manifest) => ({
    present: [one],
    evacuations: [evacuation(one)],
    maintenances: [maintenance()],
  });

  test.each<{ name?: string; labels?: Record<string, string> }>([
    { labels: { tier: 'control-plane' } },
    { labels: { component: 'etcd' } },
    { labels: { component: 'kube-apiserver' } },
    { labels: { component: 'kube-controller-manager' } },
    { labels: { component: 'kube-scheduler' } },
    { labels: { 'k8s-app': 'kube-apiserver' } },
    { labels: { 'k8s-app': 'etcd-manager-main' } },
    { labels: { 'k8s-app': 'kube-nginx' } },
    { name: 'etcd-manager-events' },
    { name: 'nginx-proxy' },
  ])('needs consent: $name $labels', ({ name = 'pod', labels = {} }) => {
    const etcd = manifest(name, { labels });
    const decision = decide(facts(etcd));
    expect(decision.hold).toEqual([]);
    expect(decision.reports).toMatchObject([
      {
        kind: 'Left',
        reason: 'NeedsConsent',
        message: expect.stringContaining('evacuate-control-plane: "true"'),
      },
    ]);
    expect(heldFiles(decide(facts({ ...etcd, annotations: consent })))).toEqual([`${name}.yaml`]);
  });

  test('is put back in an outage, and no other', () => {
    const etcd = manifest('store', { labels: { component: 'etcd' } });
    const proxy = manifest('nginx-proxy');
    const broken: HeldManifest = { file: 'broken.yaml', manifest: undefined };
    expect(files(controlPlaneOf([held(web), held(etcd), held(proxy), broken]))).toEqual([
      'store.yaml',
      'nginx-proxy.yaml',
    ]);
  });
});

test('the agent does not stop itself', () => {
  const agent = manifest('agent', { labels: { 'app.kubernetes.io/name': 'node-maintenance-agent' } });
  const decision = decide({
    present: [agent],
    evacuations: [evacuation(agent)],
    maintenances: [maintenance()],
  });
  expect(decision).toMatchObject({ hold: [], reports: [{ kind: 'Left', reason: 'Agent' }] });
});

describe('a held manifest', () => {
  test.each<{ when: string; facts: Partial<StaticPodFacts>; want: 'held' | 'put back' | 'set aside' }>([
    { when: 'the drain continues: stays held', facts: { maintenances: [maintenance()] }, want: 'held' },
    {
      when: 'another maintenance drains the node, and has no static pods as targets: stays held',
      facts: { maintenances: [maintenance({ targets: [] })] },
      want: 'held',
    },
    { when: 'no maintenance is left: put back', facts: {}, want: 'put back' },
    {
      when: 'the maintenance is complete: put back',
      facts: { maintenances: [maintenance({ stage: 'Complete' })] },
      want: 'put back',
    },
    {
      when: 'another maintenance only cordons: put back',
      facts: { maintenances: [maintenance({ stage: 'Cordon' })] },
      want: 'put back',
    },
    {
      when: 'the maintenance is being deleted, which completes it: put back',
      facts: {
        maintenances: [maintenance({ metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } })],
      },
      want: 'put back',
    },
    {
      when: 'the folder has a newer file of its name: set aside',
      facts: { present: [manifest('other', { file: 'web.yaml' })] },
      want: 'set aside',
    },
    {
      when: 'the folder has a newer file of the same pod: set aside',
      facts: { present: [manifest('web', { file: 'new.yaml' })] },
      want: 'set aside',
    },
  ])('$when', ({ facts, want }) => {
    const { putBack, setAside } = decide({ held: [held(web)], ...facts });
    expect({ putBack: files(putBack), setAside: files(setAside) }).toEqual({
      putBack: want === 'put back' ? ['web.yaml'] : [],
      setAside: want === 'set aside' ? ['web.yaml'] : [],
    });
  });

  test('is put back even if it contains no pod', () => {
    const { putBack } = decide({ held: [{ file: 'notes.yaml', manifest: undefined }] });
    expect(files(putBack)).toEqual(['notes.yaml']);
  });
});

describe('the Evacuation says', () => {
  test('what the KEP says while the pod terminates', () => {
    const critical = manifest('critical-static-workload');
    const decision = decide({
      present: [critical],
      evacuations: [evacuation(critical)],
      maintenances: [maintenance()],
    });
    expect(decision.reports).toMatchObject([
      {
        kind: 'Terminating',
        message: 'critical-static-workload is terminating the pod due to node maintenance (OS upgrade).',
      },
    ]);
  });

  test('the same after the manifest was held', () => {
    const facts = { evacuations: [evacuation(web)], maintenances: [maintenance()] };
    const [before] = decide({ ...facts, present: [web] }).reports;
    const [after] = decide({ ...facts, held: [held(web)] }).reports;
    expect(after).toEqual(before);
  });

  test('that its priority is not included', () => {
    const { reports } = decide({
      present: [manifest('web', { priority: 8000 })],
      evacuations: [evacuation(web)],
      maintenances: [maintenance({ targets: [upTo(7000)] })],
    });
    expect(reports).toMatchObject([{ kind: 'Left', reason: 'NotTargeted' }]);
  });

  test('that there is no manifest', () => {
    const { reports } = decide({ evacuations: [evacuation(web)], maintenances: [maintenance()] });
    expect(reports).toMatchObject([{ kind: 'Left', reason: 'NoManifest' }]);
  });

  test('nothing if it is complete', () => {
    const status = { activeEvacuatorClass: 'kubelet.k8s.io', activeEvacuatorCompleted: true };
    expect(decide({ held: [held(web)], evacuations: [evacuation(web, status)] }).reports).toEqual([]);
  });
});

describe('whatever the folders contain', () => {
  const names = fc.constantFrom('a', 'b', 'c');
  const arbitraryManifest = fc
    .record({
      name: names,
      file: names.map((name) => `${name}.yaml`),
      priority: fc.constantFrom(0, 7000, 9000, undefined),
      labels: fc.constantFrom<Record<string, string>>(
        {},
        { component: 'etcd' },
        { 'app.kubernetes.io/name': 'node-maintenance-agent' },
      ),
      annotations: fc.constantFrom<Record<string, string>>(
        {},
        { 'nodemaintenance.k8s.io/evacuate-control-plane': 'true' },
      ),
      gracePeriodSeconds: fc.constant(30),
    })
    .map((one): Manifest => ({ ...one, namespace: 'default' }));
  const byFile = { selector: ({ file }: { file: string }) => file, maxLength: 3 };
  const arbitraryFacts = fc.record({
    node: fc.constant(node),
    present: fc.uniqueArray(arbitraryManifest, byFile),
    held: fc.uniqueArray(
      fc.oneof(
        arbitraryManifest.map(held),
        names.map((name): HeldManifest => ({ file: `${name}.yaml`, manifest: undefined })),
      ),
      byFile,
    ),
    evacuations: fc.uniqueArray(
      names.map((name) => evacuation({ name, namespace: 'default' })),
      { selector: ({ metadata }) => metadata.name },
    ),
    maintenances: fc.uniqueArray(
      fc
        .record({
          name: fc.constantFrom('m1', 'm2'),
          stage: fc.constantFrom('Cordon' as const, 'Drain' as const, 'Complete' as const),
          targets: fc.constantFrom([], [upTo(7000)], everyStaticPod),
        })
        .map(maintenance),
      { selector: ({ metadata }) => metadata.name },
    ),
    exempt: fc.subarray(['default/a', 'default/b']).map((keys) => new Set(keys)),
  });

  /** Does what the agent does with the files. A file is identified by its manifest. */
  function done(facts: StaticPodFacts, { setAside, hold, putBack }: StaticPodDecision) {
    const isIn = (list: readonly { file: string }[]) => (one: { file: string }) =>
      list.some(({ file }) => file === one.file);
    const moved = hold.map((one) => one.manifest);
    return {
      present: [
        ...facts.present.filter((one) => !moved.includes(one)),
        ...putBack.map(({ file, manifest: content }) => content ?? { ...web, file }),
      ],
      held: [...facts.held.filter((one) => !isIn(setAside)(one) && !isIn(putBack)(one)), ...moved.map(held)],
      aside: setAside,
    };
  }

  test('no file is lost, none replaces another, and no pod is both held and put back', () => {
    fc.assert(
      fc.property(arbitraryFacts, (facts) => {
        const after = done(facts, decideStaticPods(facts));
        const count = (lists: readonly (readonly unknown[])[]) => lists.flat().length;
        expect(count([after.present, after.held, after.aside])).toBe(count([facts.present, facts.held]));
        for (const list of [after.present, after.held]) expect(new Set(files(list)).size).toBe(list.length);
        const heldNames = new Set([
          ...files(after.held),
          ...after.held.flatMap((one) => (one.manifest ? [podKey(one.manifest)] : [])),
        ]);
        const presentNames = after.present.flatMap((one) => [one.file, podKey(one)]);
        const isBoth = presentNames.filter((name) => heldNames.has(name));
        // Two files of the user with the same pod are broken before the agent acts.
        const keys = facts.present.map(podKey);
        if (new Set(keys).size === keys.length) expect(isBoth).toEqual([]);
      }),
    );
  });

  test('everything is put back, or set aside, when the Node was deleted', () => {
    fc.assert(
      fc.property(arbitraryFacts, (facts) => {
        const decision = decideWithoutNode(facts);
        expect(decision).toMatchObject({ hold: [], reports: [], isDraining: false });
        expect(done(facts, decision).held).toEqual([]);
      }),
    );
  });

  test('nothing is held unless a maintenance drains the node', () => {
    fc.assert(
      fc.property(arbitraryFacts, (facts) => {
        const decision = decideStaticPods(facts);
        const isDraining = facts.maintenances.some(({ spec }) => spec.stage === 'Drain');
        expect(decision.isDraining).toBe(isDraining);
        if (!isDraining) expect(done(facts, decision).held).toEqual([]);
        else expect(decision.putBack).toEqual([]);
      }),
    );
  });

  test('the order of the facts does not matter', () => {
    const reversed = <T>(list: readonly T[]) => list.toReversed();
    fc.assert(
      fc.property(arbitraryFacts, (facts) => {
        const { present, held: before, evacuations, maintenances } = facts;
        const other = {
          ...facts,
          present: reversed(present),
          held: reversed(before),
          evacuations: reversed(evacuations),
          maintenances: reversed(maintenances),
        };
        const decision = decideStaticPods(facts);
        const sorted = { ...decision, setAside: files(decision.setAside).toSorted() };
        const again = decideStaticPods(other);
        expect({ ...again, setAside: files(again.setAside).toSorted() }).toEqual(sorted);
      }),
    );
  });

  test('deciding again after it was done moves nothing', () => {
    fc.assert(
      fc.property(arbitraryFacts, (facts) => {
        const keys = facts.present.map(podKey);
        fc.pre(new Set(keys).size === keys.length);
        const after = done(facts, decideStaticPods(facts));
        const again = decideStaticPods({ ...facts, ...after });
        expect(again).toMatchObject({ setAside: [], hold: [], putBack: [] });
      }),
    );
  });
});

describe('a manifest', () => {
  test.each<{ when: string; content: unknown; want: Partial<Manifest> | undefined }>([
    {
      when: 'names its pod',
      content: { kind: 'Pod', metadata: { name: 'web' }, spec: {} },
      want: { name: 'web', namespace: 'default', priority: undefined, gracePeriodSeconds: 30 },
    },
    {
      when: 'has a class that every cluster has',
      content: {
        kind: 'Pod',
        metadata: { name: 'etcd' },
        spec: { priorityClassName: 'system-node-critical' },
      },
      want: { priority: 2_000_001_000 },
    },
    {
      when: 'has a grace period and a namespace',
      content: {
        kind: 'Pod',
        metadata: { name: 'etcd', namespace: 'kube-system' },
        spec: { terminationGracePeriodSeconds: 5, priority: 7 },
      },
      want: { namespace: 'kube-system', gracePeriodSeconds: 5, priority: 7 },
    },
    ...[
      { grace: -1, want: 0 },
      { grace: 1e308, want: 2_147_483_647 },
      { grace: Number.POSITIVE_INFINITY, want: 30 },
    ].map(({ grace, want }) => ({
      when: `has a grace period of ${grace}`,
      content: { kind: 'Pod', metadata: { name: 'web' }, spec: { terminationGracePeriodSeconds: grace } },
      want: { gracePeriodSeconds: want },
    })),
    { when: 'is of another kind', content: { kind: 'Service', metadata: { name: 'web' } }, want: undefined },
    { when: 'has no name', content: { kind: 'Pod', metadata: {} }, want: undefined },
    { when: 'is no map', content: 'text', want: undefined },
    { when: 'is empty', content: null, want: undefined },
  ])('$when', ({ content, want }) => {
    const found = manifestOf('web.yaml', content);
    if (want === undefined) expect(found).toBeUndefined();
    else expect(found).toMatchObject(want);
  });

  test('is read without failing, whatever it contains', () => {
    fc.assert(fc.property(fc.anything(), (content) => void manifestOf('x', content)));
  });
});
