import { type MaintenanceSummary, summaryOf } from '../domain/maintenanceSummary.ts';
import { atMost, drawnOn, indented, type Line, roomIn, wrapped } from './block.ts';
import { contactLost, ContactLines } from './contact.ts';
import { titleOf } from './maintenances.ts';
import { Paces } from './pace.ts';
import type { Screen } from './screen.ts';
import { leftText, statusText, type StatusText } from './statusView.ts';
import type { Watching } from './watching.ts';

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
    const isCut = lost.length + whole.length - 1 > roomIn(this.#screen);
    const lines = isCut
      ? summaries.flatMap((one) => [...this.#pressingLines(one, now), { text: '' }])
      : whole;
    this.#screen.draw(drawnOn(this.#screen, [...lost, ...lines].slice(0, -1)));
  }

  #tableWidth(): number {
    return this.#screen.width() - indented('').length;
  }

  /** What asks for somebody comes first, because the rest is cut. */
  #pressingLines(summary: MaintenanceSummary, now: number): Line[] {
    const text = statusText(summary, now, { width: this.#tableWidth(), isCut: true });
    const { head, rows, remarks } = this.#partsOf(text);
    const most = Math.max(2, Math.floor(roomIn(this.#screen) / 2));
    return [...head, ...atMost(most, remarks, 'lines of remarks'), ...rows];
  }

  /** Remarks go on in a line below where they are long. */
  #partsOf({ headline, progress, rows, remarks }: StatusText): Record<'head' | 'rows' | 'remarks', Line[]> {
    const { bold, dim, red, yellow } = this.#screen.colors;
    const remarkLines = remarks.flatMap(({ about, text: remark }) => {
      const paint = about === 'Blocked' ? red : about === 'Gate' ? yellow : undefined;
      return wrapped(remark, this.#tableWidth(), paint).map(({ text }) => ({ text: indented(text), paint }));
    });
    return {
      head: [{ text: headline, paint: bold }, ...progress.map((text) => ({ text: indented(text) }))],
      rows: rows.map((text, i) => ({ text: indented(text), paint: i === 0 ? dim : this.#paintBar })),
      remarks: remarkLines,
    };
  }

  readonly #paintBar = (row: string): string => {
    const { green, dim } = this.#screen.colors;
    return row.replace(/█+/, (bar) => green(bar)).replace(/░+/, (bar) => dim(bar));
  };

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
