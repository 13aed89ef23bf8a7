import { describe, expect, test } from '@jest/globals';
import { isControlPlanePod, needsConsent } from '../../../domain/common/staticPod.ts';

const consent = 'nodemaintenance.k8s.io/evacuate-control-plane';

describe('a static pod of the control plane', () => {
  test.each([
    { labels: undefined, is: false },
    { labels: { app: 'nginx-proxy' }, is: false },
    { labels: { tier: 'control-plane' }, is: true },
    { labels: { tier: 'node' }, is: false },
    ...['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler'].map((component) => ({
      labels: { component },
      is: true,
    })),
    { labels: { component: 'kube-proxy' }, is: false },
  ])('has one of the labels of kubeadm: $labels', ({ labels, is }) => {
    expect(isControlPlanePod({ labels })).toBe(is);
    expect(needsConsent({ labels })).toBe(is);
  });

  test.each([
    { value: 'true', needs: false },
    { value: 'false', needs: true },
    { value: 'True', needs: true },
    { value: '', needs: true },
  ])('may be stopped only with the annotation "true", not "$value"', ({ value, needs }) => {
    expect(needsConsent({ labels: { component: 'etcd' }, annotations: { [consent]: value } })).toBe(needs);
  });
});
