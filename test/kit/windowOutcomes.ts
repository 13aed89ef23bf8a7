import fc from 'fast-check';
import type { NodeOutcome } from '../../domain/windows/nodeOutcome.ts';

/** Names of nodes that a window selects; `unselected` is another one. */
export const windowNodes = ['n1', 'n2', 'n3', 'n4', 'n5'];

const anyOutcome: fc.Arbitrary<NodeOutcome> = fc.oneof(
  fc.constantFrom<NodeOutcome>({ state: 'InProgress' }, { state: 'Remaining' }),
  fc.record({ state: fc.constant('Succeeded' as const), at: fc.nat(3) }),
  fc.record({
    state: fc.constant('Failed' as const),
    reason: fc.constantFrom('JobFailed', 'NodeNotReady'),
    message: fc.constantFrom('', 'why', 'two\nlines', 'x'.repeat(2_000)),
  }),
);

/** Outcomes of NodeMaintenances of a window, of which a node may have several. */
export const anyOutcomes: fc.Arbitrary<[node: string, NodeOutcome][]> = fc.array(
  fc.tuple(fc.constantFrom(...windowNodes, 'unselected'), anyOutcome),
  { maxLength: 10 },
);
