import { type MaintenanceSummary, summaryOf } from '../domain/maintenanceSummary.ts';
import { contactLost, ContactLines } from './contact.ts';
import { titleOf } from './maintenances.ts';
import { Paces } from './pace.ts';
import { type Screen, wrap } from './screen.ts';
import { indented, leftText, statusText, type StatusText } from './statusView.ts';
import type { Watching } from './watching.ts';

/** Painted after it was cut, because color codes have no width. */
interface Line {
  readonly text: string;
  readonly paint?: ((text: string) => string) | undefined;
}

/** Columns for remarks, however narrow the terminal is. */
const narrowest = 20;

/** What is drawn anew, and said as it happens; for `status --watch` and for `--wait`. */
export class LiveStatus {
  readonly #screen: Screen;
  readonly #watching: Watching;
  readonly #paces = new Paces();
  /** By maintenance: what was said of it last. */
  readonly #said = new Map<string, string>();
  readonly #contact: ContactLines;

  constructor(screen: Screen, watching: Watching) {
    this.#screen = screen;
    this.#contact = new ContactLines((text) => screen.say(text));
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
    const parts = summaries.map((one) => this.#partsOf(statusText(one, now, { width: this.#tableWidth() })));
    const whole = parts.flatMap(({ head, rows, remarks }) => [...head, ...rows, ...remarks, { text: '' }]);
    const isCut = lost.length + whole.length - 1 > this.#room();
    const lines = isCut
      ? summaries.flatMap((one) => [...this.#pressingLines(one, now), { text: '' }])
      : whole;
    this.#screen.draw(this.#fitted([...lost, ...lines].slice(0, -1)));
  }

  #tableWidth(): number {
    return this.#screen.width() - indented('').length;
  }

  /** Lines of a block that can be drawn anew. */
  #room(): number {
    return Math.max(2, this.#screen.height() - 1);
  }

  /** What asks for somebody comes first, because the rest is cut. */
  #pressingLines(summary: MaintenanceSummary, now: number): Line[] {
    const text = statusText(summary, now, { width: this.#tableWidth(), isCut: true });
    const { head, rows, remarks } = this.#partsOf(text);
    const most = Math.max(2, Math.floor(this.#room() / 2));
    const rest = remarks.length - most;
    const shownRemarks =
      rest <= 0
        ? remarks
        : [...remarks.slice(0, most), { text: indented(`… ${rest} more lines of remarks`) }];
    return [...head, ...shownRemarks, ...rows];
  }

  /** Remarks go on in a line below where they are long. */
  #partsOf({ headline, progress, rows, remarks }: StatusText): Record<'head' | 'rows' | 'remarks', Line[]> {
    const { bold, dim, red, yellow } = this.#screen.colors;
    const room = Math.max(narrowest, this.#screen.width() - 2 * indented('').length);
    const wrapped = remarks.flatMap(({ about, text }) => {
      const paint = about === 'Blocked' ? red : about === 'Gate' ? yellow : undefined;
      const [first = '', ...more] = wrap(text, room);
      return [first, ...more.map(indented)].map((part) => ({ text: indented(part), paint }));
    });
    return {
      head: [{ text: headline, paint: bold }, ...progress.map((text) => ({ text: indented(text) }))],
      rows: rows.map((text, i) => ({ text: indented(text), paint: i === 0 ? dim : this.#paintBar })),
      remarks: wrapped,
    };
  }

  readonly #paintBar = (row: string): string => {
    const { green, dim } = this.#screen.colors;
    return row.replace(/█+/, (bar) => green(bar)).replace(/░+/, (bar) => dim(bar));
  };

  /** Cut at the right and at the bottom: a block that is larger than the terminal could not be drawn anew. */
  #fitted(lines: readonly Line[]): string[] {
    const width = this.#screen.width();
    const room = this.#room();
    const drawn = lines.map(({ text, paint = (same: string) => same }) =>
      paint(text.length <= width ? text : `${text.slice(0, width - 1)}…`),
    );
    if (drawn.length <= room) return drawn;
    const rest = drawn.length - room + 1;
    return [...drawn.slice(0, room - 1), `… ${rest} more lines: make the terminal higher`];
  }

  /** A line for what changes, but not for every pod. */
  #tell(summaries: readonly MaintenanceSummary[], now: number, lostBecause: string | undefined): void {
    this.#contact.tell(lostBecause);
    for (const summary of summaries) {
      const { headline, progress } = statusText(summary, now);
      this.#sayNews(summary.name, keyOf(summary), [headline, ...progress].join('; '));
      for (const seen of summary.nodes) {
        const obstacles = seen.obstacles?.join('; ') ?? '';
        const state = obstacles || leftText(seen) || 'takes pods again';
        this.#sayNews(
          `${summary.name}/${seen.node}`,
          obstacles,
          `${titleOf(summary.name)}: node ${seen.node}: ${state}`,
        );
      }
    }
  }

  #sayNews(about: string, key: string, text: string): void {
    if ((this.#said.get(about) ?? '') === key) return;
    this.#said.set(about, key);
    this.#screen.say(text);
  }
}

/** What makes a line worth while: not the number of pods, but every tenth of them. */
function keyOf({ nodes, podsLeft = 0, podsEvacuated, podsBlocked, ...rest }: MaintenanceSummary): string {
  const { stage, tier, paused, drained, givenBack } = rest;
  const tenth = Math.floor((10 * podsEvacuated) / Math.max(1, podsLeft + podsEvacuated));
  return JSON.stringify([stage, tier?.entry, paused, drained, givenBack, podsBlocked, tenth, nodes.length]);
}
