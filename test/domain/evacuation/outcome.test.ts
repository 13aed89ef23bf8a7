import { expect, test } from '@jest/globals';
import { outcomeOf } from '../../../domain/evacuation/outcome.ts';

test.each([
  {
    when: 'the apiserver accepted its eviction',
    active: undefined,
    stays: false,
    wasEvicted: true,
    want: 'Evicted',
  },
  {
    when: 'the informer still shows the evicted pod',
    active: undefined,
    stays: true,
    wasEvicted: true,
    want: 'Evicted',
  },
  {
    when: 'an evacuator was responsible',
    active: 'migrate.example.com',
    stays: false,
    wasEvicted: false,
    want: 'Evacuator',
  },
  { when: 'it finished by itself', active: undefined, stays: false, wasEvicted: false, want: 'Gone' },
  {
    when: 'the maintenance was cancelled',
    active: 'migrate.example.com',
    stays: true,
    wasEvicted: false,
    want: 'Withdrawn',
  },
])('the evacuation of a pod ended as $want when $when', ({ active, stays, wasEvicted, want }) => {
  const status = active === undefined ? {} : { activeEvacuatorClass: active };
  expect(outcomeOf({ status } as Parameters<typeof outcomeOf>[0], { stays, wasEvicted })).toBe(want);
});
