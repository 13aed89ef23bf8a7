import { describe, expect, test } from '@jest/globals';
import type { Condition, Node } from '../../api/core.ts';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import type { NodeMaintenance, NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import { outOfServiceReason } from '../../domain/budget/nodeService.ts';
import { ownersOf } from '../../domain/drain/escalation.ts';
import { withCondition } from '../../domain/common/conditions.ts';
import { urlLength } from '../../domain/common/markdown.ts';
import { heldByAnother, nodeLeasesCondition, waitingMessage } from '../../domain/leases/nodeLease.ts';
import { leaseProblemOf } from '../../domain/leases/abandoned.ts';
import { isInService, outOfServiceReasons } from '../../domain/maintenance/backInService.ts';
import { renderCurrentDetails } from '../../domain/maintenance/currentDetails.ts';
import { detailsSnapshotAt } from '../../domain/maintenance/detailsSnapshot.ts';
import { staticSummaryOf, windowStaticSummaryOf } from '../../domain/maintenance/staticSummary.ts';
import { emptyStatus, newNodeStatus } from '../../domain/maintenance/status.ts';
import {
  approvalNeeded,
  blocked,
  deadline,
  nodeFailed,
  stageStarted,
} from '../../domain/notifications/events.ts';
import { renderWindowDetails } from '../../domain/windows/currentDetails.ts';
import { pod as podWith } from '../kit/builders.ts';
import { hostileTexts, interpretedMarkdown, unprintable } from '../kit/hostileText.ts';
import { testScope } from '../kit/temporalNames.ts';

const now = '2026-01-01T12:00:00Z';

/** A maintenance in which every text that someone else can write is this one. */
function maintenanceWith(text: string, stage: NodeMaintenanceStage = 'Drain'): NodeMaintenance {
  const pod = { namespace: 'shop', name: 'db-0', node: 'node-1' };
  return {
    metadata: { name: 'rack-7', uid: 'u' },
    spec: { stage, reason: text, nodeSelector: { nodeSelectorTerms: [] } },
    status: {
      ...emptyStatus,
      stageStatuses: [{ name: stage, startTimestamp: now }],
      nodeStatuses: [
        {
          ...newNodeStatus('node-1'),
          drainMessage: text,
          podsPendingEvacuation: 1,
          unschedulableBefore: false,
        },
      ],
      podsBlocked: 1,
      blockedPods: [{ ...pod, reason: 'EvictionRejected', message: text }],
    },
  };
}

/** The only syntax that the current details contain themselves. */
const ownSyntax =
  /^(?:#{3,4} |- |\| |\|:--)|\*\*[^*]+\*\*|\*(?:Request Cancellation|Terminate|Current Details)\*|\|/gm;

/** Fails if the Markdown contains syntax that is not the renderer's own. */
function expectNoForeignMarkdown(markdown: string): void {
  for (const line of markdown.split('\n')) expect(line.replaceAll('\u2003', ' ')).not.toMatch(unprintable);
  const interpreted = interpretedMarkdown(markdown).replaceAll(ownSyntax, '');
  expect(interpreted).not.toMatch(/[[\]<>`*_~{}&$#]/);
}

describe.each(hostileTexts)('a text with $what', ({ text }) => {
  test.each(['Idle', 'Cordon', 'Drain', 'Complete'] as const)(
    'is plain text in the current details in %s',
    (stage) => {
      const maintenance = maintenanceWith(text, stage);
      const details = detailsSnapshotAt(maintenance, now);
      const state = { name: 'rack-7', stage, paused: false, drained: false, nodes: [text, 'node-1'] };
      const markdown = renderCurrentDetails({ ...state, details });
      expectNoForeignMarkdown(markdown);
      expect(urlLength(markdown)).toBeLessThanOrEqual(7_500);
    },
  );

  test('is plain text in the current details of a window', () => {
    const node = { node: text, maintenance: text };
    const markdown = renderWindowDetails(
      {
        name: 'os-patch',
        start: now,
        end: text,
        ended: false,
        cancelled: false,
        paused: false,
        approved: false,
        approvedNodes: [text, 'node-1'],
        state: {
          revision: 'r',
          nodes: 2,
          done: 0,
          inProgress: [node],
          failed: [node],
          remaining: 2,
          waiting: { reason: 'X', message: text },
        },
      },
      testScope.names,
    );
    const ownLinks = /\]\(namespaces\/\\?\{namespace\\?\}\/workflows\/[^)\s]*\)/g;
    expectNoForeignMarkdown(markdown.replaceAll(ownLinks, '').replaceAll(/(?<=\| )\[/g, ''));
    expect(urlLength(markdown)).toBeLessThanOrEqual(7_500);
  });

  test('is plain text in the summary of a run, and not in its memo', () => {
    const window = { metadata: { name: 'os' }, spec: { template: { reason: text } } } as MaintenanceWindow;
    for (const summary of [
      staticSummaryOf(maintenanceWith(text), testScope),
      windowStaticSummaryOf(window, testScope),
    ]) {
      expectNoForeignMarkdown(summary.staticSummary);
      expect(Buffer.byteLength(JSON.stringify(summary.staticSummary))).toBeLessThan(400);
      expect(Object.keys(summary.memo)).toEqual(['kubectl', 'clusterUid']);
      expect(Buffer.byteLength(JSON.stringify(summary.memo))).toBeLessThan(2_048);
    }
  });

  test('is one line of bounded length in notifications', () => {
    const maintenance = { name: 'rack-7', uid: 'u', reason: text, by: text };
    const window = { name: 'os', uid: 'w' };
    const notifications = [
      stageStarted(maintenance, 'Drain', ['node-1'], now),
      blocked(maintenance, { pod: 'a/b', node: 'n', blocker: { reason: 'X', message: text } }, now),
      nodeFailed(maintenance, { node: 'n', reason: 'JobFailed', message: text }, now),
      deadline(maintenance, {
        time: now,
        step: { time: now, action: 'Notify' },
        onDeadline: 'Delete',
        isPaused: true,
        pods: ['a/b'],
        owners: ownersOf([podWith({ annotations: { 'nodemaintenance.k8s.io/owner': text } })]),
      }),
      approvalNeeded(window, { runId: 'r', end: now, message: text, isWhole: false }, now),
    ];
    for (const notification of notifications) {
      const texts = textsIn(notification);
      expect(texts.filter((one) => unprintable.test(one))).toEqual([]);
      expect(Math.max(...texts.map(({ length }) => length))).toBeLessThanOrEqual(1_200);
    }
  });

  test('is one line of bounded length as the message of a condition', () => {
    const facts = { type: 'Valid', status: 'False', reason: 'Invalid', message: text } as const;
    const [condition] = withCondition([], facts, now);
    expect(condition?.message).not.toMatch(unprintable);
    expect(condition?.message.length).toBeLessThanOrEqual(32_768);
    expect(withCondition([condition as Condition], facts, now)).toEqual([condition]);
  });

  test('is one line of bounded length as the holder of a Lease', () => {
    const waiting = { name: 'node-1', because: heldByAnother(text) };
    const lease = {
      metadata: { name: 'node-1' },
      spec: { holderIdentity: `x${text}`, renewTime: '2020-01-01T00:00:00Z', leaseDurationSeconds: 1 },
    };
    const problem = leaseProblemOf(lease, Date.parse(now));
    const messages = [
      waitingMessage(waiting),
      nodeLeasesCondition([waiting]).message,
      problem?.message ?? '',
    ];
    expect(messages.filter((one) => unprintable.test(one))).toEqual([]);
    expect(Math.max(...messages.map(({ length }) => length))).toBeLessThanOrEqual(1_000);
    expect(problem?.holder).not.toMatch(unprintable);
  });

  test('is one line of bounded length as a condition that a kubelet writes', () => {
    const condition = (type: string) => ({ type, status: 'False' as const, reason: 'X', message: text });
    const node = {
      metadata: { name: 'node-1', labels: {} },
      spec: {},
      status: {
        conditions: [condition('Ready'), condition('readiness.k8s.io/GatesReady')].map((one) => ({
          ...one,
          lastTransitionTime: now,
        })),
      },
    } as unknown as Node;
    const input = { node, pods: [], readiness: undefined, isTainted: false };
    const context = { maintenances: [], policies: [] };
    const reasons = [
      ...outOfServiceReasons(input, maintenanceWith('x', 'Complete'), context),
      outOfServiceReason(node) ?? '',
    ];
    expect(isInService(input, [])).toBe(false);
    expect(reasons.filter((one) => unprintable.test(one))).toEqual([]);
    expect(Math.max(...reasons.map(({ length }) => length))).toBeLessThanOrEqual(1_200);
  });
});

/** Returns all strings of a value. */
function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

test('a forged snapshot in a refreshDetails signal neither adds Markdown nor many rows', () => {
  const details = detailsSnapshotAt(maintenanceWith('x'), now);
  const evil = '**[x](https://evil.example)**' as unknown as number;
  const row = { node: 'n', podsToEvacuate: evil, podsEvacuated: evil, message: 'x' };
  const cause = {
    message: 'x',
    requiresIntervention: true,
    pods: Array.from({ length: 50_000 }, () => 'p'),
    morePods: evil,
  };
  const markdown = renderCurrentDetails({
    name: 'rack-7',
    stage: 'Drain',
    paused: false,
    drained: false,
    nodes: ['n'],
    details: {
      ...details,
      podsToEvacuate: evil,
      podsBlocked: evil,
      more: evil,
      moreCauses: evil,
      drainTier: { number: evil, total: evil },
      rows: Array.from({ length: 50_000 }, () => row),
      causes: Array.from({ length: 50_000 }, () => cause),
    },
  });
  expectNoForeignMarkdown(markdown);
  expect(urlLength(markdown)).toBeLessThanOrEqual(7_500);
});
