import { beforeEach, describe, expect, test } from '@jest/globals';
import type { KubeObject } from '../../api/core.ts';
import { SHUTDOWN_BOOT_ID_ANNOTATION } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { evacuationReviewer, evictionReviewer } from '../../admission/evacuations.ts';
import { mutationWebhooks } from '../../admission/mutations.ts';
import {
  evacuationWebhook,
  evictionWebhook,
  maintenanceWebhook,
  readinessPolicyWebhook,
  type Webhook,
} from '../../admission/review.ts';
import {
  type AdmissionView,
  authorizationReviewer,
  readinessPolicyReviewer,
  specReviewer,
} from '../../admission/reviewers.ts';
import { expectReadable, fuzz, maxProblemLength } from './kit/fuzz.ts';
import { jsonTextsLike } from './kit/mutations.ts';

/** Any peer that reaches the webhook port may send any body, and objects reach mutating webhooks before the apiserver validates them. */

const signal = new AbortController().signal;
const user = { username: 'jane', uid: '1', groups: ['ops'], extra: { 'example.com/key': ['a'] } };

const nodes = ['n1', 'n2', 'n3'].map((name) => ({
  metadata: { name, uid: name, labels: { 'kubernetes.io/hostname': name, pool: 'gpu' } },
  spec: {},
}));

const maintenance = (name: string, stage: string) => ({
  apiVersion: 'nodemaintenance.k8s.io/v1alpha1',
  kind: 'NodeMaintenance',
  metadata: {
    name,
    uid: `uid-${name}`,
    labels: { team: 'x' },
    annotations: { note: 'y' },
    finalizers: ['a/b'],
  },
  spec: {
    nodeSelector: {
      nodeSelectorTerms: [
        { matchFields: [{ key: 'metadata.name', operator: 'In', values: ['n1'] }] },
        { matchExpressions: [{ key: 'pool', operator: 'In', values: ['gpu', 'cpu'] }] },
        { matchExpressions: [{ key: 'generation', operator: 'Gt', values: ['3'] }] },
      ],
    },
    stage,
    reason: 'firmware',
    drainPlan: [
      { podPriority: 1000, podType: 'Default', podSelector: { matchLabels: { app: 'db' } } },
      {
        podPriority: 5000,
        podType: 'Default',
        podSelector: { matchExpressions: [{ key: 'app', operator: 'NotIn', values: ['a', 'b'] }] },
      },
    ],
    drainDeadline: { at: '2030-01-01T00:00:00Z', onDeadline: 'Report' },
  },
  status: {
    nodeStatuses: [
      {
        nodeRef: { name: 'n1' },
        unschedulableBefore: false,
        drainTargets: [{ podType: 'DaemonSet', podPriority: 10 }],
      },
    ],
    drainPosition: 0,
  },
});

const pod = {
  metadata: {
    name: 'web-1',
    namespace: 'shop',
    uid: 'u1',
    labels: { app: 'web' },
    annotations: { 'evacuation.coordination.k8s.io/priority_migrate.example.com': '500/owner' },
    ownerReferences: [{ apiVersion: 'apps/v1', kind: 'DaemonSet', name: 'd', uid: 'd', controller: true }],
  },
  spec: {
    nodeName: 'n1',
    priority: 7,
    schedulingGates: [{ name: 'example.com/gate' }],
    affinity: {
      nodeAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: {
          nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['n1'] }] }],
        },
      },
    },
    containers: [{ name: 'main', image: 'x' }],
  },
  status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
};

const policy = {
  metadata: { name: 'gpu', annotations: {} },
  spec: {
    nodeSelector: { nodeSelectorTerms: [{ matchExpressions: [{ key: 'pool', operator: 'Exists' }] }] },
    readinessGates: [
      {
        name: 'driver',
        namespace: 'kube-system',
        selector: { matchLabels: { app: 'd' } },
        blocksReadiness: true,
      },
    ],
  },
};

const evacuation = {
  metadata: { name: 'u1-web-1', namespace: 'shop', labels: { app: 'old' }, finalizers: ['a/b'] },
  spec: {
    podRef: { name: 'web-1', uid: 'u1' },
    progressDeadlineSeconds: 1800,
    evacuators: [{ evacuatorClass: 'a.example.com', priority: 1, role: 'owner' }],
  },
};

const review = (request: object) => ({
  apiVersion: 'admission.k8s.io/v1',
  kind: 'AdmissionReview',
  request: { uid: 'r1', userInfo: user, options: { fieldManager: 'kubectl' }, ...request },
});

const both = (before: object, after: object) => [
  review({ operation: 'CREATE', object: after, oldObject: null }),
  review({ operation: 'UPDATE', object: after, oldObject: before }),
  review({ operation: 'DELETE', oldObject: before }),
];

/** Requests to the apiserver of one review. */
let requests: number;

/** An apiserver that has every object which a request names, and whose users may delete node n1 only. */
const kube = {
  now: () => new Date('2026-01-01T00:00:00Z'),
  get: async (resource: { plural: string }, key: { name: string }) => {
    requests += 1;
    return resource.plural === 'pods' ? { ...pod, metadata: { ...pod.metadata, name: key.name } } : undefined;
  },
  list: async () => {
    requests += 1;
    return { items: [] };
  },
  create: async (
    _resource: unknown,
    { spec }: KubeObject & { spec: { resourceAttributes: { name?: string } } },
  ) => {
    requests += 1;
    return { status: { allowed: spec.resourceAttributes.name === 'n1' } };
  },
};

const view = {
  kube,
  nodes: { list: () => nodes, hasSynced: true },
  maintenances: {
    list: () => [maintenance('other', 'Drain') as unknown as NodeMaintenance],
    hasSynced: true,
  },
} as unknown as AdmissionView;

const maintenances = both(maintenance('rack-7', 'Idle'), maintenance('rack-7', 'Drain'));
const podReviews = [review({ operation: 'CREATE', namespace: 'shop', name: 'web-1', object: pod })];
const nodeReviews = [
  review({
    operation: 'CREATE',
    object: { ...nodes[0], spec: { taints: [{ key: 'a', effect: 'NoSchedule' }] } },
  }),
  review({ operation: 'UPDATE', object: nodes[0], oldObject: nodes[0] }),
];

const mutations = mutationWebhooks(view);
const mutationSamples: Readonly<Record<string, object[]>> = {
  '/daemonset-evacuator': podReviews,
  '/daemonset-gate': podReviews,
  '/readiness-taint': nodeReviews,
  '/prepared-readiness-taint': nodeReviews,
  '/uncordoned-by': nodeReviews,
};

const webhooks: { path: string; webhook: Webhook; samples: readonly object[] }[] = [
  {
    path: 'authorization',
    webhook: maintenanceWebhook(authorizationReviewer(view, 'nm')),
    samples: maintenances,
  },
  { path: 'warnings', webhook: maintenanceWebhook(specReviewer(view, 'nm')), samples: maintenances },
  {
    path: 'evacuations',
    webhook: evacuationWebhook(evacuationReviewer(view.kube)),
    samples: [review({ operation: 'CREATE', namespace: 'shop', object: evacuation })],
  },
  { path: 'evictions', webhook: evictionWebhook(evictionReviewer(view, 'reject')), samples: podReviews },
  {
    path: 'readiness policies',
    webhook: readinessPolicyWebhook(readinessPolicyReviewer(view)),
    samples: [review({ operation: 'CREATE', object: policy })],
  },
  ...Object.entries(mutations).map(([path, webhook]) => ({
    path,
    webhook,
    samples: mutationSamples[path] ?? maintenances,
  })),
];

/** Reviews of up to 64 nodes are asked for at once; nothing else asks for more than a few objects. */
const maxRequests = 150;

interface AnyReview {
  response: { allowed: boolean; warnings?: string[]; status?: { message: string }; patch?: string };
}

beforeEach(() => {
  requests = 0;
});

describe.each(webhooks)('the webhook $path', ({ webhook, samples }) => {
  test('answers its samples', async () => {
    for (const sample of samples) expect(await webhook(JSON.stringify(sample), signal)).toMatchObject({});
    expect(await webhook(JSON.stringify(samples[0]), signal)).toMatchObject({ ok: true });
  });

  test('answers any body with a decision, or with a problem that names the field', async () => {
    await fuzz(
      jsonTextsLike(samples),
      async (body) => {
        requests = 0;
        const answer = await webhook(body, signal);
        expect(requests).toBeLessThanOrEqual(maxRequests);
        if (!answer.ok) {
          expect(answer.problem).toMatch(/^(?:AdmissionReview: .+: .+|expected an AdmissionReview)/);
          expectReadable(answer.problem);
          return;
        }
        const { response } = answer.review as AnyReview;
        expect(typeof response.allowed).toBe('boolean');
        for (const warning of response.warnings ?? []) expectReadable(warning);
        expect(response.warnings?.length ?? 0).toBeLessThanOrEqual(100);
        if (response.status !== undefined) expectReadable(response.status.message);
        const patch = Buffer.from(response.patch ?? '', 'base64').length;
        expect(patch).toBeLessThanOrEqual(4 * body.length + maxProblemLength);
      },
      80,
    );
  });
});

describe('a webhook', () => {
  const answerOf = (path: string, object: object) => {
    const found = webhooks.find((one) => one.path === path);
    return found?.webhook(JSON.stringify(review({ operation: 'CREATE', namespace: 'shop', object })), signal);
  };

  test('asks the apiserver for nothing because of a policy with thousands of gates', async () => {
    const [gate] = policy.spec.readinessGates;
    const readinessGates = Array.from({ length: 5_000 }, (_, index) => ({ ...gate, namespace: `n${index}` }));
    const answer = await answerOf('readiness policies', {
      ...policy,
      spec: { ...policy.spec, readinessGates },
    });
    expect(answer).toMatchObject({ ok: false, problem: expect.stringContaining('readinessGates') });
    expect(requests).toBe(0);
  });

  const requirement = { key: 'pool', operator: 'In', values: ['gpu'] };
  const manyOf = <T>(length: number, item: T) => Array.from({ length }, () => item);
  const withTerms = (...nodeSelectorTerms: object[]) => ({ nodeSelector: { nodeSelectorTerms } });

  test.each([
    {
      what: 'entries of a plan',
      spec: { drainPlan: manyOf(269, { podPriority: 1, podType: 'Default' }) },
      field: 'drainPlan',
    },
    {
      what: 'labels of a podSelector',
      spec: {
        drainPlan: [
          {
            podPriority: 1,
            podType: 'Default',
            podSelector: { matchLabels: Object.fromEntries(manyOf(33, '').map((_, i) => [`k${i}`, 'v'])) },
          },
        ],
      },
      field: 'matchLabels',
    },
    { what: 'terms', spec: withTerms(...manyOf(5_001, { matchExpressions: [requirement] })), field: 'Terms' },
    {
      what: 'terms that do not only list',
      spec: withTerms(...manyOf(101, { matchExpressions: [{ ...requirement, operator: 'NotIn' }] })),
      field: 'Terms',
    },
    {
      what: 'requirements',
      spec: withTerms({ matchExpressions: manyOf(13, requirement) }),
      field: 'matchExpressions',
    },
    {
      what: 'values',
      spec: withTerms({ matchExpressions: [{ ...requirement, values: manyOf(1_001, 'gpu') }] }),
      field: 'values',
    },
  ])('compares no more $what with each other than the CRD allows', async ({ spec, field }) => {
    const before = maintenance('rack-7', 'Idle');
    for (const path of ['authorization', 'warnings']) {
      const answer = await answerOf(path, { ...before, spec: { ...before.spec, ...spec } });
      expect(answer).toMatchObject({ ok: false, problem: expect.stringMatching(new RegExp(`${field}.*: `)) });
    }
    expect(requests).toBe(0);
  });

  test('asks for permission when a label takes the place of an annotation that controls the maintenance', async () => {
    const one = maintenance('shutdown-n2', 'Drain');
    const { annotations, labels } = one.metadata;
    const spec = {
      ...one.spec,
      ...withTerms({ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['n2'] }] }),
    };
    const oldObject = {
      ...one,
      spec,
      metadata: { ...one.metadata, annotations: { ...annotations, [SHUTDOWN_BOOT_ID_ANNOTATION]: 'b1' } },
    };
    const object = {
      ...one,
      spec,
      metadata: { ...one.metadata, labels: { ...labels, [SHUTDOWN_BOOT_ID_ANNOTATION]: 'b1' } },
    };
    const authorization = webhooks.find(({ path }) => path === 'authorization')?.webhook;
    const answer = (changed: object) =>
      authorization?.(JSON.stringify(review({ operation: 'UPDATE', object: changed, oldObject })), signal);
    expect(await answer(object)).toMatchObject({ review: { response: { allowed: false } } });
    expect(await answer(oldObject)).toMatchObject({ review: { response: { allowed: true } } });
  });

  test('escapes the key of an annotation in the problem', async () => {
    const answer = await answerOf('/requested-by', { metadata: { annotations: { '\u001b[2J': 1 } } });
    expect(answer).toMatchObject({ ok: false, problem: expect.stringContaining('annotations.\\u001b[2J: ') });
  });

  test('leaves a drain plan that is no list to the schema', async () => {
    const before = maintenance('rack-7', 'Idle');
    const answer = await answerOf('/drain-plan', { ...before, spec: { ...before.spec, drainPlan: 'all' } });
    expect(answer).toMatchObject({ ok: true, review: { response: { allowed: true } } });
  });
});
