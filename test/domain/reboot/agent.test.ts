import fc from 'fast-check';
import type { Condition, Node } from '../../../api/core.ts';
import { RebootAnnotation } from '../../../api/names.ts';
import {
  decideReboot,
  decideRequirement,
  type RebootStep,
  type RequirementStep,
  sentinelReason,
} from '../../../domain/reboot/agent.ts';
import { bootIdOf, needsReboot, rebootReasonOf, rebootStateOf } from '../../../domain/reboot/nodeReboot.ts';
import { anyText } from '../../kit/anyText.ts';

const { Required, Requested, Started } = RebootAnnotation;

const drained = (status: Condition['status']): Condition => ({
  type: 'Drained',
  status,
  reason: 'DrainCompleted',
  message: '',
  lastTransitionTime: '2026-11-21T12:00:00Z',
});

interface Differs {
  annotations?: Record<string, string>;
  conditions?: Condition[];
  unschedulable?: boolean;
  bootID?: string;
}

const nodeWith = ({
  annotations = { [Requested]: 'boot-1' },
  conditions = [drained('True')],
  unschedulable = true,
  bootID = 'boot-1',
}: Differs = {}): Node => ({
  metadata: { name: 'n', annotations },
  spec: { unschedulable },
  status: { conditions, nodeInfo: { bootID } },
});

describe('the agent of a host with boot ID boot-1', () => {
  test.each<{ when: string; given: Differs; want: RebootStep }>([
    { when: 'starts the reboot of a drained node that is asked for it', given: {}, want: 'Start' },
    {
      when: 'continues after its own crash',
      given: { annotations: { [Requested]: 'boot-1', [Started]: 'boot-1' } },
      want: 'Reboot',
    },
    {
      when: 'does not mistake an earlier reboot for this one',
      given: { annotations: { [Requested]: 'boot-1', [Started]: 'boot-0' } },
      want: 'Start',
    },
    { when: 'does nothing unless it is asked', given: { annotations: {} }, want: 'Idle' },
    {
      when: 'does nothing if the request was withdrawn',
      given: { annotations: { [Started]: 'boot-1' } },
      want: 'Idle',
    },
    {
      when: 'does nothing about a request that the boot has fulfilled, even if the kubelet does not run yet',
      given: { annotations: { [Requested]: 'boot-0', [Started]: 'boot-0' }, bootID: 'boot-0' },
      want: 'Idle',
    },
    {
      when: 'does not reboot a node that is not drained, no matter who asks for it',
      given: { conditions: [drained('False')] },
      want: 'Idle',
    },
    { when: 'does not reboot a node without a maintenance', given: { conditions: [] }, want: 'Idle' },
    {
      when: 'does not reboot a node that accepts pods',
      given: { unschedulable: false },
      want: 'Idle',
    },
  ])('$when', ({ given, want }) => {
    expect(decideReboot(nodeWith(given), 'boot-1')).toBe(want);
  });

  test('does nothing without a Node, or without a boot ID', () => {
    expect(decideReboot(undefined, 'boot-1')).toBe('Idle');
    expect(decideReboot(nodeWith({ annotations: { [Requested]: '' } }), '')).toBe('Idle');
  });
});

describe('the annotation that a node needs a reboot', () => {
  const release: RequirementStep = { kind: 'Release' };
  const none: RequirementStep = { kind: 'None' };
  test.each<{ when: string; value?: string; reason?: string; foreign?: string; want: RequirementStep }>([
    { when: 'is added with the sentinel', reason: 'kernel', want: { kind: 'Require', reason: 'kernel' } },
    { when: 'stays while the sentinel does', value: 'kernel', reason: 'kernel', want: none },
    {
      when: 'follows the sentinel',
      value: 'kernel',
      reason: 'kernel, libc',
      want: { kind: 'Require', reason: 'kernel, libc' },
    },
    { when: 'is removed with the sentinel', value: 'kernel', want: release },
    { when: 'is not there without a sentinel', want: none },
    { when: 'stays if a user has written it', value: 'new BIOS', foreign: 'new BIOS', want: none },
    {
      when: 'stays if a user has written it, whatever the sentinel says',
      value: 'new BIOS',
      foreign: 'new BIOS',
      reason: 'kernel',
      want: none,
    },
    {
      when: 'is tried again when the user has changed it',
      value: 'kernel',
      foreign: 'new BIOS',
      want: release,
    },
  ])('$when', ({ value, reason, foreign, want }) => {
    const annotations: Record<string, string> = value === undefined ? {} : { [Required]: value };
    expect(decideRequirement(nodeWith({ annotations }), { reason, foreign })).toEqual(want);
  });
});

describe('the reason for a sentinel', () => {
  test.each([
    { packages: '', want: '/run/x exists' },
    { packages: ' \n\n', want: '/run/x exists' },
    { packages: 'linux-image\nlibc6\nlinux-image\n', want: 'packages: linux-image, libc6' },
    { packages: 'a\nb\nc\nd\ne\nf\ng', want: 'packages: a, b, c and 4 more' },
    { packages: 'a\u001b[31m', want: 'packages: a\\u001b[31m' },
  ])('$packages', ({ packages, want }) => {
    expect(sentinelReason('/run/x', packages)).toBe(want);
  });

  test('is one short line, whatever the file contains', () => {
    fc.assert(
      fc.property(anyText({ maxLength: 2_000 }), (packages) => {
        const reason = sentinelReason('/run/x', packages);
        expect(reason.length).toBeLessThanOrEqual(256);
        expect(reason).not.toMatch(/\p{Cc}/u);
      }),
    );
  });
});

describe('a Node', () => {
  test('says whether it needs a reboot, and why', () => {
    const said = (value: string) => rebootReasonOf(nodeWith({ annotations: { [Required]: value } }));
    expect(['new\nBIOS', ''].map(said)).toEqual(['new BIOS', '']);
    expect(needsReboot(nodeWith({ annotations: { [Required]: '' } }))).toBe(true);
    expect(needsReboot(nodeWith())).toBe(false);
    expect(rebootReasonOf(nodeWith())).toBeUndefined();
    expect(bootIdOf(nodeWith({ bootID: '' }))).toBeUndefined();
  });

  test.each([
    { annotations: {}, bootID: 'boot-1', want: 'NotRequested' },
    { annotations: { [Requested]: 'boot-0' }, bootID: 'boot-1', want: 'NotRequested' },
    { annotations: { [Requested]: 'boot-1' }, bootID: 'boot-1', want: 'Requested' },
    { annotations: { [Requested]: 'boot-1', [Started]: 'boot-0' }, bootID: 'boot-1', want: 'Requested' },
    { annotations: { [Requested]: 'boot-1', [Started]: 'boot-1' }, bootID: '', want: 'Started' },
    { annotations: { [Requested]: 'boot-1' }, bootID: 'boot-2', want: 'Done' },
    { annotations: {}, bootID: 'boot-2', want: 'Done' },
  ])('with $annotations and boot ID $bootID: the reboot is $want', ({ annotations, bootID, want }) => {
    expect(rebootStateOf(nodeWith({ annotations, bootID }), 'boot-1')).toBe(want);
  });

  test('has no reboot that could be done if the boot ID before it is unknown', () => {
    expect(rebootStateOf(nodeWith({ annotations: {} }), '')).toBe('NotRequested');
  });
});
