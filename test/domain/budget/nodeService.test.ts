import { expect, test } from '@jest/globals';
import type { Taint } from '../../../api/core.ts';
import { READINESS_TAINT } from '../../../api/names.ts';
import { gatesNotReady, unschedulableReason } from '../../../domain/budget/nodeService.ts';

const other: Taint = { key: 'dedicated', value: 'gpu', effect: 'NoSchedule' };
const gated: Taint = { ...READINESS_TAINT };

test.each([
  { when: 'without taints', taints: undefined, want: undefined },
  { when: 'with a taint of a user', taints: [other], want: undefined },
  { when: 'whose readiness gates are not ready', taints: [other, gated], want: gatesNotReady },
])('a node $when: $want', ({ taints, want }) => {
  expect(unschedulableReason({ spec: { ...(taints && { taints }) } })).toBe(want);
});
