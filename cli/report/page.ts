import { createHash } from 'node:crypto';
import type {
  Action,
  BarKind,
  Cause,
  Counts,
  Figure,
  NodeRow,
  Report,
  Span,
  Timeline,
} from '../../domain/report/report.ts';
import { duration } from '../output.ts';
import { countsSvg, lineColorOf, narrow, timelineSvg, wide, type ChartSize, colorOf } from './charts.ts';
import { type Html, html, trusted } from './html.ts';
import { pageStyle } from './style.ts';
import { knownTimeZone } from '../timeZone.ts';
import { timeText } from './ticks.ts';

/** Renders a report as one HTML page that loads nothing and contains no script. */
export function reportPage(report: Report): string {
  const zone = knownTimeZone(report.timeZone);
  const digest = createHash('sha256').update(pageStyle).digest('base64');
  // Should any markup of the cluster have got through: nothing runs, nothing loads, and no style applies but this one.
  const policy = `default-src 'none'; style-src 'sha256-${digest}'; base-uri 'none'; form-action 'none'`;
  const { markup } = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${report.kind} ${report.name}</title>
<style>${trusted(pageStyle)}</style>
</head>
<body>
<main>
${header(report, zone)}
${figures(report.figures)}
${report.timelines.map((timeline) => timelineSection(timeline, zone))}
${report.counts.map((counts) => countsSection(counts, zone))}
${causesSection(report, zone)}
${budgetsSection(report)}
${nodesSection(report)}
${actionsSection(report, zone)}
${unknownSection(report.unknown)}
</main>
<footer><p>Made by <code>kubectl maintenance report</code> from the history in Temporal, the object and its Events.</p></footer>
</body>
</html>`;
  return markup;
}

function header({ kind, name, reason, state, span }: Report, zone: string): Html {
  return html`<header>
<p class="kind">${kind}</p>
<h1>${name}</h1>
${reason === undefined ? [] : [html`<p class="reason">${reason}</p>`]}
<p class="state"><strong>${state}</strong></p>
<p>${spanText(span, zone)}</p>
</header>`;
}

function spanText({ fromMs, toMs }: Span, zone: string): string {
  return `${timeText(fromMs, zone)} to ${timeText(toMs, zone)} ${zone} (${exact(toMs - fromMs)})`;
}

/** Short times are shown with fractions: most stages take less than a second. */
function exact(ms: number): string {
  return ms < 10_000 ? `${(ms / 1_000).toFixed(1)}s` : duration(ms);
}

function figures(all: readonly Figure[]): Html {
  const items = all.map(({ label, value }) => html`<div><dd>${valueText(value)}</dd><dt>${label}</dt></div>`);
  return html`<dl class="figures">${items}</dl>`;
}

function valueText(value: Figure['value']): string {
  switch (value.kind) {
    case 'Text':
      return value.text;
    case 'Count':
      return value.count.toLocaleString('en');
    case 'Duration':
      return exact(value.ms);
  }
}

const kindNames: Partial<Record<BarKind, string>> = {
  Leaving: 'pods leave',
  Blocked: 'blocked',
  Paused: 'paused',
  Drained: 'drained: work',
  Returning: 'returns to service',
  InProgress: 'in progress',
  Failed: 'failed',
  Waiting: 'observed',
};

function timelineSection(timeline: Timeline, zone: string): Html {
  const { title, rows, more, span } = timeline;
  const kinds = new Set(rows.flatMap(({ bars }) => bars.map(({ kind }) => kind)));
  const entries = (Object.keys(kindNames) as BarKind[])
    .filter((kind) => kinds.has(kind))
    .map((kind) => ({ name: kindNames[kind] ?? '', color: colorOf(kind) }));
  const hasMarks = rows.some(({ marks }) => marks.length > 0);
  const marked = hasMarks ? [...entries, { name: 'Event', color: 'var(--mark)' }] : entries;
  return html`<section>
<h2>${title}</h2>
<p class="axis">${axisText(span, zone)}</p>
${legend(marked)}
${chart((size) => timelineSvg(timeline, size, zone))}
${moreNote(more, 'lines are left out')}
</section>`;
}

const dateLength = '2026-11-28'.length;

function axisText(span: Span, zone: string): string {
  const [from, to] = [timeText(span.fromMs, zone), timeText(span.toMs, zone)];
  const isSameDay = from.slice(0, dateLength) === to.slice(0, dateLength);
  return `${from} to ${isSameDay ? to.slice(dateLength + 1) : to}, ${zone}`;
}

/** A Content-Security-Policy without inline styles: the color is an attribute of SVG. */
function legend(entries: readonly { name: string; color: string }[]): Html {
  if (entries.length === 0) return html``;
  const items = entries.map(
    ({ name, color }) =>
      html`<li><svg class="swatch" viewBox="0 0 12 12" aria-hidden="true"><rect width="12" height="12" rx="3" fill="${color}"></rect></svg> ${name}</li>`,
  );
  return html`<ul class="legend">${items}</ul>`;
}

/** A chart for wide screens and paper, and one for phones: scaled text would be too small to read. */
function chart(draw: (size: ChartSize) => string): Html {
  return html`<div class="chart wide">${trusted(draw(wide))}</div>
<div class="chart narrow">${trusted(draw(narrow))}</div>`;
}

function moreNote(more: number, what: string): Html {
  return more === 0 ? html`` : html`<p class="note">${more.toLocaleString('en')} ${what}.</p>`;
}

function countsSection(counts: Counts, zone: string): Html {
  const swatch = counts.isStacked ? colorOf : lineColorOf;
  const entries = counts.series.map(({ name, kind }) => ({ name, color: swatch(kind) }));
  return html`<section>
<h2>${counts.title}</h2>
<p class="axis">${counts.unit}, ${axisText(counts.span, zone)}</p>
${legend(entries)}
${chart((size) => countsSvg(counts, size, zone))}
</section>`;
}

function causesSection({ kind, causes, moreCauses, causeSpan }: Report, zone: string): Html {
  const title = kind === 'NodeMaintenance' ? 'What blocked pods' : 'Why no more nodes were started';
  if (causes.length === 0)
    return html`<section><h2>${title}</h2><p class="note">Nothing was observed.</p></section>`;
  const bar = kind === 'NodeMaintenance' ? 'Blocked' : 'Waiting';
  const rows = causes.map(({ text, spans }, index) => ({
    name: `${index + 1}. ${text}`,
    bars: spans.map((span) => ({ ...span, kind: bar }) as const),
    marks: [],
  }));
  const timeline: Timeline = { title, span: causeSpan, rows, moments: [], more: 0 };
  return html`<section>
<h2>${title}</h2>
<p class="axis">${axisText(causeSpan, zone)}</p>
${chart((size) => timelineSvg(timeline, size, zone))}
<ol class="causes">${causes.map(causeItem)}</ol>
${moreNote(moreCauses, 'more causes were shorter')}
</section>`;
}

function causeItem({ text, subjects, moreSubjects, totalMs, isOpen }: Cause): Html {
  const more = moreSubjects === 0 ? '' : ` and ${moreSubjects} more`;
  const at = isOpen ? ', at the end too' : '';
  return html`<li><p>${text}</p><p class="note">${exact(totalMs)}${at}${subjects.length === 0 ? '' : `: ${subjects.join(', ')}${more}`}</p></li>`;
}

function budgetsSection({ budgets }: Report): Html {
  if (budgets.length === 0) return html``;
  const hasHeld = budgets.some(({ heldMs }) => heldMs !== undefined);
  const rows = budgets.map(
    ({ name, limit, state, heldMs }) =>
      html`<tr><td data-title="Budget">${name}</td><td data-title="Limit">${limit}</td><td data-title="Now">${state}</td>${hasHeld ? [html`<td data-title="Blocked for">${heldMs === undefined ? '' : exact(heldMs)}</td>`] : []}</tr>`,
  );
  return html`<section>
<h2>Budgets</h2>
<table><thead><tr><th>Budget</th><th>Limit</th><th>When this page was made</th>${hasHeld ? [html`<th>Blocked for</th>`] : []}</tr></thead><tbody>${rows}</tbody></table>
</section>`;
}

function nodesSection({ nodes, moreNodes }: Report): Html {
  if (nodes.length === 0) return html``;
  const hasPods = nodes.some(({ pods }) => pods !== undefined);
  const row = ({ node, state, message, pods }: NodeRow) =>
    html`<tr><td data-title="Node">${node}</td><td data-title="State">${state}</td>${hasPods ? [html`<td data-title="Pods evacuated">${pods === undefined ? '' : `${pods.evacuated} of ${pods.all}`}</td>`] : []}<td data-title="Message">${message}</td></tr>`;
  return html`<section>
<h2>Nodes</h2>
<table><thead><tr><th>Node</th><th>State</th>${hasPods ? [html`<th>Pods evacuated</th>`] : []}<th>Message</th></tr></thead><tbody>${nodes.map(row)}</tbody></table>
${moreNote(moreNodes, 'more nodes are left out')}
</section>`;
}

function actionsSection({ actions, moreActions }: Report, zone: string): Html {
  if (actions.length === 0) return html``;
  const row = ({ atMs, who, what, source }: Action) =>
    html`<tr><td data-title="Time" class="time">${timeText(atMs, zone)}</td><td data-title="Who">${who ?? 'unknown'}</td><td data-title="What">${what}</td><td data-title="Source">${source}</td></tr>`;
  return html`<section>
<h2>Who did what</h2>
<p class="axis">${zone}. Identities in Temporal are what its clients say of themselves; the user that requested a change is what the apiserver recorded.</p>
${moreNote(moreActions, 'earlier lines are left out')}
<table><thead><tr><th>Time</th><th>Who</th><th>What</th><th>Source</th></tr></thead><tbody>${actions.map(row)}</tbody></table>
</section>`;
}

function unknownSection(unknown: readonly string[]): Html {
  if (unknown.length === 0) return html``;
  return html`<section>
<h2>What this page does not know</h2>
<ul class="unknown">${unknown.map((text) => html`<li>${text}</li>`)}</ul>
</section>`;
}
