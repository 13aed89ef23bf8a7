import { describe, expect, test } from '@jest/globals';
import type { Pod } from '../../../api/core.ts';
import type { NodeAgent } from '../../../domain/leases/nodeAgent.ts';
import { type RemainingCause, remainingCause, remainingText } from '../../../domain/drain/remaining.ts';
import { daemonPod, liveAgent, mirrorPod, pod } from '../../kit/builders.ts';

type Absent = Exclude<NodeAgent, { kind: 'Live' }>;
const none: Absent = { kind: 'None' };
const silent = (since?: string): Absent => ({ kind: 'Silent', since });
const unknown: Absent = { kind: 'Unknown', because: 'leases is forbidden' };
const withoutFolder: NodeAgent = { kind: 'Live', version: '1.2.3', capabilities: ['reboot'] };
const mirror = 'kubernetes.io/config.mirror';
const consent = 'nodemaintenance.k8s.io/evacuate-control-plane';
const etcd = { component: 'etcd' };
const consenting = mirrorPod({ labels: etcd, annotations: { [mirror]: 'hash', [consent]: 'true' } });
const fromUrl = mirrorPod({ annotations: { [mirror]: 'hash', 'kubernetes.io/config.source': 'http' } });

describe('a drain', () => {
  test.each<{ what: string; of: Pod; agent: NodeAgent; because: string | undefined }>([
    { what: 'evacuates a pod without an agent', of: pod(), agent: none, because: undefined },
    { what: 'evacuates a DaemonSet pod without an agent', of: daemonPod(), agent: none, because: undefined },
    { what: 'leaves a static pod without an agent', of: mirrorPod(), agent: none, because: 'None' },
    { what: 'leaves it when the agent is silent', of: mirrorPod(), agent: silent(), because: 'Silent' },
    { what: 'leaves it when it cannot know', of: mirrorPod(), agent: unknown, because: 'Unknown' },
    { what: 'evacuates it with an agent', of: mirrorPod(), agent: liveAgent, because: undefined },
    {
      what: 'leaves it when the agent has no folder of static pods',
      of: mirrorPod(),
      agent: withoutFolder,
      because: 'NotCapable',
    },
    {
      what: 'leaves the control plane',
      of: mirrorPod({ labels: etcd }),
      agent: liveAgent,
      because: 'NeedsConsent',
    },
    {
      what: 'leaves a proxy of the apiserver, by the name of its mirror pod',
      of: mirrorPod({ name: 'nginx-proxy-node-1' }),
      agent: liveAgent,
      because: 'NeedsConsent',
    },
    { what: 'evacuates it by consent', of: consenting, agent: liveAgent, because: undefined },
    { what: 'needs an agent for that, too', of: consenting, agent: none, because: 'None' },
    { what: 'leaves a manifest from a URL', of: fromUrl, agent: liveAgent, because: 'NotFromFile' },
  ])('$what', ({ of, agent, because }) => {
    expect(remainingCause(of, agent)?.kind).toBe(because);
  });
});

const remaining = (name: string, node: string, cause: RemainingCause) => {
  const mirrored = mirrorPod({ name });
  return { pod: { ...mirrored, spec: { nodeName: node } }, cause };
};

test('names each cause once, with its pods, its nodes and the remedy', () => {
  const since = '2026-01-01T11:00:00.000Z';
  const all = [
    remaining('c', 'three', silent(since)),
    remaining('b', 'two', none),
    remaining('a', 'one', none),
    remaining('d', 'four', silent()),
    { pod: mirrorPod({ name: 'etcd' }), cause: { kind: 'NeedsConsent' } as const },
    { pod: mirrorPod({ name: 'url' }), cause: { kind: 'NotFromFile' } as const },
    remaining('e', 'five', unknown),
    remaining('f', 'six', { kind: 'NotCapable' }),
  ];
  expect(remainingText(all).split('; ')).toEqual([
    'default/etcd (part of the control plane, without consent: to stop it, too, set the annotation nodemaintenance.k8s.io/evacuate-control-plane: "true" in its manifest)',
    'default/a, default/b (no node agent reports from nodes one, two: install it there, or remove the manifests from the folder of the kubelet)',
    'default/f (the node agent of node six cannot stop static pods, because it does not find their folder: set its --static-pod-path (STATIC_POD_PATH) to the staticPodPath of the kubelet)',
    'default/url (the kubelet does not have its manifest from a file: remove it from its source)',
    `default/c, default/d (the node agent has not reported from node four, from node three since ${since}: check that it runs there)`,
    'default/e (the worker may not read the Lease of the node agent (leases is forbidden): apply deploy/rbac again)',
  ]);
  expect(remainingText(all.toReversed())).toBe(remainingText(all));
});

test('stays short for a thousand nodes', () => {
  const all = Array.from({ length: 1_000 }, (_, i) => remaining(`p-${i}`, `n-${i}`, none));
  expect(remainingText(all).length).toBeLessThan(400);
});
