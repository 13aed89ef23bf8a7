import { PassThrough } from 'node:stream';
import { text as textOf } from 'node:stream/consumers';
import { describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { statusLines } from '../../cli/maintenance/statusView.ts';
import { planLines } from '../../cli/maintenance/planView.ts';
import { escapeForTerminal, escapeLines, formatList, formatObject } from '../../cli/output.ts';
import { connectionLostMessage } from '../../cli/terminal/connectionStatus.ts';
import { createScreen } from '../../cli/terminal/screen.ts';
import { fittedTable, table } from '../../cli/terminal/table.ts';
import { windowLine, windowLines, windowsTable } from '../../cli/windows/windowsView.ts';
import type { MaintenanceSummary } from '../../domain/maintenance/summary.ts';
import type { WindowSummary } from '../../domain/windows/summary.ts';
import { hostileTexts, unprintable } from '../kit/hostileText.ts';

const nowMs = Date.parse('2026-01-01T12:00:00Z');
const viewer = { nowMs, timeZone: 'UTC' };

function summaryWith(text: string, stage: MaintenanceSummary['stage']): MaintenanceSummary {
  const blocker = { reason: 'EvictionRejected', message: text };
  return {
    name: 'rack-7',
    stage,
    stageSince: '2026-01-01T11:00:00Z',
    reason: text,
    paused: false,
    notProgressing: { reason: 'TemporalUnavailable', message: text, since: '2026-01-01T11:30:00Z' },
    drained: false,
    completed: false,
    podsToEvacuate: 2,
    podsEvacuated: 1,
    podsBlocked: 1,
    estimate: { basis: 'Evacuator', seconds: 60, evacuator: text },
    missingNodes: [text],
    staticPodsRemain: text,
    nodes: [
      {
        node: 'node-1',
        cordoned: true,
        podsToEvacuate: 2,
        podsEvacuated: 1,
        message: text,
        leaving: [
          { pod: 'shop/a', blocker },
          { pod: 'shop/b', evacuator: text, message: text },
        ],
        staticPods: [text],
        gates: { ready: 0, all: 1, notReady: [{ gate: 'network', message: text }] },
        outOfServiceReasons: [text],
        inService: false,
      },
    ],
  };
}

function windowWith(text: string): WindowSummary {
  return {
    name: 'os-patch',
    schedule: text,
    timeZone: 'UTC',
    duration: '4h',
    next: [],
    suspended: false,
    approval: 'None',
    open: { since: '2026-01-01T11:00:00Z', until: '2026-01-01T13:00:00Z', hasEnded: false, workflowId: 'w' },
    progress: { nodes: 1, done: 0, inProgress: 1, failed: 0, remaining: 0 },
    waiting: { reason: 'ApprovalNeeded', message: text },
    awaitsApproval: true,
    problems: [{ type: 'Valid', reason: 'Invalid', message: text }],
    nodes: [{ node: text, maintenance: text, stage: 'Drain', state: 'InProgress', message: text }],
  };
}

function planWith(text: string) {
  const pod = {
    pod: 'shop/a',
    node: 'node-1',
    podType: 'Default' as const,
    priority: 0,
    evacuators: [],
    blockers: [{ reason: 'DisruptionBudget', message: text }],
    notes: [],
  };
  return {
    nodes: ['node-1'],
    held: [{ node: 'node-1', holder: text }],
    halted: [text],
    warnings: [text],
    tiers: [{ tier: 1, selects: 'all pods', pods: [pod] }],
    remaining: [],
    budgets: [],
    blocked: true,
  };
}

/** The longest line that the text may become. */
const maxLineLength = 2_500;

function expectSafe(lines: readonly string[]): void {
  expect(lines.filter((line) => unprintable.test(line))).toEqual([]);
  expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(maxLineLength);
}

describe.each(hostileTexts)('a text with $what', ({ text }) => {
  test.each(['Drain', 'Complete'] as const)('is printable in the status of a maintenance in %s', (stage) => {
    expectSafe(statusLines(summaryWith(text, stage), nowMs));
  });

  test('is printable in the list, the status and the changes of windows', () => {
    const window = windowWith(text);
    expectSafe([...windowsTable([window], viewer).split('\n'), ...windowLines(window, viewer)]);
    expectSafe([windowLine(window, viewer)]);
  });

  test('is printable in the preview of a drain', () => {
    expectSafe(planLines(planWith(text) as never, true));
  });

  test('is one cell of a table', () => {
    const columns = [
      { title: 'A', cell: () => text },
      { title: 'B', cell: () => 'end' },
    ];
    const lines = table(columns, [1]).split('\n');
    expect(lines).toHaveLength(2);
    expectSafe(lines);
    expectSafe(fittedTable(columns, { rows: [1], width: 80, dispensable: [] }).flat());
  });

  test('is printable in a message about the connection', () => {
    expectSafe([connectionLostMessage(text), escapeForTerminal(text)]);
  });

  test.each(['json', 'yaml'] as const)('keeps its value in %s, which is printable', (format) => {
    const object = { spec: { reason: text }, [`annotation ${text.slice(0, 100)}`]: [text] };
    const read = (output: string): unknown => (format === 'json' ? JSON.parse(output) : parse(`${output}\n`));
    const output = formatObject(object, format);
    expect(output.split('\n').filter((line) => unprintable.test(line))).toEqual([]);
    expect(read(output)).toEqual(object);
    expect(read(formatList([object], format))).toEqual({ items: [object] });
  });

  test('reaches a terminal with its lines and colors only, even if a view forgot to escape it', async () => {
    const stream = new PassThrough();
    const screen = createScreen(Object.assign(stream, { fd: -1 }) as unknown as typeof process.stdout);
    screen.print(text.slice(0, 1_000));
    stream.end();
    const printed = await textOf(stream);
    // oxlint-disable-next-line no-control-regex -- these are the characters that may not be printed
    expect(printed.replaceAll(/\u001b\[(?:0|1|2|22|3\d|9[0-7])m|\n|\t/g, '')).not.toMatch(unprintable);
  });
});

test('colors reach the terminal', () => {
  expect(escapeLines('\u001b[1m\u001b[31mred\u001b[39m\u001b[22m\u001b[8mx')).toBe(
    `\u001b[1m\u001b[31mred\u001b[39m\u001b[22m${String.raw`\u001b[8mx`}`,
  );
});

test('text that YAML 1.1 takes for another type, as kubectl does, has quotes', () => {
  const object = { a: 'yes', b: 'off', c: '22:00', d: '2026-12-24T02:00:00Z', e: 'y', f: 'node-1' };
  expect(formatObject(object, 'yaml').split('\n')).toEqual([
    'a: "yes"',
    'b: "off"',
    'c: "22:00"',
    'd: "2026-12-24T02:00:00Z"',
    'e: "y"',
    'f: node-1',
  ]);
});
