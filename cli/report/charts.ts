import type {
  CustomSeriesRenderItemAPI,
  CustomSeriesRenderItemParams,
  CustomSeriesRenderItemReturn,
} from 'echarts';
import type { BarKind, Counts, Mark, Span, Timeline, TimelineRow } from '../../domain/report/report.ts';
import { renderSvg } from './svg.ts';
import { ticksOf } from './ticks.ts';

/** The width of a chart, and what depends on it. */
export interface ChartSize {
  readonly width: number;
  /** Width of the names of rows. */
  readonly names: number;
  /** Width of the numbers of an axis. */
  readonly counts: number;
  /** Highest number of times on the axis. */
  readonly ticks: number;
}

export const wide: ChartSize = { width: 1_000, names: 230, counts: 246, ticks: 10 };
export const narrow: ChartSize = { width: 350, names: 96, counts: 44, ticks: 4 };

const rowHeight = 26;
const barHeight = 17;
const padding = 16;
const momentHeight = 20;
/** The dates of long spans are on a second line. */
const dayMs = 86_400_000;
const axisHeightOf = ({ fromMs, toMs }: Span) => (toMs - fromMs > dayMs ? 42 : 28);
const font = { fontSize: 12, fontFamily: 'sans-serif' };

/** The CSS variable of the color of a kind. */
export function colorOf(kind: BarKind): string {
  return `var(--${kind.toLowerCase()})`;
}

type Item = ReturnType<typeof itemsOf>[number];

/** Draws the rows below each other on one time axis. */
export function timelineSvg(timeline: Timeline, size: ChartSize, timeZone: string): string {
  const { title, rows, moments } = timeline;
  const span = drawable(timeline.span);
  const top = moments.length > 0 ? momentHeight : 4;
  const axisHeight = axisHeightOf(span);
  const height = top + rows.length * rowHeight + axisHeight;
  const items = itemsOf(rows);
  const option = {
    grid: { left: size.names + padding, right: padding, top, bottom: axisHeight },
    xAxis: timeAxis(span, size, timeZone),
    yAxis: {
      type: 'category',
      inverse: true,
      data: rows.map(({ name }) => name),
      axisLine: { show: false },
      axisTick: { show: false },
      axisLabel: {
        ...font,
        interval: 0,
        color: 'var(--fg)',
        width: size.names,
        overflow: 'truncate',
        ellipsis: '…',
        align: 'left',
        margin: size.names + padding,
        // No template: braces are part of names.
        formatter: (name: string) => name,
      },
    },
    series: [
      {
        type: 'custom',
        silent: true,
        data: items.map(({ row, fromMs, toMs }) => [row, fromMs, toMs]),
        encode: { x: [1, 2], y: 0 },
        renderItem: (params: CustomSeriesRenderItemParams, api: CustomSeriesRenderItemAPI) =>
          drawItem(items[params.dataIndex], api, size.width),
      },
      {
        type: 'custom',
        silent: true,
        data: moments.map(({ atMs }) => [atMs, 0]),
        encode: { x: 0, y: 1 },
        renderItem: (params: CustomSeriesRenderItemParams, api: CustomSeriesRenderItemAPI) =>
          drawMoment(moments[params.dataIndex], api, { top, bottom: height - axisHeight, width: size.width }),
      },
    ],
  };
  return renderSvg(option, {
    width: size.width,
    height,
    label: `${title}: ${rows.map(({ name }) => name).join(', ')}`,
  });
}

/** A span without length has no scale. */
function drawable({ fromMs, toMs }: Span): Span {
  return { fromMs, toMs: Math.max(toMs, fromMs + 1_000) };
}

function itemsOf(rows: readonly TimelineRow[]) {
  return rows.flatMap(({ bars, marks }, row) => {
    const isAlone = bars.length + marks.length === 1;
    return [
      ...bars.map((bar) => ({ row, ...bar, isAlone })),
      ...marks.map(({ atMs }) => ({
        row,
        kind: undefined,
        label: undefined,
        fromMs: atMs,
        toMs: atMs,
        isAlone,
      })),
    ];
  });
}

const minBarWidth = 3;
/** Average width of a letter. */
const letterWidth = 6.6;

function drawItem(
  item: Item | undefined,
  api: CustomSeriesRenderItemAPI,
  chartWidth: number,
): CustomSeriesRenderItemReturn {
  if (item === undefined) return undefined;
  const [x = 0, y = 0] = api.coord([item.fromMs, item.row]);
  const [end = 0] = api.coord([item.toMs, item.row]);
  if (item.kind === undefined) return drawMark(x, y);
  const width = Math.max(minBarWidth, end - x);
  const { label = '' } = item;
  const fits = label.length * letterWidth + 10 <= width || width > 140;
  const isOutside = !fits && item.isAlone;
  const position = fits ? 'insideLeft' : x + width > chartWidth / 2 ? 'left' : 'right';
  return {
    type: 'rect',
    shape: { x, y: y - barHeight / 2, width, height: barHeight, r: 3 },
    style: { fill: colorOf(item.kind), stroke: 'var(--card)', lineWidth: 1 },
    textContent: {
      type: 'text',
      style: {
        ...font,
        text: fits || isOutside ? label : '',
        fill: fits ? 'var(--on-bar)' : 'var(--fg)',
        width: fits ? width - 10 : Math.max(x, chartWidth - x) / 2,
        overflow: 'truncate',
        ellipsis: '…',
      },
    },
    textConfig: { position, distance: 5 },
  };
}

function drawMark(x: number, y: number): CustomSeriesRenderItemReturn {
  const points = [
    [x, y - 6],
    [x + 5, y],
    [x, y + 6],
    [x - 5, y],
  ];
  return {
    type: 'polygon',
    shape: { points },
    style: { fill: 'var(--mark)', stroke: 'var(--card)', lineWidth: 1 },
  };
}

interface Frame {
  readonly top: number;
  readonly bottom: number;
  readonly width: number;
}

function drawMoment(
  moment: Mark | undefined,
  api: CustomSeriesRenderItemAPI,
  { top, bottom, width }: Frame,
): CustomSeriesRenderItemReturn {
  if (moment === undefined) return undefined;
  const [x = 0] = api.coord([moment.atMs, 0]);
  const isRight = x > width / 2;
  return {
    type: 'group',
    children: [
      {
        type: 'line',
        shape: { x1: x, y1: top - 6, x2: x, y2: bottom },
        style: { stroke: 'var(--fg)', lineWidth: 1, lineDash: [4, 3] },
      },
      {
        type: 'text',
        style: {
          ...font,
          text: moment.label,
          x: isRight ? x - 5 : x + 5,
          y: top - 12,
          align: isRight ? 'right' : 'left',
          verticalAlign: 'middle',
          fill: 'var(--fg)',
        },
      },
    ],
  };
}

function timeAxis(span: Span, size: ChartSize, timeZone: string) {
  const { times, format } = ticksOf(span, size.ticks, timeZone);
  return {
    type: 'value',
    min: span.fromMs,
    max: span.toMs,
    axisLine: { show: true, lineStyle: { color: 'var(--grid)' } },
    axisTick: { customValues: times, lineStyle: { color: 'var(--grid)' } },
    axisLabel: {
      ...font,
      customValues: times,
      color: 'var(--muted)',
      hideOverlap: true,
      formatter: (atMs: number) => format(atMs),
    },
    splitLine: { lineStyle: { color: 'var(--grid)' } },
  };
}

const countsHeight = 220;

/** Draws counts as steps. */
export function countsSvg(
  { title, span: { fromMs, toMs }, series, isStacked }: Counts,
  size: ChartSize,
  timeZone: string,
): string {
  const span = drawable({ fromMs, toMs });
  const axisHeight = axisHeightOf(span);
  const option = {
    grid: { left: size.counts, right: padding, top: 12, bottom: axisHeight },
    xAxis: timeAxis(span, size, timeZone),
    yAxis: {
      type: 'value',
      min: 0,
      minInterval: 1,
      splitNumber: 4,
      axisLine: { show: false },
      axisTick: { show: false },
      axisLabel: { ...font, color: 'var(--muted)' },
      splitLine: { lineStyle: { color: 'var(--grid)' } },
    },
    series: series.map(({ kind, samples }) => {
      const inSpan = samples.filter(({ atMs }) => atMs <= span.toMs);
      const last = inSpan.at(-1)?.count ?? 0;
      const points = inSpan.map(({ atMs, count }) => [Math.max(atMs, span.fromMs), count]);
      return {
        type: 'line',
        ...(isStacked && { stack: 'all' }),
        step: 'end',
        silent: true,
        symbol: 'none',
        data: [...points, [span.toMs, last]],
        // Lines of empty series would lie on those of others.
        lineStyle: { color: lineColorOf(kind), width: isStacked ? 0 : 2 },
        areaStyle: { color: colorOf(kind), opacity: isStacked ? 1 : 0.35 },
      };
    }),
  };
  const label = `${title}: ${series.map(({ name }) => name).join(', ')}`;
  return renderSvg(option, { width: size.width, height: countsHeight, label });
}

/** The CSS variable of the color of a line, which is stronger than that of a bar. */
export function lineColorOf(kind: BarKind): string {
  return `var(--${kind.toLowerCase()}-line)`;
}
