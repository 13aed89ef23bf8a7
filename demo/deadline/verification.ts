import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { WorkflowRecord } from '../history.ts';
import type { DeletedPod } from '../recording.ts';
import type { Row, Section } from '../table.ts';
import { type Evictions, same } from '../verification.ts';
import { ledger, ledgerGraceSeconds, podsThatMove, shop, shopGraceSeconds } from './fixtures.ts';
import type { Deletion, DrainedRecord } from './observations.ts';

export interface PodEvent {
  reason: string;
  message: string;
  involvedObject: { kind: string; name: string };
}

interface Evidence {
  maintenance: NodeMaintenance | undefined;
  deletions: readonly Deletion[];
  drainedRecord: DrainedRecord;
  deletedPods: readonly DeletedPod[];
  events: readonly PodEvent[];
  evictions: Evictions;
  workflow: WorkflowRecord;
}

export function verify(evidence: Evidence): Section[] {
  return [
    { title: 'The escalation', rows: escalationRows(evidence) },
    { title: 'What was left at the deadline', rows: deletionRows(evidence) },
    { title: 'The volume that is detached late', rows: volumeRows(evidence) },
  ];
}

function escalationRows({ maintenance, events, workflow }: Evidence): Row[] {
  const { time = '', steps = [], drainedAt = '' } = maintenance?.status?.drainDeadline ?? {};
  const done = workflow.escalations.flat();
  const notified = steps.filter(({ action }) => action === 'Notify');
  const inOrder = notified.every(({ time: at, doneAt = '' }) => Date.parse(doneAt) >= Date.parse(at));
  const named = new Set(
    events
      .filter(({ reason }) => reason === 'DrainDeadline')
      .map(({ involvedObject }) => involvedObject.name),
  );
  return [
    same(
      'Each notification is in the history once, although the worker was killed between them',
      notified.map((step) => `Notify ${step.time}`).join(', '),
      done.filter((step) => step.startsWith('Notify')).join(', '),
    ),
    same('No notification came before its time', 'true', String(inOrder)),
    same('Pods with an Event that names the deadline', String(podsThatMove), String(named.size)),
    {
      fact: 'The node was drained by the deadline',
      expected: `by ${time}`,
      actual: `at ${drainedAt}`,
      holds: Date.parse(drainedAt) <= Date.parse(time),
    },
  ];
}

function deletionRows({ maintenance, deletions, evictions }: Evidence): Row[] {
  const deadlineMs = Date.parse(maintenance?.status?.drainDeadline?.time ?? '');
  const graceOf = (name: string) =>
    [
      ...new Set(deletions.filter(({ pod }) => pod.includes(name)).map(({ graceSeconds }) => graceSeconds)),
    ].join(', ');
  return [
    same('Evictions that the budgets allowed', '0', String(evictions.accepted)),
    same('Pods that were deleted', String(podsThatMove), String(deletions.length)),
    same('Grace period of the shop, in seconds', String(shopGraceSeconds), graceOf(shop.name)),
    same('Grace period of the ledger, in seconds', String(ledgerGraceSeconds), graceOf(ledger.name)),
    {
      fact: 'Every grace period ends by the deadline',
      expected: `${deletions.length} of ${deletions.length}`,
      actual: `${deletions.filter(({ endsAt }) => Date.parse(endsAt) <= deadlineMs).length} of ${deletions.length}`,
      holds: deletions.every(({ endsAt }) => Date.parse(endsAt) <= deadlineMs),
    },
  ];
}

function volumeRows({ drainedRecord: { versions, detached = 0n }, deletedPods }: Evidence): Row[] {
  const lastPod = deletedPods.map(({ revision }) => revision).reduce((a, b) => (a > b ? a : b), 0n);
  const before = versions.findLast(({ revision }) => revision < detached);
  const drained = versions.find(({ status }) => status === 'True');
  return [
    {
      fact: 'It was detached after the last pod was gone',
      expected: `after revision ${lastPod}`,
      actual: `revision ${detached}`,
      holds: lastPod > 0n && detached > lastPod,
    },
    same(
      'Condition Drained when it was detached',
      'False, VolumesAttached',
      `${before?.status}, ${before?.reason}`,
    ),
    {
      fact: 'The node was not drained before',
      expected: `after revision ${detached}, AllPodsTerminated`,
      actual: drained === undefined ? 'never' : `revision ${drained.revision}, ${drained.reason}`,
      holds: drained !== undefined && drained.revision > detached && drained.reason === 'AllPodsTerminated',
    },
  ];
}
