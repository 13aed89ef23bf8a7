import { describe, expect, test } from '@jest/globals';
import type { DetailsSnapshot } from '../../../domain/maintenance/detailsSnapshot.ts';
import { urlLength } from '../../../domain/common/markdown.ts';
import {
  renderCurrentDetails,
  type CurrentDetailsInput,
} from '../../../domain/maintenance/currentDetails.ts';

const details = (differs: Partial<DetailsSnapshot> = {}): DetailsSnapshot => ({
  at: '2026-01-01T12:01:00.123Z',
  stage: 'Drain',
  since: '2026-01-01T12:00:00Z',
  podsToEvacuate: 5,
  podsEvacuated: 12,
  podsBlocked: 0,
  rows: [
    { node: 'node-1', podsToEvacuate: 4, podsEvacuated: 8, message: 'Evacuating' },
    { node: 'node-2', podsToEvacuate: 1, podsEvacuated: 4, message: '' },
  ],
  more: 0,
  moreDone: 0,
  causes: [],
  moreCauses: 0,
  ...differs,
});

/** Removes the padding between the columns of tables. */
const withoutGaps = (text: string) => text.replaceAll('\u2003', ' ');

const rendered = (differs: Partial<CurrentDetailsInput> = {}) =>
  withoutGaps(
    renderCurrentDetails({
      name: 'rack-7',
      stage: 'Drain',
      paused: false,
      drained: false,
      nodes: ['node-1', 'node-2'],
      details: details({ stage: differs.stage ?? 'Drain' }),
      ...differs,
    }),
  );

/** Returns the rows of the table of actions: name, input, effect. */
function actions(text: string): string[][] {
  const [, table = ''] = text.split('#### Available actions');
  return table
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
}

test('the deadline of a drain is one of its facts, as plain text', () => {
  const deadline = '2026-01-01T14:00:00Z: pods that are left are *deleted*';
  expect(rendered({ details: details({ deadline }) })).toMatch(
    /^- \*\*Drain deadline:\*\* 2026-01-01T14:00:00Z: pods that are left are \\\*deleted/m,
  );
  expect(rendered()).not.toContain('Drain deadline');
});

test('the details of a drain list its state, blockers, nodes and available actions', () => {
  const causes = [
    {
      message: 'PodDisruptionBudget shop/db can never allow a disruption: add a replica or relax the budget.',
      requiresIntervention: true,
      pods: ['shop/db-0 (node-1)'],
      morePods: 2,
    },
  ];
  const snapshot = details({
    reason: 'firmware 2.4',
    drainTier: { number: 2, total: 3 },
    tier: 'Default pods with priority up to 1000',
    podsBlocked: 3,
    causes,
  });
  expect(rendered({ details: snapshot })).toBe(`### Draining 2 nodes

- **NodeMaintenance:** \`rack-7\`: firmware 2.4
- **Stage:** **Drain** since 2026-01-01 12:00:00 UTC
- **Now:** pods are evacuated tier by tier
- **Drain plan:** tier 2 of 3: Default pods with priority up to 1000
- **Pods:** 5 of 17 left, **3 blocked** (at 2026-01-01 12:01:00 UTC)

#### Blocked pods

- **Action required:** shop/db-0 (node-1) and 2 more: PodDisruptionBudget shop/db can never allow a disruption: add a replica or relax the budget.

#### Nodes

| Node | Pods left | State |
|:--|:--|:--|
| \`node-1\` | 4 of 12 | Evacuating |
| \`node-2\` | 1 of 5 | Cordoned |

#### Available actions

| Signal | Input | Effect |
|:--|:--|:--|
| \`pause\` | none | creates no new Evacuation and starts no new tier; as an update, it returns when the drain is paused |
| \`advance\` | \`{"from": "Drain"}\` | ends the drain: advances to **Complete** and uncordons the nodes; the remaining 5 pods stay |
| \`cancel\` | none | same as advance |

#### See also

- \`kubectl maintenance status rack-7 --watch\` shows every pod, updated every second
- *Request Cancellation* has the same effect as \`cancel\`. *Terminate* does not uncordon the nodes: a new run continues where this one stopped`);
});

describe('the details have a headline and the available actions', () => {
  test.each<{ when: string; differs: Partial<CurrentDetailsInput>; headline: string; expected: string[] }>([
    {
      when: 'Idle',
      differs: { stage: 'Idle' },
      headline: '### Idle: 2 nodes selected',
      expected: [
        '`advance` `{"from": "Idle"}`',
        '`advance` `{"from": "Idle", "to": "Drain"}`',
        '`cancel` none',
      ],
    },
    {
      when: 'Cordon',
      differs: { stage: 'Cordon' },
      headline: '### Cordoned: 2 nodes',
      expected: ['`advance` `{"from": "Cordon"}`', '`cancel` none'],
    },
    {
      when: 'a paused drain',
      differs: { paused: true },
      headline: '### Paused: drain of 2 nodes',
      expected: ['`resume` none', '`advance` `{"from": "Drain"}`', '`cancel` none'],
    },
    {
      when: 'a finished drain',
      differs: { drained: true, nodes: ['node-1'], details: details({ podsToEvacuate: 0 }) },
      headline: '### Drained: 1 node ready for work',
      expected: ['`pause` none', '`advance` `{"from": "Drain"}`', '`cancel` none'],
    },
    {
      when: 'Complete',
      differs: { stage: 'Complete' },
      headline: '### Complete: 2 nodes returned to service',
      expected: [],
    },
  ])('in $when', ({ differs, headline, expected }) => {
    const text = rendered(differs);
    expect(text.split('\n')[0]).toBe(headline);
    expect(actions(text).map(([name, input]) => `${name} ${input}`)).toEqual(expected);
  });

  test('of a paused drain, with the tier that resume continues with', () => {
    const resume = (snapshot: DetailsSnapshot) =>
      actions(rendered({ paused: true, details: snapshot }))[0]?.join(' ');
    expect(resume(details({ drainTier: { number: 2, total: 3 } }))).toBe(
      '`resume` none continues with tier 2 of 3',
    );
    expect(resume(details())).toBe('`resume` none continues the drain');
  });

  test('of a drained maintenance, with advance to end the work', () => {
    const text = rendered({ drained: true, details: details({ podsToEvacuate: 0 }) });
    expect(text).toContain('the nodes stay cordoned until the stage is advanced');
    expect(text).toContain('**Drain plan:** all tiers drained');
    expect(actions(text)[1]?.[2]).toBe('ends the work: advances to **Complete** and uncordons the nodes');
  });

  test('of a drained maintenance while pods that have appeared since leave', () => {
    const text = rendered({ drained: true, details: details({ podsToEvacuate: 1 }) });
    expect(text.split('\n')[0]).toBe('### Draining 2 nodes');
    expect(text).not.toContain('all tiers drained');
  });
});

test('a snapshot of another stage is not shown', () => {
  const text = rendered({ stage: 'Complete', details: details() });
  expect(text).not.toContain('12:00:00');
  expect(text).toContain('node-1, node-2');
});

test('details without a snapshot list the nodes', () => {
  const text = renderCurrentDetails({
    name: 'rack-7',
    stage: 'Drain',
    paused: false,
    drained: false,
    nodes: ['node-1'],
  });
  expect(text).toContain('#### Nodes\n\nnode-1\n');
});

test('the details of a large maintenance fit into a URL and count the omitted nodes', () => {
  const rows = Array.from({ length: 15 }, (_, index) => ({
    node: `node-${index}`,
    podsToEvacuate: index % 2,
    podsEvacuated: 3,
    message: 'Waiting for the maintenance Lease of the node: '.repeat(3),
  }));
  const causes = Array.from({ length: 5 }, () => ({
    message: 'x'.repeat(300),
    requiresIntervention: true,
    pods: ['a', 'b', 'c'],
    morePods: 9,
  }));
  const text = rendered({ details: details({ rows, more: 37, moreDone: 35, causes }) });
  expect(encodeURIComponent(text).length).toBeLessThan(8_000);
  expect(urlLength(text)).toBe(encodeURIComponent(text).length);
  const shown = text.split('\n').filter((line) => line.startsWith('| `node-')).length;
  const left = Array.from({ length: 15 - shown }, (_, index) => index + shown);
  const done = 35 + left.filter((index) => index % 2 === 0).length;
  expect(shown).toBeGreaterThan(2);
  expect(text).toContain(`and ${37 + left.length} more nodes, ${done} of them without pods to evacuate`);
});

test('text from objects is escaped', () => {
  const reason = 'see [here](http://x) | <b>*now*</b>\nand {namespace}';
  const [line = ''] = rendered({ details: details({ reason }) })
    .split('\n')
    .filter((one) => one.includes('NodeMaintenance:'));
  expect(line).toContain(String.raw`see \[here\](http://x) \| \<b\>\*now\*\</b\> and \{namespace\}`);
});

test('truncated text ends with a whole character, because half of a surrogate pair cannot be encoded in a URL', () => {
  const reason = `${'x'.repeat(298)}😀 and more`;
  const text = rendered({ details: details({ reason }) });
  expect(text).toContain('x…');
  expect(() => encodeURIComponent(text)).not.toThrow();
});
