import { describe, expect, test } from '@jest/globals';
import picocolors from 'picocolors';
import { fitToScreen } from '../../../cli/terminal/block.ts';
import { windowBlock, windowsBlock } from '../../../cli/windows/windowsBlock.ts';
import type { WindowNodeSummary, WindowSummary } from '../../../domain/windows/summary.ts';

const viewer = { nowMs: Date.parse('2026-11-28T03:00:00Z'), timeZone: 'America/New_York' };

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
  nodes: [],
};

const open: WindowSummary = {
  ...closed,
  open: { since: '2026-11-28T02:00:00Z', until: '2026-11-28T06:00:00Z', hasEnded: false, workflowId: 'w' },
  progress: { nodes: 40, done: 28, inProgress: 1, failed: 1, remaining: 10 },
  waiting: {
    reason: 'TooManyFailures',
    message:
      '1 node has failed, and rollout.maxFailures is 1: repair the node, or increase rollout.maxFailures.',
  },
};

const message =
  'JobFailed: Job os-patch-1d2wowb3l3-rack-9 failed (BackoffLimitExceeded): Job has reached the specified backoff limit. Check the logs of its pods, then mark its work as done (kubectl maintenance window advance) when nothing is left to do, or complete its NodeMaintenance and delete it.';

const nodeSummary = (node: string, differs: Partial<WindowNodeSummary>): WindowNodeSummary => ({
  node,
  maintenance: `os-patch-1d2wowb3l3-${node}`,
  stage: 'Complete',
  state: 'Succeeded',
  since: '2026-11-28T02:10:00Z',
  message: 'Done: The work is done, and the node is in service.',
  ...differs,
});

const failed = nodeSummary('rack-9', { stage: 'Drain', state: 'Failed', message });
const inProgress = nodeSummary('rack-8', { stage: 'Drain', state: 'InProgress', message: 'draining' });

const wordsOf = (lines: readonly string[]) => lines.join(' ').split(/\s+/);

describe('windows in a terminal', () => {
  test.each([80, 100, 120, 240])('of %i columns show what requires action', (width) => {
    const viewport = terminal(width, 24);
    const problems = [{ type: 'Scheduled', reason: 'PausedInTemporal', message: 'A user paused it.' }];
    const lines = fitToScreen(viewport, windowsBlock([{ ...open, problems }, closed], viewer, viewport));
    expect(lines[0]).toMatch(/^NAME .* IN PROGRESS +DONE .* REMARKS$/);
    expect(lines[0]).toContain('FAILED');
    expect(lines[1]).toMatch(/^os-patch .* 1 +28\/40 /);
    expect(lines.filter((line) => line.length > width || line.includes('…'))).toEqual([]);
    expect(wordsOf(lines)).toEqual(
      expect.arrayContaining(['Scheduled:', 'PausedInTemporal,', 'TooManyFailures']),
    );
    expect(lines[0]?.includes('OPENS')).toBe(width === 240);
  });

  test('that exceed its height start with those whose nodes failed, and are counted', () => {
    const viewport = terminal(80, 24);
    const many = Array.from({ length: 40 }, (_, index) => ({ ...closed, name: `a-${index}` }));
    const lines = fitToScreen(viewport, windowsBlock([...many, open], viewer, viewport));
    expect(lines).toHaveLength(23);
    expect(lines[1]).toMatch(/^os-patch /);
    expect(lines.at(-1)).toBe('  … 20 more windows');
  });
});

describe('one window in a terminal', () => {
  test('lists its nodes in order, and wraps messages', () => {
    const viewport = terminal(80, 40);
    const lines = fitToScreen(
      viewport,
      windowBlock({ ...open, nodes: [inProgress, failed] }, viewer, viewport),
    );
    expect(lines.filter((line) => line.length > 80 || line.includes('…'))).toEqual([]);
    const rows = lines.slice(lines.findIndex((line) => line.includes('MESSAGE')));
    expect(rows[0]).toMatch(/^ {2}NODE +STATE +FOR +STAGE +MESSAGE$/);
    expect(rows[1]).toMatch(/^ {2}rack-8 +InProgress +50m +Drain +draining$/);
    expect(rows[2]).toMatch(/^ {2}rack-9 +Failed +50m +Drain +JobFailed: /);
    expect(wordsOf(rows).slice(-message.split(' ').length + 1)).toEqual(message.split(' ').slice(1));
    expect(wordsOf(lines).join(' ')).toContain(open.waiting?.message);
    expect(lines.join('\n')).toContain('opens Saturday, Sunday at 03:00');
  });

  test('that exceeds its height starts with failed nodes, in full, and counts the omitted ones', () => {
    const viewport = terminal(80, 24);
    const done = Array.from({ length: 28 }, (_, index) => nodeSummary(`rack-${10 + index}`, {}));
    const nodes = [...done, inProgress, failed];
    const lines = fitToScreen(viewport, windowBlock({ ...open, nodes }, viewer, viewport));
    expect(lines.length).toBeLessThanOrEqual(23);
    expect(lines.filter((line) => line.length > 80)).toEqual([]);
    const first = lines.findIndex((line) => line.includes('MESSAGE')) + 1;
    expect(lines[first]).toMatch(/^ {2}rack-9 +Failed +JobFailed: /);
    expect(wordsOf(lines).join(' ')).toContain(message);
    expect(lines.find((line) => line.includes('rack-8'))).toMatch(/InProgress +draining$/);
    const shown = lines.filter((line) => / Succeeded +Done: /.test(line)).length;
    expect(lines.at(-1)).toBe(`  … ${28 - shown} more nodes`);
  });
});
