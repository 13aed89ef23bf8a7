import { type MaintenanceSummary, summaryOf } from '../domain/maintenanceSummary.ts';
import { titleOf } from './maintenances.ts';
import { shown } from './output.ts';
import { Paces } from './pace.ts';
import { type Screen, wrap } from './screen.ts';
import { indented, statusText, type StatusText } from './statusView.ts';
import type { Watching } from './watching.ts';

/** Painted after it was cut, because color codes have no width. */
interface Line {
  readonly text: string;
  readonly paint?: ((text: string) => string) | undefined;
}

/** Columns for remarks, however narrow the terminal is. */
const narrowest = 20;

function contactLost(because: string): string {
  return `Contact was lost, trying again: ${shown(because)}`;
}

/** What is drawn anew, and said as it happens; for `status --watch` and for `--wait`. */
export class LiveStatus {
  readonly #screen: Screen;
  readonly #watching: Watching;
  readonly #paces = new Paces();
  /** By maintenance: what was said of it last. */
  readonly #said = new Map<string, string>();

  constructor(screen: Screen, watching: Watching) {
    this.#screen = screen;
    this.#watching = watching;
  }

  /** Shows how the maintenances stand now, and returns it. */
  show(): MaintenanceSummary[] {
    const { lostBecause } = this.#watching;
    const sights = this.#watching.maintenances().map((one) => this.#watching.sightOf(one));
    const now = sights[0]?.now.getTime() ?? Date.now();
    const summaries = sights.map((sight) => {
      const { name } = sight.maintenance.metadata;
      return summaryOf({ ...sight, pace: this.#paces.paceOf(name) });
    });
    for (const { name, podsEvacuated } of summaries) this.#paces.see(name, podsEvacuated, now);
    if (this.#screen.isLive) this.#draw(summaries, now, lostBecause);
    else this.#tell(summaries, now, lostBecause);
    return summaries;
  }

  /** What was shown last stays. */
  end(): void {
    this.#screen.done();
  }

  #draw(summaries: readonly MaintenanceSummary[], now: number, lostBecause: string | undefined): void {
    const { red } = this.#screen.colors;
    const lost: Line[] = lostBecause === undefined ? [] : [{ text: contactLost(lostBecause), paint: red }];
    const lines = summaries.flatMap((one) => [...this.#linesOf(statusText(one, now)), { text: '' }]);
    this.#screen.draw(this.#fitted([...lost, ...lines].slice(0, -1)));
  }

  /** Remarks go on in a line below where they are long. */
  #linesOf({ headline, progress, rows, remarks }: StatusText): Line[] {
    const { bold, dim, red, yellow } = this.#screen.colors;
    const room = Math.max(narrowest, this.#screen.width() - 2 * indented('').length);
    const wrapped = remarks.flatMap(({ about, text }) => {
      const paint = about === 'Blocked' ? red : about === 'Gate' ? yellow : undefined;
      const [first = '', ...more] = wrap(text, room);
      return [first, ...more.map(indented)].map((part) => ({ text: indented(part), paint }));
    });
    return [
      { text: headline, paint: bold },
      ...progress.map((text) => ({ text: indented(text) })),
      ...rows.map((text, i) => ({ text: indented(text), paint: i === 0 ? dim : this.#paintBar })),
      ...wrapped,
    ];
  }

  readonly #paintBar = (row: string): string => {
    const { green, dim } = this.#screen.colors;
    return row.replace(/█+/, (bar) => green(bar)).replace(/░+/, (bar) => dim(bar));
  };

  /** Cut at the right and at the bottom: a block that is larger than the terminal could not be drawn anew. */
  #fitted(lines: readonly Line[]): string[] {
    const width = this.#screen.width();
    const room = Math.max(2, this.#screen.height() - 1);
    const drawn = lines.map(({ text, paint = (same: string) => same }) =>
      paint(text.length <= width ? text : `${text.slice(0, width - 1)}…`),
    );
    if (drawn.length <= room) return drawn;
    const rest = drawn.length - room + 1;
    return [...drawn.slice(0, room - 1), `… ${rest} more lines: make the terminal higher`];
  }

  /** A line for what changes, but not for every pod. */
  #tell(summaries: readonly MaintenanceSummary[], now: number, lostBecause: string | undefined): void {
    if (lostBecause === undefined) this.#said.delete('');
    else this.#sayNews('', contactLost(lostBecause));
    for (const summary of summaries) {
      const { headline, progress } = statusText(summary, now);
      this.#sayNews(summary.name, keyOf(summary), [headline, ...progress].join('; '));
      for (const { node, obstacles = [] } of summary.nodes)
        this.#sayNews(
          `${summary.name}/${node}`,
          obstacles.join('; '),
          `${titleOf(summary.name)}: node ${node}: ${obstacles.join('; ') || 'takes pods again'}`,
        );
    }
  }

  #sayNews(about: string, key: string, text = key): void {
    if ((this.#said.get(about) ?? '') === key) return;
    this.#said.set(about, key);
    this.#screen.say(text);
  }
}

/** What makes a line worth while: not the number of pods, but every tenth of them. */
function keyOf({ nodes, podsLeft, podsEvacuated, podsBlocked, ...rest }: MaintenanceSummary): string {
  const { stage, tier, paused, drained, givenBack } = rest;
  const tenth = Math.floor((10 * podsEvacuated) / Math.max(1, podsLeft + podsEvacuated));
  return JSON.stringify([stage, tier?.entry, paused, drained, givenBack, podsBlocked, tenth, nodes.length]);
}
