import { describe, expect, test } from '@jest/globals';
import { testScope, windowWorkflowIdOf, workflowIdOf } from '../../kit/temporalNames.ts';
import { type WindowDetails, renderWindowDetails } from '../../../domain/windows/currentDetails.ts';

type State = NonNullable<WindowDetails['state']>;

const windowNode = (node: string) => ({ node, maintenance: `os-r-${node}` });

const state = (differs: Partial<State> = {}): State => ({
  revision: 'r',
  nodes: 4,
  done: 1,
  inProgress: [windowNode('node-2')],
  failed: [],
  remaining: 2,
  ...differs,
});

/** Removes the padding between the columns of tables. */
const withoutPadding = (text: string) => text.replaceAll('\u2003', ' ');

const detailsOf = (differs: Partial<WindowDetails> = {}) =>
  withoutPadding(
    renderWindowDetails(
      {
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
      },
      testScope.names,
    ),
  );

const signalNames = (text: string) =>
  text
    .slice(text.indexOf('#### Available actions'))
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) => line.split('`')[1]);

test('The current details of a window show its times, its nodes and the available signals', () => {
  const waiting = {
    reason: 'ApprovalNeeded',
    message: 'Waiting for approval of node node-3.',
  };
  expect(
    detailsOf({ state: state({ failed: [windowNode('node-1')], waiting }) }),
  ).toBe(`### Waiting for approval

- **MaintenanceWindow:** \`os\`
- **Open:** 2026-01-01 02:00:00 UTC to 2026-01-01 06:00:00 UTC
- **Now:** Waiting for approval of node node-3.
- **Nodes:** 1 of 4 nodes done, 1 in progress, **1 failed**, 2 remaining

#### Nodes

| Node | State | NodeMaintenance |
|:--|:--|:--|
| \`node-1\` | **failed** | [os-r-node-1](namespaces/{namespace}/workflows/node-maintenance-os-r-node-1) |
| \`node-2\` | in progress | [os-r-node-2](namespaces/{namespace}/workflows/node-maintenance-os-r-node-2) |

#### Available actions

| Signal | Input | Effect |
|:--|:--|:--|
| \`approve\` | none | approves all 2 remaining nodes; the limits of the window and of the cluster still apply |
| \`approve\` | \`{"nodes": ["NODE", "NODE"]}\` | approves these nodes, if the window requires approval per node |
| \`advance\` | \`{"node":"node-1"}\` | resolves the failure and uncordons the node |
| \`advance\` | \`{"node":"node-2"}\` | marks the work as done and uncordons the node when it is ready |
| \`pause\` | none | starts no more nodes; nodes in progress continue |
| \`cancel\` | none | ends the window and uncordons the nodes whose work is not done |

#### See also

- \`kubectl get nm -l nodemaintenance.k8s.io/window=os\` lists the NodeMaintenances
- \`kubectl get mw os -o jsonpath='{.status.progress.failures}'\` shows why nodes failed
- *Request Cancellation* has the effect of \`cancel\`. After *Terminate*, a new run finishes the nodes in progress`);
});

test('The nodes of a window link to the workflows of their maintenances, of every revision', () => {
  const maintenance = 'os-before-node-9';
  expect(detailsOf({ state: state({ failed: [{ node: 'node-9', maintenance }] }) })).toContain(
    `/${workflowIdOf(maintenance)})`,
  );
  expect(windowWorkflowIdOf('os')).not.toBe(workflowIdOf('os'));
});

describe('The current details of a window show its state, and only signals that have an effect', () => {
  test.each<{ when: string; differs: Partial<WindowDetails>; headline: string; signals: string[] }>([
    {
      when: 'it is open',
      differs: {},
      headline: '### Open until 2026-01-01 06:00:00 UTC',
      signals: ['advance', 'pause', 'cancel'],
    },
    {
      when: 'no activity has reported its state yet',
      differs: { state: undefined as never },
      headline: '### Open until 2026-01-01 06:00:00 UTC',
      signals: ['pause', 'cancel'],
    },
    {
      when: 'it is paused',
      differs: { paused: true },
      headline: '### Paused: no more nodes are started',
      signals: ['advance', 'resume', 'cancel'],
    },
    {
      when: 'too many nodes have failed',
      differs: {
        state: state({
          failed: [windowNode('a')],
          inProgress: [],
          waiting: { reason: 'TooManyFailures', message: '' },
        }),
      },
      headline: '### Stopped: too many nodes have failed',
      signals: ['advance', 'pause', 'cancel'],
    },
    {
      when: 'it has ended',
      differs: { ended: true },
      headline: '### Ended: no more nodes are started',
      signals: ['advance', 'cancel'],
    },
    {
      when: 'it was cancelled',
      differs: { cancelled: true },
      headline: '### Cancelled: nodes are being uncordoned',
      signals: [],
    },
  ])('when $when', ({ differs, headline, signals }) => {
    const text = detailsOf(differs);
    expect(text.split('\n')[0]).toBe(headline);
    expect(signalNames(text)).toEqual(signals);
  });
});

test('The current details of a window with many nodes are limited in size, and show the number of omitted nodes', () => {
  const failed = Array.from({ length: 300 }, (_, index) => windowNode(`node-in-a-rack-${index}`));
  const text = detailsOf({ state: state({ failed }) });
  expect(encodeURIComponent(text).length).toBeLessThan(8_000);
  const shown = text.split('\n').filter((line) => line.includes('**failed** |')).length;
  expect(text).toContain(`and ${301 - shown} more nodes`);
});
