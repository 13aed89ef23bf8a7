import { describe, expect, test } from '@jest/globals';
import { windowWorkflowIdOf, workflowIdOf } from '../../api/names.ts';
import { type PagedWindow, windowPage } from '../../domain/windowPage.ts';

type State = NonNullable<PagedWindow['state']>;

const turnOf = (node: string) => ({ node, maintenance: `os-r-${node}` });

const state = (differs: Partial<State> = {}): State => ({
  revision: 'r',
  nodes: 4,
  done: 1,
  underWay: [turnOf('node-2')],
  failed: [],
  remaining: 2,
  ...differs,
});

/** The room between the columns of tables is for the eye. */
const withoutGaps = (text: string) => text.replaceAll('\u2003', ' ');

const page = (differs: Partial<PagedWindow> = {}) =>
  withoutGaps(
    windowPage({
      name: 'os',
      start: '2026-01-01T02:00:00Z',
      end: '2026-01-01T06:00:00Z',
      ended: false,
      cancelled: false,
      paused: false,
      approved: false,
      approvedNodes: [],
      state: state(),
      ...differs,
    }),
  );

const orderNames = (text: string) =>
  text
    .slice(text.indexOf('#### What you can do now'))
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) => line.split('`')[1]);

test('The page of a window reads from its times to what can be done', () => {
  const waiting = {
    reason: 'ApprovalNeeded',
    message: 'Waiting for somebody to approve one of the nodes node-3.',
  };
  expect(page({ state: state({ failed: [turnOf('node-1')], waiting }) })).toBe(`### Waiting for approval

- **MaintenanceWindow:** \`os\`
- **Open:** 2026-01-01 02:00:00 UTC to 2026-01-01 06:00:00 UTC
- **Now:** Waiting for somebody to approve one of the nodes node-3.
- **Nodes:** 1 of 4 done, 1 under way, **1 failed**, 2 left

#### Turns

| Node | Turn | NodeMaintenance |
|:--|:--|:--|
| \`node-1\` | **failed** | [os-r-node-1](namespaces/{namespace}/workflows/node-maintenance-os-r-node-1) |
| \`node-2\` | under way | [os-r-node-2](namespaces/{namespace}/workflows/node-maintenance-os-r-node-2) |

#### What you can do now

| Signal | Input | What it does now |
|:--|:--|:--|
| \`approve\` | none | lets all 2 nodes that are left have their turn, as many at once as the rules allow |
| \`approve\` | \`{"nodes": ["NODE", "NODE"]}\` | lets these nodes have their turn, where each is approved by itself |
| \`advance\` | \`{"node":"node-1"}\` | ends the turn that failed, and gives the node back |
| \`advance\` | \`{"node":"node-2"}\` | the work on the node is done, or need not be done: gives it back |
| \`pause\` | none | lets no further node begin; turns under way go on |
| \`cancel\` | none | ends the window, and gives back the nodes whose work is not done |

#### See also

- \`kubectl get nm -l nodemaintenance.k8s.io/window=os\` lists the turns
- \`kubectl get mw os -o jsonpath='{.status.progress.failures}'\` says why turns failed
- *Request Cancellation* does what \`cancel\` does. After *Terminate* a new run sees the turns under way through`);
});

test('The turns of a window are linked to the runs of their maintenances, of whatever revision', () => {
  const maintenance = 'os-before-node-9';
  expect(page({ state: state({ failed: [{ node: 'node-9', maintenance }] }) })).toContain(
    `/${workflowIdOf(maintenance)})`,
  );
  expect(windowWorkflowIdOf('os')).not.toBe(workflowIdOf('os'));
});

describe('The page of a window says what it is now, and which orders make sense', () => {
  test.each<{ when: string; differs: Partial<PagedWindow>; says: string; orders: string[] }>([
    {
      when: 'it is open',
      differs: {},
      says: '### Open until 2026-01-01 06:00:00 UTC',
      orders: ['advance', 'pause', 'cancel'],
    },
    {
      when: 'nothing was counted yet',
      differs: { state: undefined as never },
      says: '### Open until 2026-01-01 06:00:00 UTC',
      orders: ['pause', 'cancel'],
    },
    {
      when: 'it is paused',
      differs: { paused: true },
      says: '### Paused: no further node begins',
      orders: ['advance', 'resume', 'cancel'],
    },
    {
      when: 'too many turns have failed',
      differs: {
        state: state({
          failed: [turnOf('a')],
          underWay: [],
          waiting: { reason: 'TooManyFailures', message: '' },
        }),
      },
      says: '### Stopped: too many turns have failed',
      orders: ['advance', 'pause', 'cancel'],
    },
    {
      when: 'its time is over',
      differs: { ended: true },
      says: '### Over: no further node begins',
      orders: ['advance', 'cancel'],
    },
    {
      when: 'it was cancelled',
      differs: { cancelled: true },
      says: '### Cancelled: the window ends, nodes are given back',
      orders: [],
    },
  ])('when $when', ({ differs, says, orders }) => {
    const text = page(differs);
    expect(text.split('\n')[0]).toBe(says);
    expect(orderNames(text)).toEqual(orders);
  });
});

test('A window of many turns has a page that fits, and says how many it leaves out', () => {
  const failed = Array.from({ length: 300 }, (_, index) => turnOf(`node-in-a-rack-${index}`));
  const text = page({ state: state({ failed }) });
  expect(encodeURIComponent(text).length).toBeLessThan(8_000);
  const shown = text.split('\n').filter((line) => line.includes('**failed** |')).length;
  expect(text).toContain(`and ${301 - shown} more turns`);
});
