import type { VolumeAttachment } from '../../api/core.ts';
import { resources } from '../../kube/resources.ts';
import type { Environment } from '../environment.ts';
import { node } from './fixtures.ts';

/**
 * Plays the kubelet and the CSI driver, which a simulated node does not have, for the volume of the ledger. The attach-detach controller of
 * Kubernetes creates the VolumeAttachment, and deletes it when the pod has left.
 */

/** Finalizer by which the external-attacher of a CSI driver delays the end of an attachment until the volume is detached. */
const attacherFinalizer = 'external-attacher/csi-example-com';

/** Annotates the node as its kubelet would, so that the controller attaches the volumes of the node. */
export async function letControllerAttach({ kube }: Environment): Promise<void> {
  const annotations = { 'volumes.kubernetes.io/controller-managed-attach-detach': 'true' };
  await kube.mergePatch(resources.nodes, { name: node }, { metadata: { annotations } });
}

/** Waits until the volume is to be attached to the node, and attaches it. */
export async function attachVolume(environment: Environment): Promise<void> {
  const { kube } = environment;
  const { name } = (await untilAttachment(environment, () => true)).metadata;
  const { volumeAttachments } = resources;
  await kube.mergePatch(volumeAttachments, { name }, { metadata: { finalizers: [attacherFinalizer] } });
  const status = { status: { attached: true } };
  await kube.mergePatch(volumeAttachments, { name }, status, { subresource: 'status' });
}

/** Waits until the volume is to be detached from the node, and detaches it. */
export async function detachVolume(environment: Environment): Promise<void> {
  const isDeleted = ({ metadata }: VolumeAttachment) => metadata.deletionTimestamp !== undefined;
  const { name } = (await untilAttachment(environment, isDeleted)).metadata;
  await environment.kube.mergePatch(resources.volumeAttachments, { name }, { metadata: { finalizers: [] } });
}

async function untilAttachment(
  { kube, until }: Environment,
  accepts: (attachment: VolumeAttachment) => boolean,
): Promise<VolumeAttachment> {
  const found: VolumeAttachment[] = [];
  await until('the attach-detach controller', async () => {
    const { items } = await kube.list(resources.volumeAttachments);
    found.push(...items.filter((one) => one.spec.nodeName === node && accepts(one)).slice(0, 1));
    return found.length > 0 ? undefined : `${items.length} VolumeAttachments`;
  });
  return found[0] as VolumeAttachment;
}
