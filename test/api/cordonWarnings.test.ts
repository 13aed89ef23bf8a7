import type { NodeMaintenance, NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import { COMPLETED_LABEL, SYSTEM_NAMESPACE, workerUser } from '../../api/names.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { type Kubectl, kubectlOf } from './kubectl.ts';

let sandbox: Sandbox;
let c: TestCluster;
let kubectl: Kubectl;

beforeAll(async () => {
  sandbox = await testSandbox();
  kubectl = kubectlOf(sandbox);
  c = await testCluster(sandbox, { prefix: 'cordon-warnings' });
  const { node } = await maintained();
  await eventually('the policy to be in force', async () =>
    expect(await warningsOf(['cordon', node])).toHaveLength(1),
  );
});

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

interface Differs {
  stage?: NodeMaintenanceStage;
  /** The record of the maintenance about the node; undefined: it has not cordoned it yet. */
  unschedulableBefore?: boolean | undefined;
  authorized?: boolean;
  node?: string;
}

/** Creates a maintenance with this record of a node. No worker runs, so that the node is as it is. */
async function maintained({
  stage = 'Drain',
  node,
  ...record
}: Differs = {}): Promise<{ node: string; maintenance: string }> {
  const name = node ?? (await c.nodeNamed('n'));
  const { unschedulableBefore = false } = record;
  const isRecorded = !('unschedulableBefore' in record) || record.unschedulableBefore !== undefined;
  const applied: NodeMaintenance = await c.applied(c.maintenance({ nodes: [name], stage: 'Idle' }));
  await c.withStatus(applied, {
    nodeStatuses: [
      {
        nodeRef: { name },
        ...(isRecorded && { unschedulableBefore }),
        ...(record.authorized !== undefined && { authorized: record.authorized }),
      },
    ],
  });
  if (stage !== 'Idle') await c.staged(applied.metadata.name, stage);
  return { node: name, maintenance: applied.metadata.name };
}

/** Returns the warnings that kubectl prints about this project. */
async function warningsOf(args: string[]): Promise<string[]> {
  const { code, stderr } = await kubectl(args);
  expect({ code, stderr }).toMatchObject({ code: 0 });
  const prefix =
    /^Warning: Validation failed for ValidatingAdmissionPolicy 'cordon-warnings[^']*' with binding '[^']*': /;
  return stderr
    .split('\n')
    .filter((line) => prefix.test(line))
    .map((line) => line.replace(prefix, ''))
    .toSorted();
}

describe('kubectl warns a user', () => {
  test('who uncordons a node of a maintenance, in which stage it is and what will happen', async () => {
    for (const stage of ['Cordon', 'Drain'] as const) {
      const { node, maintenance } = await maintained({ stage });
      await c.cordoned(node);
      expect(await warningsOf(['uncordon', node])).toEqual([
        `NodeMaintenance ${maintenance} (stage ${stage}) holds node ${node} and cordons it again at once; it becomes schedulable when the maintenance is complete: kubectl maintenance cancel ${maintenance}`,
      ]);
    }
  });

  test('who cordons or drains such a node, which the maintenance uncordons', async () => {
    const { node, maintenance } = await maintained();
    for (const args of [
      ['cordon', node],
      ['drain', node],
    ]) {
      expect(await warningsOf(args)).toEqual([
        `NodeMaintenance ${maintenance} (stage Drain) holds node ${node} and cordons it by itself; it uncordons the node when it is complete, unless the node was cordoned before the maintenance`,
      ]);
      await c.uncordoned(node);
    }
  });

  test('who cordons a node before the maintenance does, that it stays cordoned', async () => {
    const { node, maintenance } = await maintained({ unschedulableBefore: undefined });
    expect(await warningsOf(['cordon', node])).toEqual([
      `NodeMaintenance ${maintenance} (stage Drain) waits for node ${node} and will cordon it by itself; a node that is already cordoned then stays cordoned after the maintenance`,
    ]);
    expect(await warningsOf(['uncordon', node])).toEqual([]);
  });

  test('of every maintenance of the node', async () => {
    const { node, maintenance } = await maintained();
    const other = await maintained({ node, stage: 'Cordon' });
    await c.cordoned(node);
    const warnings = await warningsOf(['uncordon', node]);
    expect(warnings.map((one) => one.split(' ')[1])).toEqual([maintenance, other.maintenance].toSorted());
  });
});

describe('kubectl does not warn', () => {
  test.each<{ of: string; differs: Differs }>([
    { of: 'a maintenance in stage Idle', differs: { stage: 'Idle' } },
    { of: 'a maintenance that is complete', differs: { stage: 'Complete' } },
    {
      of: 'a node that its requester may not maintain',
      differs: { unschedulableBefore: undefined, authorized: false },
    },
  ])('of $of', async ({ differs }) => {
    const { node } = await maintained(differs);
    for (const verb of ['cordon', 'uncordon']) expect(await warningsOf([verb, node])).toEqual([]);
  });

  test('of a maintenance that is labelled as complete, which the apiserver need not evaluate', async () => {
    const { node, maintenance } = await maintained();
    const labels = { [COMPLETED_LABEL]: 'true' };
    // Only the worker may label it in this stage.
    await c.cluster.kube.mergePatch(
      resources.nodeMaintenances,
      { name: maintenance },
      { metadata: { labels } },
    );
    await eventually('the apiserver to observe the label', async () => {
      const warnings = [await warningsOf(['cordon', node]), await warningsOf(['uncordon', node])];
      expect(warnings).toEqual([[], []]);
    });
  });

  test('of a node of no maintenance', async () => {
    const node = await c.nodeNamed('n');
    for (const verb of ['cordon', 'uncordon']) expect(await warningsOf([verb, node])).toEqual([]);
  });

  test('who changes something else of the node', async () => {
    const { node } = await maintained();
    expect(await warningsOf(['label', 'node', node, 'disk=ssd'])).toEqual([]);
  });

  test('the worker', async () => {
    const { node } = await maintained();
    const patch = JSON.stringify({ spec: { unschedulable: true } });
    const worker = `--as=${workerUser(SYSTEM_NAMESPACE)}`;
    expect(await warningsOf(['patch', 'node', node, '-p', patch, worker])).toEqual([]);
    expect((await c.admin.get(resources.nodes, { name: node }))?.spec.unschedulable).toBe(true);
  });
});
