import { LegendComponent, TitleComponent } from 'echarts/components';
import { use } from 'echarts/core';
import type {
  CustomSeriesRenderItemAPI,
  CustomSeriesRenderItemParams,
  CustomSeriesRenderItemReturn,
} from 'echarts';
import { darkColors, lightColors } from '../cli/report/style.ts';
import { renderSvg } from '../cli/report/svg.ts';

use([LegendComponent, TitleComponent]);

/** Bars of several series in categories, or lines over numbers. */
export interface Panel {
  readonly title: string;
  /** Share of the width, if not 1. */
  readonly share?: number;
  readonly kind: 'Bars' | 'Lines';
  /** Categories of bars; numbers of lines. */
  readonly x: readonly string[];
  /** Title of the axis of lines. */
  readonly xTitle?: string;
  readonly isLogarithmic?: boolean;
  /** A bound, drawn as a dashed line. */
  readonly bound?: number;
  readonly series: readonly PanelSeries[];
}

export interface PanelSeries {
  readonly name: string;
  /** Values by the index of `x`; undefined if it was not measured. */
  readonly values: readonly (Measured | undefined)[];
}

export interface Measured {
  readonly value: number;
  /** The range of several runs. */
  readonly min?: number;
  readonly max?: number;
}

const width = 960;
const height = 330;
const margin = 20;
const gap = 48;
const top = 76;
const bottom = 62;
/** Width of the numbers of an axis. */
const labels = 34;
const font = { fontSize: 12, fontFamily: 'sans-serif' };
const colors = ['var(--series-1)', 'var(--series-2)', 'var(--series-3)', 'var(--series-4)'];
const seriesLight = '--series-1:#2672c4;--series-2:#d08a1b;--series-3:#8a94a3;--series-4:#1a8a62;';
const seriesDark = '--series-1:#5b9fe6;--series-2:#e0a544;--series-3:#7f8a99;--series-4:#4dbb93;';

/** Draws panels beside each other as an SVG file with a legend, for light and dark. The same panels give the same bytes. */
export function plotSvg(title: string, panels: readonly Panel[]): string {
  const names = [...new Set(panels.flatMap(({ series }) => series.map(({ name }) => name)))];
  const shares = panels.map(({ share = 1 }) => share);
  const unit = (width - 2 * margin - gap * (panels.length - 1)) / sum(shares);
  const places = shares.map((_, index) => margin + gap * index + unit * sum(shares.slice(0, index)));
  const axisWidthOf = (index: number) => unit * (shares[index] ?? 1) - labels;
  const option = {
    title: panels.map((panel, index) => ({
      text: panel.title,
      left: places[index],
      top: 40,
      padding: 0,
      textStyle: { ...font, fontWeight: 'normal', color: 'var(--fg)' },
    })),
    legend:
      names.length < 2
        ? undefined
        : {
            top: 10,
            left: margin,
            padding: 0,
            itemGap: 26,
            itemWidth: 12,
            itemHeight: 12,
            icon: 'rect',
            textStyle: { ...font, color: 'var(--fg)' },
            data: names.map((name) => ({ name })),
          },
    color: colors,
    grid: panels.map((_, index) => ({
      left: (places[index] ?? 0) + labels,
      width: axisWidthOf(index),
      top,
      bottom,
    })),
    xAxis: panels.map((panel, index) => xAxisOf(panel, index, axisWidthOf(index))),
    yAxis: panels.map((panel, index) => yAxisOf(panel, index)),
    series: panels.flatMap((panel, index) => seriesOf(panel, index, names)),
  };
  return standalone(renderSvg(option, { width, height, label: title }));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}

function xAxisOf({ kind, x, xTitle }: Panel, gridIndex: number, axisWidth: number) {
  const label = { ...font, color: 'var(--muted)', interval: 0 };
  const common = { gridIndex, axisLine: { lineStyle: { color: 'var(--grid)' } }, axisTick: { show: false } };
  if (kind === 'Bars')
    return {
      ...common,
      type: 'category',
      data: [...x],
      axisLabel: { ...label, width: axisWidth / x.length - 8, overflow: 'break' },
    };
  return {
    ...common,
    type: 'value',
    min: 0,
    name: xTitle,
    nameLocation: 'middle',
    nameGap: 26,
    nameTextStyle: { ...font, color: 'var(--muted)' },
    splitNumber: 4,
    axisLabel: { ...label, formatter: (value: number) => value.toLocaleString('en') },
    splitLine: { lineStyle: { color: 'var(--grid)' } },
  };
}

function yAxisOf({ isLogarithmic = false, series }: Panel, gridIndex: number) {
  const highest = Math.max(
    0,
    ...series.flatMap(({ values }) => values.map((one) => one?.max ?? one?.value ?? 0)),
  );
  return {
    gridIndex,
    type: isLogarithmic ? 'log' : 'value',
    min: isLogarithmic ? 1 : 0,
    // Room for the numbers above the bars.
    max: isLogarithmic ? undefined : ({ max }: { max: number }) => roundUp(Math.max(max, highest) * 1.1),
    splitNumber: 4,
    axisLine: { show: false },
    axisTick: { show: false },
    axisLabel: { ...font, color: 'var(--muted)', formatter: (value: number) => value.toLocaleString('en') },
    splitLine: { lineStyle: { color: 'var(--grid)' } },
  };
}

/** Returns the next of 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6 and 8 times a power of ten. */
function roundUp(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((one) => one * power >= value) ?? 10;
  return Number((step * power).toPrecision(6));
}

function seriesOf(panel: Panel, index: number, names: readonly string[]) {
  const place = { xAxisIndex: index, yAxisIndex: index, silent: true };
  const measured = panel.series.map(({ name, values }, position) => {
    const color = colors[names.indexOf(name)] ?? colors[0] ?? '';
    if (panel.kind === 'Bars') return barsOf(panel, values, { name, color, position, place });
    const points = values.flatMap((one, at) => (one === undefined ? [] : [[Number(panel.x[at]), one.value]]));
    return {
      ...place,
      type: 'line',
      name,
      symbol: 'circle',
      symbolSize: 6,
      data: points,
      lineStyle: { color, width: 2 },
      itemStyle: { color },
      label: {
        ...font,
        show: true,
        position: 'top',
        color: 'var(--fg)',
        formatter: ({ value }: { value: number[] }) => numberText(value[1] ?? 0),
      },
    };
  });
  return panel.bound === undefined ? measured : [...measured, boundOf(panel.bound, place)];
}

interface Look {
  readonly name: string;
  readonly color: string;
  readonly position: number;
  readonly place: object;
}

function barsOf(panel: Panel, values: PanelSeries['values'], { name, color, position, place }: Look) {
  const data = values.flatMap((one, at) => (one === undefined ? [] : [{ at, ...one }]));
  return {
    ...place,
    type: 'custom',
    name,
    itemStyle: { color },
    encode: { x: 0, y: [1, 2, 3] },
    data: data.map(({ at, value, min = value, max = value }) => [at, value, min, max]),
    renderItem: (params: CustomSeriesRenderItemParams, api: CustomSeriesRenderItemAPI) =>
      drawBar(data[params.dataIndex], api, {
        color,
        position,
        of: panel.series.length,
        isLogarithmic: panel.isLogarithmic === true,
      }),
  };
}

interface BarPlace {
  readonly color: string;
  readonly position: number;
  /** Number of bars in a category. */
  readonly of: number;
  readonly isLogarithmic: boolean;
}

/** Draws a bar with the range of its runs as a whisker, and its number above. */
function drawBar(
  bar: ({ at: number } & Measured) | undefined,
  api: CustomSeriesRenderItemAPI,
  { color, position, of, isLogarithmic }: BarPlace,
): CustomSeriesRenderItemReturn {
  if (bar === undefined) return undefined;
  const { at, value, min = value, max = value } = bar;
  const size = api.size?.([1, 0]);
  const band = Array.isArray(size) ? (size[0] ?? 0) : (size ?? 0);
  const barWidth = Math.min(54, (band * 0.8) / of);
  const heightOf = (number: number) => api.coord([at, number])[1] ?? 0;
  const center = (api.coord([at, value])[0] ?? 0) + (position - (of - 1) / 2) * barWidth;
  const zero = heightOf(isLogarithmic ? 1 : 0);
  const [low, high] = [heightOf(min), heightOf(max)];
  const line = (x1: number, y1: number, x2: number, y2: number) =>
    ({ type: 'line', shape: { x1, y1, x2, y2 }, style: { stroke: 'var(--fg)', lineWidth: 1 } }) as const;
  return {
    type: 'group',
    children: [
      {
        type: 'rect',
        shape: {
          x: center - barWidth / 2 + 1,
          y: heightOf(value),
          width: barWidth - 2,
          height: Math.max(1, zero - heightOf(value)),
        },
        style: { fill: color },
      },
      ...(max > min
        ? [
            line(center, low, center, high),
            line(center - 4, low, center + 4, low),
            line(center - 4, high, center + 4, high),
          ]
        : []),
      {
        type: 'text',
        style: {
          ...font,
          text: numberText(value),
          x: center,
          y: high - 4,
          align: 'center',
          verticalAlign: 'bottom',
          fill: 'var(--fg)',
        },
      },
    ],
  };
}

function boundOf(bound: number, place: object) {
  return {
    ...place,
    type: 'custom',
    encode: { x: 0, y: 1 },
    data: [[0, bound]],
    renderItem: (
      params: CustomSeriesRenderItemParams,
      api: CustomSeriesRenderItemAPI,
    ): CustomSeriesRenderItemReturn => {
      const { x, width: length } = params.coordSys as unknown as { x: number; width: number };
      const y = api.coord([0, bound])[1] ?? 0;
      return {
        type: 'line',
        shape: { x1: x, y1: y, x2: x + length, y2: y },
        style: { stroke: 'var(--fg)', lineWidth: 1, lineDash: [5, 4] },
      };
    },
  };
}

/** Three digits are enough to compare. */
function numberText(value: number): string {
  return Number(value.toPrecision(3)).toLocaleString('en');
}

/** Adds what a page would give the chart: its colors, its font and a background. */
function standalone(svg: string): string {
  const style = [
    `:root{${lightColors}${seriesLight}}`,
    `@media (prefers-color-scheme:dark){:root{${darkColors}${seriesDark}}}`,
    'text{font:12px system-ui,sans-serif}',
  ]
    .join('')
    .replaceAll('\n', '');
  const end = svg.indexOf('>') + 1;
  const open = svg.slice(0, end).replace('<svg ', `<svg width="${width}" height="${height}" `);
  return `${open}\n<style>${style}</style>\n<rect width="${width}" height="${height}" rx="8" fill="var(--card)"></rect>${svg.slice(end)}\n`;
}
