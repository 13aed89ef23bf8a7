import { expect, test } from '@jest/globals';
import type { Lease } from '../../../api/core.ts';
import type { Managed } from '../../../domain/common/managedFields.ts';
import { heartbeatMs } from '../../../domain/leases/heartbeat.ts';

const metadata = { name: 'n1' };
const stored = '2026-01-01T00:00:10Z';
const managed = (field: string) => ({
  ...metadata,
  managedFields: [{ manager: 'kubelet', time: stored, fieldsV1: { 'f:spec': { [field]: {} } } }],
});
const ahead = '2026-01-01T00:05:00.123456Z';

test.each<{ of: string; lease: (Lease & Managed) | undefined; expected: string | undefined }>([
  {
    of: 'a node whose clock is ahead is when the apiserver stored it',
    lease: { metadata: managed('f:renewTime'), spec: { renewTime: ahead } },
    expected: stored,
  },
  {
    of: 'a Lease that does not say when it was stored is the time of the node',
    lease: { metadata: managed('f:holderIdentity'), spec: { renewTime: '2026-01-01T00:00:07Z' } },
    expected: '2026-01-01T00:00:07Z',
  },
  {
    of: 'a Lease that was never renewed is unknown',
    lease: { metadata: managed('f:holderIdentity'), spec: {} },
    expected: undefined,
  },
  {
    of: 'a Lease with an unreadable time is unknown',
    lease: { metadata: managed('f:renewTime'), spec: { renewTime: 'soon' } },
    expected: undefined,
  },
  { of: 'a node without a Lease is unknown', lease: undefined, expected: undefined },
])('the heartbeat of $of', ({ lease, expected }) => {
  expect(heartbeatMs(lease)).toBe(expected === undefined ? undefined : Date.parse(expected));
});
