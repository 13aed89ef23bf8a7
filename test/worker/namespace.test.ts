import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Client, Connection } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { addAttributes, declaredNamespace, knownAttributes } from '../../temporal-config/namespace.ts';
import { createMetrics } from '../../worker/metrics/metrics.ts';
import { watchRetention } from '../../worker/retention.ts';
import { ensureSearchAttributes } from '../../worker/searchAttributes.ts';
import { SettableAvailability } from '../kit/availability.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { recordedLog } from '../kube/fixtures.ts';

let sandbox: Sandbox;
let connection: Connection;

beforeAll(async () => {
  sandbox = await testSandbox();
  connection = await Connection.connect({ address: sandbox.temporalAddress });
});

afterAll(async () => {
  await connection?.close();
  await releaseSandbox(sandbox);
});

/** Creates a namespace that keeps histories for so many days. */
async function created(days: number): Promise<string> {
  const namespace = `checked-${crypto.randomUUID().slice(0, 8)}`;
  const workflowExecutionRetentionPeriod = msToTs(days * 86_400_000);
  await connection.workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod });
  return namespace;
}

describe('the search attributes of a namespace', () => {
  test('are registered if they are missing, and only then', async () => {
    const namespace = await created(1);
    const log = recordedLog();
    await eventually('the attributes to be registered', () =>
      ensureSearchAttributes(connection, namespace, log),
    );
    const known = await knownAttributes(connection, namespace);
    expect(Object.fromEntries(known)).toEqual(declaredNamespace().searchAttributes);
    await ensureSearchAttributes(connection, namespace, log);
    expect(log.lines.filter(({ message }) => message === 'Search attributes registered')).toHaveLength(1);
  });

  test('of another type are refused, with the command that removes them', async () => {
    const namespace = await created(1);
    await eventually('the namespace to be known', () =>
      addAttributes(connection, namespace, { KubernetesCluster: 'Text' }),
    );
    await expect(ensureSearchAttributes(connection, namespace, recordedLog())).rejects.toThrow(
      `KubernetesCluster has type Text and must have type Keyword: use another namespace, or remove it with temporal operator search-attribute remove --namespace ${namespace} --name KubernetesCluster`,
    );
  });
});

describe('the retention of a namespace', () => {
  async function watched(namespace: string, days: number) {
    const log = recordedLog();
    const metrics = createMetrics();
    const abort = new AbortController();
    const client = new Client({ connection, namespace });
    const ended = watchRetention(
      { client, namespace },
      { days, availability: new SettableAvailability(), metrics, log, signal: abort.signal, everyMs: 50 },
    );
    return { log, metrics, stopped: () => (abort.abort(), ended) };
  }

  test('that is shorter than the setting is warned about, once for each value', async () => {
    const namespace = await created(3);
    const { log, metrics, stopped } = await watched(namespace, 30);
    await eventually('a warning', () => expect(log.lines).toHaveLength(1));
    expect(log.lines[0]).toMatchObject({
      message: 'Temporal deletes the histories of maintenances too early',
      fields: {
        namespace,
        retentionDays: 3,
        requiredDays: 30,
        remedy: `temporal operator namespace update --namespace ${namespace} --retention 30d, or lower --min-history-retention (MIN_HISTORY_RETENTION)`,
      },
    });
    const config = { workflowExecutionRetentionTtl: msToTs(7 * 86_400_000) };
    await connection.workflowService.updateNamespace({ namespace, config });
    await eventually('another warning', () => expect(log.lines).toHaveLength(2));
    await eventually('the metric', async () => {
      const exposed = await metrics.scrape();
      expect(exposed).toContain(`node_maintenance_history_retention_seconds ${7 * 86_400}\n`);
      expect(exposed).toContain(`node_maintenance_history_retention_required_seconds ${30 * 86_400}\n`);
    });
    expect(log.lines).toHaveLength(2);
    await stopped();
  });

  test.each([
    { when: 'as long as the setting', days: 3 },
    { when: 'not checked', days: 0 },
  ])('that is $when is not warned about', async ({ days }) => {
    const namespace = await created(3);
    const { log, metrics, stopped } = await watched(namespace, days);
    if (days > 0)
      await eventually('the metric', async () =>
        expect(await metrics.scrape()).toContain('node_maintenance_history_retention_seconds 259200\n'),
      );
    await stopped();
    expect(log.lines).toEqual([]);
  });
});
