import { expect, test } from '@jest/globals';
import { RejectedWrites } from '../../activities/rejectedWrites.ts';

test('a rejected write is due again after a time, and keeps its reason until it is accepted', () => {
  let nowMs = 1_000;
  const rejected = new RejectedWrites(30_000, () => nowMs);
  expect(rejected.isDue('node-1')).toBe(true);
  rejected.reject('node-1', 'denied by a policy');
  nowMs += 29_999;
  expect(rejected.isDue('node-1')).toBe(false);
  expect(rejected.isDue('node-2')).toBe(true);
  expect(rejected.waiting()).toEqual(new Map([['node-1', 'denied by a policy']]));
  nowMs += 1;
  expect(rejected.isDue('node-1')).toBe(true);
  expect(rejected.waiting()).toEqual(new Map());
  expect(rejected.reasonOf('node-1')).toBe('denied by a policy');
  rejected.accept('node-1');
  expect(rejected.reasonOf('node-1')).toBeUndefined();
});

test('a write that is rejected again waits for the whole time', () => {
  let nowMs = 0;
  const rejected = new RejectedWrites(30_000, () => nowMs);
  rejected.reject('node-1', 'one');
  nowMs = 30_000;
  rejected.reject('node-1', 'another');
  nowMs = 59_999;
  expect(rejected.isDue('node-1')).toBe(false);
  expect(rejected.reasonOf('node-1')).toBe('another');
});

test('all are due when one write shows that the cause has ended', () => {
  const rejected = new RejectedWrites(30_000, () => 0);
  rejected.reject('node-1', 'no namespace');
  rejected.reject('node-2', 'no namespace');
  rejected.acceptAll();
  expect(rejected.isDue('node-1')).toBe(true);
  expect(rejected.isDue('node-2')).toBe(true);
});
