import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  type Parsed,
  parseAdvanceRequest,
  parseMaintenanceInput,
  toMaintenanceInput,
  toNodeMaintenance,
} from '../../api/maintenanceInput.ts';
import { parseWindowInput } from '../../api/windowInput.ts';
import { joinedProblems } from '../../domain/common/text.ts';
import { cloudEventProblem } from '../../domain/notifications/cloudEvent.ts';
import { completeDrainPlan, drainPlanProblems } from '../../domain/drain/plan.ts';
import { expectReadable, fuzz } from './kit/fuzz.ts';
import { mutationsOf } from './kit/mutations.ts';

/** Any client that may start a workflow in the Temporal namespace sends any JSON as its input. */

const maintenances = [
  { name: 'rack-7', nodes: ['n1', 'n2'], stage: 'Drain', reason: 'firmware 2.4' },
  {
    name: 'rack-7',
    nodeSelector: {
      nodeSelectorTerms: [
        {
          matchExpressions: [
            { key: 'example.com/pool', operator: 'In', values: ['gpu', 'cpu'] },
            { key: 'generation', operator: 'Gt', values: ['3'] },
          ],
          matchFields: [{ key: 'metadata.name', operator: 'NotIn', values: ['n3'] }],
        },
      ],
    },
    drainPlan: [
      { podPriority: -5, podType: 'Default', podSelector: { matchLabels: { app: 'db' } } },
      {
        podPriority: 5000,
        podType: 'Default',
        podSelector: { matchExpressions: [{ key: 'app', operator: 'NotIn', values: ['a'] }] },
      },
      { podPriority: 0, podType: 'DaemonSet' },
    ],
    drainDeadline: { after: '4h', onDeadline: 'Report' },
    requireCapacity: true,
  },
  { name: 'rack-7' },
];

const events = [
  {
    specversion: '1.0',
    id: '0b8f6c1e-0000-4000-8000-000000000001.Drained',
    source: '//5a1c7f02/apis/nodemaintenance.k8s.io/v1alpha1/nodemaintenances/rack-7',
    type: 'io.k8s.nodemaintenance.maintenance.drained.v1',
    subject: 'rack-7',
    time: '2026-01-01T00:00:00Z',
    data: {
      object: { kind: 'NodeMaintenance', name: 'rack-7', uid: '0b8f6c1e-0000-4000-8000-000000000001' },
      message: 'All pods have left.',
      severity: 'info',
    },
  },
];

/** Fails unless all problems, as the failure of a run repeats them, are a readable text that names fields. */
function expectProblems(parsed: Parsed<unknown>): void {
  if (parsed.ok) return;
  expect(parsed.problems).not.toEqual([]);
  for (const problem of parsed.problems) expect(problem).toMatch(/^.+: .|^expected one JSON object/);
  for (const problem of parsed.problems) expectReadable(problem);
  expectReadable(joinedProblems(parsed.problems));
}

describe('any input', () => {
  test('starts a maintenance, or names the fields that keep it from starting', () =>
    fuzz(
      mutationsOf(maintenances),
      (value) => {
        const parsed = parseMaintenanceInput(value);
        expectProblems(parsed);
        if (!parsed.ok) return;
        const { drainPlan = [] } = parsed.input;
        const problems = drainPlanProblems(drainPlan);
        expectReadable(joinedProblems(problems));
        expect(completeDrainPlan(drainPlan).length).toBeLessThanOrEqual(drainPlan.length + 12);
        const object = toNodeMaintenance(parsed.input);
        if (object !== undefined) expect(toNodeMaintenance(toMaintenanceInput(object))).toEqual(object);
      },
      100,
    ));

  test('opens a window, or names the field that keeps it from opening', () =>
    fuzz(
      mutationsOf([
        { name: 'os-patch', duration: '2h' },
        { name: 'os-patch', duration: '1h30m' },
      ]),
      (value) => expectProblems(parseWindowInput(value)),
      100,
    ));

  test('delivers an event of this project, or names its field', () => {
    expect(events.map(cloudEventProblem)).toEqual([undefined]);
    return fuzz(mutationsOf(events), (value) => {
      const problem = cloudEventProblem(value);
      if (problem === undefined) return;
      expect(problem).toMatch(/^event[.a-z]*: expected ./);
      expectReadable(problem);
    });
  });

  test('of an advance is an order, or names the field', () =>
    fuzz(
      fc.oneof(mutationsOf([{ to: 'Drain', from: 'Cordon' }, {}]), fc.constant(undefined)),
      (value) => expectProblems(parseAdvanceRequest(value)),
      100,
    ));
});

test('thousands of problems of one input are a text of bounded length', () => {
  const nodes = Array.from({ length: 5_000 }, () => 'n1');
  const unknown = Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`field-${index}`, 1]));
  expectProblems(parseMaintenanceInput({ name: 'rack-7', nodes }));
  expectProblems(parseMaintenanceInput({ name: 'rack-7', ...unknown }));
  expectProblems(parseMaintenanceInput({ name: 'rack-7', nodes: nodes.map(() => 'N!') }));
});
