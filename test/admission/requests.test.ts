import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { KubeObject, NodeSelector } from '../../api/core.ts';
import { MAINTENANCE_FINALIZER, REQUESTER_ANNOTATION, TEMPORAL_USER } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { recordOfUser } from '../../domain/common/requester.ts';
import { completeDrainPlan } from '../../domain/drain/plan.ts';
import type { Resource } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { type Answer, type Kubectl, kubectlOf } from '../api/kubectl.ts';
import { entry } from '../api/objects.ts';
import { operatorOf, operatorsDropped, servedAdmission, type TestAdmission } from '../kit/admission.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { gate, ofPool, readinessPolicy } from '../kit/readiness.ts';
import { hasMutatingPolicies, resetRegistration } from '../kit/registration.ts';
import { clusterRoles, deployments } from '../kit/resources.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let kubectl: Kubectl;
let served: TestAdmission;
/** May maintain n1, and no other node. */
let operator: string;
let n1: string;
let n2: string;

beforeAll(async () => {
  sandbox = await testSandbox();
  kubectl = kubectlOf(sandbox);
  c = await testCluster(sandbox, { prefix: 'adm' });
  [n1, n2] = await Promise.all([c.nodeNamed('n'), c.nodeNamed('n')]);
  operator = await operatorOf(c, [n1]);
  served = await servedAdmission(c);
  await eventually('the registration to be in force', async () => {
    expect(await asOperator(['create', '--dry-run=server'], c.maintenance({ nodes: [n2] }))).toMatchObject({
      code: 1,
    });
    expect(await asOperator(['create', '--dry-run=server'], c.maintenance({ nodes: [n1] }))).toMatchObject({
      code: 0,
    });
  });
});

afterAll(async () => {
  // Without policies, finalizers cannot be removed when no server runs any more.
  await c?.maintenancesDropped();
  await served?.stopped();
  await resetRegistration(c.admin);
  await operatorsDropped(c);
  await c?.close();
  await releaseSandbox(sandbox);
});

/** Runs kubectl as the operator; a manifest is passed on standard input. */
function asOperator(args: string[], object?: object): Promise<Answer> {
  return kubectl([...args, '--as', operator, ...(object ? ['-f', '-'] : [])], object);
}

const patched = (name: string, patch: object, as: typeof asOperator = asOperator) =>
  as(['patch', 'nm', name, '--type=merge', '-p', JSON.stringify(patch)]);

const selecting = (...nodes: string[]) => ({
  spec: { nodeSelector: c.maintenance({ nodes }).spec.nodeSelector },
});

/** Creates a maintenance as the administrator. */
const applied = (nodes: string[]): Promise<NodeMaintenance> => c.applied(c.maintenance({ nodes }));

const admissionRole = 'node-maintenance-admission';
interface ClusterRole extends KubeObject {
  rules: { resources: string[] }[];
}

/** Creates a Deployment of one pod that runs on this node only, and not while it is cordoned; resolves with the name of the pod. */
async function pinnedPod(node: string): Promise<string> {
  const labels = { app: c.named('pinned') };
  const spec = {
    nodeSelector: { 'kubernetes.io/hostname': node },
    terminationGracePeriodSeconds: 0,
    containers: [{ name: 'main', image: 'fake' }],
  };
  await c.admin.create<KubeObject>(deployments, {
    metadata: { name: labels.app, namespace: c.namespace },
    spec: { replicas: 1, selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
  } as KubeObject);
  return eventually(`the pod on node ${node}`, () => {
    const [pod] = c.podsOf(node).filter(({ status }) => status.ready);
    expect(pod).toBeDefined();
    return `${c.namespace}/${pod?.metadata.name}`;
  });
}

const denied = (...nodes: string[]) =>
  `denied the request: spec.nodeSelector: user "${operator}" may not delete ${nodes.length > 1 ? 'nodes' : 'node'} ${nodes.map((node) => `"${node}"`).join(', ')}: maintaining a node requires permission to delete it; select other nodes, or request the verb delete on these nodes`;

describe('an operator who may delete one node', () => {
  test('may create, advance and delete its maintenance', async () => {
    const maintenance = c.maintenance({ nodes: [n1] });
    const { name } = maintenance.metadata;
    expect(await asOperator(['create'], maintenance)).toMatchObject({ code: 0 });
    expect(await patched(name, { spec: { stage: 'Cordon' } })).toMatchObject({ code: 0 });
    expect(await asOperator(['delete', 'nm', name])).toMatchObject({ code: 0 });
  });

  test('is denied a maintenance of other nodes, with the field, the node and the remedy', async () => {
    const { code, stderr } = await asOperator(['create'], c.maintenance({ nodes: [n1, n2] }));
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining(denied(n2)) });
    expect(stderr).toContain('(Forbidden)');
  });

  test('learns nothing of other maintenances of a node that it may not maintain', async () => {
    const other = await c.applied(c.maintenance({ nodes: [n2], stage: 'Cordon' }));
    const request = c.maintenance({ nodes: [n2], stage: 'Cordon' });
    const asAdministrator = await kubectl(['create', '--dry-run=server', '-f', '-'], request);
    expect(asAdministrator.stderr).toContain(other.metadata.name);
    const { code, stderr } = await asOperator(['create', '--dry-run=server'], request);
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.not.stringContaining('Warning') });
    expect(stderr).not.toContain(other.metadata.name);
    await c.deleted(other);
  });

  test('is denied a maintenance of a node that is named before it exists', async () => {
    const { stderr } = await asOperator(['create'], c.maintenance({ nodes: [n1, 'rack-9'] }));
    expect(stderr).toContain(denied('rack-9'));
  });

  test('may use the name of the maintenance that the agent of this node creates, and not that of another', async () => {
    const create = (name: string) =>
      asOperator(['create', '--dry-run=server'], c.maintenance({ name, nodes: [n1] }));
    expect(await create(`shutdown-${n1}`)).toMatchObject({ code: 0 });
    expect(await create(`shutdown-${n2}`)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(
        `denied the request: metadata.name: the agent of node "${n2}" uses the name "shutdown-${n2}", and user "${operator}" may not delete this node: choose another name, or request the verb delete on this node`,
      ),
    });
  });

  test('may not change the deadline to one that has passed', async () => {
    const { metadata } = await c.applied(c.maintenance({ nodes: [n1] }));
    const drainDeadline = { at: '2024-01-01T00:00:00Z' };
    expect(await patched(metadata.name, { spec: { drainDeadline } })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('spec.drainDeadline.at: 2024-01-01T00:00:00Z has passed'),
    });
  });

  test('is recorded as the requester, even if a field that is dropped is invalid', async () => {
    const name = c.named('nm');
    const forged = 'user admin (field manager kubectl)';
    const annotations = { 'nodemaintenance.k8s.io/requested-by': forged };
    const object = { ...c.maintenance({ nodes: [n1] }), metadata: { name, annotations }, status: 'x' };
    expect(await asOperator(['create', '--validate=false'], object)).toMatchObject({ code: 0 });
    const recorded = (await c.maintenanceNow(name)).metadata.annotations;
    expect(recorded?.['nodemaintenance.k8s.io/requested-by']).toMatch(new RegExp(`^user ${operator} `));
  });

  test.each<{ what: string; nodes: () => string[]; patch: () => object }>([
    { what: 'the selector to other nodes', nodes: () => [n1], patch: () => selecting(n1, n2) },
    { what: 'the selector from other nodes', nodes: () => [n1, n2], patch: () => selecting(n1) },
    {
      what: 'the stage of a maintenance of other nodes',
      nodes: () => [n2],
      patch: () => ({ spec: { stage: 'Complete' } }),
    },
    {
      what: 'the finalizers, which keep the object until its nodes are uncordoned',
      nodes: () => [n2],
      patch: () => ({ metadata: { finalizers: ['example.com/mine'] } }),
    },
    {
      what: 'the owners, with which the object would be deleted',
      nodes: () => [n2],
      patch: () => ({
        metadata: { ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: n1, uid: 'gone' }] },
      }),
    },
  ])('may not change $what', async ({ nodes, patch }) => {
    const { metadata } = await applied(nodes());
    const { code, stderr } = await patched(metadata.name, patch());
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining(denied(n2)) });
  });

  test('may not remove the finalizers of a maintenance of other nodes', async () => {
    const maintenance = c.maintenance({ nodes: [n2] });
    maintenance.metadata.finalizers = [MAINTENANCE_FINALIZER];
    const { metadata } = await c.applied(maintenance);
    const { stderr } = await patched(metadata.name, { metadata: { finalizers: null } });
    expect(stderr).toContain(denied(n2));
  });

  test('may not complete a maintenance that cordoned other nodes before its selector changed', async () => {
    const maintenance = { ...(await applied([n1])), kind: 'NodeMaintenance' };
    const nodeStatuses = [{ nodeRef: { name: n2 }, unschedulableBefore: false }];
    await c.withStatus(maintenance, { nodeStatuses });
    const { stderr } = await patched(maintenance.metadata.name, { spec: { stage: 'Complete' } });
    expect(stderr).toContain(denied(n2));
  });

  test('may label and annotate a maintenance of other nodes', async () => {
    const { metadata } = await applied([n2]);
    const patch = { metadata: { labels: { team: 'x' }, annotations: { note: 'x' } } };
    expect(await patched(metadata.name, patch)).toMatchObject({ code: 0 });
  });

  test('may not delete a maintenance of other nodes', async () => {
    const { metadata } = await applied([n2]);
    const { code, stderr } = await asOperator(['delete', 'nm', metadata.name]);
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining(denied(n2)) });
    expect(await c.maintenanceNow(metadata.name)).toBeDefined();
  });
});

describe('a kubectl user is warned', () => {
  test('of a selector that matches no node', async () => {
    const { code, stderr } = await kubectl(
      ['create', '-f', '-'],
      c.maintenance({ nodes: { rack: 'nowhere' } }),
    );
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: 'Warning: spec.nodeSelector matches no node: check the names and labels of the nodes\n',
    });
  });

  test('of a selector that matches every node, which is not rejected', async () => {
    const everything = c.maintenance({ nodes: [] });
    everything.spec.nodeSelector = {
      nodeSelectorTerms: [{ matchExpressions: [{ key: 'nowhere', operator: 'DoesNotExist' }] }],
    };
    const { code, stderr } = await kubectl(['create', '-f', '-'], everything);
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: expect.stringMatching(
        /^Warning: spec.nodeSelector matches all \d+ nodes: the cluster may get into a degraded and unrecoverable state\n/,
      ),
    });
  });

  test('of other maintenances of the same nodes, and of a selector that changes in progress', async () => {
    const other = await c.applied(c.maintenance({ nodes: [n1], stage: 'Cordon' }));
    const mine = await c.applied(c.maintenance({ nodes: [n2], stage: 'Cordon' }));
    const { stderr } = await patched(mine.metadata.name, selecting(n1, n2), kubectl);
    expect(stderr).toContain(`matches nodes that other maintenances hold: "${other.metadata.name}"; `);
    expect(stderr).toContain('Warning: spec.nodeSelector changes in stage Cordon: ');
  });

  test('in stage Drain of a pod that fits on no other node, unless the pods cannot be listed', async () => {
    const node = await c.nodeNamed('n');
    const pod = await pinnedPod(node);
    const warning = new RegExp(
      `^Warning: spec.nodeSelector: 1 pod would fit on no other node: ${pod} \\(0/\\d+ nodes are available: .*\\); replacements would be Pending; set spec.requireCapacity to true to let pods wait$`,
    );
    // Other tests may have left nodes of which there are other warnings.
    const created = async (stage: 'Idle' | 'Drain') => {
      const args = ['create', '--dry-run=server', '-f', '-'];
      const { code, stderr } = await kubectl(args, c.maintenance({ nodes: [node], stage }));
      return { code, capacity: stderr.split('\n').filter((line) => line.includes('would fit on no other')) };
    };
    // An earlier list of pods is used for a while.
    await eventually('the warning', async () =>
      expect(await created('Drain')).toEqual({ code: 0, capacity: [expect.stringMatching(warning)] }),
    );
    expect(await created('Idle')).toEqual({ code: 0, capacity: [] });

    const role = await c.admin.get<ClusterRole>(clusterRoles as Resource<ClusterRole>, {
      name: admissionRole,
    });
    const withoutPods = role?.rules.filter(({ resources: [kind] }) => kind !== 'pods');
    await c.admin.mergePatch(clusterRoles, { name: admissionRole }, { rules: withoutPods });
    try {
      await eventually('no warning without the list of pods', async () =>
        expect(await created('Drain')).toEqual({ code: 0, capacity: [] }),
      );
    } finally {
      await c.admin.mergePatch(clusterRoles, { name: admissionRole }, { rules: role?.rules });
    }
  });

  test('not if neither the stage nor the selector changes', async () => {
    const { metadata } = await c.applied(c.maintenance({ nodes: { rack: 'nowhere' } }));
    const { code, stderr } = await patched(metadata.name, { spec: { reason: 'b' } }, kubectl);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });
});

describe('the author of a readiness policy is warned', () => {
  const everyNode: NodeSelector = {
    nodeSelectorTerms: [{ matchExpressions: [{ key: 'no-node-has-this', operator: 'DoesNotExist' }] }],
  };
  const create = (policy: KubeObject) => kubectl(['create', '--dry-run=server', '-f', '-'], policy);
  const gateOf = (name: string, namespace = c.namespace) => gate({ name, namespace });
  const deployment = (app: string, tolerations: object[]) =>
    c.applied({
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: app, namespace: c.namespace },
      spec: {
        replicas: 0,
        selector: { matchLabels: { app } },
        template: {
          metadata: { labels: { app } },
          spec: { tolerations, containers: [{ name: 'main', image: 'fake' }] },
        },
      },
    } as KubeObject);

  test('of every node, of namespaces and pods that do not exist, and of pods that do not tolerate the taint', async () => {
    const [agent, tolerant] = [c.named('agent'), c.named('tolerant')];
    await Promise.all([deployment(agent, []), deployment(tolerant, [{ operator: 'Exists' }])]);
    const gates = [gateOf('cni', 'nowhere'), gateOf('csi'), gateOf(agent), gateOf(tolerant)];
    const { code, stderr } = await create(readinessPolicy(c.named('p'), everyNode, gates));
    expect({ code, warnings: stderr.trim().split('\n') }).toEqual({
      code: 0,
      warnings: [
        expect.stringMatching(
          /^Warning: spec\.nodeSelector matches all \d+ nodes: a gate that never becomes ready keeps new pods off all of them$/,
        ),
        'Warning: spec.readinessGates[0].namespace: namespace nowhere does not exist: gate cni is not ready until such a pod is ready; check the namespace and the labels, or remove the gate',
        `Warning: spec.readinessGates[1].selector: no pod or pod template in namespace ${c.namespace} has app=csi: gate csi is not ready until such a pod is ready; check the namespace and the labels, or remove the gate`,
        `Warning: spec.readinessGates[2]: gate ${agent} is suppressed on nodes that do not have it yet: Deployment ${c.namespace}/${agent}; add the toleration {key: readiness.k8s.io/gates, operator: Exists, effect: NoSchedule}, otherwise these pods cannot start on a node that waits for them`,
      ],
    });
  });

  test('not without a problem, nor if the spec does not change', async () => {
    const app = c.named('lone');
    await c.podOn(n1, { labels: { app } });
    const policy = readinessPolicy(c.named('p'), ofPool(c.named('pool')), [
      { ...gateOf('a', c.namespace), selector: { matchLabels: { app } }, blocksReadiness: false },
    ]);
    expect(await create(policy)).toMatchObject({ code: 0, stderr: '' });
    const nowhere = readinessPolicy(c.named('p'), ofPool(c.named('pool')), [gateOf('cni', 'nowhere')]);
    const { name } = nowhere.metadata;
    try {
      expect((await kubectl(['create', '-f', '-'], nowhere)).stderr).toContain('namespace nowhere');
      expect(await kubectl(['label', 'nrp', name, 'team=x'])).toMatchObject({ code: 0, stderr: '' });
    } finally {
      await kubectl(['delete', 'nrp', name]);
    }
  });
});

test('a plan whose status could not be stored is rejected for every user', async () => {
  // Many nodes and few entries: a long plan would take the apiserver seconds to validate.
  const nodes = await Promise.all(Array.from({ length: 40 }, () => c.silentNodeNamed('many')));
  const values = Array.from({ length: 64 }, (_, i) => `${'x'.repeat(60)}${i}`);
  const drainPlan = Array.from({ length: 12 }, (_, i) =>
    entry('Default', i, {
      matchExpressions: [{ key: 'app', operator: 'In', values }],
      matchLabels: { i: `${i}` },
    }),
  );
  const proposed = c.maintenance({ nodes, drainPlan });
  // The webhook fails open: the request is admitted if the answer exceeds the timeout.
  await eventually('the rejection', async () => {
    const { code, stderr } = await kubectl(['create', '--dry-run=server', '-f', '-'], proposed);
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(
        /spec\.drainPlan: the status of 40 nodes with 15 drain targets each .* use fewer podSelectors/,
      ),
    });
  });
});

describe('while no admission server runs', () => {
  /** Without policies, nobody but the worker changes what needs the record of a requester. */
  const unanswered = {
    code: 1,
    stderr: expect.stringContaining('failed calling webhook "requester.nodemaintenance.k8s.io"'),
  };
  let hasPolicies: boolean;

  beforeAll(async () => {
    hasPolicies = await hasMutatingPolicies(c.admin);
    await served.stopped();
  });

  test('an operator of some nodes is denied, with the reason', async () => {
    const { code, stderr } = await asOperator(['create'], c.maintenance({ nodes: [n1] }));
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(
        /failed calling webhook "(authorization|requester)\.nodemaintenance\.k8s\.io".*connection refused/,
      ),
    });
  });

  test('an administrator and the worker are not affected, and the plan is completed', async () => {
    const maintenance = c.maintenance({ nodes: [n1], drainPlan: [entry('Default', 1000)] });
    if (hasPolicies) {
      const byAdmin = await c.applied(maintenance);
      expect(byAdmin.spec.drainPlan).toEqual(completeDrainPlan([entry('Default', 1000)]));
      expect((await kubectl(['delete', 'nm', byAdmin.metadata.name])).code).toBe(0);
    } else expect(await kubectl(['create', '-f', '-'], maintenance)).toMatchObject(unanswered);
    const { KUBECONFIG: _, ...rest } = sandbox.env;
    const worker = kubectlOf({ ...sandbox, env: { ...rest, KUBECONFIG: sandbox.workerKubeconfig } });
    const byWorker = c.maintenance({ nodes: [n1] });
    byWorker.metadata.annotations = { [REQUESTER_ANNOTATION]: recordOfUser(TEMPORAL_USER) };
    expect(await worker(['create', '-f', '-'], byWorker)).toMatchObject({ code: 0 });
  });

  test('readiness policies are admitted without warnings', async () => {
    const nowhere = gate({ name: 'cni', namespace: 'nowhere' });
    const policy = readinessPolicy(c.named('p'), ofPool(c.named('pool')), [nowhere]);
    const { code, stderr } = await kubectl(['create', '--dry-run=server', '-f', '-'], policy);
    if (hasPolicies) expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    else expect({ code, stderr }).toMatchObject(unanswered);
  });

  test('the rules of the CRD hold', async () => {
    const drainPlan = [entry('Default', 2), entry('Default', 1)];
    const { KUBECONFIG: _, ...rest } = sandbox.env;
    const worker = kubectlOf({ ...sandbox, env: { ...rest, KUBECONFIG: sandbox.workerKubeconfig } });
    const invalid = c.maintenance({ nodes: [n1], drainPlan });
    invalid.metadata.annotations = { [REQUESTER_ANNOTATION]: recordOfUser(TEMPORAL_USER) };
    const { stderr } = await worker(['create', '-f', '-'], invalid);
    expect(stderr).toContain('drainPlan must list the entries of podType Default in ascending order');
  });

  test('the requests of the operator are admitted again when a server runs again', async () => {
    served = await servedAdmission(c);
    await eventually('the server to be reachable', async () => {
      expect(await asOperator(['create', '--dry-run=server'], c.maintenance({ nodes: [n1] }))).toMatchObject({
        code: 0,
      });
    });
  });
});
