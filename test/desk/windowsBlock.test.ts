import { describe, expect, test } from '@jest/globals';
import picocolors from 'picocolors';
import { drawnOn } from '../../cli/block.ts';
import { windowBlock, windowsBlock } from '../../cli/windowsBlock.ts';
import type { TurnSummary, WindowSummary } from '../../domain/windowSummary.ts';

const look = { now: Date.parse('2026-11-28T03:00:00Z'), zone: 'America/New_York' };

function terminal(width: number, height: number) {
  return { width: () => width, height: () => height, colors: picocolors.createColors(false) };
}

const closed: WindowSummary = {
  name: 'os-patch',
  schedule: 'Saturday, Sunday at 03:00 Europe/Berlin, for 4h, not on 2026-12-26',
  timeZone: 'Europe/Berlin',
  duration: '4h',
  next: ['2026-12-05T02:00:00.000Z', '2026-12-06T02:00:00.000Z'],
  suspended: false,
  approval: 'None',
  awaitsApproval: false,
  problems: [],
  turns: [],
};

const open: WindowSummary = {
  ...closed,
  open: { since: '2026-11-28T02:00:00Z', until: '2026-11-28T06:00:00Z', isOver: false, workflowId: 'w' },
  progress: { nodes: 40, done: 28, inProgress: 1, failed: 1, remaining: 10 },
  waiting: {
    reason: 'TooManyFailures',
    message: 'So many turns have failed as rollout.maxFailures says, 1: see to them, or allow more.',
  },
};

const message =
  'JobFailed: its Job os-patch-1d2wowb3l3-rack-9 failed (BackoffLimitExceeded): Job has reached the specified backoff limit. Look at the logs of its pods, then advance the turn when nothing is left to do, or complete its NodeMaintenance and delete it.';

const turn = (node: string, differs: Partial<TurnSummary>): TurnSummary => ({
  node,
  maintenance: `os-patch-1d2wowb3l3-${node}`,
  stage: 'Complete',
  outcome: 'Succeeded',
  since: '2026-11-28T02:10:00Z',
  message: 'Done: The work is done, and the node takes pods again.',
  ...differs,
});

const failed = turn('rack-9', { stage: 'Drain', outcome: 'Failed', message });
const underWay = turn('rack-8', { stage: 'Drain', outcome: 'UnderWay', message: 'drains' });

const wordsOf = (lines: readonly string[]) => lines.join(' ').split(/\s+/);

describe('windows in a terminal', () => {
  test.each([80, 100, 120, 240])('of %i columns have what asks for somebody in view', (width) => {
    const paper = terminal(width, 24);
    const problems = [{ type: 'Scheduled', reason: 'PausedInTemporal', message: 'Somebody paused it.' }];
    const lines = drawnOn(paper, windowsBlock([{ ...open, problems }, closed], look, paper));
    expect(lines[0]).toMatch(/^NAME .* UNDER WAY +DONE .* REMARKS$/);
    expect(lines[0]).toContain('FAILED');
    expect(lines[1]).toMatch(/^os-patch .* 1 +28\/40 /);
    expect(lines.filter((line) => line.length > width || line.includes('…'))).toEqual([]);
    expect(wordsOf(lines)).toEqual(
      expect.arrayContaining(['Scheduled:', 'PausedInTemporal,', 'TooManyFailures']),
    );
    expect(lines[0]?.includes('OPENS')).toBe(width === 240);
  });

  test('that are more than it has lines begin with those whose turns failed, and are counted', () => {
    const paper = terminal(80, 24);
    const many = Array.from({ length: 40 }, (_, index) => ({ ...closed, name: `a-${index}` }));
    const lines = drawnOn(paper, windowsBlock([...many, open], look, paper));
    expect(lines).toHaveLength(23);
    expect(lines[1]).toMatch(/^os-patch /);
    expect(lines.at(-1)).toBe('  … 20 more windows');
  });
});

describe('one window in a terminal', () => {
  test('has its turns in order, and sentences that go on below themselves', () => {
    const paper = terminal(80, 40);
    const lines = drawnOn(paper, windowBlock({ ...open, turns: [underWay, failed] }, look, paper));
    expect(lines.filter((line) => line.length > 80 || line.includes('…'))).toEqual([]);
    const rows = lines.slice(lines.findIndex((line) => line.includes('MESSAGE')));
    expect(rows[0]).toMatch(/^ {2}NODE +TURN +FOR +STAGE +MESSAGE$/);
    expect(rows[1]).toMatch(/^ {2}rack-8 +under way +50m +Drain +drains$/);
    expect(rows[2]).toMatch(/^ {2}rack-9 +failed +50m +Drain +JobFailed: /);
    expect(wordsOf(rows).slice(-message.split(' ').length + 1)).toEqual(message.split(' ').slice(1));
    expect(wordsOf(lines).join(' ')).toContain(open.waiting?.message);
    expect(lines.join('\n')).toContain('opens Saturday, Sunday at 03:00');
  });

  test('of more turns than it has lines begins with those that failed, whole, and counts the rest', () => {
    const paper = terminal(80, 24);
    const done = Array.from({ length: 28 }, (_, index) => turn(`rack-${10 + index}`, {}));
    const turns = [...done, underWay, failed];
    const lines = drawnOn(paper, windowBlock({ ...open, turns }, look, paper));
    expect(lines.length).toBeLessThanOrEqual(23);
    expect(lines.filter((line) => line.length > 80)).toEqual([]);
    const first = lines.findIndex((line) => line.includes('MESSAGE')) + 1;
    expect(lines[first]).toMatch(/^ {2}rack-9 +failed +JobFailed: /);
    expect(wordsOf(lines).join(' ')).toContain(message);
    expect(lines.find((line) => line.includes('rack-8'))).toMatch(/under way +drains$/);
    const shown = lines.filter((line) => / done +Done: /.test(line)).length;
    expect(lines.at(-1)).toBe(`  … ${28 - shown} more turns`);
  });
});
