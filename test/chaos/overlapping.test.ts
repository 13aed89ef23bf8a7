import { expect, test } from '@jest/globals';
import { Overlapping } from './overlapping.ts';

test('the end of a fault does not end another one, which is in effect again', () => {
  const applied: (string | undefined)[] = [];
  const faults = new Overlapping<string>((current) => applied.push(current));
  const [endFirst, endSecond] = [faults.begin('Answer500'), faults.begin('Delay')];
  endSecond();
  endFirst();
  endFirst();
  expect(applied).toEqual(['Answer500', 'Delay', 'Answer500', undefined]);
});

test('an earlier fault that ends first changes nothing', () => {
  const applied: (string | undefined)[] = [];
  const faults = new Overlapping<string>((current) => applied.push(current));
  const [endFirst, endSecond] = [faults.begin('Hang'), faults.begin('Hang')];
  endFirst();
  expect(applied).toEqual(['Hang', 'Hang']);
  endSecond();
  expect(applied.at(-1)).toBeUndefined();
});

test('all faults are ended together, and what ends one does nothing then', () => {
  const applied: (number | undefined)[] = [];
  const faults = new Overlapping<number>((current) => applied.push(current));
  const end = faults.begin(600);
  faults.end();
  end();
  expect(applied).toEqual([600, undefined]);
});

test('a fault that cannot be caused has not started', () => {
  const applied: (number | undefined)[] = [];
  const faults = new Overlapping<number>((current) => {
    if (current === 600) throw new Error('this machine has no clock that can be wrong');
    applied.push(current);
  });
  expect(() => faults.begin(600)).toThrow('no clock');
  faults.begin(20)();
  expect(applied).toEqual([20, undefined]);
});
