import fc from 'fast-check';
import type { KubeObject, NodeSelector } from '../../api/core.ts';
import { NODE_EXISTS_LABEL, NODE_READINESS } from '../../api/names.ts';
import { selectsNode } from '../../domain/common/nodeSelector.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { gate, ofPool, ReadinessPolicies, readinessPolicy } from '../kit/readiness.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { type Kubectl, kubectlOf, succeeds } from './kubectl.ts';

let sandbox: Sandbox;
let c: TestCluster;
let policies: ReadinessPolicies;
let kubectl: Kubectl;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'gates' });
  policies = new ReadinessPolicies(c.admin);
  kubectl = kubectlOf(sandbox);
});

afterEach(() => policies.allDropped());

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

const cni = gate({ name: 'cni', namespace: 'kube-system' });
const sentinel = { sentinel: 'yes' };
const orSentinel = ({ nodeSelectorTerms }: NodeSelector): NodeSelector => ({
  nodeSelectorTerms: [
    ...nodeSelectorTerms,
    { matchExpressions: [{ key: 'sentinel', operator: 'In', values: ['yes'] }] },
  ],
});
const node = (name: string, labels: Record<string, string> = {}, taints: object[] = []): KubeObject =>
  ({ metadata: { name, labels }, spec: { taints } }) as KubeObject;

describe('a new node is given the taint', () => {
  test('in addition to the taints that its kubelet registers, once', async () => {
    const pool = c.named('pool');
    for (const name of [c.named('nrp'), c.named('nrp')])
      await policies.applied(readinessPolicy(name, ofPool(pool), [cni]), { pool });
    const own = { key: 'example.com/own', effect: 'NoExecute', value: 'x' };
    const already = { key: 'readiness.k8s.io/gates', effect: 'NoSchedule' };
    const taints = await policies.taintsOf([node('a', { pool }, [own]), node('b', { pool }, [already])]);
    expect(taints.map((keys) => keys.filter((key) => !key.startsWith('node.kubernetes.io')))).toEqual([
      ['example.com/own', 'readiness.k8s.io/gates'],
      ['readiness.k8s.io/gates'],
    ]);
  });

  test('by the gates of a NodeReadiness that was created before, unless it is labelled as that of another node', async () => {
    const { apiVersion, kind } = NODE_READINESS;
    const [reserved, labelled] = [c.named('reserved'), c.named('labelled')];
    const create = (name: string, labels: Record<string, string>) => {
      const object = { apiVersion, kind, metadata: { name, labels }, spec: { readinessGates: [cni] } };
      return c.admin.apply(resources.nodeReadinesses, object, { fieldManager: 'provider' });
    };
    await create(labelled, { [NODE_EXISTS_LABEL]: 'true' });
    await create(reserved, {});
    // An admission server in place of the policy evaluates all of them.
    const isWebhook = process.env['NM_TEST_MUTATING_WEBHOOKS'] === 'true';
    await eventually('the reservation to count', async () =>
      expect(await policies.taintedOf([node(reserved), node(labelled)])).toEqual([true, isWebhook]),
    );
    for (const name of [reserved, labelled]) {
      const { uid = '' } = (await c.admin.get(resources.nodeReadinesses, { name }))?.metadata ?? {};
      await c.admin.delete(resources.nodeReadinesses, { name }, { uid });
    }
  });

  test('but not by a policy without a blocking gate, nor when no policy selects it', async () => {
    const [pool, other] = [c.named('pool'), c.named('pool')];
    const open = gate({ name: 'logs', namespace: 'kube-system', blocksReadiness: false });
    await c.admin.apply(
      resources.nodeReadinessPolicies,
      readinessPolicy(c.named('nrp'), ofPool(pool), [open]),
      { fieldManager: 'kubectl' },
    );
    await policies.applied(readinessPolicy(c.named('nrp'), ofPool(other), [cni]), { pool: other });
    expect(await policies.taintedOf([node('a', { pool }), node('b')])).toEqual([false, false]);
  });

  test('when a suppressed gate was edited and not checked again yet', async () => {
    const pool = c.named('pool');
    const eventuallyTainted = (want: boolean) =>
      eventually(`a new node ${want ? 'to be tainted' : 'not to be tainted'}`, async () =>
        expect(await policies.taintedOf([node('a', { pool })])).toEqual([want]),
      );
    const { metadata } = await policies.applied(readinessPolicy(c.named('nrp'), ofPool(pool), [cni]), {
      pool,
    });
    const { name, generation } = metadata;
    const status = { observedGeneration: generation, suppressedGates: ['cni'] };
    await c.admin.mergePatch(
      resources.nodeReadinessPolicies,
      { name },
      { status },
      { subresource: 'status' },
    );
    await eventuallyTainted(false);
    const edited = gate({ name: 'cni', app: 'another', namespace: 'kube-system' });
    await c.admin.mergePatch(
      resources.nodeReadinessPolicies,
      { name },
      { spec: { readinessGates: [edited] } },
    );
    await eventuallyTainted(true);
  });

  test('by name, as one of five thousand', async () => {
    const terms = Array.from({ length: 4_999 }, (_, i) => ({
      matchFields: [{ key: 'metadata.name', operator: 'In' as const, values: [`n-${i}`] }],
    }));
    const selector = orSentinel({ nodeSelectorTerms: terms });
    await policies.applied(readinessPolicy(c.named('nrp'), selector, [cni]), sentinel);
    expect(await policies.taintedOf([node('n-0'), node('n-4998'), node('n-4999')])).toEqual([
      true,
      true,
      false,
    ]);
  });

  test('by the most requirements of the highest cost that a policy may have', async () => {
    const wanted = Array.from({ length: 12 }, (_, i) => (i < 11 ? '1' : '900000000000000000'));
    const matchExpressions = wanted.map((value) => ({
      key: 'number',
      operator: 'Gt' as const,
      values: [value],
    }));
    const terms = Array.from({ length: 99 }, () => ({ matchExpressions }));
    const selector = orSentinel({ nodeSelectorTerms: terms });
    await policies.applied(readinessPolicy(c.named('nrp'), selector, [cni]), sentinel);
    const number = '800000000000000000';
    expect(await policies.taintedOf([node('a', { number }), node('b', { number, ...sentinel })])).toEqual([
      false,
      true,
    ]);
  });

  const requirement = fc.oneof(
    fc.record({
      key: fc.constantFrom('a', 'b'),
      operator: fc.constantFrom('In' as const, 'NotIn' as const),
      values: fc.subarray(['1', '12', 'x', ''], { minLength: 1 }),
    }),
    fc.record({
      key: fc.constantFrom('a', 'b'),
      operator: fc.constantFrom('Exists' as const, 'DoesNotExist' as const),
    }),
    fc.record({
      key: fc.constantFrom('a', 'b'),
      operator: fc.constantFrom('Gt' as const, 'Lt' as const),
      values: fc.constantFrom<string[]>(['-1'], ['3'], ['12']),
    }),
  );
  const field = fc.record({
    key: fc.constant('metadata.name'),
    operator: fc.constantFrom('In' as const, 'NotIn' as const),
    values: fc.constantFrom<string[]>(['n-0'], ['n-1']),
  });
  const term = fc.record(
    {
      matchExpressions: fc.array(requirement, { maxLength: 2 }),
      matchFields: fc.array(field, { maxLength: 1 }),
    },
    { requiredKeys: [] },
  );
  const labels = fc.dictionary(fc.constantFrom('a', 'b'), fc.constantFrom('1', '12', '007', 'x', ''), {
    maxKeys: 2,
  });

  test('if and only if selectsNode matches it', async () => {
    const example = fc.record({
      selector: fc.record({ nodeSelectorTerms: fc.array(term, { minLength: 1, maxLength: 3 }) }),
      labelled: fc.array(labels, { minLength: 30, maxLength: 30 }),
    });
    const name = c.named('nrp');
    await fc.assert(
      fc.asyncProperty(example, async ({ selector, labelled }) => {
        // A label of its own distinguishes this selector from the previous one.
        const pool = c.named('pool');
        const own = { nodeSelectorTerms: [...selector.nodeSelectorTerms, ...ofPool(pool).nodeSelectorTerms] };
        await policies.applied(readinessPolicy(name, own, [cni]), { pool });
        const nodes = labelled.map((one, i) => node(`n-${i}`, one));
        await eventually('the apiserver to agree', async () =>
          expect(await policies.taintedOf(nodes)).toEqual(nodes.map((one) => selectsNode(selector, one))),
        );
      }),
      { numRuns: 12, endOnFailure: true },
    );
  });
});

describe('an invalid object is rejected with a remedy', () => {
  const { apiVersion, kind } = NODE_READINESS;
  const readiness = (...readinessGates: object[]) => ({
    apiVersion,
    kind,
    metadata: { name: 'n' },
    spec: { readinessGates },
  });
  test.each([
    {
      when: 'a selector is empty',
      object: readiness({ ...cni, selector: {} }),
      message:
        'an empty selector would select every pod of the namespace; set the labels of the pods that the node needs',
    },
    {
      when: 'a selector has empty parts',
      object: readiness({ ...cni, selector: { matchLabels: {}, matchExpressions: [] } }),
      message: 'an empty selector would select every pod',
    },
    { when: 'two gates have one name', object: readiness(cni, cni), message: 'Duplicate value' },
    {
      when: 'a namespace is missing',
      object: readiness({ name: 'a', selector: { matchLabels: { a: 'b' } } }),
      message: 'namespace: Required value',
    },
    {
      when: 'two gates of a policy have one name',
      object: readinessPolicy('p', ofPool('x'), [cni, gate({ name: 'csi', namespace: 'a' }), cni]),
      message: 'spec.readinessGates[2]: Duplicate value: {"name":"cni"}',
    },
    {
      when: 'a selector of a policy is empty',
      object: readinessPolicy('p', ofPool('x'), [
        cni,
        { ...gate({ name: 'csi', namespace: 'a' }), selector: {} },
      ]),
      message:
        'spec.readinessGates[1].selector: Invalid value: selector: an empty selector would select every pod of the namespace',
    },
    {
      when: 'a policy has more gates than a node may have',
      object: readinessPolicy(
        'p',
        ofPool('x'),
        Array.from({ length: 33 }, (_, i) => gate({ name: `g-${i}`, namespace: 'a' })),
      ),
      message: 'spec.readinessGates: Too many: 33: must have at most 32 items',
    },
    {
      when: 'a policy has more requirements than the apiserver can evaluate for each new node',
      object: readinessPolicy(
        'p',
        {
          nodeSelectorTerms: Array.from({ length: 1_001 }, () => ({
            matchExpressions: Array.from({ length: 10 }, () => ({ key: 'a', operator: 'Exists' as const })),
          })),
        },
        [cni],
      ),
      message: 'nodeSelector: at most 10000 requirements are allowed in all terms together',
    },
    {
      when: 'the grace of a gate is longer than an hour',
      object: readiness({ ...cni, graceSeconds: 3_601 }),
      message: 'spec.readinessGates[0].graceSeconds',
    },
    {
      when: 'the grace of a gate is negative',
      object: readinessPolicy('p', ofPool('x'), [{ ...cni, graceSeconds: -1 }]),
      message: 'spec.readinessGates[0].graceSeconds',
    },
    {
      when: 'the name of a policy is too long',
      object: readinessPolicy('p'.repeat(107), ofPool('x'), [cni]),
      message: 'choose a name of at most 106 characters',
    },
  ])('when $when', async ({ object, message }) => {
    const { code, stderr } = await kubectl(['create', '--dry-run=server', '-f', '-'], object);
    // Older apiservers show the value in other ways.
    const shown = stderr
      .replace('map[string]interface {}', '')
      .replace('Invalid value: "object": ', 'Invalid value: ');
    expect({ code, stderr: shown }).toEqual({ code: 1, stderr: expect.stringContaining(message) });
  });

  test('a valid object is admitted with its defaults', async () => {
    const created = await kubectl(
      ['create', '--dry-run=server', '-o', 'jsonpath={.spec.readinessGates[*].blocksReadiness}', '-f', '-'],
      readiness(cni, gate({ name: 'logs', namespace: 'kube-system', blocksReadiness: false })),
    );
    expect(created.stdout).toBe('true false');
  });
});

describe('kubectl explain describes', () => {
  test.each([
    {
      field: 'nr',
      want: ['NodeReadiness has the readiness gates of the node of the same name'],
    },
    {
      field: 'nr.spec.readinessGates',
      want: [
        'each field manager owns its gates and can remove them',
        'NodeReadinessPolicies use the field manager node-readiness-policy/<name>',
        'kubectl apply --server-side --field-manager=',
        'Indicates if this readiness gate should block the overall readiness of a node. Default: true.',
        'A gate that another controller removes has a reserved selector that matches no pod',
        'how long the node accepts pods after it lost this gate',
      ],
    },
    {
      field: 'nrp.spec',
      want: [
        'New nodes that it matches are created with the taint readiness.k8s.io/gates:NoSchedule.',
        'They are removed when the node is no longer selected, and when the policy is deleted.',
      ],
    },
  ])('$field', async ({ field, want }) => {
    const explained = (await succeeds(kubectl(['explain', field]))).replaceAll(/\s+/g, ' ');
    expect(want.filter((sentence) => !explained.includes(sentence))).toEqual([]);
  });
});
