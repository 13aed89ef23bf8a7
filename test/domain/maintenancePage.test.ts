import { describe, expect, test } from '@jest/globals';
import type { Glance } from '../../domain/glance.ts';
import { addressLength } from '../../domain/markdown.ts';
import { maintenancePage, type PagedMaintenance } from '../../domain/maintenancePage.ts';

const glance = (differs: Partial<Glance> = {}): Glance => ({
  at: '2026-01-01T12:01:00.123Z',
  stage: 'Drain',
  since: '2026-01-01T12:00:00Z',
  podsLeft: 5,
  podsEvacuated: 12,
  podsBlocked: 0,
  rows: [
    { node: 'node-1', podsLeft: 4, podsEvacuated: 8, message: 'Evacuating' },
    { node: 'node-2', podsLeft: 1, podsEvacuated: 4, message: '' },
  ],
  more: 0,
  moreDone: 0,
  causes: [],
  moreCauses: 0,
  ...differs,
});

/** The room between the columns of tables is for the eye. */
const withoutGaps = (text: string) => text.replaceAll('\u2003', ' ');

const page = (differs: Partial<PagedMaintenance> = {}) =>
  withoutGaps(
    maintenancePage({
      name: 'rack-7',
      stage: 'Drain',
      paused: false,
      drained: false,
      position: 1,
      planLength: 14,
      nodes: ['node-1', 'node-2'],
      glance: glance({ stage: differs.stage ?? 'Drain' }),
      ...differs,
    }),
  );

/** The rows of the table of orders: name, input, effect. */
function orders(text: string): string[][] {
  const [, table = ''] = text.split('#### What you can do now');
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

test('The page of a drain reads from where it stands to what can be done', () => {
  const causes = [
    {
      message: 'PodDisruptionBudget shop/db can never allow a disruption: add a replica or relax the budget.',
      needsAPerson: true,
      pods: ['shop/db-0 (node-1)'],
      morePods: 2,
    },
  ];
  const told = glance({
    reason: 'firmware 2.4',
    tier: 'Default pods up to 1000',
    nextTier: 'Default pods up to 5000',
    podsBlocked: 3,
    causes,
  });
  expect(page({ glance: told })).toBe(`### Draining 2 nodes

- **NodeMaintenance:** \`rack-7\`: firmware 2.4
- **Stage:** **Drain** since 2026-01-01 12:00:00 UTC
- **Now:** pods are evacuated, entry by entry of the drain plan
- **Drain plan:** entry 2 of 14: Default pods up to 1000
- **Next entry:** Default pods up to 5000
- **Pods:** 5 left of 17, **3 cannot leave** (counted at 2026-01-01 12:01:00 UTC)

#### What is in the way

- **Needs somebody:** shop/db-0 (node-1) and 2 more: PodDisruptionBudget shop/db can never allow a disruption: add a replica or relax the budget.

#### Nodes

| Node | Pods left | State |
|:--|:--|:--|
| \`node-1\` | 4 of 12 | Evacuating |
| \`node-2\` | 1 of 5 | Cordoned |

#### What you can do now

| Signal | Input | What it does now |
|:--|:--|:--|
| \`pause\` | none | begins no new Evacuation and no new entry; as an update it answers when the drain really rests |
| \`advance\` | none | ends the drain: goes on to **Complete** and gives the nodes back; the 5 pods that are left stay where they are |
| \`cancel\` | none | the same |

#### See also

- \`kubectl maintenance status rack-7 --watch\` shows every pod, by the second
- *Request Cancellation* does what \`cancel\` does. *Terminate* gives nothing back: a new run goes on where this one stood`);
});

describe('The page says what it is now, and what the next order would do', () => {
  test.each<{ when: string; differs: Partial<PagedMaintenance>; says: string; orders: string[] }>([
    {
      when: 'Idle',
      differs: { stage: 'Idle' },
      says: '### Planned: 2 nodes, nothing is touched',
      orders: ['`advance` none', '`advance` `{"to": "Drain"}`', '`cancel` none'],
    },
    {
      when: 'Cordon',
      differs: { stage: 'Cordon' },
      says: '### Cordoned: 2 nodes kept unschedulable',
      orders: ['`advance` none', '`cancel` none'],
    },
    {
      when: 'a drain that is paused',
      differs: { paused: true },
      says: '### Paused: the drain of 2 nodes rests',
      orders: ['`resume` none', '`advance` none', '`cancel` none'],
    },
    {
      when: 'a drain that is over',
      differs: { drained: true, nodes: ['node-1'] },
      says: '### Drained: 1 node ready for work',
      orders: ['`pause` none', '`advance` none', '`cancel` none'],
    },
    {
      when: 'Complete',
      differs: { stage: 'Complete' },
      says: '### Complete: 2 nodes given back',
      orders: [],
    },
  ])('in $when', ({ differs, says, orders: expected }) => {
    const text = page(differs);
    expect(text.split('\n')[0]).toBe(says);
    expect(orders(text).map(([name, input]) => `${name} ${input}`)).toEqual(expected);
  });

  test('when the drain rests, with which entry it goes on', () => {
    expect(orders(page({ paused: true }))[0]).toEqual([
      '`resume`',
      'none',
      'goes on with entry 2 of the drain plan',
    ]);
  });

  test('when pods are gone, that the work can begin and advance ends it', () => {
    const text = page({ drained: true });
    expect(text).toContain('the nodes are held until the work on them is done');
    expect(orders(text)[1]?.[2]).toBe('the work is done: goes on to **Complete** and gives the nodes back');
  });
});

test('What was counted in another stage is not shown', () => {
  const text = page({ stage: 'Complete', glance: glance() });
  expect(text).not.toContain('12:00:00');
  expect(text).toContain('node-1, node-2');
});

test('A page without any count names the nodes', () => {
  const text = maintenancePage({
    name: 'rack-7',
    stage: 'Drain',
    paused: false,
    drained: false,
    position: 0,
    planLength: 12,
    nodes: ['node-1'],
  });
  expect(text).toContain('#### Nodes\n\nnode-1\n');
});

test('A large maintenance has a page that fits, and says how many nodes it leaves out', () => {
  const rows = Array.from({ length: 15 }, (_, index) => ({
    node: `node-${index}`,
    podsLeft: index % 2,
    podsEvacuated: 3,
    message: 'Waiting for the maintenance Lease of the node: '.repeat(3),
  }));
  const causes = Array.from({ length: 5 }, () => ({
    message: 'x'.repeat(300),
    needsAPerson: true,
    pods: ['a', 'b', 'c'],
    morePods: 9,
  }));
  const text = page({ glance: glance({ rows, more: 37, moreDone: 35, causes }) });
  expect(encodeURIComponent(text).length).toBeLessThan(8_000);
  expect(addressLength(text)).toBe(encodeURIComponent(text).length);
  const shown = text.split('\n').filter((line) => line.startsWith('| `node-')).length;
  const left = Array.from({ length: 15 - shown }, (_, index) => index + shown);
  const done = 35 + left.filter((index) => index % 2 === 0).length;
  expect(shown).toBeGreaterThan(2);
  expect(text).toContain(`and ${37 + left.length} more nodes, ${done} of them without pods to evacuate`);
});

test('What others wrote into objects is shown as it is, and is no Markdown', () => {
  const reason = 'see [here](http://x) | <b>*now*</b>\nand {namespace}';
  const [line = ''] = page({ glance: glance({ reason }) })
    .split('\n')
    .filter((one) => one.includes('NodeMaintenance:'));
  expect(line).toContain(String.raw`see \[here\](http://x) \| \<b\>\*now\*\</b\> and \{namespace\}`);
});

test('What is too long ends with a whole character: half of one would have no address', () => {
  const reason = `${'x'.repeat(298)}😀 and more`;
  const text = page({ glance: glance({ reason }) });
  expect(text).toContain('x…');
  expect(() => encodeURIComponent(text)).not.toThrow();
});
