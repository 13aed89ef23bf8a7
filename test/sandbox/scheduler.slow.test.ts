import type { KubeObject, PersistentVolume, Pod } from '../../api/core.ts';
import { ClusterState } from '../../domain/capacity/clusterState.ts';
import { fittingNodes, misfitText, Placer } from '../../domain/capacity/placement.ts';
import { readClaimedVolumes } from '../../kube/claimedVolumes.ts';
import { trimWithScheduling } from '../../kube/podScheduling.ts';
import { resources, type RawPod } from '../../kube/resources.ts';
import { trimNode } from '../../kube/transform.ts';
import { eventuallyHolds } from '../kit/eventually.ts';
import { type CaseObjects, caseObjects, schedulingCases } from '../kit/schedulingCases.ts';
import { createWorld, type World } from '../kit/world.ts';

let world: World;

beforeAll(async () => {
  world = await createWorld({ nodes: 1 });
});

afterAll(() => world?.close());

const nodesKind = resources.nodes;
const volumesKind = resources.persistentVolumes;
const claimsKind = resources.persistentVolumeClaims;

async function created(objects: CaseObjects): Promise<void> {
  const { kube } = world;
  const { namespace: name, nodes, existing, claims, volumes } = objects;
  await kube.create(resources.namespaces, { metadata: { name } });
  await Promise.all([
    ...nodes.map((node) => kube.create(nodesKind, node)),
    ...volumes.map((volume) => kube.create(volumesKind, volume as PersistentVolume)),
  ]);
  await Promise.all(claims.map((claim) => kube.create(claimsKind, claim as KubeObject & { spec: object })));
  await eventuallyHolds(
    `the default ServiceAccount of ${name}`,
    () => kube.get(resources.serviceAccounts, { namespace: name, name: 'default' }),
    (found) => found !== undefined,
  );
  await Promise.all(existing.map((pod) => kube.create(resources.pods, pod)));
  for (const node of nodes)
    await eventuallyHolds(
      `node ${node.metadata.name} to be Ready`,
      () => kube.get(nodesKind, { name: node.metadata.name }),
      // The scheduler does not know it before its taints are those of the case.
      (found) => (found?.spec.taints ?? []).every(({ key }) => !key.endsWith('/not-ready')),
    );
  for (const claim of claims)
    await eventuallyHolds(
      `claim ${claim.metadata.name} to be bound`,
      () => kube.get(claimsKind, { namespace: name, name: claim.metadata.name }),
      (found) => (found as { status?: { phase?: string } } | undefined)?.status?.phase === 'Bound',
    );
}

/** Returns the node that the scheduler chose, or its reasons against every node. */
async function decided({ pod: { metadata } }: CaseObjects): Promise<{ node?: string; message: string }> {
  const messageOf = (pod: RawPod | undefined) =>
    pod?.status?.conditions?.find(({ type, status }) => type === 'PodScheduled' && status === 'False')
      ?.message;
  const pod = await eventuallyHolds(
    `the scheduler to decide on ${metadata.namespace}`,
    () => world.kube.get(resources.pods, { namespace: metadata.namespace, name: metadata.name }),
    (found) => found?.spec.nodeName !== undefined || messageOf(found) !== undefined,
  );
  const node = pod?.spec.nodeName;
  return { ...(node !== undefined && { node }), message: messageOf(pod) ?? '' };
}

test('the scheduler decides as the documented rules say, for every case', async () => {
  const { kube } = world;
  const differences: object[] = [];
  const cases = schedulingCases.map((one, index) => ({ one, objects: caseObjects(one, `case-${index}`) }));
  for (const { objects } of cases) await created(objects);
  for (const { one, objects } of cases) {
    const transform = trimWithScheduling();
    const nodes = (await kube.list(nodesKind)).items.map(trimNode);
    const pods = (await kube.list(resources.pods)).items.map(transform);
    const { namespace } = objects;
    const names = objects.claims.map(({ metadata }) => ({ namespace, name: metadata.name }));
    const { volumes } = await readClaimedVolumes(kube, names);
    const cluster = new ClusterState({ nodes, pods, volumes });
    const wanted: Pod = transform((await kube.create(resources.pods, objects.pod)) as RawPod);
    const fits = fittingNodes(wanted, cluster).map(({ node }) => node.metadata.name);
    const placement = new Placer(cluster).place(wanted);
    const ours = placement.kind === 'Unplaced' ? misfitText(placement.misfit) : '';
    const { node, message } = await decided(objects);
    // The scheduler does not name the taint.
    const withoutTaints = (text: string) => text.replaceAll(/taint(\(s\)| \{[^}]*\})/g, 'taint');
    const isSame = withoutTaints(message).startsWith(withoutTaints(ours));
    const agrees = node === undefined ? fits.length === 0 && isSame : fits.includes(node);
    const expected = one.fits.map((name) => `${namespace}-${name}`);
    if (!agrees || fits.join() !== expected.join())
      differences.push({ when: one.when, fits, expected, ours, node, message });
  }
  expect(differences).toEqual([]);
});
