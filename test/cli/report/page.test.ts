import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import type { Browser, Page } from 'playwright-core';
import { rowsOf } from '../../../cli/maintenance/historyRows.ts';
import { reportPage } from '../../../cli/report/page.ts';
import { recordedSteps } from '../../../cli/report/recordedHistory.ts';
import { maintenanceReport } from '../../../domain/report/maintenanceReport.ts';
import type { Report } from '../../../domain/report/report.ts';
import { windowReport } from '../../../domain/report/windowReport.ts';
import { openBrowser } from '../../kit/browser.ts';
import { hostileTexts } from '../../kit/hostileText.ts';

/** Returns the report of a run that was recorded from the real system, and whose object is gone. */
function recorded(name: string): Report {
  const file = new URL(`../../replay/histories/${name}.json`, import.meta.url);
  const history = historyFromJSON(JSON.parse(readFileSync(file, 'utf8')));
  const steps = recordedSteps(history);
  const [startedAtMs = 0, closedAtMs = 0] = [steps[0]?.atMs, steps.at(-1)?.atMs];
  const actions = rowsOf(history).map((row) => ({ ...row, source: 'Temporal' as const }));
  const runs = [{ workflowId: name, startedAtMs, closedAtMs, steps }];
  const common = { name, nowMs: closedAtMs, runs, actions, budgets: [], unread: [] };
  return name.startsWith('window')
    ? windowReport({ ...common, window: undefined, maintenances: [] })
    : maintenanceReport({ ...common, maintenance: undefined, events: [], leaving: [], podEvents: [] });
}

/** Puts the text wherever a text of the cluster may be. */
function attacked(report: Report, text: string): Report {
  const swap = <T>(value: T): T => {
    if (typeof value === 'string') return text as T;
    if (Array.isArray(value)) return value.map(swap) as T;
    if (typeof value !== 'object' || value === null) return value;
    const kept = ['kind', 'timeZone'];
    return Object.fromEntries(
      Object.entries(value).map(([key, one]) => [key, kept.includes(key) ? one : swap(one)]),
    ) as T;
  };
  return swap(report);
}

const reports = ['blocked', 'pause-resume-cancel', 'window-approved-and-cancelled', 'window-held'];

let browser: Browser;
beforeAll(async () => {
  browser = await openBrowser();
});
afterAll(() => browser?.close());

interface PageOptions {
  readonly width?: number;
  readonly colorScheme?: 'light' | 'dark';
}

/** Shows the page in a browser that has no network, and returns it with what it did besides showing itself. */
async function openPage(markup: string, { width = 1_280, colorScheme = 'light' }: PageOptions = {}) {
  const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme, offline: true });
  const page = await context.newPage();
  const actions: string[] = [];
  page.on('console', (message) => actions.push(`console: ${message.text()}`));
  page.on('pageerror', (error) => actions.push(`error: ${error.message}`));
  page.on('dialog', (dialog) => actions.push(`dialog: ${dialog.message()}`));
  await context.route('**', (route) => {
    actions.push(`request: ${route.request().url()}`);
    return route.abort();
  });
  await page.setContent(markup, { waitUntil: 'load' });
  return { page, actions, close: () => context.close() };
}

/** Finds what no report contains: elements that load or run something, and such attributes. */
const foreignMarkup = `[
  ...[...document.querySelectorAll('script, img, a, iframe, form, foreignObject, body style')].map((one) => one.tagName),
  ...[...document.querySelectorAll('*')].flatMap((one) => one.getAttributeNames()).filter((one) => /^(on|href|src|style)/.test(one)),
]`;

const visible = (page: Page, selector: string) => page.locator(selector).filter({ visible: true });

describe('the page of a report', () => {
  test.each(reports)('of %s fits phones and screens in light and dark, and loads nothing', async (name) => {
    const markup = reportPage(recorded(name));
    const backgrounds = new Set<string>();
    for (const width of [390, 1_280])
      for (const colorScheme of ['light', 'dark'] as const) {
        const { page, actions, close } = await openPage(markup, { width, colorScheme });
        expect(actions).toEqual([]);
        expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
        expect(await page.locator('h1').innerText()).toBe(name);
        expect(await visible(page, '.chart svg').count()).toBe(
          (await page.locator('.chart svg').count()) / 2,
        );
        expect(await visible(page, '.chart text').count()).toBeGreaterThan(4);
        backgrounds.add(String(await page.evaluate('getComputedStyle(document.body).backgroundColor')));
        await close();
      }
    expect(backgrounds.size).toBe(2);
  });

  test('shows tiers, what blocked pods and who requested the stages', async () => {
    const { page, close } = await openPage(reportPage(recorded('blocked')));
    const text = await page.locator('main').innerText();
    expect(text).toContain('PodDisruptionBudget default/blocked can never allow a disruption');
    expect(text).toContain('reported generation 1: stage Drain, requested by user sandbox-admin');
    expect(text).toMatch(/5\s+pods evacuated/);
    const labels = await visible(page, '.chart text').allTextContents();
    expect(labels).toEqual(
      expect.arrayContaining([
        'Drain',
        'Complete',
        'tier 1 of 1',
        expect.stringMatching(/^default\/placed-/),
      ]),
    );
    await close();
  });

  test.each([
    { fromMs: Date.parse('2026-11-20T10:00:00Z'), want: '2026-11-20 10:00:00 to 2026-11-22 12:00:00, UTC' },
    { fromMs: Date.parse('2026-11-22T10:00:00Z'), want: '2026-11-22 10:00:00 to 12:00:00, UTC' },
  ])('says from when to when its charts are: $want', ({ fromMs, want }) => {
    const span = { fromMs, toMs: Date.parse('2026-11-22T12:00:00Z') };
    const report = recorded('blocked');
    const timelines = report.timelines.map((timeline) => ({ ...timeline, span }));
    expect(reportPage({ ...report, timelines })).toContain(want);
  });

  test('prints in light colors, with the charts of wide screens', async () => {
    const { page, close } = await openPage(reportPage(recorded('blocked')), {
      width: 390,
      colorScheme: 'dark',
    });
    await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
    expect(await page.evaluate('getComputedStyle(document.body).color')).toBe('rgb(28, 36, 48)');
    expect(await visible(page, '.chart.wide').count()).toBeGreaterThan(3);
    expect(await visible(page, '.chart.narrow').count()).toBe(0);
    await close();
  });

  test('shows markup of the cluster as text, wherever it stands', async () => {
    const script =
      '</style></svg><script>alert(1)</script><img src=https://evil.example/x onerror=alert(2)>" onload="alert(3)';
    const { page, actions, close } = await openPage('');
    for (const text of [...hostileTexts.map((one) => one.text.slice(0, 300)), script])
      for (const name of text === script ? reports : ['blocked']) {
        await page.setContent(reportPage(attacked(recorded(name), text)), { waitUntil: 'load' });
        expect({ text, actions }).toEqual({ text, actions: [] });
        expect(await page.evaluate(foreignMarkup)).toEqual([]);
      }
    expect(await page.locator('h1').innerText()).toBe(script);
    await close();
  });

  test('forbids scripts, requests and styles of others, should markup get through', async () => {
    const injected = reportPage(recorded('blocked')).replace(
      '<main>',
      '<main><script>alert(1)</script><img src="https://evil.example/x"><p style="color:red" id="injected">x</p><style>body{color:red}</style>',
    );
    const { page, actions, close } = await openPage(injected);
    expect(actions.filter((line) => !line.startsWith('console: '))).toEqual([]);
    expect(actions.length).toBeGreaterThanOrEqual(4);
    expect(await page.evaluate('getComputedStyle(document.getElementById("injected")).color')).toBe(
      'rgb(28, 36, 48)',
    );
    await close();
  });

  test('is the same, byte for byte, for the same report', () => {
    const markup = reportPage(recorded('blocked'));
    reportPage(recorded('window-held'));
    expect(reportPage(recorded('blocked'))).toBe(markup);
  });
});
