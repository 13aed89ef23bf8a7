import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { RebootAnnotation } from '../../api/names.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { type Impersonation, impersonationIn, type Response } from '../kit/impersonation.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { permit, usersDropped, userWith } from '../kit/users.ts';

// The policy reboot-requests.nodemaintenance.k8s.io: who may ask the agent of a node for a reboot.

let sandbox: Sandbox;
let c: TestCluster;
let as: Impersonation;
let node: string;
/** May patch nodes and their status, as the owner of a device plugin may. */
let labeller: string;
/** May delete the node as well. */
let owner: string;

const { Required, Requested, Started } = RebootAnnotation;
const onNodes = (verbs: string[], resourceNames?: string[]) => ({
  apiGroups: [''],
  resources: ['nodes', 'nodes/status'],
  verbs,
  ...(resourceNames && { resourceNames }),
});

const annotated = (user: string, annotations: object, subresource = ''): Promise<Response> =>
  as.send(user, {
    method: 'PATCH',
    path: `/api/v1/nodes/${node}${subresource}`,
    body: { metadata: { annotations } },
  });

const valueOf = async (key: string) => (await c.node(node)).metadata.annotations?.[key];

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'reboot-requests' });
  as = await impersonationIn(sandbox);
  node = await c.nodeNamed('n');
  labeller = await userWith(c, { rules: [onNodes(['get', 'patch', 'update', 'create'])] });
  owner = await userWith(c, { rules: [onNodes(['get', 'patch', 'update'])] });
  await permit(c, owner, { rules: [onNodes(['delete'], [node])] });
  await eventually('the policy and the permissions to be known', async () => {
    expect(await annotated(labeller, { [Requested]: crypto.randomUUID() })).toMatchObject({ status: 403 });
    expect(await annotated(owner, { [Requested]: crypto.randomUUID() })).toMatchObject({ status: 200 });
  });
});

afterAll(async () => {
  as?.close();
  if (c !== undefined) await usersDropped(c);
  await c?.close();
  await releaseSandbox(sandbox);
});

describe('a user who may patch nodes, and not delete them,', () => {
  test.each([
    { how: 'by an annotation', subresource: '' },
    { how: 'through the status', subresource: '/status' },
  ])('may not have a node rebooted $how', async ({ subresource }) => {
    const before = await valueOf(Requested);
    const rejected = await annotated(labeller, { [Requested]: 'attack' }, subresource);
    expect(rejected).toMatchObject({
      status: 403,
      body: {
        message: expect.stringContaining(
          `metadata.annotations[nodemaintenance.k8s.io/reboot-requested]: user "${labeller}" may not delete node ${node}`,
        ),
      },
    });
    expect(await valueOf(Requested)).toBe(before);
  });

  test('may not create a node with a request', async () => {
    const metadata = { name: c.named('attack'), annotations: { [Requested]: 'attack' } };
    const body = { apiVersion: 'v1', kind: 'Node', metadata };
    const created = await as.send(labeller, { method: 'POST', path: '/api/v1/nodes', body });
    expect(created).toMatchObject({ status: 403 });
    expect(await c.admin.get(resources.nodes, { name: metadata.name })).toBeUndefined();
  });

  test('may say that a node needs a reboot: a window decides', async () => {
    expect(await annotated(labeller, { [Required]: 'new BIOS' })).toMatchObject({ status: 200 });
    expect(await annotated(labeller, { [Required]: null })).toMatchObject({ status: 200 });
  });

  test('may change a node that has a request, and withdraw the request', async () => {
    expect(await annotated(owner, { [Requested]: 'boot-1' })).toMatchObject({ status: 200 });
    expect(await annotated(labeller, { 'example.com/x': 'y', [Started]: 'boot-1' })).toMatchObject({
      status: 200,
    });
    expect(await annotated(labeller, { [Requested]: null, [Started]: null })).toMatchObject({ status: 200 });
    expect(await valueOf(Requested)).toBeUndefined();
  });
});

test('a user who may delete one node may ask for its reboot, and for no other', async () => {
  expect(await annotated(owner, { [Requested]: 'boot-2' })).toMatchObject({ status: 200 });
  const other = await c.nodeNamed('other');
  const rejected = await as.send(owner, {
    method: 'PATCH',
    path: `/api/v1/nodes/${other}`,
    body: { metadata: { annotations: { [Requested]: 'boot-2' } } },
  });
  expect(rejected).toMatchObject({ status: 403 });
});
