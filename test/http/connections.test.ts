import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { type Connection, connectionToClose } from '../../http/connections.ts';

/** Written as `a b* a`: addresses in the order of waiting, with a star while a request is handled. */
const connections = (text: string): Connection[] =>
  text.split(' ').map((one) => ({ address: one.replace('*', ''), isHandled: one.endsWith('*') }));

describe('when there are too many connections, the one that is closed', () => {
  test.each([
    { when: 'has waited longest, if all are of one peer', among: 'a a a', closed: 0 },
    { when: 'is of the peer with the most', among: 'a b b c', closed: 1 },
    {
      when: 'is of the peer that has waited longest, if peers have equally many',
      among: 'a b a b',
      closed: 0,
    },
    { when: 'has no request that is being handled', among: 'a b* b', closed: 2 },
    {
      when: 'is of another peer, if all requests of the first one are being handled',
      among: 'b* b* a',
      closed: 2,
    },
    { when: 'does not exist, if all requests are being handled', among: 'a* b*', closed: undefined },
  ])('$when: $among', ({ among, closed }) => {
    const all = connections(among);
    expect(connectionToClose(all)).toBe(closed === undefined ? undefined : all[closed]);
  });

  test('is never that of a peer with fewer connections than another one that could be closed', () => {
    const connection = fc.record({ address: fc.constantFrom('a', 'b', 'c', 'd'), isHandled: fc.boolean() });
    fc.assert(
      fc.property(fc.array(connection, { maxLength: 30 }), (all) => {
        const closed = connectionToClose(all);
        const countOf = ({ address }: Connection) => all.filter((one) => one.address === address).length;
        const closable = all.filter(({ isHandled }) => !isHandled);
        expect(closed === undefined).toBe(closable.length === 0);
        if (closed === undefined) return;
        expect(closable).toContain(closed);
        expect(countOf(closed)).toBe(Math.max(...closable.map(countOf)));
      }),
    );
  });
});
