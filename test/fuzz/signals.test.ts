import { beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals';
import type * as maintenanceHandlers from '../../workflows/maintenance/handlers.ts';
import type * as maintenanceRuns from '../../workflows/maintenance/run.ts';
import type * as windowHandlers from '../../workflows/windows/handlers.ts';
import type * as windowRuns from '../../workflows/windows/run.ts';
import { expectReadable, fuzz } from './kit/fuzz.ts';
import { mutationsOf } from './kit/mutations.ts';
import fc from 'fast-check';

/** Any client that may signal a workflow sends any JSON. Here the handlers are called as Temporal calls them, and the activities are faked. */

interface Handler {
  handle: (input?: unknown) => unknown;
  validate: ((input?: unknown) => unknown) | undefined;
}

const handlers = new Map<string, Handler>();
const ignored: { reason: string }[] = [];

const definition = (kind: string) => (name: string) => ({ type: kind, name });

jest.unstable_mockModule('@temporalio/workflow', () => ({
  ...jest.requireActual<object>('@temporalio/workflow'),
  defineSignal: definition('signal'),
  defineUpdate: definition('update'),
  defineQuery: definition('query'),
  condition: async () => {},
  patched: () => true,
  log: { warn: (_text: string, facts: { reason: string }) => void ignored.push(facts) },
  CancellationScope: { nonCancellable: (run: () => Promise<unknown>) => run() },
  setHandler: (
    { type, name }: { type: string; name: string },
    handle: Handler['handle'],
    { validator }: { validator?: Handler['validate'] } = {},
  ) => void handlers.set(`${type} ${name}`, { handle, validate: validator }),
}));

let handleMessages: typeof maintenanceHandlers.handleMessages;
let newRun: typeof maintenanceRuns.newRun;
let applied: typeof maintenanceRuns;
let handleWindowMessages: typeof windowHandlers.handleWindowMessages;
let newWindowRun: typeof windowRuns.newWindowRun;

beforeAll(async () => {
  ({ handleMessages } = await import('../../workflows/maintenance/handlers.ts'));
  applied = await import('../../workflows/maintenance/run.ts');
  ({ newRun } = applied);
  ({ handleWindowMessages } = await import('../../workflows/windows/handlers.ts'));
  ({ newWindowRun } = await import('../../workflows/windows/run.ts'));
});

beforeEach(() => {
  handlers.clear();
  ignored.length = 0;
});

const uid = '5a1c7f02-0000-4000-8000-000000000001';
const samples = [
  { to: 'Drain', from: 'Cordon' },
  { node: 'n1' },
  { nodes: ['n1', 'n2'] },
  { kind: 'StageChanged', uid, stage: 'Drain', generation: 7 },
  { kind: 'Gone', uid },
  {
    uid,
    details: { podsToEvacuate: 3, rows: [{ node: 'n1', podsToEvacuate: 1, podsEvacuated: 0, message: 'x' }] },
  },
  {},
];
const inputs = fc.oneof(
  { weight: 9, arbitrary: mutationsOf(samples) },
  { weight: 1, arbitrary: fc.constant(undefined) },
);

/** Sends an input to every handler. A validator throws InvalidInput only, an update that it accepts does not fail, and no signal does. */
async function send(input: unknown): Promise<void> {
  for (const [name, { handle, validate }] of handlers) {
    if (name.startsWith('query')) continue;
    if (rejection(validate, input) === undefined) await handle(input);
  }
  for (const { reason } of ignored.splice(0)) expectReadable(reason);
}

function rejection(validate: Handler['validate'], input: unknown): string | undefined {
  try {
    validate?.(input);
    return undefined;
  } catch (error) {
    const { type, message } = error as { type?: string; message: string };
    expect(type).toBe('InvalidInput');
    expectReadable(message);
    return message;
  }
}

function maintenanceRun(): maintenanceRuns.Run {
  return { ...newRun(), name: 'rack-7', uid, generation: 3, stage: 'Cordon', nodes: ['n1'] };
}

describe('any input of a message', () => {
  test('leaves a maintenance in a stage, or is rejected with the field', () =>
    fuzz(
      inputs,
      async (input) => {
        const run = maintenanceRun();
        const observed = { kind: 'StageChanged', stage: 'Drain', generation: 4 } as const;
        const effects = {
          requestStage: async () => observed,
          recordPause: async () => {},
          renderDetails: () => {},
        };
        handleMessages(run, { evacuating: false } as never, effects as never);
        await send(input);
        expect(['Idle', 'Cordon', 'Drain', 'Complete']).toContain(run.stage);
        expect(Number.isSafeInteger(run.generation)).toBe(true);
        expect(run.nodes).toEqual(['n1']);
      },
      150,
    ));

  test('asks for names of nodes of a window, or is rejected with the field', () =>
    fuzz(
      inputs,
      async (input) => {
        const run: windowRuns.WindowRun = { ...newWindowRun('r'), name: 'os', uid };
        const asked: unknown[] = [];
        const effects = {
          authorizeRequest: async (_ref: unknown, { approvedNodes = [] }: { approvedNodes?: string[] }) =>
            void asked.push(...approvedNodes),
          advanceNode: async (_ref: unknown, node: string) => void asked.push(node),
        };
        handleWindowMessages(run, effects as never);
        await send(input);
        expect(asked.every((node) => typeof node === 'string' && node.length <= 253)).toBe(true);
        // Two messages advance each of the nodes, two others approve them.
        expect(asked.length).toBeLessThanOrEqual(4 * 5_000);
        expect(run.approvedNodes.length).toBeLessThanOrEqual(5_000);
      },
      150,
    ));
});

test('any result of an activity is applied, or fails the run with the reason', () =>
  fuzz(
    mutationsOf([
      { kind: 'TierDrained', position: 3, nodes: ['n1'], details: {} },
      { kind: 'Waiting', nodes: ['n1'] },
      { kind: 'PauseChanged', paused: true },
      { kind: 'Drained', nodes: ['n1'] },
      { kind: 'StageChanged', stage: 'Complete', generation: 9 },
      { name: 'rack-7', uid, generation: 1, stage: 'Idle', nodes: [], cluster: { name: 'c', uid } },
      { generation: 4, recorded: ['a'], nextInMs: 5 },
    ]),
    (result) => {
      for (const apply of [
        'applyDrainResult',
        'applyAdmitted',
        'applyDetails',
        'applyObservation',
      ] as const) {
        const run = maintenanceRun();
        rejection(
          (given) => (applied[apply] as (run: maintenanceRuns.Run, given: unknown) => void)(run, given),
          result,
        );
        expect(['Idle', 'Cordon', 'Drain', 'Complete']).toContain(run.stage);
        expect(Number.isSafeInteger(run.position)).toBe(true);
        expect(run.nodes.every((node) => typeof node === 'string')).toBe(true);
      }
      const run = { ...maintenanceRun(), escalatesAtMs: 5 };
      applied.applyEscalation(run, result as never, 5);
      expect(run.escalatesAtMs === undefined || Number.isSafeInteger(run.escalatesAtMs)).toBe(true);
    },
    150,
  ));
