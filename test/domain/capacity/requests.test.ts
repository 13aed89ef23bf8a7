import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { quantityOf } from '../../../domain/capacity/quantity.ts';
import { requestsOf } from '../../../domain/capacity/requests.ts';

describe('a quantity', () => {
  test.each([
    { text: '1', unit: 'Milli', want: 1_000 },
    { text: '100m', unit: 'Milli', want: 100 },
    { text: '0.29', unit: 'Milli', want: 290 },
    { text: '1500u', unit: 'Milli', want: 2 },
    { text: '1Ki', unit: 'One', want: 1_024 },
    { text: '1.5Gi', unit: 'One', want: 1_610_612_736 },
    { text: '128M', unit: 'One', want: 128_000_000 },
    { text: '1e3', unit: 'One', want: 1_000 },
    { text: '100m', unit: 'One', want: 1 },
    { text: '-2', unit: 'One', want: -2 },
    { text: 'much', unit: 'One', want: 0 },
    { text: '', unit: 'One', want: 0 },
  ] as const)('"$text" is $want ($unit)', ({ text, unit, want }) => {
    expect(quantityOf(text, unit)).toBe(want);
  });

  test('of any text is a number', () => {
    fc.assert(fc.property(fc.string(), (text) => Number.isFinite(quantityOf(text, 'Milli'))));
  });
});

describe('the requests of a pod', () => {
  test.each([
    {
      when: 'containers are summed',
      pod: { containers: [{ cpu: '1' }, { cpu: '250m' }] },
      want: { cpu: 1_250 },
    },
    {
      when: 'an init container that needs less changes nothing',
      pod: { containers: [{ cpu: '1' }], initContainers: [{ requests: { cpu: '500m' }, isSidecar: false }] },
      want: { cpu: 1_000 },
    },
    {
      when: 'sidecars run beside later init containers',
      pod: {
        containers: [{ cpu: '1' }],
        initContainers: [
          { requests: { cpu: '2' }, isSidecar: true },
          { requests: { cpu: '3' }, isSidecar: false },
        ],
      },
      want: { cpu: 5_000 },
    },
    {
      when: 'requests of the pod replace those of its containers, resource by resource',
      pod: { containers: [{ cpu: '3', memory: '1Ki' }], podRequests: { cpu: '2' } },
      want: { cpu: 2_000, memory: 1_024 },
    },
    {
      when: 'overhead is added',
      pod: { containers: [{ cpu: '1' }], overhead: { cpu: '100m' } },
      want: { cpu: 1_100 },
    },
    { when: 'a pod may request nothing', pod: {}, want: {} },
  ])('$when', ({ pod, want }) => {
    expect(Object.fromEntries(requestsOf(pod))).toEqual(want);
  });
});
