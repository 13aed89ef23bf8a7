import { expect } from '@jest/globals';
import type { KubeObject, VolumeAttachment } from '../../api/core.ts';
import type { Kube } from '../../kube/client.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import { eventually } from './eventually.ts';

/** The finalizer by which the external-attacher of a CSI driver delays the end of an attachment until the volume is detached. */
const attacherFinalizer = 'external-attacher/csi-example-com';

export const claimSpec = {
  accessModes: ['ReadWriteOnce'],
  storageClassName: '',
  resources: { requests: { storage: '1Gi' } },
};

/** Creates a PersistentVolume of a CSI driver for a claim. */
export async function createVolume(
  kube: Kube,
  name: string,
  claimRef: { namespace: string; name: string },
  differs: { nodeAffinity?: object } = {},
): Promise<void> {
  const spec = {
    capacity: claimSpec.resources.requests,
    accessModes: claimSpec.accessModes,
    storageClassName: '',
    csi: { driver: 'csi.example.com', volumeHandle: name },
    claimRef,
    ...differs,
  };
  await kube.create(resources.persistentVolumes as Resource, { metadata: { name }, spec } as KubeObject);
}

/** Annotates the node as its kubelet would, so that the attach-detach controller attaches the volumes of the node. */
export async function letControllerAttach(kube: Kube, node: string): Promise<void> {
  const annotations = { 'volumes.kubernetes.io/controller-managed-attach-detach': 'true' };
  await kube.mergePatch(resources.nodes, { name: node }, { metadata: { annotations } });
}

/** Waits for the VolumeAttachment that the attach-detach controller creates, and does what the driver does: attaches the volume. */
export async function attached(kube: Kube, volume: string, node: string): Promise<VolumeAttachment> {
  const found = await eventually(`volume ${volume} to be attached`, async () => {
    const { items } = await kube.list(resources.volumeAttachments);
    const one = items.find(({ spec }) => spec.source.persistentVolumeName === volume);
    expect(one?.spec.nodeName).toBe(node);
    return one as VolumeAttachment;
  });
  const { name } = found.metadata;
  const body = { metadata: { finalizers: [attacherFinalizer] } };
  await kube.mergePatch(resources.volumeAttachments, { name }, body);
  const options = { subresource: 'status' };
  return kube.mergePatch(resources.volumeAttachments, { name }, { status: { attached: true } }, options);
}

/** Detaches the volume, as the driver does after the attach-detach controller has asked for it. */
export async function detached(kube: Kube, { metadata: { name } }: VolumeAttachment): Promise<void> {
  await eventually(`volume attachment ${name} to be deleted`, async () => {
    const found = await kube.get(resources.volumeAttachments, { name });
    expect(found?.metadata.deletionTimestamp).toBeDefined();
  });
  await kube.mergePatch(resources.volumeAttachments, { name }, { metadata: { finalizers: [] } });
}
