import { describe, expect, test } from '@jest/globals';
import {
  accountFindings,
  installationFindings,
  kubernetesFindings,
  userFindings,
} from '../../../domain/doctor/installation.ts';

describe('the version of Kubernetes', () => {
  test.each([
    { version: 'v1.32.9', policies: 'NotServed', want: ['error'], text: '1.33 or later is required' },
    { version: 'v1.35.0', policies: 'NotServed', want: ['ok', 'warning'], text: 'does not serve' },
    {
      version: 'v1.37.1',
      policies: 'NotInstalled',
      want: ['ok', 'warning'],
      text: 'served but not installed',
    },
    { version: 'v1.37.1', policies: 'Installed', want: ['ok'], text: 'v1.37.1' },
    { version: 'v1.37.1', policies: undefined, want: ['ok'], text: 'v1.37.1' },
  ] as const)('$version with policies $policies', ({ version, policies, want, text }) => {
    const findings = kubernetesFindings({ version, policies });
    expect(findings.map(({ result }) => result)).toEqual(want);
    expect(findings.at(-1)?.message).toContain(text);
  });

  test('without policies, what is weaker is named', () => {
    const [, weaker] = kubernetesFindings({ version: 'v1.33.0', policies: 'NotServed' });
    expect(weaker?.message).toMatch(/only the worker can create.*DaemonSet returns.*taint from the worker/);
    expect(weaker?.remedy).toContain('docs/reference/compatibility.md');
  });
});

describe('what is installed', () => {
  const facts = {
    version: '0.1.0',
    namespace: 'nm',
    compared: 36,
    differing: [],
    problems: [],
    namespaces: ['nm'],
  };
  test.each([
    { when: 'all is of this release', differs: {}, want: 'ok', text: '36 CRD, policy and webhook objects' },
    {
      when: 'something is missing',
      differs: { differing: ['a is missing'], problems: ['a is missing', 'b lacks spec.c'] },
      want: 'error',
      text: 'processes of release 0.1.0 do not start: a is missing, b lacks spec.c',
    },
    {
      when: 'the installation is of a release next to it',
      differs: { differing: ['a of release 0.2.0', 'b of release 0.2.0'] },
      want: 'warning',
      text: '2 objects of 36 differ from release 0.1.0: a of release 0.2.0, b of release 0.2.0',
    },
    {
      when: 'the policies are those of another namespace, all of them differ',
      differs: { namespaces: ['berlin', 'nm'], differing: ['a of release 0.1.0'] },
      want: 'error',
      text: 'the processes in namespace berlin, not in nm',
    },
  ])('$when', ({ differs, want, text }) => {
    const [finding, ...more] = installationFindings({ ...facts, ...differs });
    expect(more).toEqual([]);
    expect(finding).toMatchObject({ result: want, message: expect.stringContaining(text) });
  });
});

test('a ServiceAccount without permissions is an error that names them', () => {
  const accounts = [
    { account: 'nm/worker', reviewed: 90, denied: [] },
    { account: 'nm/admission', reviewed: 40, denied: ['list nodes', 'get pods'] },
  ];
  expect(accountFindings(accounts)).toEqual([
    { result: 'ok', message: 'ServiceAccount nm/worker has the 90 permissions of deploy/' },
    expect.objectContaining({
      result: 'error',
      message: 'ServiceAccount nm/admission may not list nodes, get pods',
    }),
  ]);
});

test('a user learns what they may do, and which role gives the rest', () => {
  const roles = [
    { role: 'node-maintenance-view', purpose: 'see maintenances', missing: [] },
    {
      role: 'node-maintenance-operator',
      purpose: 'create maintenances',
      missing: ['create nodemaintenances'],
    },
  ];
  expect(userFindings('jane', roles)).toEqual([
    { result: 'ok', message: 'user jane may see maintenances' },
    {
      result: 'warning',
      message: 'user jane may not create maintenances: create nodemaintenances denied',
      remedy: 'bind the ClusterRole node-maintenance-operator, if the user is meant to',
    },
  ]);
});
