import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Lease } from '../../../api/core.ts';
import { canStopStaticPods, nodeAgentOf, rebootAbilityOf } from '../../../domain/leases/nodeAgent.ts';

const now = new Date('2026-01-01T12:00:00Z');
const at = (seconds: number) => new Date(now.getTime() + seconds * 1_000).toISOString();
const lease = (spec: Lease['spec'] = {}, version: string | undefined = '1.2.3'): Lease => ({
  metadata: {
    name: 'one',
    ...(version !== undefined && { annotations: { 'nodemaintenance.k8s.io/version': version } }),
  },
  spec: { holderIdentity: 'one_1', leaseDurationSeconds: 40, renewTime: at(-10), ...spec },
});
const live = { kind: 'Live', version: '1.2.3', capabilities: [] };

describe('the agent of a node', () => {
  test.each([
    { when: 'it has no Lease', of: undefined, want: { kind: 'None' } },
    { when: 'it has renewed its Lease', of: lease(), want: live },
    { when: 'its Lease ends now', of: lease({ renewTime: at(-40) }), want: live },
    {
      when: 'its Lease has ended',
      of: lease({ renewTime: at(-41) }),
      want: { kind: 'Silent', since: at(-41) },
    },
    {
      when: 'it has released its Lease',
      of: lease({ holderIdentity: '' }),
      want: { kind: 'Silent', since: at(-10) },
    },
    {
      when: 'its Lease was never renewed',
      of: { metadata: { name: 'one' }, spec: {} },
      want: { kind: 'Silent' },
    },
    { when: 'its clock is slightly ahead', of: lease({ renewTime: at(50) }), want: live },
    { when: 'its clock is an hour ahead', of: lease({ renewTime: at(3_600) }), want: { kind: 'Silent' } },
    {
      when: 'it claims a Lease of years',
      of: lease({ leaseDurationSeconds: 1e9, renewTime: at(-301) }),
      want: { kind: 'Silent', since: at(-301) },
    },
    {
      when: 'its version is hostile',
      of: lease({}, `1.0\n\u001b[31m${'x'.repeat(100)}`),
      want: { ...live, version: expect.stringMatching(/^1\.0 \\u001b\[31mx+…$/) },
    },
    { when: 'it names no version', of: lease({}, ''), want: { ...live, version: 'unknown' } },
  ])('when $when', ({ of, want }) => {
    expect(nodeAgentOf(of, now)).toEqual(want);
  });

  const capable = (capabilities: string): Lease => {
    const one = lease();
    one.metadata.annotations = { 'nodemaintenance.k8s.io/capabilities': capabilities };
    return one;
  };

  test.each([
    { says: '', capabilities: [], stops: false, reboot: 'NoRebootCommand' },
    { says: 'reboot', capabilities: ['reboot'], stops: false, reboot: 'Able' },
    { says: 'static-pods', capabilities: ['static-pods'], stops: true, reboot: 'NoRebootCommand' },
    { says: 'static-pods,reboot', capabilities: ['reboot', 'static-pods'], stops: true, reboot: 'Able' },
    { says: 'dance,reboot,reboot', capabilities: ['reboot'], stops: false, reboot: 'Able' },
    { says: 'static-pods reboot', capabilities: [], stops: false, reboot: 'NoRebootCommand' },
  ])('can do what its Lease says: "$says"', ({ says, capabilities, stops, reboot }) => {
    const agent = nodeAgentOf(capable(says), now);
    expect(agent).toMatchObject({ kind: 'Live', capabilities });
    expect({ stops: canStopStaticPods(agent), reboot: rebootAbilityOf(agent) }).toEqual({ stops, reboot });
  });

  test('can do nothing when it does not report', () => {
    const silent = { ...capable('reboot,static-pods'), spec: lease({ renewTime: at(-41) }).spec };
    for (const agent of [nodeAgentOf(silent, now), nodeAgentOf(undefined, now)]) {
      expect(canStopStaticPods(agent)).toBe(false);
      expect(rebootAbilityOf(agent)).toBe('NotRunning');
    }
  });

  test('is evaluated whatever the Lease contains', () => {
    const text = fc.oneof(fc.string(), fc.constantFrom(at(0), at(-100), at(1e9)));
    const specs = fc.record(
      { holderIdentity: fc.string(), leaseDurationSeconds: fc.double(), renewTime: text },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(specs, fc.string(), (spec, version) => {
        const agent = nodeAgentOf({ ...lease({}, version), spec }, now);
        expect(['Live', 'Silent']).toContain(agent.kind);
        if (agent.kind === 'Live') expect(agent.version.length).toBeLessThanOrEqual(63);
      }),
    );
  });
});
