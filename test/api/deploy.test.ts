import { parseArgs } from 'node:util';
import { parseAllDocuments } from 'yaml';
import { customResourceDefinitions } from '../../api/crd.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { type Impersonation, impersonationIn } from '../kit/impersonation.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { type Kubectl, kubectlOf, succeeds } from './kubectl.ts';

let sandbox: Sandbox | undefined;
let kubectl: Kubectl;
let as: Impersonation;
let groups: Map<string, string>;

beforeAll(async () => {
  sandbox = await testSandbox();
  kubectl = kubectlOf(sandbox);
  as = await impersonationIn(sandbox);
  groups = await apiGroups();
});

afterAll(async () => {
  as?.close();
  await releaseSandbox(sandbox);
});

const worker = 'system:serviceaccount:node-maintenance:node-maintenance-worker';
const admission = 'system:serviceaccount:node-maintenance:node-maintenance-admission';

/** The API groups of resources, by their plural names. */
async function apiGroups(): Promise<Map<string, string>> {
  const listed = (await succeeds(kubectl(['api-resources', '-o', 'name']))).trim().split('\n');
  const named = listed.map((name) => name.split(/\.(.*)/s));
  // Of several groups, kubectl takes the first.
  return new Map(named.toReversed().map(([plural = '', group = '']) => [plural, group]));
}

/** Answers as `kubectl auth can-i <action> --as <user>`: an action is `<verb> <resource>[/<name>]`, with options. */
async function may(user: string, action: string): Promise<'yes' | 'no'> {
  const { values, positionals } = parseArgs({
    args: action.split(' '),
    options: {
      subresource: { type: 'string' },
      namespace: { type: 'string', short: 'n', default: 'default' },
      'all-namespaces': { type: 'boolean' },
    },
    allowPositionals: true,
  });
  const [verb, what = ''] = positionals;
  const [resource = '', name] = what.split('/');
  const resourceAttributes = {
    verb,
    group: groups.get(resource) ?? '',
    resource,
    ...(name !== undefined && { name }),
    ...(values.subresource !== undefined && { subresource: values.subresource }),
    namespace: values['all-namespaces'] ? '' : values.namespace,
  };
  const path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';
  const review = {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SelfSubjectAccessReview',
    spec: { resourceAttributes },
  };
  const { body } = await as.send(user, { method: 'POST', path, body: review });
  return (body as { status: { allowed: boolean } }).status.allowed ? 'yes' : 'no';
}

describe('the worker may', () => {
  test.each([
    'patch nodes',
    'patch nodes --subresource=status',
    'watch pods --all-namespaces',
    'patch pods --all-namespaces',
    'delete pods --all-namespaces',
    'patch pods --subresource=status --all-namespaces',
    'watch daemonsets --all-namespaces',
    'create pods --subresource=eviction --all-namespaces',
    'get deployments --all-namespaces',
    'get replicasets --all-namespaces',
    'list services --all-namespaces',
    'list endpointslices --all-namespaces',
    'watch poddisruptionbudgets --all-namespaces',
    'create nodemaintenances',
    'delete nodemaintenances',
    'watch maintenancewindows',
    'patch maintenancewindows',
    'patch maintenancewindows --subresource=status',
    'create nodedisruptionbudgets',
    'patch nodedisruptionbudgets --subresource=status',
    'watch jobs -n node-maintenance-work',
    'create jobs -n node-maintenance-work',
    'delete jobs -n node-maintenance-work',
    'get validatingadmissionpolicies/worker-maintenances.nodemaintenance.k8s.io',
    'patch nodemaintenances --subresource=status',
    'list deployments --all-namespaces',
    'list statefulsets --all-namespaces',
    'create nodereadinesses',
    'patch nodereadinesses',
    'watch nodereadinesses',
    'patch nodereadinesses --subresource=status',
    'watch nodereadinesspolicies',
    'patch nodereadinesspolicies --subresource=status',
    'create evacuations --all-namespaces',
    'delete evacuations --all-namespaces',
    'patch evacuations --subresource=status --all-namespaces',
    'create events --all-namespaces',
    'list leases -n node-maintenance',
    'create leases -n node-maintenance',
    'patch leases -n node-maintenance',
    'delete leases -n node-maintenance',
    'get leases -n kube-node-lease',
    'get leases -n kube-node-maintenance-agent',
    'list leases -n kube-node-maintenance-agent',
    'watch nodedisruptionbudgets',
    'get namespaces',
    'create namespaces',
    'get validatingadmissionpolicies/worker-namespaces.nodemaintenance.k8s.io',
    'get validatingadmissionpolicybindings/worker-namespaces.nodemaintenance.k8s.io',
    'get customresourcedefinitions/nodemaintenances.nodemaintenance.k8s.io',
    'create subjectaccessreviews',
    'get validatingadmissionpolicies/evacuation-requester.nodemaintenance.k8s.io',
    'get validatingadmissionpolicies/released-pods.nodemaintenance.k8s.io',
    'get validatingadmissionpolicies/window-annotations.nodemaintenance.k8s.io',
    'get validatingadmissionpolicies/window-author.nodemaintenance.k8s.io',
    'get validatingadmissionpolicybindings/window-maintenances.nodemaintenance.k8s.io',
    'get validatingadmissionpolicies/webhook-registrations.nodemaintenance.k8s.io',
    'get validatingadmissionpolicybindings/worker-nodes.nodemaintenance.k8s.io',
    'get validatingadmissionpolicies/worker-pods.nodemaintenance.k8s.io',
    'get validatingadmissionpolicybindings/worker-pods.nodemaintenance.k8s.io',
    'get mutatingadmissionpolicies/requester.nodemaintenance.k8s.io',
    'get validatingadmissionpolicybindings/requester.nodemaintenance.k8s.io',
    'get validatingadmissionpolicies/readiness-gates.nodemaintenance.k8s.io',
    'get validatingadmissionpolicies/readiness-authors.nodemaintenance.k8s.io',
    'get mutatingadmissionpolicies/drain-plan.nodemaintenance.k8s.io',
    'get mutatingadmissionpolicies/readiness-taint.nodemaintenance.k8s.io',
    'get mutatingadmissionpolicybindings/prepared-readiness-taint.nodemaintenance.k8s.io',
    'get mutatingadmissionpolicies/daemonset-evacuator.nodemaintenance.k8s.io',
    'get mutatingadmissionpolicybindings/daemonset-gate.nodemaintenance.k8s.io',
    'get mutatingadmissionpolicybindings/drain-plan.nodemaintenance.k8s.io',
  ])('%s', async (action) => {
    expect(await may(worker, action)).toBe('yes');
  });
});

describe('the worker may not', () => {
  test.each([
    'create pods --all-namespaces',
    'patch deployments --all-namespaces',
    'patch replicasets --all-namespaces',
    'update deployments --subresource=scale --all-namespaces',
    'update pods --all-namespaces',
    'deletecollection pods --all-namespaces',
    'patch daemonsets --all-namespaces',
    'delete nodes',
    'create maintenancewindows',
    'patch nodedisruptionbudgets',
    'create jobs --all-namespaces',
    'create jobs -n default',
    'patch jobs -n node-maintenance-work',
    'delete nodereadinesses',
    'patch nodereadinesspolicies',
    'patch statefulsets --all-namespaces',
    'get secrets --all-namespaces',
    'get secrets -n node-maintenance',
    'list secrets -n node-maintenance',
    'create secrets -n node-maintenance',
    'get secrets/node-maintenance-webhook -n node-maintenance',
    'patch secrets/node-maintenance-webhook -n node-maintenance',
    'get validatingwebhookconfigurations/nodemaintenance.k8s.io',
    'create validatingwebhookconfigurations',
    'patch validatingwebhookconfigurations/nodemaintenance.k8s.io',
    'patch mutatingwebhookconfigurations/nodemaintenance.k8s.io',
    'create serviceaccounts --subresource=token -n node-maintenance',
    'impersonate users',
    'update leases -n kube-node-lease',
    'update leases -n kube-node-maintenance',
    'patch leases -n kube-node-maintenance-agent',
    'update leases -n node-maintenance',
    'update nodemaintenances --subresource=finalizers',
    'update evacuations --subresource=finalizers --all-namespaces',
    'delete leases -n kube-node-maintenance',
    'list namespaces',
    'list namespaces',
    'patch namespaces/kube-node-maintenance',
    'delete namespaces/kube-node-maintenance',
    'create customresourcedefinitions',
    'create mutatingadmissionpolicies',
    'get customresourcedefinitions/leases.example.com',
  ])('%s', async (action) => {
    expect(await may(worker, action)).toBe('no');
  });
});

describe('the admission server may', () => {
  test.each([
    'watch nodes',
    'watch nodemaintenances',
    'list nodedisruptionbudgets',
    'get pods --all-namespaces',
    'list pods --all-namespaces',
    'get evacuations --all-namespaces',
    'get namespaces',
    'list daemonsets --all-namespaces',
    'list statefulsets --all-namespaces',
    'create subjectaccessreviews',
    'get validatingwebhookconfigurations/nodemaintenance.k8s.io',
    'patch validatingwebhookconfigurations/nodemaintenance.k8s.io',
    'patch mutatingwebhookconfigurations/nodemaintenance.k8s.io',
    'create secrets/node-maintenance-webhook -n node-maintenance',
    'patch secrets/node-maintenance-webhook -n node-maintenance',
    'create leases -n node-maintenance',
    'patch leases -n node-maintenance',
    'get customresourcedefinitions/nodemaintenances.nodemaintenance.k8s.io',
    'get validatingadmissionpolicies/webhook-registrations.nodemaintenance.k8s.io',
  ])('%s', async (action) => {
    expect(await may(admission, action)).toBe('yes');
  });
});

describe('the admission server may not', () => {
  test.each([
    'patch nodes',
    'patch nodes --subresource=status',
    'delete nodes',
    'patch pods --all-namespaces',
    'delete pods --all-namespaces',
    'create pods --subresource=eviction --all-namespaces',
    'create nodemaintenances',
    'patch nodemaintenances',
    'patch nodemaintenances --subresource=status',
    'patch evacuations --all-namespaces',
    'create jobs -n node-maintenance-work',
    'patch leases -n kube-node-maintenance',
    'get secrets --all-namespaces',
    'list secrets -n node-maintenance',
    'create secrets -n node-maintenance',
    'create validatingwebhookconfigurations/nodemaintenance.k8s.io',
    'delete validatingwebhookconfigurations/nodemaintenance.k8s.io',
    'patch validatingwebhookconfigurations/another.example.com',
    'patch validatingadmissionpolicies/webhook-registrations.nodemaintenance.k8s.io',
    'impersonate users',
    'create serviceaccounts --subresource=token -n node-maintenance',
  ])('%s', async (action) => {
    expect(await may(admission, action)).toBe('no');
  });
});

describe('the Temporal user', () => {
  const user = 'nodemaintenance.k8s.io:temporal';

  test('gets no permission from deploy/', async () => {
    const manifests = parseAllDocuments(await succeeds(kubectl(['kustomize', 'deploy'])));
    const bindings = manifests
      .map((one) => one.toJS() as { kind: string; subjects?: { name: string }[] })
      .filter(({ kind }) => kind.endsWith('RoleBinding'));
    expect(bindings.length).toBeGreaterThan(0);
    expect(bindings.filter(({ subjects = [] }) => subjects.some(({ name }) => name === user))).toEqual([]);
  });

  test('may maintain any node with deploy/temporal-user, which the sandbox applies, and has no other permission', async () => {
    expect(await may(user, 'delete nodes')).toBe('yes');
    expect(await may(user, 'create nodemaintenances')).toBe('no');
  });

  test('may maintain the named nodes only with deploy/temporal-user/some-nodes.yaml', async () => {
    await succeeds(kubectl(['apply', '-f', 'deploy/temporal-user/some-nodes.yaml']));
    try {
      expect(await may(user, 'delete nodes/node-1')).toBe('yes');
      expect(await may(user, 'delete nodes/node-3')).toBe('no');
      expect(await may(user, 'delete nodes')).toBe('no');
    } finally {
      await succeeds(kubectl(['apply', '--server-side', '--force-conflicts', '-k', 'deploy/temporal-user']));
    }
    expect(await may(user, 'delete nodes')).toBe('yes');
  });
});

describe('the built-in roles', () => {
  const rulesOf = async (role: string) =>
    JSON.parse(await succeeds(kubectl(['get', 'clusterrole', role, '-o', 'json']))).rules as {
      resources?: string[];
      verbs: string[];
    }[];

  test.each([
    { role: 'view', resource: 'nodemaintenances', verbs: ['get', 'list', 'watch'] },
    { role: 'view', resource: 'nodereadinesses', verbs: ['get', 'list', 'watch'] },
    { role: 'view', resource: 'evacuations', verbs: ['get', 'list', 'watch'] },
    {
      role: 'edit',
      resource: 'evacuations',
      verbs: ['create', 'delete', 'get', 'list', 'patch', 'update', 'watch'],
    },
    // Nodes are not theirs either.
    { role: 'edit', resource: 'nodemaintenances', verbs: ['get', 'list', 'watch'] },
    { role: 'edit', resource: 'maintenancewindows', verbs: ['get', 'list', 'watch'] },
  ])('$role gets $verbs of $resource', async ({ role, resource, verbs }) => {
    const rules = (await rulesOf(role)).filter(({ resources }) => resources?.includes(resource));
    expect(rules.flatMap((rule) => rule.verbs).toSorted()).toEqual(verbs);
  });
});

test('deploy/ installs every CRD', async () => {
  const names = customResourceDefinitions().map(({ metadata }) => metadata.name);
  const rendered = await succeeds(kubectl(['kustomize', 'deploy']));
  expect(names.filter((name) => !rendered.includes(`name: ${name}\n`))).toEqual([]);
});

test.each(['deploy/worker', 'deploy/admission-server'])('the apiserver accepts %s', async (folder) => {
  const { code, stderr } = await kubectl(['apply', '--dry-run=server', '-k', folder]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
});
