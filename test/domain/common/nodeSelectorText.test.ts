import { expect, test } from '@jest/globals';
import { parseNodeSelector } from '../../../domain/common/nodeSelectorText.ts';

test.each([
  { text: 'pool=gpu', is: [{ key: 'pool', operator: 'In', values: ['gpu'] }] },
  { text: 'pool==gpu', is: [{ key: 'pool', operator: 'In', values: ['gpu'] }] },
  { text: 'pool!=gpu', is: [{ key: 'pool', operator: 'NotIn', values: ['gpu'] }] },
  { text: 'pool=', is: [{ key: 'pool', operator: 'In', values: [''] }] },
  { text: 'cores>8', is: [{ key: 'cores', operator: 'Gt', values: ['8'] }] },
  {
    text: ' example.com/zone in (a, b) , !spot,gpu, tier notin (x)',
    is: [
      { key: 'example.com/zone', operator: 'In', values: ['a', 'b'] },
      { key: 'spot', operator: 'DoesNotExist' },
      { key: 'gpu', operator: 'Exists' },
      { key: 'tier', operator: 'NotIn', values: ['x'] },
    ],
  },
])('the selector $text is what kubectl takes it for', ({ text, is }) => {
  expect(parseNodeSelector(text)).toEqual({ ok: true, requirements: is });
});

test.each(['', 'a=b=c', '=x', 'a in b', 'a,', 'a in (b', '-x=y'])('the selector "%s" is rejected', (text) => {
  expect(parseNodeSelector(text)).toEqual({ ok: false, problem: expect.stringContaining('expected ') });
});
