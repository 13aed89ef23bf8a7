import type { Node } from '../../../api/core.ts';
import type { MaintenanceWindow } from '../../../api/maintenanceWindow.ts';
import { RebootAnnotation } from '../../../api/names.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import type { ConditionFacts } from '../../../domain/common/conditions.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';
import { hasRebootRequest, isRebootWanted } from '../../../domain/windows/rebootRequest.ts';
import {
  advanceRequested,
  nodeAdvanced,
  nodeCancelled,
  nodeFailed,
  rebootDone,
  rebootRequested,
} from '../../../domain/windows/nodeResult.ts';
import { newWindowMaintenance } from '../../../domain/windows/windowMaintenance.ts';

const { Requested, Started, Required } = RebootAnnotation;

const window = {
  metadata: { name: 'reboots' },
  spec: { template: {}, work: { type: 'Reboot' } },
} as unknown as MaintenanceWindow;

const nodeWith = (annotations: Record<string, string>): Node => ({
  metadata: { name: 'n', uid: 'uid', annotations },
  spec: {},
});

interface Differs {
  conditions?: ConditionFacts[];
  stage?: NodeMaintenance['spec']['stage'];
  deletionTimestamp?: string;
  uid?: string;
  bootId?: string;
  work?: 'Job' | 'Reboot';
}

function maintenanceOf({
  conditions = [rebootRequested],
  stage = 'Drain',
  ...differs
}: Differs): NodeMaintenance {
  const { uid = 'uid', bootId = 'boot-1', work = 'Reboot', deletionTimestamp } = differs;
  const of = { ...window, spec: { ...window.spec, work: { type: work } } } as MaintenanceWindow;
  const { metadata, spec, ...created } = newWindowMaintenance(of, { name: 'n', uid, bootId });
  const lastTransitionTime = '2026-11-21T12:00:00Z';
  return {
    ...created,
    metadata: { ...metadata, ...(deletionTimestamp && { deletionTimestamp }) },
    spec: { ...spec, stage },
    status: { ...emptyStatus, conditions: conditions.map((one) => ({ ...one, lastTransitionTime })) },
  };
}

const asked = { [Requested]: 'boot-1' };
const started = { ...asked, [Started]: 'boot-1' };

test.each<{ what: string; node: Record<string, string>; given: Differs; want: boolean }>([
  { what: 'of a maintenance that waits for it', node: asked, given: {}, want: true },
  { what: 'that has started', node: started, given: {}, want: true },
  { what: 'that is not recorded', node: asked, given: { conditions: [] }, want: false },
  { what: 'for another boot', node: { [Requested]: 'boot-0' }, given: {}, want: false },
  { what: 'that was only acknowledged', node: { [Started]: 'boot-1' }, given: {}, want: false },
  {
    what: 'of a maintenance of another Node of that name',
    node: asked,
    given: { uid: 'other' },
    want: false,
  },
  { what: 'of a maintenance with another boot ID', node: asked, given: { bootId: 'boot-0' }, want: false },
  { what: 'of a maintenance that runs a Job', node: asked, given: { work: 'Job' }, want: false },
  { what: 'of a completed maintenance', node: started, given: { stage: 'Complete' }, want: false },
  {
    what: 'of a deleted maintenance',
    node: started,
    given: { deletionTimestamp: '2026-11-21T12:00:00Z' },
    want: false,
  },
  {
    what: 'of a cancelled maintenance',
    node: asked,
    given: { conditions: [rebootRequested, nodeCancelled] },
    want: false,
  },
  {
    what: 'of a cancelled maintenance, too late',
    node: started,
    given: { conditions: [rebootRequested, nodeCancelled] },
    want: true,
  },
  {
    what: 'of an advanced maintenance',
    node: asked,
    given: { conditions: [rebootRequested, advanceRequested] },
    want: false,
  },
  {
    what: 'of an advanced maintenance, too late',
    node: started,
    given: { conditions: [rebootRequested, advanceRequested] },
    want: true,
  },
  {
    what: 'of a failed maintenance',
    node: started,
    given: { conditions: [rebootRequested, nodeFailed('RebootTimeout', 'why')] },
    want: false,
  },
  {
    what: 'of a failed maintenance that was advanced',
    node: started,
    given: { conditions: [rebootRequested, nodeAdvanced] },
    want: false,
  },
  { what: 'that was fulfilled', node: asked, given: { conditions: [rebootDone] }, want: false },
])('a request $what: wanted $want', ({ node, given, want }) => {
  expect(isRebootWanted(nodeWith(node), [maintenanceOf(given)])).toBe(want);
});

test('a request is not wanted while another client holds the node, unless the agent was faster', () => {
  const maintenance = maintenanceOf({ conditions: [rebootRequested] });
  expect(isRebootWanted(nodeWith(asked), [maintenance], 'jane')).toBe(false);
  expect(isRebootWanted(nodeWith(started), [maintenance], 'jane')).toBe(true);
});

test('no request is wanted without a maintenance, nor by a maintenance of no window', () => {
  const { metadata, ...other } = maintenanceOf({});
  const { labels: _labels, ...foreign } = metadata;
  expect(isRebootWanted(nodeWith(started), [])).toBe(false);
  expect(isRebootWanted(nodeWith(started), [{ ...other, metadata: foreign }])).toBe(false);
});

test.each([
  { annotations: {}, want: false },
  { annotations: { [Required]: 'kernel' }, want: false },
  { annotations: asked, want: true },
  { annotations: { [Started]: 'boot-1' }, want: true },
])('a Node with $annotations has a request: $want', ({ annotations, want }) => {
  expect(hasRebootRequest(nodeWith(annotations))).toBe(want);
});
