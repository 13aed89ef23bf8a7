import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import type { DrainPlanEntry } from '../../api/nodeMaintenance.ts';
import { daemons, labelled, pods } from '../kit/builders.ts';
import { parseAuditLog } from './invariants/audit.ts';
import { AuditLogBuilder } from './invariants/auditEvents.ts';
import { checkLog } from './invariants/check.ts';
import { workerAccount } from './invariants/cluster.ts';

const story = () => new AuditLogBuilder();
const [n1, n2] = ['n1', 'n2'];
const plan: DrainPlanEntry[] = [pods(1000), pods(5000)];

/** A node with a pod in each of two tiers, its Lease held and its drain started. */
const drained = () =>
  story()
    .pod('low', { node: n1, priority: 1000 })
    .pod('high', { node: n1, priority: 5000 })
    .leased(n1)
    .maintained('m', { nodes: [n1], plan });

const violationsOf = (written: AuditLogBuilder, ignorance: { fromMs: number; toMs: number }[] = []) =>
  checkLog(written.log(), ignorance).map(({ invariant, message }) => `${invariant}: ${message}`);

interface Row {
  when: string;
  written: AuditLogBuilder;
  broken: unknown[];
}

const contains = (text: string) => expect.stringContaining(text);

describe('tiers', () => {
  test.each<Row>([
    {
      when: 'the pods of the first tier are asked to leave first',
      written: drained().asked('low'),
      broken: [],
    },
    {
      when: 'a pod of the second tier is asked while one of the first is there',
      written: drained().asked('low').asked('high'),
      broken: [
        contains(
          'tiers: Pod default/high on n1 was asked to leave in tier 1 of m, while pods of earlier tiers had not left: default/low',
        ),
      ],
    },
    {
      when: 'a pod of the second tier is requested while one of the first is there',
      written: drained().askedByRequest('low').askedByRequest('high'),
      broken: [contains('tiers: Pod default/high')],
    },
    {
      when: 'the first tier is gone',
      written: drained().asked('low').podGone('low').asked('high'),
      broken: [],
    },
    {
      when: 'a pod of the first tier terminates and is not gone',
      written: drained().asked('low').evicted('low').asked('high'),
      broken: [contains('tiers: Pod default/high')],
    },
    {
      when: 'a pod of the first tier lives on another node of the maintenance',
      written: drained()
        .leased(n2)
        .pod('other', { node: n2 })
        .maintained('m', { nodes: [n1, n2], plan })
        .podGone('low')
        .asked('high'),
      broken: [contains('had not left: default/other (on n2)')],
    },
    {
      when: 'that other node is locked by another user, for whom the maintenance does not wait',
      written: drained()
        .leased(n2, 'technician')
        .pod('other', { node: n2 })
        .maintained('m', { nodes: [n1, n2], plan })
        .podGone('low')
        .asked('high'),
      broken: [],
    },
    {
      when: 'a pod of the first tier appears late: positions do not move back',
      written: drained().podGone('low').pod('late', { node: n1 }).asked('high'),
      broken: [],
    },
    {
      when: 'the apiserver was killed while it removed the last pod of the tier, which may be gone',
      written: drained().podGone('low', { answered: false }).asked('high'),
      broken: [],
    },
    {
      when: 'the answer to the removal was lost, and a later write shows that the pod is there',
      written: drained()
        .podGone('low', { answered: false })
        .passed(5)
        .pod('low', { node: n1, priority: 1000 })
        .asked('high'),
      broken: [contains('had not left: default/low')],
    },
    {
      when: 'a pod of the second tier is evicted that nobody asked to leave',
      written: drained().evicted('high'),
      broken: [
        contains('tiers: Pod default/high on n1 was removed without being asked in tier 1 of m, while pods'),
      ],
    },
    {
      when: 'a pod of the second tier is evicted that was asked in time',
      written: drained()
        .podGone('low')
        .asked('high')
        .pod('late', { node: n1, priority: 1000 })
        .evicted('high'),
      broken: [],
    },
    {
      when: 'DaemonSet pods are asked before the others are gone',
      written: drained().pod('daemon', { node: n1, daemon: true }).podGone('low').asked('daemon'),
      broken: [contains('tiers: Pod default/daemon')],
    },
    {
      when: 'another maintenance of the node has not reached the tier',
      written: drained()
        .maintained('quick', { nodes: [n1], plan: [pods(5000)] })
        .asked('high'),
      broken: [contains('tiers: Pod default/high on n1 was asked to leave in tier 1 of m, while')],
    },
    {
      when: 'the node had reached the tier before the other maintenance began: targets do not backtrack',
      written: drained()
        .podGone('low')
        .pod('lowest', { node: n1, priority: 500 })
        .maintained('slow', { nodes: [n1], plan: [pods(500), pods(5000)] })
        .asked('high'),
      broken: [],
    },
    {
      when: 'selectors order the same pods differently: one of them proceeds',
      written: story()
        .leased(n1)
        .pod('x', { node: n1, priority: 5000, labels: { app: 'x' } })
        .pod('rest', { node: n1, priority: 1000 })
        .maintained('old', { nodes: [n1], plan: [labelled(pods(5000), { app: 'x' }), pods(5000)] })
        .maintained('young', { nodes: [n1], plan })
        .asked('x'),
      broken: [],
    },
    {
      when: 'a plan of nodes that are not shared has selectors',
      written: drained()
        .maintained('quick', { nodes: [n1], plan: [pods(5000)] })
        .maintained('far', { nodes: [n2], plan: [labelled(pods(1000), { app: 'x' })] })
        .asked('high'),
      broken: [contains('tiers: Pod default/high')],
    },
    {
      when: 'a deadline deletes what is left',
      written: drained()
        .maintained('m', { nodes: [n1], plan, onDeadline: 'Delete' })
        .asked('high'),
      broken: [],
    },
    {
      when: 'the deadline is not near',
      written: drained()
        .maintained('m', { nodes: [n1], plan, onDeadline: 'Delete', after: '60s' })
        .passed(30)
        .asked('high'),
      broken: [contains('tiers: Pod default/high')],
    },
  ])('$when', ({ written, broken }) => expect(violationsOf(written)).toEqual(broken));
});

describe('targets and cancels', () => {
  const cancelled = () =>
    drained()
      .asked('low')
      .maintained('m', { nodes: [n1], plan, stage: 'Complete' });
  test.each<Row>([
    {
      when: 'an eviction on a node that is drained',
      written: drained().asked('low').evicted('low'),
      broken: [],
    },
    {
      when: 'an eviction on another node',
      written: drained().leased(n2).pod('far', { node: n2 }).evicted('far'),
      broken: ['targets: Pod default/far on n2 was evicted, but no maintenance drained the node'],
    },
    {
      when: 'an Evacuation on a node in stage Cordon',
      written: story()
        .leased(n1)
        .pod('low', { node: n1 })
        .maintained('m', { nodes: [n1], stage: 'Cordon' })
        .asked('low'),
      broken: [contains('targets: Pod default/low on n1 was asked to leave')],
    },
    {
      when: 'an eviction by another user',
      written: drained().pod('far', { node: n2 }).evicted('far', { user: 'admin' }),
      broken: [],
    },
    {
      when: 'an eviction as a dry run',
      written: drained().pod('far', { node: n2 }).evicted('far', { dryRun: true }),
      broken: [],
    },
    {
      when: 'a rejected eviction',
      written: drained().pod('far', { node: n2 }).evicted('far', { code: 429 }),
      broken: [],
    },
    { when: 'an eviction in flight at a cancel', written: cancelled().evicted('low'), broken: [] },
    {
      when: 'an eviction long after a cancel was answered',
      written: cancelled().passed(10).evicted('low'),
      broken: [
        'cancel: Pod default/low on n1 was evicted 11000 ms after the last drain of the node, m, had been ended',
      ],
    },
    {
      when: 'an eviction after a deletion of the maintenance',
      written: drained()
        .asked('low')
        .maintained('m', { nodes: [n1], plan, deleted: true })
        .passed(10)
        .evicted('low'),
      broken: [contains('cancel: ')],
    },
    {
      when: 'another maintenance that drains the node',
      written: cancelled()
        .maintained('other', { nodes: [n1], plan })
        .passed(10)
        .evicted('low'),
      broken: [],
    },
    {
      when: 'an evacuator that forbids cancellation',
      written: cancelled().forbidden('low').passed(10).evicted('low'),
      broken: [],
    },
  ])('$when', ({ written, broken }) => expect(violationsOf(written)).toEqual(broken));

  test('the worker was cut off at that time', () => {
    const written = cancelled();
    const fromMs = written.nowMs;
    written.passed(10).evicted('low');
    expect(violationsOf(written, [{ fromMs, toMs: written.nowMs - 1_000 }])).toEqual([]);
    expect(violationsOf(written, [{ fromMs, toMs: fromMs + 1_000 }])).toEqual([contains('cancel: ')]);
  });
});

describe('locks', () => {
  const unlocked = () =>
    story()
      .pod('low', { node: n1 })
      .maintained('m', { nodes: [n1], plan });
  test.each<Row>([
    { when: 'a cordon with the Lease', written: drained().cordoned(n1), broken: [] },
    {
      when: 'a cordon before the Lease was ever taken',
      written: unlocked().cordoned(n1),
      broken: [
        contains(
          'lease: Node n1 was cordoned or uncordoned while the maintenance Lease of n1 was held by nobody',
        ),
      ],
    },
    { when: 'a cordon by an administrator', written: unlocked().cordoned(n1, { user: 'admin' }), broken: [] },
    {
      when: 'an Evacuation while someone else has the Lease',
      written: unlocked().leased(n1, 'technician').asked('low'),
      broken: [contains('held by "technician"')],
    },
    {
      when: 'an uncordon after the Lease has expired',
      written: drained().passed(61).cordoned(n1, { unschedulable: false }),
      broken: [contains('lease: Node n1')],
    },
    {
      when: 'a Lease that a killed apiserver may have stored',
      written: unlocked().leased(n1, undefined, { answered: false }).asked('low'),
      broken: [],
    },
    {
      when: 'a Lease that a killed apiserver may have stored, and that someone else has acquired since',
      written: unlocked()
        .leased(n1, undefined, { answered: false })
        .passed(5)
        .leased(n1, 'technician')
        .asked('low'),
      broken: [contains('held by "technician"')],
    },
    {
      when: 'an eviction that nobody asked for, long after the Lease was taken',
      written: drained().leased(n1, 'technician').passed(10).evicted('low'),
      broken: [
        contains(
          'lease: Pod default/low was evicted while the maintenance Lease of n1 was held by "technician"',
        ),
      ],
    },
    {
      when: 'an eviction of a pod that was asked to leave before the Lease was taken',
      written: drained().asked('low').leased(n1, 'technician').passed(10).evicted('low'),
      broken: [],
    },
    {
      when: 'an eviction of a pod that was asked to leave by an EvictionRequest',
      written: drained().askedByRequest('low').leased(n1, 'technician').passed(10).evicted('low'),
      broken: [],
    },
    {
      when: 'an eviction of a pod whose Evacuation a killed apiserver may have stored',
      written: drained()
        .asked('low', { answered: false })
        .leased(n1, 'technician')
        .passed(10)
        .evicted('low')
        .withdrawn('low'),
      broken: [],
    },
    {
      when: 'an eviction of a pod that nobody asked to leave, while the request for another one may be stored',
      written: drained()
        .asked('high', { answered: false })
        .leased(n1, 'technician')
        .passed(10)
        .evicted('low')
        .withdrawn('high'),
      broken: [contains('lease: Pod default/low was evicted')],
    },
    {
      when: 'an eviction long after its Evacuation was withdrawn, and the Lease had expired',
      written: drained().asked('low').passed(61).withdrawn('low').passed(10).evicted('low'),
      broken: [contains('lease: Pod default/low was evicted')],
    },
    {
      when: 'an eviction in flight when its Evacuation is withdrawn, after the Lease has expired',
      written: drained().asked('low').passed(61).withdrawn('low').evicted('low'),
      broken: [],
    },
    {
      when: 'an eviction that an evacuator does not let anybody cancel',
      written: drained().asked('low').forbidden('low').leased(n1, 'technician').passed(10).evicted('low'),
      broken: [],
    },
    {
      when: 'a deletion by an evacuator, of a pod that was asked to leave before',
      written: story()
        .leased(n1)
        .pod('d', { node: n1, daemon: true })
        .maintained('m', { nodes: [n1], plan: [daemons(1000)] })
        .asked('d')
        .passed(61)
        .deleted('d'),
      broken: [],
    },
    {
      when: 'a deletion by a deadline, although the pod was asked to leave before the Lease expired',
      written: drained()
        .maintained('m', { nodes: [n1], plan, onDeadline: 'Delete' })
        .asked('low')
        .passed(61)
        .deleted('low', { gracePeriodSeconds: 30 }),
      broken: [contains('lease: Pod default/low was deleted while the maintenance Lease of n1 was held by')],
    },
    {
      when: 'a deletion by a deadline, in flight when the Lease is released',
      written: drained()
        .maintained('m', { nodes: [n1], plan, onDeadline: 'Delete' })
        .leased(n1, '')
        .deleted('low', { gracePeriodSeconds: 30 }),
      broken: [],
    },
    {
      when: 'an eviction by someone else',
      written: unlocked().evicted('low', { user: 'admin' }),
      broken: [],
    },
    { when: 'conditions with the Lease', written: drained().conditioned(n1, ['Drained']), broken: [] },
    {
      when: 'conditions after a Lease that a watch has shown before its answer was logged',
      written: unlocked().leased(n1, undefined, { answeredAfter: 5 }).conditioned(n1, ['Drained']),
      broken: [],
    },
    {
      when: 'conditions without the Lease',
      written: unlocked().conditioned(n1, ['MaintenanceInProgress', 'Drained']),
      broken: ['lease: Conditions of node n1 were set while the maintenance Lease of n1 was held by nobody'],
    },
    {
      when: 'conditions that an informer which lags sets when the Lease is released',
      written: drained().leased(n1, '').conditioned(n1, ['MaintenanceInProgress']),
      broken: [],
    },
    { when: 'conditions that are removed', written: unlocked().conditioned(n1, []), broken: [] },
    {
      when: 'the condition of readiness gates, which is about no maintenance',
      written: unlocked().conditioned(n1, ['readiness.k8s.io/Gates']),
      broken: [],
    },
    {
      when: 'conditions of someone else',
      written: unlocked().conditioned(n1, ['Drained'], { user: 'kubelet' }),
      broken: [],
    },
    {
      when: 'annotations against autoscalers without the Lease',
      written: unlocked().annotated(n1, { 'karpenter.sh/do-not-disrupt': 'true' }),
      broken: [contains('lease: Node n1 was kept from autoscalers or returned to them')],
    },
  ])('$when', ({ written, broken }) => expect(violationsOf(written)).toEqual(broken));

  test('the worker was cut off when the Lease was released', () => {
    const written = drained()
      .maintained('m', { nodes: [n1], plan, onDeadline: 'Delete' })
      .leased(n1, '');
    const fromMs = written.nowMs;
    written.passed(10).deleted('low', { gracePeriodSeconds: 30 });
    expect(violationsOf(written, [{ fromMs, toMs: written.nowMs - 1_000 }])).toEqual([]);
    expect(violationsOf(written)).toEqual([contains('lease: ')]);
  });
});

describe('drained', () => {
  const claimed = (written: AuditLogBuilder, options = {}) => written.becameDrained('m', options);
  const left = (pod: string) =>
    contains(`drained: m became Drained while pods that it drains were on its nodes: default/${pod}`);
  test.each<Row>([
    {
      when: 'all pods have left',
      written: claimed(drained().podGone('low').podGone('high').passed(10)),
      broken: [],
    },
    {
      when: 'a pod is left',
      written: claimed(drained().podGone('low').passed(10)),
      broken: [left('high (on n1)')],
    },
    {
      when: 'a pod terminates and is not gone',
      written: claimed(drained().podGone('low').asked('high').evicted('high').passed(10)),
      broken: [left('high')],
    },
    {
      when: 'a pod appeared at that time',
      written: claimed(drained().podGone('low').podGone('high').passed(10).pod('late', { node: n1 })),
      broken: [],
    },
    {
      when: 'a pod appeared after the nodes were verified, and before that was written',
      written: (() => {
        const written = drained().podGone('low').podGone('high').passed(10);
        const sinceMs = written.nowMs;
        return claimed(written.pod('late', { node: n1 }).passed(20), { sinceMs });
      })(),
      broken: [],
    },
    {
      when: 'a pod lives on a node that the maintenance does not select',
      written: claimed(drained().podGone('low').podGone('high').pod('far', { node: n2 }).passed(10)),
      broken: [],
    },
    {
      when: 'the apiserver was killed while it removed the last pod, which may be gone',
      written: claimed(drained().podGone('low').podGone('high', { answered: false }).passed(10)),
      broken: [],
    },
    {
      when: 'the answer to the removal of the last pod was lost, and a later write shows that it is there',
      written: claimed(
        drained()
          .podGone('low')
          .podGone('high', { answered: false })
          .passed(5)
          .pod('high', { node: n1, priority: 5000 })
          .passed(10),
      ),
      broken: [left('high')],
    },
    {
      when: 'the status is of an earlier generation of the spec',
      written: claimed(
        drained()
          .passed(10)
          .maintained('m', { nodes: [n1], plan, generation: 2 }),
      ),
      broken: [],
    },
    {
      when: 'a node is selected later, and the maintenance says at once that it is still Drained',
      written: (() => {
        const written = drained()
          .podGone('low')
          .podGone('high')
          .pod('far', { node: n2 })
          .leased(n2)
          .passed(10);
        const sinceMs = written.nowMs;
        claimed(written, { sinceMs })
          .maintained('m', { nodes: [n1, n2], plan, generation: 2 })
          .passed(10);
        return claimed(written, { sinceMs, observedGeneration: 2 });
      })(),
      broken: [left('far (on n2)')],
    },
  ])('$when', ({ written, broken }) => expect(violationsOf(written)).toEqual(broken));
});

test('the audit log has what the worker writes to the status of nodes and maintenances, and of nobody else', () => {
  const policy = readFileSync(new URL('audit-policy.yaml', import.meta.url), 'utf8');
  const { rules } = parse(policy) as {
    rules: { level: string; users?: string[]; resources?: { resources: string[] }[] }[];
  };
  const usersOf = (resource: string) =>
    rules
      .filter(({ resources = [] }) => resources.some((one) => one.resources.includes(resource)))
      .map(({ users }) => users);
  expect(usersOf('nodes/status')).toEqual([[workerAccount]]);
  expect(usersOf('nodemaintenances/status')).toEqual([[workerAccount]]);
  expect(usersOf('pods')).toEqual([undefined]);
  // The version of each answer orders it among the others.
  expect(new Set(rules.map(({ level }) => level))).toEqual(new Set(['RequestResponse', 'None']));
});

describe('pods', () => {
  const consent = { 'evacuation.coordination.k8s.io/priority_statefulset.apps.k8s.io': '10000/controller' };
  test.each<Row>([
    {
      when: 'evicted twice',
      written: drained().evicted('low').evicted('low'),
      broken: ['once: Pod default/low was evicted twice'],
    },
    {
      when: 'with two Evacuations',
      written: drained().asked('low').asked('low', { name: 'second' }),
      broken: ['once: Pod default/low had 2 evacuations at a time'],
    },
    {
      when: 'with another Evacuation after the first was withdrawn',
      written: drained().asked('low').withdrawn('low').asked('low', { name: 'second' }),
      broken: [],
    },
    {
      when: 'with two EvictionRequests',
      written: drained().askedByRequest('low').askedByRequest('low', { name: 'second' }),
      broken: ['once: Pod default/low had 2 evictionrequests at a time'],
    },
    {
      when: 'with another EvictionRequest after the first was withdrawn, and an Evacuation for it',
      written: drained()
        .askedByRequest('low')
        .askedByRequest('low', { intent: 'Withdrawn' })
        .askedByRequest('low', { name: 'second' })
        .asked('low'),
      broken: [],
    },
    {
      when: 'deleted instead of evicted',
      written: drained().deleted('low'),
      broken: ['budgets: Pod default/low was deleted, and not evicted, so that no budget was asked'],
    },
    {
      when: 'of a DaemonSet, deleted',
      written: story()
        .leased(n1)
        .pod('d', { node: n1, daemon: true })
        .maintained('m', { nodes: [n1], plan: [daemons(1000)] })
        .deleted('d'),
      broken: [],
    },
    {
      when: 'of a StatefulSet whose owner consents, deleted',
      written: drained().pod('low', { node: n1, annotations: consent }).deleted('low'),
      broken: [],
    },
    {
      when: 'deleted by a deadline',
      written: drained()
        .maintained('m', { nodes: [n1], plan, onDeadline: 'Delete' })
        .deleted('low'),
      broken: [],
    },
    {
      when: 'deleted long before the deadline',
      written: drained()
        .maintained('m', { nodes: [n1], plan, onDeadline: 'Delete', after: '60s' })
        .passed(30)
        .deleted('low'),
      broken: ['budgets: Pod default/low was deleted, and not evicted, so that no budget was asked'],
    },
    {
      when: 'deleted by a deadline, by a request that was in flight when the maintenance was cancelled',
      written: drained()
        .maintained('m', { nodes: [n1], plan, onDeadline: 'Delete' })
        .maintained('m', { nodes: [n1], plan, onDeadline: 'Delete', stage: 'Complete' })
        .deleted('low'),
      broken: [],
    },
    {
      when: 'deleted long after the drain with a deadline ended, while another drains the node',
      written: drained()
        .maintained('m', { nodes: [n1], plan, onDeadline: 'Delete' })
        .maintained('other', { nodes: [n1], plan })
        .maintained('m', { nodes: [n1], plan, onDeadline: 'Delete', stage: 'Complete' })
        .passed(10)
        .deleted('low'),
      broken: ['budgets: Pod default/low was deleted, and not evicted, so that no budget was asked'],
    },
    {
      when: 'deleted by a deadline, after an eviction',
      written: drained()
        .maintained('m', { nodes: [n1], plan, onDeadline: 'Delete' })
        .evicted('low')
        .deletedAgain('low', 1),
      broken: [],
    },
    {
      when: 'killed without a grace period',
      written: drained()
        .maintained('m', { nodes: [n1], plan, onDeadline: 'Delete' })
        .deleted('low', { gracePeriodSeconds: 0 }),
      broken: ['budgets: Pod default/low was killed without its grace period'],
    },
  ])('$when', ({ written, broken }) => expect(violationsOf(written)).toEqual(broken));
});

test('the line that a killed apiserver left is not read', () => {
  expect(parseAuditLog(['{"auditID":"1","stage":"Requ'])).toEqual({ writes: [], unknown: [] });
});
