import { describe, expect, test } from '@jest/globals';
import type { DrainPlanEntry } from '../../api/nodeMaintenance.ts';
import { daemons, labelled, pods } from '../kit/builders.ts';
import { parseAuditLog } from './judge/audit.ts';
import { AuditStory } from './judge/auditEvents.ts';
import { judgeLog } from './judge/judge.ts';

const story = () => new AuditStory();
const [n1, n2] = ['n1', 'n2'];
const plan: DrainPlanEntry[] = [pods(1000), pods(5000)];

/** A node with a pod in each of two tiers, its Lease held and its drain begun. */
const drained = () =>
  story()
    .pod('low', { node: n1, priority: 1000 })
    .pod('high', { node: n1, priority: 5000 })
    .leased(n1)
    .maintained('m', { nodes: [n1], plan });

const judgedBy = (told: AuditStory, ignorance: { fromMs: number; toMs: number }[] = []) =>
  judgeLog(told.log(), ignorance).map(({ invariant, message }) => `${invariant}: ${message}`);

interface Row {
  when: string;
  told: AuditStory;
  broken: unknown[];
}

const contains = (text: string) => expect.stringContaining(text);

describe('tiers', () => {
  test.each<Row>([
    { when: 'the pods of the first tier are asked to leave first', told: drained().asked('low'), broken: [] },
    {
      when: 'a pod of the second tier is asked while one of the first is there',
      told: drained().asked('low').asked('high'),
      broken: [
        contains(
          'tiers: Pod default/high on n1 was asked to leave in tier 1 of m, while pods of earlier tiers had not left: default/low',
        ),
      ],
    },
    { when: 'the first tier is gone', told: drained().asked('low').podGone('low').asked('high'), broken: [] },
    {
      when: 'a pod of the first tier terminates and is not gone',
      told: drained().asked('low').evicted('low').asked('high'),
      broken: [contains('tiers: Pod default/high')],
    },
    {
      when: 'a pod of the first tier lives on another node of the maintenance',
      told: drained()
        .leased(n2)
        .pod('other', { node: n2 })
        .maintained('m', { nodes: [n1, n2], plan })
        .podGone('low')
        .asked('high'),
      broken: [contains('had not left: default/other (on n2)')],
    },
    {
      when: 'that other node is locked by another user, for whom the maintenance does not wait',
      told: drained()
        .leased(n2, 'technician')
        .pod('other', { node: n2 })
        .maintained('m', { nodes: [n1, n2], plan })
        .podGone('low')
        .asked('high'),
      broken: [],
    },
    {
      when: 'a pod of the first tier appears late: positions do not move back',
      told: drained().podGone('low').pod('late', { node: n1 }).asked('high'),
      broken: [],
    },
    {
      when: 'the apiserver was killed while it removed the last pod of the tier, which may be gone',
      told: drained().podGone('low', { answered: false }).asked('high'),
      broken: [],
    },
    {
      when: 'DaemonSet pods are asked before the others are gone',
      told: drained().pod('daemon', { node: n1, daemon: true }).podGone('low').asked('daemon'),
      broken: [contains('tiers: Pod default/daemon')],
    },
    {
      when: 'another maintenance of the node has not reached the tier',
      told: drained()
        .maintained('quick', { nodes: [n1], plan: [pods(5000)] })
        .asked('high'),
      broken: [contains('tiers: Pod default/high on n1 was asked to leave in tier 1 of m, while')],
    },
    {
      when: 'the node had reached the tier before the other maintenance began: targets do not backtrack',
      told: drained()
        .podGone('low')
        .pod('lowest', { node: n1, priority: 500 })
        .maintained('slow', { nodes: [n1], plan: [pods(500), pods(5000)] })
        .asked('high'),
      broken: [],
    },
    {
      when: 'selectors order the same pods differently: one of them proceeds',
      told: story()
        .leased(n1)
        .pod('x', { node: n1, priority: 5000, labels: { app: 'x' } })
        .pod('rest', { node: n1, priority: 1000 })
        .maintained('old', { nodes: [n1], plan: [labelled(pods(5000), { app: 'x' }), pods(5000)] })
        .maintained('young', { nodes: [n1], plan })
        .asked('x'),
      broken: [],
    },
    {
      when: 'a deadline deletes what is left',
      told: drained()
        .maintained('m', { nodes: [n1], plan, onDeadline: 'Delete' })
        .asked('high'),
      broken: [],
    },
  ])('$when', ({ told, broken }) => expect(judgedBy(told)).toEqual(broken));
});

describe('targets and cancels', () => {
  const cancelled = () =>
    drained()
      .asked('low')
      .maintained('m', { nodes: [n1], plan, stage: 'Complete' });
  test.each<Row>([
    {
      when: 'an eviction on a node that is drained',
      told: drained().asked('low').evicted('low'),
      broken: [],
    },
    {
      when: 'an eviction on another node',
      told: drained().pod('far', { node: n2 }).evicted('far'),
      broken: ['targets: Pod default/far on n2 was evicted, but no maintenance drained the node'],
    },
    {
      when: 'an Evacuation on a node in stage Cordon',
      told: story()
        .leased(n1)
        .pod('low', { node: n1 })
        .maintained('m', { nodes: [n1], stage: 'Cordon' })
        .asked('low'),
      broken: [contains('targets: Pod default/low on n1 was asked to leave')],
    },
    {
      when: 'an eviction by another user',
      told: drained().pod('far', { node: n2 }).evicted('far', { user: 'admin' }),
      broken: [],
    },
    {
      when: 'an eviction as a dry run',
      told: drained().pod('far', { node: n2 }).evicted('far', { dryRun: true }),
      broken: [],
    },
    {
      when: 'a rejected eviction',
      told: drained().pod('far', { node: n2 }).evicted('far', { code: 429 }),
      broken: [],
    },
    { when: 'an eviction in flight at a cancel', told: cancelled().evicted('low'), broken: [] },
    {
      when: 'an eviction long after a cancel was answered',
      told: cancelled().passed(10).evicted('low'),
      broken: [
        'cancel: Pod default/low on n1 was evicted 11000 ms after the last drain of the node, m, had been ended',
      ],
    },
    {
      when: 'an eviction after a deletion of the maintenance',
      told: drained()
        .asked('low')
        .maintained('m', { nodes: [n1], plan, deleted: true })
        .passed(10)
        .evicted('low'),
      broken: [contains('cancel: ')],
    },
    {
      when: 'another maintenance that drains the node',
      told: cancelled()
        .maintained('other', { nodes: [n1], plan })
        .passed(10)
        .evicted('low'),
      broken: [],
    },
    {
      when: 'an evacuator that forbids cancellation',
      told: cancelled().forbidden('low').passed(10).evicted('low'),
      broken: [],
    },
  ])('$when', ({ told, broken }) => expect(judgedBy(told)).toEqual(broken));

  test('the worker was cut off meanwhile', () => {
    const told = cancelled();
    const fromMs = told.nowMs;
    told.passed(10).evicted('low');
    expect(judgedBy(told, [{ fromMs, toMs: told.nowMs - 1_000 }])).toEqual([]);
    expect(judgedBy(told, [{ fromMs, toMs: fromMs + 1_000 }])).toEqual([contains('cancel: ')]);
  });
});

describe('locks', () => {
  const unlocked = () =>
    story()
      .pod('low', { node: n1 })
      .maintained('m', { nodes: [n1], plan });
  test.each<Row>([
    { when: 'a cordon with the Lease', told: drained().cordoned(n1), broken: [] },
    {
      when: 'a cordon before the Lease was ever taken',
      told: unlocked().cordoned(n1),
      broken: [
        contains(
          'lease: Node n1 was cordoned or uncordoned while the maintenance Lease of n1 was held by nobody',
        ),
      ],
    },
    { when: 'a cordon by an administrator', told: unlocked().cordoned(n1, { user: 'admin' }), broken: [] },
    {
      when: 'an Evacuation while someone else has the Lease',
      told: unlocked().leased(n1, 'technician').asked('low'),
      broken: [contains('held by "technician"')],
    },
    {
      when: 'an uncordon after the Lease has expired',
      told: drained().passed(61).cordoned(n1, { unschedulable: false }),
      broken: [contains('lease: Node n1')],
    },
    {
      when: 'a Lease that a killed apiserver may have stored',
      told: unlocked().leased(n1, undefined, { answered: false }).asked('low'),
      broken: [],
    },
  ])('$when', ({ told, broken }) => expect(judgedBy(told)).toEqual(broken));
});

describe('pods', () => {
  const consent = { 'evacuation.coordination.k8s.io/priority_statefulset.apps.k8s.io': '10000/controller' };
  test.each<Row>([
    {
      when: 'evicted twice',
      told: drained().evicted('low').evicted('low'),
      broken: ['once: Pod default/low was evicted twice'],
    },
    {
      when: 'with two Evacuations',
      told: drained().asked('low').asked('low', { name: 'second' }),
      broken: ['once: Pod default/low had 2 Evacuations at a time'],
    },
    {
      when: 'with another Evacuation after the first was withdrawn',
      told: drained().asked('low').withdrawn('low').asked('low', { name: 'second' }),
      broken: [],
    },
    {
      when: 'deleted instead of evicted',
      told: drained().deleted('low'),
      broken: ['budgets: Pod default/low was deleted, and not evicted, so that no budget was asked'],
    },
    {
      when: 'of a DaemonSet, deleted',
      told: story()
        .leased(n1)
        .pod('d', { node: n1, daemon: true })
        .maintained('m', { nodes: [n1], plan: [daemons(1000)] })
        .deleted('d'),
      broken: [],
    },
    {
      when: 'of a StatefulSet whose owner consents, deleted',
      told: drained().pod('low', { node: n1, annotations: consent }).deleted('low'),
      broken: [],
    },
    {
      when: 'deleted by a deadline',
      told: drained()
        .maintained('m', { nodes: [n1], plan, onDeadline: 'Delete' })
        .deleted('low'),
      broken: [],
    },
    {
      when: 'killed without a grace period',
      told: drained()
        .maintained('m', { nodes: [n1], plan, onDeadline: 'Delete' })
        .deleted('low', { gracePeriodSeconds: 0 }),
      broken: ['budgets: Pod default/low was killed without its grace period'],
    },
  ])('$when', ({ told, broken }) => expect(judgedBy(told)).toEqual(broken));
});

test('the line that a killed apiserver left is not read', () => {
  expect(parseAuditLog(['{"auditID":"1","stage":"Requ'])).toEqual({ writes: [], unknown: [] });
});
