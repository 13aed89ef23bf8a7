import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import {
  type AuditEvent,
  compare,
  type Manifest,
  permissionsIn,
  problemsOf,
  requestsIn,
  usageTable,
} from '../../../scripts/permissions/compare.ts';
import { readPermissions } from '../../../scripts/permissions/files.ts';

const subjects = [{ kind: 'ServiceAccount', name: 'w', namespace: 'system' }];
const clusterRole = (...rules: NonNullable<Manifest['rules']>): Manifest[] => [
  { kind: 'ClusterRole', metadata: { name: 'r' }, rules },
  {
    kind: 'ClusterRoleBinding',
    metadata: { name: 'b' },
    roleRef: { kind: 'ClusterRole', name: 'r' },
    subjects,
  },
];
const role = (namespace: string, ...rules: NonNullable<Manifest['rules']>): Manifest[] => [
  { kind: 'Role', metadata: { name: 'r', namespace }, rules },
  { kind: 'Role', metadata: { name: 'r', namespace: 'other' }, rules: [] },
  { kind: 'RoleBinding', metadata: { name: 'b', namespace }, roleRef: { kind: 'Role', name: 'r' }, subjects },
];

const podReader = { apiGroups: [''], resources: ['pods'], verbs: ['get', 'list'] };

const event = (
  verb: string,
  objectRef: AuditEvent['objectRef'],
  differs: Partial<AuditEvent> = {},
): AuditEvent => ({
  verb,
  requestURI: '/api/v1/pods?limit=500',
  user: { username: 'system:serviceaccount:system:w' },
  userAgent: 'node-maintenance',
  ...(objectRef && { objectRef }),
  responseStatus: { code: 200 },
  annotations: { 'authorization.k8s.io/decision': 'allow' },
  ...differs,
});
const denied = { annotations: { 'authorization.k8s.io/decision': 'forbid' }, responseStatus: { code: 403 } };

const problems = (manifests: Manifest[], ...events: AuditEvent[]) =>
  problemsOf(compare(permissionsIn(manifests), events.flatMap(requestsIn)));

const unused = (what: string) =>
  `system/w: ${what} is granted and was never used: remove it, or test what needs it`;

describe('the comparison of permissions with requests reports', () => {
  test('nothing when each verb was used', () => {
    const events = [
      event('get', { resource: 'pods', namespace: 'a', name: 'p' }),
      event('list', { resource: 'pods' }),
    ];
    expect(problems(clusterRole(podReader), ...events)).toEqual([]);
  });

  test('a verb that was not used', () => {
    expect(problems(clusterRole(podReader), event('get', { resource: 'pods', name: 'p' }))).toEqual([
      unused('list pods'),
    ]);
  });

  test('a verb of a subresource, of which only the resource was used', () => {
    const patch = event('patch', { apiGroup: 'g', resource: 'things', name: 't' });
    const rule = { apiGroups: ['g'], resources: ['things', 'things/status'], verbs: ['patch'] };
    expect(problems(clusterRole(rule), patch)).toEqual([unused('patch things/status.g')]);
  });

  test('a name that was not used', () => {
    const rule = { apiGroups: [''], resources: ['secrets'], resourceNames: ['one', 'two'], verbs: ['get'] };
    const events = [event('get', { resource: 'secrets', namespace: 'a', name: 'one' })];
    expect(problems(role('a', rule), ...events)).toEqual([unused('get secrets "two" in namespace a')]);
  });

  test('a Role of whose verb only other namespaces have seen use', () => {
    const events = ['get', 'list'].map((verb) =>
      event(verb, { resource: 'pods', namespace: 'b', name: 'p' }),
    );
    expect(problems(role('a', podReader), ...events)).toEqual([
      unused('get pods in namespace a'),
      unused('list pods in namespace a'),
    ]);
  });

  test('a verb that only another account, a test with the token or an administrator in the name of the account used', () => {
    const key = { resource: 'pods', name: 'p' };
    const events = [
      event('get', key, { user: { username: 'system:serviceaccount:system:other' } }),
      event('get', key, { user: { username: 'system:node:n' } }),
      event('get', key, { userAgent: 'node-maintenance-test' }),
      event('get', key, { userAgent: 'kubectl/v1.37.1 (linux/amd64)' }),
      event('get', key, { impersonatedUser: { username: 'system:serviceaccount:system:w' } }),
      event('list', { resource: 'pods' }),
    ];
    expect(problems(clusterRole(podReader), ...events)).toEqual([unused('get pods')]);
  });

  test.each([
    { what: 'verb', rule: { ...podReader, verbs: ['*'] }, text: '* pods' },
    { what: 'resource', rule: { ...podReader, resources: ['*'], verbs: ['get'] }, text: 'get *' },
    {
      what: 'subresource',
      rule: { ...podReader, resources: ['*/scale'], verbs: ['get'] },
      text: 'get */scale',
    },
    { what: 'group', rule: { ...podReader, apiGroups: ['*'], verbs: ['get'] }, text: 'get pods.*' },
    { what: 'path', rule: { nonResourceURLs: ['/metrics/*'], verbs: ['get'] }, text: 'get /metrics/*' },
  ])('a wildcard as $what, whatever was used', ({ rule, text }) => {
    const events = ['get', 'list'].map((verb) => event(verb, { resource: 'pods', name: 'p' }));
    expect(problems(clusterRole(rule), ...events)).toEqual([
      `system/w: ${text} is granted by a wildcard: name what is needed`,
    ]);
  });

  test('a request that RBAC denied, once', () => {
    const deletion = event('delete', { resource: 'pods', namespace: 'a', name: 'p' }, denied);
    const rule = { apiGroups: [''], resources: ['pods'], resourceNames: ['q'], verbs: ['delete'] };
    expect(problems(clusterRole(rule), deletion, deletion)).toEqual([
      unused('delete pods "q"'),
      'system/w: delete pods "p" in namespace a was denied: grant it, or do not ask for it',
    ]);
  });

  test('a request that was denied because a test took the permission away, as no use of it', () => {
    const deletion = event('delete', { resource: 'pods', namespace: 'a', name: 'p' }, denied);
    const rule = { apiGroups: [''], resources: ['pods'], verbs: ['delete'] };
    expect(problems(clusterRole(rule), deletion)).toEqual([unused('delete pods')]);
  });

  test('no path that everybody may read, and that an apiserver denied while it started', () => {
    const rule = { apiGroups: [''], resources: ['pods'], verbs: ['get'] };
    const version = (differs: object) => {
      const { objectRef: _none, ...rest } = event('get', { resource: 'pods', name: 'p' }, differs);
      return { ...rest, requestURI: '/version' };
    };
    const used = event('get', { resource: 'pods', name: 'p' });
    expect(problems(clusterRole(rule), used, version(denied), version({}))).toEqual([]);
    expect(problems(clusterRole(rule), used, version(denied))).toEqual([
      'system/w: get /version was denied: grant it, or do not ask for it',
    ]);
  });

  test('no request that admission rejected', () => {
    const rejected = event('get', { resource: 'pods', name: 'p' }, { responseStatus: { code: 403 } });
    expect(problems(clusterRole({ ...podReader, verbs: ['get'] }), rejected)).toEqual([]);
  });

  test('no create that only an apply used', () => {
    const rule = { apiGroups: [''], resources: ['pods'], resourceNames: ['p'], verbs: ['create', 'patch'] };
    const key = { resource: 'pods', name: 'p' };
    expect(problems(clusterRole(rule), event('patch', key))).toEqual([unused('create pods "p"')]);
    expect(problems(clusterRole(rule), event('patch', key, { responseStatus: { code: 201 } }))).toEqual([]);
  });
});

test('a path is a permission too', () => {
  const rule = { nonResourceURLs: ['/healthz', '/version'], verbs: ['get'] };
  const version = event('get', undefined, { requestURI: '/version?timeout=1s' });
  expect(problems(clusterRole(rule), version)).toEqual([unused('get /healthz')]);
});

test('a role that is not among the manifests is an error: nobody could compare what it grants', () => {
  const [, binding = { kind: '', metadata: { name: '' } }] = clusterRole(podReader);
  expect(() => permissionsIn([binding])).toThrow(
    'ClusterRoleBinding b: ClusterRole r is not in the same manifests',
  );
});

test('a role for users is not compared', () => {
  const [clusterRoleOnly = { kind: '', metadata: { name: '' } }] = clusterRole(podReader);
  const users = [{ kind: 'User', name: 'jane' }];
  const roleRef = { kind: 'ClusterRole', name: 'r' };
  const binding = { kind: 'ClusterRoleBinding', metadata: { name: 'b' }, roleRef, subjects: users };
  expect(permissionsIn([clusterRoleOnly, binding])).toEqual([]);
});

test('the table counts the requests of each permission, and lists what roles of others allowed', () => {
  const requests = [
    event('get', { resource: 'pods', namespace: 'a', name: 'p' }),
    event('get', { resource: 'pods', namespace: 'a', name: 'q' }),
    event('get', undefined, { requestURI: '/version' }),
  ].flatMap(requestsIn);
  expect(usageTable(permissionsIn(clusterRole(podReader)), requests)).toBe(
    [
      'Granted, with the number of events in the logs:',
      '  system/w: pods: get 2, list 0',
      'Allowed by roles of others:',
      '  system/w: /version: get 1',
    ].join('\n'),
  );
});

test('deploy/ grants permissions to the worker, none by a wildcard', async () => {
  const granted = await readPermissions();
  expect(granted).toContainEqual(
    expect.objectContaining({
      account: 'node-maintenance/node-maintenance-worker',
      resource: 'pods/eviction',
    }),
  );
  expect(compare(granted, []).wildcards).toEqual([]);
});

test('sandboxes record the requests of every account that has permissions', async () => {
  const policy = new URL('../../../sandbox/audit-policy.yaml', import.meta.url);
  const { rules } = parse(readFileSync(policy, 'utf8')) as { rules: { userGroups?: string[] }[] };
  const namespaces = (await readPermissions()).map(({ account }) => account.split('/')[0]);
  const groups = [...new Set(namespaces)].map((namespace) => `system:serviceaccounts:${namespace}`);
  expect(rules[0]?.userGroups).toEqual(groups.toSorted());
});
