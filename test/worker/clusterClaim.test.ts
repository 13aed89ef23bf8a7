import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { Client, Connection } from '@temporalio/client';
import { RawValue } from '@temporalio/common';
import { type ClusterScope, temporalNames } from '../../api/names.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { ClaimedByOther, claimNames, releaseFormerClaims, renewClaim } from '../../worker/clusterClaim.ts';
import type { Temporal } from '../../worker/temporal.ts';
import { silentLog } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { terminated } from '../kit/workflows.ts';

let sandbox: Sandbox;
let connection: Connection;
let client: Client;
let temporal: Temporal;

beforeAll(async () => {
  sandbox = await testSandbox();
  connection = await Connection.connect({ address: sandbox.temporalAddress });
  client = new Client({ connection, namespace: sandbox.temporalNamespace });
  temporal = { client, namespace: sandbox.temporalNamespace } as Temporal;
});

let serial = 0;
/** Clusters that were configured with the same name, which no other test uses. */
function clusters(): { ours: ClusterScope; other: ClusterScope } {
  const name = `claimed-${(serial += 1)}`;
  const scope = (uid: string) => ({ name, uid, names: temporalNames(name) });
  return { ours: scope('0a000000-1'), other: scope('0b000000-2') };
}

const claimOf = ({ names }: ClusterScope) => client.workflow.getHandle(names.taskQueue);

afterEach(async () => {
  for (let index = 1; index <= serial; index += 1)
    await terminated(client.workflow.getHandle(temporalNames(`claimed-${index}`).taskQueue));
});

afterAll(async () => {
  await connection?.close();
  await releaseSandbox(sandbox);
});

describe('the claim of a cluster', () => {
  test('is an open run with the UID of the cluster, made once', async () => {
    const { ours } = clusters();
    await claimNames(temporal, ours, silentLog);
    const { runId, memo, status } = await claimOf(ours).describe();
    expect({ memo, status: status.name }).toMatchObject({
      memo: { clusterUid: ours.uid, cluster: ours.name },
      status: 'RUNNING',
    });
    await claimNames(temporal, ours, silentLog);
    expect((await claimOf(ours).describe()).runId).toBe(runId);
  });

  test('is refused to another cluster, with the remedy', async () => {
    const { ours, other } = clusters();
    await claimNames(temporal, ours, silentLog);
    await expect(claimNames(temporal, other, silentLog)).rejects.toThrow(
      `task queue ${ours.names.taskQueue} in Temporal namespace default belongs to cluster ${ours.name} (UID ${ours.uid}), and this is cluster ${other.uid}: choose another --cluster or TEMPORAL_NAMESPACE; if that cluster does not exist any more, run temporal workflow terminate --workflow-id ${ours.names.taskQueue}`,
    );
  });

  test('is given to one of two clusters that start at the same time', async () => {
    const { ours, other } = clusters();
    const ends = await Promise.allSettled(
      [ours, other].map((scope) => claimNames(temporal, scope, silentLog)),
    );
    expect(ends.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
  });

  test('passes to another cluster after it was terminated', async () => {
    const { ours, other } = clusters();
    await claimNames(temporal, ours, silentLog);
    await claimOf(ours).terminate();
    await claimNames(temporal, other, silentLog);
    expect((await claimOf(ours).describe()).memo).toMatchObject({ clusterUid: other.uid });
  });

  test('is ended by its own cluster when it has other names', async () => {
    const { ours } = clusters();
    await claimNames(temporal, ours, silentLog);
    const { ours: renamed } = clusters();
    const uid = 'renamed-1';
    const [before, after] = [ours, renamed].map((scope) => ({ ...scope, uid }));
    if (before === undefined || after === undefined) throw new Error('two scopes');
    await claimOf(before).terminate();
    await claimNames(temporal, before, silentLog);
    await claimNames(temporal, after, silentLog);
    await releaseFormerClaims(client, after, { isUsed: () => true, log: silentLog });
    expect((await claimOf(before).describe()).status.name).toBe('RUNNING');
    await eventually('the first claim to be ended', async () => {
      await releaseFormerClaims(client, after, { isUsed: () => false, log: silentLog });
      expect((await claimOf(before).describe()).status.name).toBe('TERMINATED');
    });
    expect((await claimOf(after).describe()).status.name).toBe('RUNNING');
  });

  test('is not hindered by a run of another writer, whose memo cannot be decoded', async () => {
    const { ours } = clusters();
    const payload = { metadata: { encoding: Buffer.from('binary/encrypted') }, data: Buffer.from('?') };
    const foreign = await client.workflow.start('clusterClaim', {
      workflowId: 'claim-of-another-writer',
      taskQueue: 'nobody',
      memo: { clusterUid: RawValue.fromPayload(payload) },
    });
    try {
      const listed = async () => {
        for await (const run of client.workflow.list({ query: `WorkflowId = "${foreign.workflowId}"` }))
          return run;
        return undefined;
      };
      await eventually('the list to contain it', () => expect(listed()).rejects.toThrow());
      await claimNames(temporal, ours, silentLog);
      await expect(
        claimNames(temporal, { ...ours, names: { ...ours.names, taskQueue: foreign.workflowId } }, silentLog),
      ).rejects.toThrow('belongs to cluster unknown (UID unknown)');
    } finally {
      await terminated(foreign);
    }
  });

  test('is made again while its cluster works, and lost when another cluster was faster', async () => {
    const { ours, other } = clusters();
    await claimNames(temporal, ours, silentLog);
    const { runId } = await claimOf(ours).describe();
    await renewClaim(temporal, ours);
    expect((await claimOf(ours).describe()).runId).toBe(runId);
    await claimOf(ours).terminate();
    await renewClaim(temporal, ours);
    const renewed = await claimOf(ours).describe();
    expect(renewed.runId).not.toBe(runId);
    expect(renewed).toMatchObject({ status: { name: 'RUNNING' }, memo: { clusterUid: ours.uid } });
    await claimOf(ours).terminate();
    await claimNames(temporal, other, silentLog);
    const lost = renewClaim(temporal, ours);
    await expect(lost).rejects.toBeInstanceOf(ClaimedByOther);
    await expect(lost).rejects.toThrow(`belongs to cluster ${other.name} (UID ${other.uid})`);
  });
});
