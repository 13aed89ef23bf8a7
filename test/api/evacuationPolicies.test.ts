import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Pod } from '../../api/core.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { type Answer, type Kubectl, kubectlOf } from './kubectl.ts';

let sandbox: Sandbox;
let c: TestCluster;
let kubectl: Kubectl;
let node: string;

beforeAll(async () => {
  sandbox = await testSandbox();
  kubectl = kubectlOf(sandbox);
  c = await testCluster(sandbox, { prefix: 'evac-pol' });
  node = await c.nodeNamed('n');
});

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

const roles = { group: 'rbac.authorization.k8s.io', version: 'v1', namespaced: true };
const rolesOf = { ...roles, plural: 'roles', kind: 'Role' };
const bindingsOf = { ...roles, plural: 'rolebindings', kind: 'RoleBinding' };

/** Creates a user who may create Evacuations in the namespace of the test, and has these rules in addition. */
async function userWho(...rules: object[]): Promise<string> {
  const user = c.named('user');
  const evacuations = {
    apiGroups: ['evacuation.coordination.k8s.io'],
    resources: ['evacuations'],
    verbs: ['create', 'delete', 'get'],
  };
  const metadata = { name: user, namespace: c.namespace };
  await c.admin.create(rolesOf, { metadata, rules: [evacuations, ...rules] } as never);
  const subjects = [{ apiGroup: roles.group, kind: 'User', name: user }];
  const roleRef = { apiGroup: roles.group, kind: 'Role', name: user };
  await c.admin.create(bindingsOf, { metadata, subjects, roleRef } as never);
  return user;
}

const requestEvacuation = (user: string, pod: Pod): Promise<Answer> =>
  kubectl(['create', '--dry-run=server', '--as', user, '-f', '-'], c.evacuation(pod, []));

describe('An Evacuation may be created by', () => {
  test.each([
    { who: 'may evict pods', rule: { apiGroups: [''], resources: ['pods/eviction'], verbs: ['create'] } },
    { who: 'may delete pods', rule: { apiGroups: [''], resources: ['pods'], verbs: ['delete'] } },
  ])('a user who $who', async ({ rule }) => {
    const user = await userWho(rule);
    const pod = await c.podOn(node);
    await eventually('the permission to take effect', async () =>
      expect(await requestEvacuation(user, pod)).toMatchObject({ code: 0 }),
    );
  });

  test('no other user, because the worker would evict the pod on their behalf', async () => {
    const user = await userWho({ apiGroups: [''], resources: ['pods'], verbs: ['get', 'create'] });
    const pod = await c.podOn(node);
    await eventually('the rejection by the policy', async () =>
      expect((await requestEvacuation(user, pod)).stderr).toContain(
        `spec.podRef: user "${user}" may neither evict nor delete pod ${c.namespace}/${pod.metadata.name}: request the verb create on pods/eviction, or delete on pods`,
      ),
    );
  });
});

describe('The deletion of an Evacuation', () => {
  test('is rejected while its evacuator forbids cancellation, and allowed afterwards', async () => {
    const pod = await c.podOn(node);
    const evacuation = await c.applied(c.evacuation(pod, []));
    const { name, namespace = '' } = evacuation.metadata;
    const activeEvacuatorClass = 'data.io';
    await c.withStatus(evacuation, { evacuationCancellationPolicy: 'Forbid', activeEvacuatorClass });
    const deleted = () => kubectl(['delete', 'evac', name, '-n', namespace, '--wait=false']);
    expect((await deleted()).stderr).toContain(
      `status.evacuationCancellationPolicy is Forbid: evacuator data.io cannot cancel the evacuation of pod ${namespace}/${pod.metadata.name}; wait until the pod is gone`,
    );
    await c.withStatus(evacuation, { evacuationCancellationPolicy: 'Allow' });
    expect(await deleted()).toMatchObject({ code: 0 });
  });
});

describe('An invalid evacuator annotation causes a warning', () => {
  const container = [{ name: 'main', image: 'fake' }];
  const template = (annotations: object) => ({
    metadata: { labels: { app: 'a' }, annotations },
    spec: { containers: container, restartPolicy: 'Never' },
  });
  const annotation = (name: string) => `evacuation.coordination.k8s.io/priority_${name}`;
  const bad = { [annotation('a.io')]: 'soon', [annotation('fine.io')]: '10000/controller' };
  const objects = (annotations: object): [string, object][] => {
    const selector = { matchLabels: { app: 'a' } };
    const always = {
      ...template(annotations),
      spec: { containers: container },
    };
    const job = { template: template(annotations) };
    return [
      ['Pod', { apiVersion: 'v1', metadata: { annotations }, spec: { containers: container } }],
      ['Deployment', { apiVersion: 'apps/v1', spec: { selector, template: always } }],
      ['DaemonSet', { apiVersion: 'apps/v1', spec: { selector, template: always } }],
      ['StatefulSet', { apiVersion: 'apps/v1', spec: { selector, serviceName: 's', template: always } }],
      ['Job', { apiVersion: 'batch/v1', spec: job }],
      ['CronJob', { apiVersion: 'batch/v1', spec: { schedule: '0 0 * * *', jobTemplate: { spec: job } } }],
    ];
  };
  const applied = (kind: string, object: object) => {
    const { metadata = {} } = object as { metadata?: object };
    const named = { ...object, kind, metadata: { ...metadata, name: 'a', namespace: c.namespace } };
    return kubectl(['create', '--dry-run=server', '-f', '-'], named);
  };

  test.each(objects(bad))('on a %s', async (kind, object) => {
    const { code, stderr } = await applied(kind, object);
    expect(code).toBe(0);
    expect(stderr).toContain(
      'annotation evacuation.coordination.k8s.io/priority_a.io is malformed: expected evacuation.coordination.k8s.io/priority_<CLASS>: "<priority>/<role>", for example "10000/controller" for class deployment.apps.k8s.io; otherwise the pod is evicted without an evacuator',
    );
  });

  test.each([
    { value: '10000/controller', warned: false },
    { value: '-1/x', warned: false },
    { value: '2147483648/x', warned: true },
    { value: '10000', warned: true },
    { value: '1/two words', warned: true },
  ])('for the value "$value": $warned', async ({ value, warned }) => {
    const [[kind, object]] = objects({ [annotation('a.io')]: value }) as [[string, object]];
    const { stderr } = await applied(kind, object);
    expect(stderr.includes('is malformed')).toBe(warned);
  });
});
