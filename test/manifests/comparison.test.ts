import { beforeAll, describe, expect, test } from '@jest/globals';
import type { KubeObject } from '../../api/core.ts';
import { isCompared, namespacesIn, reviewedObject, withDigest } from '../../manifests/comparison.ts';
import { readManifests } from '../../manifests/read.ts';
import { renderManifests } from '../../manifests/render.ts';

let manifests: KubeObject[];
beforeAll(async () => {
  manifests = await readManifests();
});

/** Returns the object as the apiserver stores it: with metadata, defaults and a status. */
const stored = (manifest: KubeObject): KubeObject =>
  ({
    ...manifest,
    metadata: {
      ...manifest.metadata,
      uid: 'u',
      labels: { ...manifest.metadata.labels, 'helm.sh/chart': 'x' },
    },
    status: { conditions: [{ type: 'Established', status: 'True' }] },
  }) as KubeObject;

const named = (kind: string, all = manifests) => {
  const found = all.find((one) => one.kind === kind);
  if (found === undefined) throw new Error(`deploy/ contains no ${kind}`);
  return found;
};

describe('an installed CRD or policy', () => {
  test('of this release is ours, no matter which user applied it', () => {
    for (const manifest of manifests.filter(isCompared))
      for (const applied of [manifest, withDigest(manifest, manifest)])
        expect(reviewedObject(manifest, stored(applied)).installed).toMatchObject({
          release: manifest.metadata.labels?.['app.kubernetes.io/version'],
          isOurs: true,
          unknownFields: [],
        });
  });

  test('may be missing, not established or changed', () => {
    const manifest = named('CustomResourceDefinition');
    const of = (installed: KubeObject | undefined) => reviewedObject(manifest, installed).installed;
    expect(of(undefined)).toBeUndefined();
    expect(of(manifest)).toMatchObject({ problem: expect.stringContaining('not established') });
    const changed = structuredClone(manifest) as KubeObject & { spec: { names: { shortNames: string[] } } };
    changed.spec.names.shortNames = ['other'];
    expect(of(stored(changed))).toMatchObject({ isOurs: false, problem: undefined });
    expect(of(stored(withDigest(manifest, changed)))).toMatchObject({ isOurs: false });
  });

  test('of another namespace is recognized by its ServiceAccounts', () => {
    const moved = renderManifests(manifests, { namespace: 'berlin' }).filter(isCompared);
    expect(new Set(moved.flatMap(namespacesIn))).toEqual(new Set(['berlin']));
  });
});

describe.each([{ mutatingPolicies: true }, { mutatingPolicies: false }])(
  'webhooks with mutatingPolicies $mutatingPolicies',
  (options) => {
    const kind = 'MutatingWebhookConfiguration';
    test('are those of this release wherever the server has registered itself', () => {
      const manifest = named(kind, renderManifests(manifests, options));
      const { webhooks } = manifest as KubeObject & { webhooks: object[] };
      const clientConfig = { url: 'https://127.0.0.1:9443/x', caBundle: 'PEM' };
      const registered = { ...manifest, webhooks: webhooks.map((one) => ({ ...one, clientConfig })) };
      expect(reviewedObject(manifest, registered).installed?.isOurs).toBe(true);
    });

    test('are of another release if policies and webhooks are not what is installed', () => {
      const [own, other] = [options, { mutatingPolicies: !options.mutatingPolicies }].map((one) =>
        named(kind, renderManifests(manifests, one)),
      ) as [KubeObject, KubeObject];
      expect(reviewedObject(other, own).installed?.isOurs).toBe(false);
    });
  },
);
