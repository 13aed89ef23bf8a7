import { type MaintenanceSummary, summaryOf } from '../domain/maintenanceSummary.ts';
import { titleOf } from './maintenances.ts';
import { Paces } from './pace.ts';
import { type Colors, type Screen, wrap } from './screen.ts';
import { indented, statusLines, statusText, type StatusText } from './statusView.ts';
import type { Watching } from './watching.ts';

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
    const lines = summaries.flatMap((one) => [...this.#linesOf(statusText(one, now)), '']);
    const lost = lostBecause === undefined ? [] : [`Contact was lost, trying again: ${lostBecause}`];
    const fitting = fitted([...lost, ...lines].slice(0, -1), {
      width: this.#screen.width(),
      height: this.#screen.height(),
    });
    this.#screen.draw(fitting.map((text) => painted(text, this.#screen.colors)));
  }

  /** Remarks go on in a line below where they are long. */
  #linesOf({ lines, remarks }: StatusText): string[] {
    const room = Math.max(20, this.#screen.width() - 2 * indented('').length);
    const wrapped = remarks.flatMap((remark) => {
      const [first = '', ...more] = wrap(remark, room);
      return [indented(first), ...more.map((text) => indented(indented(text)))];
    });
    return [...lines, ...wrapped];
  }

  /** A line for what changes, but not for every pod. */
  #tell(summaries: readonly MaintenanceSummary[], now: number, lostBecause: string | undefined): void {
    if (lostBecause !== undefined) this.#sayNews('', `Contact was lost, trying again: ${lostBecause}`);
    for (const summary of summaries) {
      const [headline = '', progress = ''] = statusLines(summary, now);
      this.#sayNews(summary.name, keyOf(summary), `${headline};${progress.slice(1)}`);
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

/** Cut at the right and at the bottom: a block that is larger than the terminal could not be drawn anew. */
function fitted(lines: readonly string[], { width, height }: { width: number; height: number }): string[] {
  const room = Math.max(2, height - 1);
  const cut = lines.map((text) => (text.length <= width ? text : `${text.slice(0, width - 1)}…`));
  if (cut.length <= room) return cut;
  return [
    ...cut.slice(0, room - 1),
    `… ${cut.length - room + 1} more lines: make the terminal higher, or name one maintenance`,
  ];
}

function painted(text: string, { bold, green, dim, red, yellow }: Colors): string {
  if (!text.startsWith(' ')) return bold(text);
  if (/ cannot leave: /.test(text)) return red(text);
  if (/: gate /.test(text)) return yellow(text);
  if (/^ {2}NODE /.test(text)) return dim(text);
  return text.replace(/█+/, (bar) => green(bar)).replace(/░+/, (bar) => dim(bar));
}
