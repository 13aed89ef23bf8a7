import { describe, expect, test } from '@jest/globals';
import type { Job, Pod, VolumeAttachment } from '../../../api/core.ts';
import { WINDOW_LABEL, WindowAnnotation, WORK_NAMESPACE } from '../../../api/names.ts';
import { jobName } from '../../../domain/common/revision.ts';
import {
  type ApiserverObservation,
  type AttachedVolume,
  isContradicted,
  pendingDetachments,
  volumesText,
  workOfOthers,
  workText,
} from '../../../domain/drain/verification.ts';
import type { NodeMaintenance, NodeMaintenanceStage } from '../../../api/nodeMaintenance.ts';
import { noAgent } from '../../../domain/leases/nodeAgent.ts';
import { mirrorPod, pod } from '../../kit/builders.ts';

const ownJob = { name: jobName('own'), ownerUid: 'own-uid' };

/** Returns the Job of a maintenance on a node; pass only what differs. */
const job = (of: string, node: string, { ended = false, uid = `${of}-job` } = {}): Job => ({
  metadata: {
    name: jobName(of),
    namespace: WORK_NAMESPACE,
    uid,
    labels: { [WINDOW_LABEL]: 'w' },
    annotations: { [WindowAnnotation.Node]: node },
    ownerReferences: [{ apiVersion: 'v1', kind: 'NodeMaintenance', name: of, uid: `${of}-uid` }],
  },
  spec: { template: {} },
  status: {
    conditions: ended
      ? [{ type: 'Complete', status: 'True', reason: 'Done', message: '', lastTransitionTime: '' }]
      : [],
  },
});

const podOf = ({ metadata }: Job, phase = 'Running'): Pod =>
  pod({
    namespace: WORK_NAMESPACE,
    phase,
    ownerReferences: [
      { apiVersion: 'batch/v1', kind: 'Job', name: metadata.name, uid: metadata.uid ?? '', controller: true },
    ],
  });

describe('the work of others on the nodes of a maintenance', () => {
  const theirs = job('other', 'one');
  test.each([
    { when: 'there is no Job', jobs: [], pods: [], want: [] },
    { when: 'a Job has no pod yet', jobs: [theirs], pods: [], want: ['other'] },
    { when: 'a Job and its pod are one', jobs: [theirs], pods: [podOf(theirs)], want: ['other'] },
    { when: 'a Job works on another node', jobs: [job('other', 'two')], pods: [], want: [] },
    { when: 'a Job has ended', jobs: [job('other', 'one', { ended: true })], pods: [], want: [] },
    {
      when: 'its last pod terminates',
      jobs: [job('other', 'one', { ended: true })],
      pods: [podOf(theirs)],
      want: ['other'],
    },
    { when: 'its pod has ended', jobs: [], pods: [podOf(theirs, 'Succeeded')], want: [] },
    { when: 'the Job is gone, and its pod is not', jobs: [], pods: [podOf(theirs)], want: [undefined] },
    { when: 'the Job is its own', jobs: [job('own', 'one')], pods: [podOf(job('own', 'one'))], want: [] },
    { when: 'its own Job is not listed yet', jobs: [], pods: [podOf(job('own', 'one'))], want: [] },
    {
      when: 'the Job is that of an earlier maintenance of the same name',
      jobs: [{ ...job('own', 'one'), metadata: { ...job('other', 'one').metadata, name: jobName('own') } }],
      pods: [],
      want: ['other'],
    },
    { when: 'other pods run', jobs: [], pods: [pod(), pod({ namespace: WORK_NAMESPACE })], want: [] },
  ])('$when', ({ jobs, pods, want }) => {
    const observation = { ownJob, nodes: ['one'], podsOn: () => pods, jobs };
    expect(workOfOthers(observation).map(({ maintenance }) => maintenance)).toEqual(want);
  });

  test('is named with the maintenance that it is for', () => {
    const observation = { ownJob, nodes: ['one'], podsOn: () => [], jobs: [theirs] };
    expect(workText(workOfOthers(observation))).toBe(
      `${WORK_NAMESPACE}/${jobName('other')} of NodeMaintenance other`,
    );
  });
});

describe('the volumes that a drain waits for', () => {
  const attachment = (volume: string | undefined): VolumeAttachment => ({
    metadata: { name: `csi-${volume}`, uid: `csi-${volume}` },
    spec: { nodeName: 'one', source: volume === undefined ? {} : { persistentVolumeName: volume } },
  });
  const claims = new Map([
    ['pv-1', 'shop/data-db-0'],
    ['pv-2', 'shop/data-db-1'],
  ]);
  const waitedFor = (
    volumes: readonly (string | undefined)[],
    users: readonly { claims: readonly string[]; hasInlineVolumes: boolean }[] = [],
  ): AttachedVolume[] => pendingDetachments(volumes.map(attachment), users, (volume) => claims.get(volume));

  test.each([
    { when: 'every one that is attached', volumes: ['pv-2', 'pv-1'], users: [], want: ['pv-1', 'pv-2'] },
    {
      when: 'not those of pods that stay',
      volumes: ['pv-1', 'pv-2'],
      users: [{ claims: ['shop/data-db-0'], hasInlineVolumes: false }],
      want: ['pv-2'],
    },
    { when: 'a volume whose PersistentVolume is gone', volumes: ['pv-9'], users: [], want: ['pv-9'] },
    { when: 'a volume in the spec of a pod', volumes: [undefined], users: [], want: ['csi-undefined'] },
    {
      when: 'no volume in the spec of a pod while a pod with such a volume stays',
      volumes: [undefined],
      users: [{ claims: [], hasInlineVolumes: true }],
      want: [],
    },
    { when: 'nothing', volumes: [], users: [], want: [] },
  ])('are $when', ({ volumes, users, want }) => {
    expect(waitedFor(volumes, users).map(({ volume }) => volume)).toEqual(want);
  });

  test('are named with their claims, three at most', () => {
    expect(volumesText(waitedFor(['pv-9', 'pv-1', 'pv-2', 'pv-3', 'pv-4']))).toBe(
      'pv-1 (shop/data-db-0), pv-2 (shop/data-db-1), pv-3 and 2 more',
    );
  });
});

describe('what the informers show is contradicted by the apiserver', () => {
  const decided = {
    metadata: { name: 'm', uid: 'uid', generation: 2 },
    spec: { stage: 'Drain', nodeSelector: { nodeSelectorTerms: [] } },
  } as NodeMaintenance;
  const changed = (differs: Partial<NodeMaintenance['metadata']>, stage: NodeMaintenanceStage = 'Drain') => ({
    ...decided,
    metadata: { ...decided.metadata, ...differs },
    spec: { ...decided.spec, stage },
  });
  const left = pod({ namespace: 'kube-system' });
  const podsOn = (...pods: Pod[]) => ({ podsOn: (node: string) => (node === 'one' ? pods : []) });
  test.each<{ when: string; read: Partial<ApiserverObservation>; want: boolean }>([
    { when: 'nothing has changed', read: {}, want: false },
    { when: 'the object was replaced', read: { maintenance: changed({ uid: 'other' }) }, want: true },
    { when: 'its spec has changed', read: { maintenance: changed({ generation: 3 }) }, want: true },
    { when: 'its stage is another', read: { maintenance: changed({}, 'Complete') }, want: true },
    { when: 'a node is selected no more', read: { selected: [] }, want: false },
    { when: 'another node is selected', read: { selected: ['one', 'two'] }, want: true },
    { when: 'a pod is to be evacuated', read: podsOn(pod()), want: true },
    { when: 'a static pod is left', read: podsOn(mirrorPod()), want: false },
    { when: 'a pod is left running by every drain', read: podsOn(left), want: false },
  ])('$when: $want', ({ read, want }) => {
    const observation = {
      decided,
      maintenance: decided,
      ownJob: undefined,
      nodes: ['one'],
      selected: ['one'],
      ...podsOn(),
      agentOf: () => noAgent,
      isLeftRunning: ({ metadata }: Pod) => metadata.namespace === 'kube-system',
      jobs: [],
    };
    expect(isContradicted({ ...observation, ...read })).toBe(want);
  });
});
