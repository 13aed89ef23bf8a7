import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { KubeObject, Lease } from '../../api/core.ts';
import type { Kube } from '../../kube/client.ts';
import { isFailedTest, KubeErrorKind } from '../../kube/errors.ts';
import { microTime } from '../../kube/leaseRecord.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import type { RequestObservation } from '../../kube/transport.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { denyByPolicy } from '../kit/rejection.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import {
  changedKubeconfig,
  connect,
  dropNamespace,
  eventually,
  failureOf,
  freshNamespace,
} from './fixtures.ts';
import { UnreliableNetwork } from './unreliableNetwork.ts';

let sandbox: Sandbox;
let kube: Kube;
let namespace: string;

beforeAll(async () => {
  sandbox = await testSandbox();
  kube = connect(sandbox.kubeconfig);
  namespace = await freshNamespace(kube, 'client');
});

afterAll(async () => {
  if (namespace) await dropNamespace(kube, namespace);
  await kube?.close();
  await releaseSandbox(sandbox);
});

const lease = (name: string, differs: Partial<Lease['metadata']> = {}): Lease => ({
  metadata: { namespace, name, ...differs },
  spec: { holderIdentity: 'me' },
});
const uidOf = (object: KubeObject) => object.metadata.uid ?? '';

describe('objects', () => {
  test('are created, read, patched, listed by label and deleted', async () => {
    const made = await kube.create(resources.leases, lease('life', { labels: { in: 'life' } }));
    const key = { namespace, name: 'life' };
    expect(await kube.get(resources.leases, key)).toEqual(made);

    await kube.mergePatch(resources.leases, key, { spec: { holderIdentity: 'merged' } });
    const operations = [
      { op: 'test', path: '/spec/holderIdentity', value: 'merged' },
      { op: 'replace', path: '/spec/holderIdentity', value: 'patched' },
    ] as const;
    const patched = await kube.jsonPatch<Lease>(resources.leases, key, operations);
    expect(patched.spec.holderIdentity).toBe('patched');

    const { items, resourceVersion } = await kube.list(resources.leases, {
      namespace,
      labelSelector: 'in=life',
    });
    expect(items).toEqual([patched]);
    expect(items[0]).toMatchObject({ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease' });
    expect(Number(resourceVersion)).toBeGreaterThanOrEqual(Number(patched.metadata.resourceVersion));

    expect(await kube.delete(resources.leases, key, { uid: uidOf(made) })).toBe('Deleted');
    expect(await kube.get(resources.leases, key)).toBeUndefined();
    expect(await kube.delete(resources.leases, key, { uid: uidOf(made) })).toBe('Gone');
  });

  test('of the same name are distinguished: deleting by the UID of a previous one does not delete the current one', async () => {
    const made = await kube.create(resources.leases, lease('namesake'));
    expect(await kube.delete(resources.leases, made.metadata, { uid: 'an-earlier-uid' })).toBe('Gone');
    expect(await kube.get(resources.leases, made.metadata)).toEqual(made);
  });

  test('are applied field by field: another manager must force its way', async () => {
    const desired = (holderIdentity: string) => ({
      metadata: { namespace, name: 'applied' },
      spec: { holderIdentity },
    });
    await kube.apply(resources.leases, desired('one'), { fieldManager: 'one' });
    const rejected = await failureOf(kube.apply(resources.leases, desired('two'), { fieldManager: 'two' }));
    expect(rejected.kind).toBe(KubeErrorKind.Conflict);
    expect(rejected.message).toContain('.spec.holderIdentity');
    const taken = await kube.apply(resources.leases, desired('two'), { fieldManager: 'two', force: true });
    expect(taken.spec.holderIdentity).toBe('two');
  });

  test('of a namespace are deleted together, but not those that were created since', async () => {
    const space = await freshNamespace(kube, 'collection');
    const leaseIn = (name: string) => ({ ...lease(name), metadata: { name, namespace: space } });
    for (const name of ['first', 'second']) await kube.create(resources.leases, leaseIn(name));
    const { resourceVersion } = await kube.list(resources.leases, { namespace: space });
    await kube.create(resources.leases, leaseIn('since'));
    await kube.deleteCollection(resources.leases, { namespace: space, resourceVersion });
    const { items } = await kube.list(resources.leases, { namespace: space });
    expect(items.map(({ metadata }) => metadata.name)).toEqual(['since']);
    await dropNamespace(kube, space);
  });

  test('are deleted only at the given resourceVersion, if the deletion has one', async () => {
    const { metadata } = await kube.create(resources.leases, lease('deleted-at-version'));
    const { uid = '', resourceVersion } = metadata;
    const key = { namespace, name: 'deleted-at-version' };
    await kube.mergePatch(resources.leases, key, { spec: { holderIdentity: 'later' } });
    const late = kube.delete(resources.leases, key, { uid, resourceVersion });
    expect((await failureOf(late)).kind).toBe(KubeErrorKind.Conflict);
    expect((await kube.get(resources.leases, key))?.spec.holderIdentity).toBe('later');
  });

  test('are patched only at the given resourceVersion, if the patch has one', async () => {
    const { metadata } = await kube.create(resources.leases, lease('versioned'));
    const patch = {
      metadata: { resourceVersion: metadata.resourceVersion },
      spec: { holderIdentity: 'first' },
    };
    await kube.mergePatch(resources.leases, metadata, patch);
    const late = await failureOf(kube.mergePatch(resources.leases, metadata, patch));
    expect(late.kind).toBe(KubeErrorKind.Conflict);
  });

  test('have subresources', async () => {
    const name = `client-${namespace}`;
    const node = await kube.create(resources.nodes, { metadata: { name }, spec: {} });
    const condition = { type: 'Tried', status: 'True', reason: 'Test', message: 'It was.' };
    const patch = { status: { conditions: [condition] } };
    await kube.mergePatch(resources.nodes, { name }, patch, { subresource: 'status' });
    expect(await kube.get(resources.nodes, { name })).toMatchObject({ status: { conditions: [condition] } });
    await kube.delete(resources.nodes, { name }, { uid: uidOf(node) });
  });

  test('are listed whole, however many pages they fill', async () => {
    const count = 520;
    const names = Array.from({ length: count }, (_, i) => `many-${i}`);
    await Promise.all(
      names.map((name) => kube.create(resources.leases, lease(name, { labels: { many: '' } }))),
    );
    const { items } = await kube.list(resources.leases, { namespace, labelSelector: 'many' });
    expect(new Set(items.map(({ metadata }) => metadata.name))).toEqual(new Set(names));
    const { items: parts } = await kube.listMetadata(resources.leases, { namespace, labelSelector: 'many' });
    expect(new Set(parts.map(({ metadata }) => metadata.name))).toEqual(new Set(names));
    expect(items[0]).toHaveProperty('spec');
    expect(parts[0]).not.toHaveProperty('spec');
    expect(parts[0]?.metadata.labels).toEqual({ many: '' });

    const even = await kube.listReduced(resources.leases, { namespace, labelSelector: 'many' }, (object) =>
      Number(object.metadata.name?.slice('many-'.length)) % 2 === 0
        ? { at: object.metadata.name }
        : undefined,
    );
    expect(even.items).toHaveLength(count / 2);
    expect(even.items).toContainEqual({ at: `many-${count - 2}` });
  });

  test('are reduced before the next page is requested', async () => {
    const stopping = new AbortController();
    const reduced: string[] = [];
    const list = kube.listReduced(
      resources.leases,
      { namespace, labelSelector: 'many', signal: stopping.signal },
      ({ metadata: { name } }) => {
        stopping.abort(new Error('enough'));
        reduced.push(name);
        return { name };
      },
    );
    await expect(list).rejects.toThrow('enough');
    expect(reduced).toHaveLength(500);
  });

  test('have times with six digits after the second where the API wants them', async () => {
    const renewTime = microTime(new Date());
    const made = await kube.create(resources.leases, { ...lease('timed'), spec: { renewTime } });
    expect(made.spec.renewTime).toBe(renewTime);
  });
});

describe('a failure', () => {
  const unknown: Resource = {
    group: 'nowhere.example',
    version: 'v1',
    plural: 'things',
    kind: 'Thing',
    namespaced: false,
  };

  test.each([
    {
      of: 'a creation of what exists',
      kind: KubeErrorKind.AlreadyExists,
      message: 'create namespaces default: namespaces "default" already exists',
      request: () => kube.create(resources.namespaces, { metadata: { name: 'default' } }),
    },
    {
      of: 'a name that is not allowed',
      kind: KubeErrorKind.Invalid,
      message: 'Lease.coordination.k8s.io "Not_A_Name" is invalid: metadata.name',
      request: () => kube.create(resources.leases, lease('Not_A_Name')),
    },
    {
      of: 'a JSON patch whose test does not hold',
      kind: KubeErrorKind.Invalid,
      message: 'patch namespaces default: ',
      request: () =>
        kube.jsonPatch(resources.namespaces, { name: 'default' }, [
          { op: 'test', path: '/kind', value: 'Pod' },
        ]),
    },
    {
      of: 'a patch of what does not exist',
      kind: KubeErrorKind.NotFound,
      message: 'patch nodes nobody: nodes "nobody" not found',
      request: () => kube.mergePatch(resources.nodes, { name: 'nobody' }, {}),
    },
    {
      of: 'reading a kind that the cluster does not have is not taken for a missing object',
      kind: KubeErrorKind.NotFound,
      message:
        'get things.nowhere.example x: the apiserver does not serve this API: install its CustomResourceDefinition, or enable it',
      request: () => kube.get(unknown, { name: 'x' }),
    },
    {
      of: 'deleting a kind that the cluster does not have is not taken for done',
      kind: KubeErrorKind.NotFound,
      message: 'the apiserver does not serve this API',
      request: () => kube.delete(unknown, { name: 'x' }, { uid: 'x' }),
    },
  ])('of $of is $kind with a one-line message', async ({ request, kind, message }) => {
    const error = await failureOf(request());
    expect(error.kind).toBe(kind);
    expect(error.message).toContain(message);
    expect(error.message).not.toContain('\n');
  });

  test('of creating in a terminating namespace differs from a missing permission', async () => {
    const { metadata } = await kube.create(resources.namespaces, {
      metadata: { name: `${namespace}-ending` },
    });
    const inside = { namespace: metadata.name, name: 'holds-it' };
    const holder = { ...lease('holds-it'), metadata: { ...inside, finalizers: ['test.example/hold'] } };
    await kube.create(resources.leases, holder);
    await kube.delete(resources.namespaces, metadata, { uid: metadata.uid ?? '' });
    const error = await failureOf(
      kube.create(resources.leases, { ...holder, metadata: { ...inside, name: 'late' } }),
    );
    expect(error.kind).toBe(KubeErrorKind.NamespaceTerminating);
    await kube.mergePatch(resources.leases, inside, { metadata: { finalizers: null } });
  });

  test('of a user without the permission is Forbidden', async () => {
    const copy = await changedKubeconfig(sandbox.kubeconfig, { user: { as: 'nobody-in-particular' } });
    const nobody = connect(copy.path);
    const error = await failureOf(nobody.list(resources.pods, { namespace }));
    expect(error.kind).toBe(KubeErrorKind.Forbidden);
    expect(error.message).toContain('User "nobody-in-particular" cannot list resource "pods"');
    await nobody.close();
    await copy.remove();
  });
});

describe('credentials', () => {
  test('that the apiserver does not know are Unauthorized', async () => {
    const user = { token: 'wrong', 'client-certificate-data': undefined, 'client-key-data': undefined };
    const copy = await changedKubeconfig(sandbox.kubeconfig, { user });
    const stranger = connect(copy.path);
    expect((await failureOf(stranger.list(resources.nodes))).kind).toBe(KubeErrorKind.Unauthorized);
    await stranger.close();
    await copy.remove();
  });

  test('of a plugin that fails are named as the problem', async () => {
    const exec = {
      apiVersion: 'client.authentication.k8s.io/v1',
      command: '/bin/sh',
      args: ['-c', 'echo no ticket >&2; exit 3'],
    };
    const copy = await changedKubeconfig(sandbox.kubeconfig, { user: { token: undefined, exec } });
    const ticketless = connect(copy.path);
    const error = await failureOf(ticketless.list(resources.nodes));
    expect(error.kind).toBe(KubeErrorKind.Unauthorized);
    expect(error.message).toBe('list nodes: no credentials: no ticket: check the user in the kubeconfig');
    await ticketless.close();
    await copy.remove();
  });

  test('that expired are reloaded once, and the request succeeds', async () => {
    const copy = await changedKubeconfig(sandbox.kubeconfig, {});
    const plugin = join(copy.dir, 'plugin.sh');
    await writeFile(plugin, rotatingPlugin(copy.dir, await tokenOf(sandbox.kubeconfig)));
    await chmod(plugin, 0o700);
    const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: plugin };
    const rotating = await changedKubeconfig(sandbox.kubeconfig, { user: { token: undefined, exec } });
    const client = connect(rotating.path);
    expect((await client.list(resources.nodes)).items.length).toBeGreaterThan(0);
    await client.close();
    await Promise.all([copy.remove(), rotating.remove()]);
  });
});

/** Returns a script that prints an invalid token first and valid ones afterwards, each with an expiry in the past. */
function rotatingPlugin(dir: string, token: string): string {
  const credential = (value: string) =>
    JSON.stringify({
      kind: 'ExecCredential',
      status: { token: value, expirationTimestamp: '2020-01-01T00:00:00Z' },
    });
  return `#!/bin/sh
if [ -e ${dir}/asked ]; then echo '${credential(token)}'; else touch ${dir}/asked; echo '${credential('old')}'; fi
`;
}

async function tokenOf(kubeconfig: string): Promise<string> {
  const { loadKubeConfig } = await import('../../kube/config.ts');
  return loadKubeConfig({ kubeconfig }).getCurrentUser()?.token ?? '';
}

describe('the network', () => {
  test('that refuses connections makes the apiserver Unavailable, with the cause', async () => {
    const { network, kubeconfig, close } = await UnreliableNetwork.before(sandbox.kubeconfig);
    const client = connect(kubeconfig);
    network.down();
    const error = await failureOf(client.create(resources.leases, lease('unreachable')));
    expect(error.kind).toBe(KubeErrorKind.Unavailable);
    expect(error.message).toContain(
      `create leases.coordination.k8s.io ${namespace}/unreachable: no answer from the apiserver: `,
    );
    expect(error.cause).toMatchObject({ message: expect.any(String) });
    await client.close();
    await close();
  });

  test('that swallows a request makes it fail when its time is up', async () => {
    const { network, kubeconfig, close } = await UnreliableNetwork.before(sandbox.kubeconfig);
    const client = connect(kubeconfig);
    network.swallow();
    const error = await failureOf(client.serverVersion({ timeoutMs: 100 }));
    expect(error.message).toBe('get /version: no answer from the apiserver: timed out after 0.1 s');
    await client.close();
    await close();
  });

  test('that closes idle connections does not affect reads', async () => {
    const { network, kubeconfig, close } = await UnreliableNetwork.before(sandbox.kubeconfig);
    const client = connect(kubeconfig);
    for (let i = 0; i < 10; i++) {
      expect(await client.get(resources.namespaces, { name: 'default' })).toBeDefined();
      network.cut();
    }
    await client.close();
    await close();
  });

  test('sees a bounded number of connections, and each request is observed', async () => {
    const { network, kubeconfig, close } = await UnreliableNetwork.before(sandbox.kubeconfig);
    const observed: RequestObservation[] = [];
    const client = connect(kubeconfig, {
      maxInFlight: 3,
      onRequest: (observation) => observed.push(observation),
    });
    await Promise.all(
      Array.from({ length: 50 }, () => client.get(resources.namespaces, { name: 'default' })),
    );
    // Four are spare, for the urgent.
    expect(network.mostConnections).toBeLessThanOrEqual(3 + 4);
    expect(observed).toHaveLength(50);
    expect(observed[0]).toMatchObject({ verb: 'get', resource: 'namespaces', status: 200 });
    await client.close();
    await close();
  });

  test('is not waited for by an aborted request, in flight or in line', async () => {
    const { network, kubeconfig, close } = await UnreliableNetwork.before(sandbox.kubeconfig);
    const client = connect(kubeconfig, { maxInFlight: 1 });
    network.swallow();
    const aborter = new AbortController();
    const requests = [1, 2, 3].map(() => client.list(resources.nodes, { signal: aborter.signal }));
    const settled = Promise.allSettled(requests);
    aborter.abort(new Error('changed my mind'));
    for (const result of await settled)
      expect(result).toMatchObject({ reason: { message: 'changed my mind' } });
    await client.close();
    await close();
  });
});

describe('a guard', () => {
  test('is asked when the request would be written, however long that waited, and keeps it back', async () => {
    const observed: RequestObservation[] = [];
    const busy = connect(sandbox.kubeconfig, {
      maxInFlight: 1,
      onRequest: (observation) => observed.push(observation),
    });
    let objection: string | undefined;
    const guarded = busy.guardedBy(() => objection);
    await guarded.create(resources.leases, lease('in-time'));
    const before = busy.list(resources.pods);
    const inLine = failureOf(guarded.create(resources.leases, lease('too-late')));
    objection = 'it is too late';
    const failure = await inLine;
    await before;
    expect(failure.kind).toBe(KubeErrorKind.NotSent);
    expect(failure.message).toBe(`create leases.coordination.k8s.io ${namespace}/too-late: it is too late`);
    expect(await kube.get(resources.leases, { namespace, name: 'too-late' })).toBeUndefined();
    expect(observed).toMatchObject([{ verb: 'create' }, { verb: 'list' }]);
    expect(await busy.create(resources.leases, lease('unguarded'))).toBeDefined();
    await busy.close();
  });
});

describe('throttling by priority and fairness', () => {
  const user = 'throttled-by-test';
  const group = { group: 'flowcontrol.apiserver.k8s.io', version: 'v1', namespaced: false };
  const levels: Resource = {
    ...group,
    plural: 'prioritylevelconfigurations',
    kind: 'PriorityLevelConfiguration',
  };
  const schemas: Resource = { ...group, plural: 'flowschemas', kind: 'FlowSchema' };
  const everything = [
    { verbs: ['*'], apiGroups: ['*'], resources: ['*'], namespaces: ['*'], clusterScope: true },
  ];
  const rules = [{ subjects: [{ kind: 'User', user: { name: user } }], resourceRules: everything }];

  /** A level that lets one request through at a time and rejects the others, and everything of the user sent to it. */
  async function throttle() {
    const metadata = { name: `${user}-${namespace}` };
    const limited = {
      nominalConcurrencyShares: 0,
      lendablePercent: 0,
      borrowingLimitPercent: 0,
      limitResponse: { type: 'Reject' },
    };
    const level = { metadata, spec: { type: 'Limited', limited } };
    const schema = { metadata, spec: { priorityLevelConfiguration: metadata, matchingPrecedence: 2, rules } };
    await kube.create(levels, level);
    const made = await kube.create(schemas, schema);
    return async () => {
      await kube.delete(schemas, metadata, { uid: uidOf(made) });
      const current = await kube.get(levels, metadata);
      if (current !== undefined) await kube.delete(levels, metadata, { uid: uidOf(current) });
    };
  }

  test('is waited out by the client, and is never taken for the rejection of a disruption budget', async () => {
    const copy = await changedKubeconfig(sandbox.kubeconfig, {
      user: { as: user, 'as-groups': ['system:authenticated'] },
    });
    const observed: RequestObservation[] = [];
    const client = connect(copy.path, { onRequest: (observation) => observed.push(observation) });
    const relieve = await throttle();
    await eventually('the user to be throttled', async () => {
      const requests = Array.from({ length: 40 }, () =>
        client.evict({ namespace, name: 'nobody', uid: 'none' }),
      );
      const errors = await Promise.all(requests.map(failureOf));
      // The user may not evict at all: what counts is that every request came through to say so.
      expect(new Set(errors.map(({ kind }) => kind))).toEqual(new Set([KubeErrorKind.Forbidden]));
      return observed.some(({ status }) => status === 429) ? undefined : 'no 429 among 40 requests at once';
    });
    await relieve();
    await client.close();
    await copy.remove();
  });
});

test('the client knows which kinds the apiserver serves, in which version', async () => {
  const policies = {
    group: 'admissionregistration.k8s.io',
    version: 'v1',
    plural: 'mutatingadmissionpolicies',
    kind: 'MutatingAdmissionPolicy',
    namespaced: false,
  };
  const { nodes } = resources;
  const asked = [policies, nodes, { ...policies, version: 'v0' }, { ...nodes, plural: 'mainframes' }];
  expect(await Promise.all(asked.map((one) => kube.serves(one as Resource)))).toEqual([
    true,
    true,
    false,
    false,
  ]);
});

test('the client knows the version of the apiserver and its clock', async () => {
  expect(await kube.serverVersion()).toMatch(/^v1\.\d+/);
  expect(Math.abs(kube.now().getTime() - Date.now())).toBeLessThan(60_000);
});

test('an answer that was on its way for long does not set the clock back', async () => {
  const { network, kubeconfig, close } = await UnreliableNetwork.before(sandbox.kubeconfig);
  const other = connect(kubeconfig);
  try {
    await other.serverVersion();
    const offsetMs = () => other.now().getTime() - Date.now();
    const before = offsetMs();
    network.late(4_000);
    await other.serverVersion();
    expect(offsetMs()).toBeGreaterThan(before - 1_000);
  } finally {
    await other.close();
    await close();
  }
});

test('a failed test of a JSON patch is not taken for a denial, and the other way round', async () => {
  await kube.create(resources.leases, lease('tested'));
  const key = { namespace, name: 'tested' };
  const patched = (holder: string) =>
    failureOf(
      kube.jsonPatch(resources.leases, key, [
        { op: 'test', path: '/spec/holderIdentity', value: holder },
        { op: 'replace', path: '/spec/holderIdentity', value: 'denied' },
      ]),
    );
  const admit = await denyByPolicy(kube, `${namespace}-denied`, {
    failurePolicy: 'Fail',
    matchConstraints: {
      resourceRules: [
        {
          apiGroups: ['coordination.k8s.io'],
          apiVersions: ['v1'],
          operations: ['UPDATE'],
          resources: ['leases'],
        },
      ],
    },
    validations: [
      {
        expression: `object.metadata.namespace != '${namespace}' || object.spec.?holderIdentity.orValue('') != 'denied'`,
        message: 'on loan',
      },
    ],
  });
  try {
    const change = { spec: { holderIdentity: 'denied' } };
    await eventually('the policy to deny', () =>
      kube
        .mergePatch(resources.leases, key, change, { fieldManager: 'test', dryRun: true })
        .then(() => 'accepted')
        .catch(() => undefined),
    );
    expect([isFailedTest(await patched('you')), isFailedTest(await patched('me'))]).toEqual([true, false]);
  } finally {
    await admit();
  }
});
