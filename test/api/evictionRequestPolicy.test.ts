import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { fileURLToPath } from 'node:url';
import type { Pod } from '../../api/core.ts';
import type { EvictionIntent, EvictionRequest } from '../../api/lifecycle.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { evictionRequestFor } from '../kit/builders.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { userWith, usersDropped } from '../kit/users.ts';
import { type Answer, type Kubectl, kubectlOf, succeeds } from './kubectl.ts';

const folder = fileURLToPath(new URL('../../deploy/eviction-requests/requester-policy', import.meta.url));

let sandbox: Sandbox;
let c: TestCluster;
let kubectl: Kubectl;
let pod: Pod;

beforeAll(async () => {
  sandbox = await testSandbox({ evictionRequest: true, nodes: 0 });
  kubectl = kubectlOf(sandbox);
  c = await testCluster(sandbox, { prefix: 'er-policy' });
  await succeeds(kubectl(['apply', '--server-side', '-k', folder]));
  pod = await c.podOn(await c.nodeNamed('n'));
});

afterAll(async () => {
  if (c !== undefined) await usersDropped(c);
  await kubectl?.(['delete', '--ignore-not-found', '-k', folder]);
  await c?.close();
  await releaseSandbox(sandbox);
});

function requestOf(intent: EvictionIntent): EvictionRequest {
  return evictionRequestFor(pod, { name: c.named('er'), requester: 'example.com/me', intent });
}

async function withdrawn(): Promise<EvictionRequest> {
  const { metadata } = await c.admin.create(resources.evictionRequests, requestOf('Eviction'));
  const { name, namespace } = metadata;
  const spec = { intent: 'Withdrawn' };
  return c.admin.mergePatch(resources.evictionRequests, { namespace, name }, { spec });
}

const create = (user: string): Promise<Answer> =>
  kubectl(['create', '--dry-run=server', '--as', user, '-f', '-'], requestOf('Eviction'));

function intend(user: string, { metadata }: EvictionRequest, intent: EvictionIntent): Promise<Answer> {
  const patch = JSON.stringify({ spec: { intent } });
  const { name, namespace = '' } = metadata;
  const of = ['evictionrequests.lifecycle.k8s.io', name, '-n', namespace];
  return kubectl(['patch', ...of, '--as', user, '--dry-run=server', '--type=merge', '-p', patch]);
}

/** Creates a user who may write EvictionRequests in the namespace of the test, and has this rule in addition. */
function userWho(rule: object): Promise<string> {
  const write = { apiGroups: ['lifecycle.k8s.io'], resources: ['evictionrequests'], verbs: ['*'] };
  return userWith(c, { namespace: c.namespace, rules: [write, rule] });
}

const rejection = (user: string) =>
  `spec.target.pod: user "${user}" may neither evict nor delete pod ${c.namespace}/${pod.metadata.name}: request the verb create on pods/eviction, or delete on pods`;

describe('With the policy of requesters, an eviction may be requested by', () => {
  test.each([
    { who: 'may evict pods', rule: { apiGroups: [''], resources: ['pods/eviction'], verbs: ['create'] } },
    { who: 'may delete pods', rule: { apiGroups: [''], resources: ['pods'], verbs: ['delete'] } },
  ])('a user who $who', async ({ rule }) => {
    const user = await userWho(rule);
    await eventually('the permission to take effect', async () =>
      expect(await create(user)).toMatchObject({ code: 0 }),
    );
    expect(await intend(user, await withdrawn(), 'Eviction')).toMatchObject({ code: 0 });
  });

  test('no other user, who may only withdraw requests', async () => {
    const user = await userWho({ apiGroups: [''], resources: ['pods'], verbs: ['get', 'create'] });
    await eventually('the rejection by the policy', async () =>
      expect((await create(user)).stderr).toContain(rejection(user)),
    );
    const request = await c.admin.create(resources.evictionRequests, requestOf('Eviction'));
    expect(await intend(user, request, 'Withdrawn')).toMatchObject({ code: 0 });
    expect((await intend(user, await withdrawn(), 'Eviction')).stderr).toContain(rejection(user));
  });
});
