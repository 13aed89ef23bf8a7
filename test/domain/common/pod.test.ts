import { describe, expect, test } from '@jest/globals';
import { isFromFile, isLeftRunning } from '../../../domain/common/pod.ts';
import { daemonPod, mirrorPod, pod } from '../../kit/builders.ts';

const job = [{ apiVersion: 'batch/v1', kind: 'Job', name: 'j', uid: 'j', controller: true }];
const agentLabels = { 'app.kubernetes.io/name': 'node-maintenance-agent' };
const withAccount = (one: ReturnType<typeof pod>) => ({
  ...one,
  spec: { ...one.spec, serviceAccountName: 'node-maintenance-agent' },
});

describe('a drain leaves', () => {
  test.each([
    {
      what: 'the pod of a Job of a window',
      of: pod({ namespace: 'node-maintenance-work', ownerReferences: job }),
      is: true,
    },
    { what: 'no other Job', of: pod({ ownerReferences: job }), is: false },
    {
      what: 'the node agent in a DaemonSet of the installation',
      of: withAccount(daemonPod({ namespace: 'berlin' })),
      is: true,
    },
    {
      what: 'no pod of a tenant that names its ServiceAccount like that',
      of: withAccount(daemonPod()),
      is: false,
    },
    { what: 'no other pod of the installation', of: daemonPod({ namespace: 'berlin' }), is: false },
    { what: 'the node agent as a static pod', of: mirrorPod({ labels: agentLabels }), is: true },
    { what: 'no other static pod', of: mirrorPod(), is: false },
    { what: 'no pod that only has the label', of: pod({ labels: agentLabels }), is: false },
  ])('$what', ({ of, is }) => {
    expect(isLeftRunning(of, 'berlin')).toBe(is);
  });
});

test.each([
  { source: undefined, is: true },
  { source: 'file', is: true },
  { source: 'http', is: false },
])('a static pod with source $source', ({ source, is }) => {
  const annotations = {
    'kubernetes.io/config.mirror': 'hash',
    ...(source !== undefined && { 'kubernetes.io/config.source': source }),
  };
  expect(isFromFile(pod({ annotations }))).toBe(is);
});
