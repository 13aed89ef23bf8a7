import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { isControlPlanePod, needsConsent, staticPodOf } from '../../../domain/common/staticPod.ts';
import { type Manifest, mirrorPod } from '../../../domain/staticPods/manifest.ts';

const consent = 'nodemaintenance.k8s.io/evacuate-control-plane';

const components = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler'];
const names = [
  ...components,
  'etcd-manager',
  'etcd-manager-main',
  'etcd-manager-events',
  'openshift-kube-scheduler',
  'cloud-controller-manager',
  'aws-cloud-controller-manager',
  'nginx-proxy',
  'kube-nginx',
  'haproxy',
  'kube-haproxy',
  'kube-apiserver-proxy',
  'kube-vip',
  'keepalived',
  'kube-sealos-lvscare',
];
const others = ['kube-proxy', 'etcd-backup', 'nginx', 'my-kube-apiserver', 'kube-vip-exporter', 'web', ''];
const labelKeys = ['component', 'k8s-app', 'app', 'app.kubernetes.io/name', 'app.kubernetes.io/component'];

describe('a static pod of the control plane', () => {
  test.each([
    { labels: undefined, is: false },
    { labels: { tier: 'control-plane' }, is: true },
    { labels: { tier: 'node' }, is: false },
    // kOps
    { labels: { 'k8s-app': 'kube-apiserver' }, is: true },
    { labels: { 'k8s-app': 'etcd-manager-main' }, is: true },
    // Kubespray: the route of a worker's kubelet to the apiserver
    { labels: { 'addonmanager.kubernetes.io/mode': 'Reconcile', 'k8s-app': 'kube-nginx' }, is: true },
    { labels: { app: 'nginx-proxy' }, is: true },
    ...labelKeys.flatMap((key) => names.map((name) => ({ labels: { [key]: name }, is: true }))),
    ...labelKeys.flatMap((key) => others.map((name) => ({ labels: { [key]: name }, is: false }))),
    ...['kubernetes.io/name', 'role', 'owner'].map((key) => ({ labels: { [key]: 'etcd' }, is: false })),
  ])('is recognized by its labels: $labels', ({ labels, is }) => {
    expect(isControlPlanePod({ name: 'pod', labels })).toBe(is);
    expect(needsConsent({ name: 'pod', labels })).toBe(is);
  });

  test.each([...names.map((name) => ({ name, is: true })), ...others.map((name) => ({ name, is: false }))])(
    'is recognized by its name, without labels: $name',
    ({ name, is }) => {
      expect(isControlPlanePod({ name })).toBe(is);
      expect(needsConsent({ name })).toBe(is);
    },
  );

  test.each([
    { mirror: 'kube-apiserver-node-1', on: 'node-1', is: true },
    { mirror: 'etcd-manager-main-i-0123456789abcdef0', on: 'i-0123456789abcdef0', is: true },
    { mirror: 'nginx-proxy-worker.example.com', on: 'Worker.example.com', is: true },
    { mirror: 'kube-vip', on: 'node-1', is: true },
    { mirror: 'web-node-1', on: 'node-1', is: false },
    { mirror: 'etcd-backup-node-1', on: 'node-1', is: false },
  ])('is recognized by the name of its mirror pod: $mirror on $on', ({ mirror, on, is }) => {
    const pod = { metadata: { name: mirror }, spec: { nodeName: on }, status: { ready: true } };
    expect(isControlPlanePod(staticPodOf(pod))).toBe(is);
  });

  test('is the same for the worker, which sees the mirror pod, as for the agent, which sees the manifest', () => {
    const text = fc.oneof(fc.constantFrom(...names, ...others), fc.string());
    const manifest = fc.record({ name: text, labels: fc.dictionary(fc.constantFrom(...labelKeys), text) });
    fc.assert(
      fc.property(manifest, fc.constantFrom('node-1', 'etcd', 'a.b'), (differs, node) => {
        const fixed = {
          file: 'a',
          namespace: 'default',
          annotations: {},
          priority: 0,
          gracePeriodSeconds: 1,
        };
        const one: Manifest = { ...fixed, ...differs };
        expect(needsConsent(staticPodOf(mirrorPod(one, node)))).toBe(needsConsent(one));
      }),
    );
  });

  test.each([
    { value: 'true', needs: false },
    { value: 'false', needs: true },
    { value: 'True', needs: true },
    { value: '', needs: true },
  ])('may be stopped only with the annotation "true", not "$value"', ({ value, needs }) => {
    expect(needsConsent({ name: 'etcd', annotations: { [consent]: value } })).toBe(needs);
  });
});
