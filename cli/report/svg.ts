import { BarChart, CustomChart, LineChart } from 'echarts/charts';
import { GridComponent } from 'echarts/components';
import { type EChartsCoreOption, init, use } from 'echarts/core';
import { SVGRenderer } from 'echarts/renderers';
import { hashed } from '../../domain/common/text.ts';

use([BarChart, CustomChart, LineChart, GridComponent, SVGRenderer]);

export interface Picture {
  readonly width: number;
  readonly height: number;
  /** Describes the picture to readers who do not see it. */
  readonly label: string;
}

/**
 * Draws a chart as SVG without a browser. Colors are CSS variables, so that the page that contains it chooses them, for light and dark; it also
 * sets the font. The same option gives the same bytes.
 */
export function renderSvg(option: EChartsCoreOption, { width, height, label }: Picture): string {
  const chart = init(null, null, { renderer: 'svg', ssr: true, width, height });
  try {
    chart.setOption({ animation: false, ...option });
    return plainSvg(chart.renderToSVGString(), { width, height, label });
  } finally {
    chart.dispose();
  }
}

/** Removes what only a script of the library could use, and styles that a Content-Security-Policy forbids. */
function plainSvg(svg: string, { width, label }: Picture): string {
  // Ids of the library contain the number of the chart in this process. A page has no two charts of one width with the same description.
  const id = `c${hashed(`${width} ${label}`)}`;
  return svg
    .replace(/<style >[\s\S]*?<\/style>\n?/g, '')
    .replace(
      / (?:class|style|pointer-events|xml:space|ecmeta_\w+|baseProfile|version|xmlns:xlink)="[^"]*"/g,
      '',
    )
    .replace(/(id="|url\(#)zr\d+/g, `$1${id}`)
    .replace(/<svg width="(\d+)" height="(\d+)"/, `<svg role="img" aria-label="${escapeAttribute(label)}"`)
    .trim();
}

function escapeAttribute(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
