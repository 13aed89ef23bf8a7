import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  CLUSTER_NAME_PATTERN,
  clusterInTaskQueue,
  clusterInWorkflowId,
  isReservedPrefix,
  temporalNames,
} from '../../api/names.ts';

const objectName = fc.stringMatching(/^[a-z0-9]([-a-z0-9.]{0,30}[a-z0-9])?$/);
const clusterName = fc
  .oneof(
    fc.stringMatching(CLUSTER_NAME_PATTERN),
    fc.constantFrom('node-maintenance', 'maintenance-window', 'notify'),
  )
  .filter((name) => !isReservedPrefix(name));
const cluster = fc.option(clusterName, { nil: undefined });

describe('the names of a cluster in Temporal', () => {
  test('have no prefix without --cluster', () => {
    const names = temporalNames(undefined);
    expect(names.taskQueue).toBe('node-maintenance');
    expect(names.maintenanceId('rack-7')).toBe('node-maintenance-rack-7');
    expect(names.windowId('os')).toBe('maintenance-window-os');
  });

  test('contain the name of the cluster', () => {
    const names = temporalNames('berlin-1');
    expect(names.taskQueue).toBe('node-maintenance.berlin-1');
    expect(names.notificationTaskQueue).toBe('node-maintenance-notifications.berlin-1');
    expect(names.maintenanceId('rack-7')).toBe('berlin-1.node-maintenance-rack-7');
    expect(names.windowId('os')).toBe('berlin-1.maintenance-window-os');
    expect(names.notificationId('1')).toBe('berlin-1.notify-1');
  });

  test('show which cluster they belong to', () => {
    fc.assert(
      fc.property(cluster, objectName, (name, object) => {
        const names = temporalNames(name);
        expect(clusterInTaskQueue(names.taskQueue)).toBe(name);
        for (const id of [names.maintenanceId(object), names.windowId(object), names.notificationId(object)])
          expect(clusterInWorkflowId(id)).toBe(name);
      }),
    );
  });

  test('differ for different clusters and objects, those of claims included', () => {
    const subject = fc.tuple(cluster, fc.constantFrom('maintenance', 'window', 'claim'), objectName);
    const idOf = ([name, kind, object]: [string | undefined, string, string]) => {
      const names = temporalNames(name);
      if (kind === 'claim') return names.taskQueue;
      return kind === 'window' ? names.windowId(object) : names.maintenanceId(object);
    };
    const identity = ([name, kind, object]: [string | undefined, string, string]) =>
      JSON.stringify([name ?? null, kind, kind === 'claim' ? '' : object]);
    fc.assert(
      fc.property(subject, subject, (one, other) => {
        expect(idOf(one) === idOf(other)).toBe(identity(one) === identity(other));
      }),
      { numRuns: 1_000 },
    );
  });
});
