import { type MaintenanceSummary, summaryOf } from '../../domain/maintenance/summary.ts';
import { limitLines, fitToScreen, indented, type Line, maxLines, wrapped } from '../terminal/block.ts';
import { connectionLostMessage, ConnectionStatus } from '../terminal/connectionStatus.ts';
import { titleOf } from './maintenances.ts';
import { DrainRates } from './drainRate.ts';
import { escapeForTerminal, printError } from '../output.ts';
import type { Screen } from '../terminal/screen.ts';
import { unchangedText, statusText, type StatusText } from './statusView.ts';
import type { Watching } from './watching.ts';

const maxStateLength = 1_000;

/** Redraws the status in a terminal, or prints its changes; for `status --watch` and `--wait`. */
export class LiveStatus {
  readonly #screen: Screen;
  readonly #watching: Watching;
  readonly #rates = new DrainRates();
  /** Last printed key of each maintenance and node. */
  readonly #printed = new Map<string, string>();
  readonly #connection: ConnectionStatus;

  constructor(screen: Screen, watching: Watching) {
    this.#screen = screen;
    this.#connection = new ConnectionStatus((text) =>
      screen.isLive ? screen.print(text) : printError(text),
    );
    this.#watching = watching;
  }

  /** Shows the current status of the maintenances, and returns it. */
  show(): MaintenanceSummary[] {
    const { lastError } = this.#watching;
    const inputs = this.#watching.maintenances().map((one) => this.#watching.summaryInputOf(one));
    const now = inputs[0]?.now.getTime() ?? Date.now();
    const summaries = inputs.map((input) => {
      const { name } = input.maintenance.metadata;
      return summaryOf({ ...input, drainRate: this.#rates.rateOf(name) });
    });
    for (const { name, podsEvacuated } of summaries) this.#rates.record(name, podsEvacuated, now);
    if (this.#screen.isLive) this.#draw(summaries, now, lastError);
    else this.#printChanges(summaries, now, lastError);
    return summaries;
  }

  /** Keeps the last output on the screen. */
  end(): void {
    this.#screen.done();
  }

  #draw(summaries: readonly MaintenanceSummary[], now: number, lastError: string | undefined): void {
    const { red } = this.#screen.colors;
    const lost: Line[] =
      lastError === undefined ? [] : [{ text: connectionLostMessage(lastError), paint: red }];
    const parts = summaries.map((one) => this.#partsOf(statusText(one, now, { width: this.#tableWidth() })));
    const whole = parts.flatMap(({ head, rows, remarks }) => [...head, ...rows, ...remarks, { text: '' }]);
    const isTruncated = lost.length + whole.length - 1 > maxLines(this.#screen);
    const lines = isTruncated
      ? summaries.flatMap((one) => [...this.#truncatedLines(one, now), { text: '' }])
      : whole;
    this.#screen.draw(fitToScreen(this.#screen, [...lost, ...lines].slice(0, -1)));
  }

  #tableWidth(): number {
    return this.#screen.width() - indented('').length;
  }

  /** Lists what requires action first because the rest is truncated. */
  #truncatedLines(summary: MaintenanceSummary, now: number): Line[] {
    const text = statusText(summary, now, { width: this.#tableWidth(), isTruncated: true });
    const { head, rows, remarks } = this.#partsOf(text);
    const max = Math.max(2, Math.floor(maxLines(this.#screen) / 2));
    return [...head, ...limitLines(max, remarks, 'lines of remarks'), ...rows];
  }

  /** Wraps the progress and long remarks. */
  #partsOf({ headline, progress, rows, remarks }: StatusText): Record<'head' | 'rows' | 'remarks', Line[]> {
    const { bold, dim, red, yellow } = this.#screen.colors;
    const remarkLines = remarks.flatMap(({ about, text: remark }) => {
      const paint = about === 'Stalled' || about === 'Blocked' ? red : about === 'Gate' ? yellow : undefined;
      return wrapped(remark, this.#tableWidth(), paint).map(({ text }) => ({ text: indented(text), paint }));
    });
    return {
      head: [
        { text: headline, paint: bold },
        ...progress
          .flatMap((text) => wrapped(text, this.#tableWidth()))
          .map(({ text }) => ({ text: indented(text) })),
      ],
      rows: rows.map((text, i) => ({ text: indented(text), paint: i === 0 ? dim : this.#paintBar })),
      remarks: remarkLines,
    };
  }

  readonly #paintBar = (row: string): string => {
    const { green, dim } = this.#screen.colors;
    return row.replace(/█+/, (bar) => green(bar)).replace(/░+/, (bar) => dim(bar));
  };

  /** Prints a line for each change, but not for every pod. */
  #printChanges(summaries: readonly MaintenanceSummary[], now: number, lastError: string | undefined): void {
    this.#connection.report(lastError);
    for (const summary of summaries) {
      const { headline, progress } = statusText(summary, now);
      this.#printIfChanged(summary.name, keyOf(summary), [headline, ...progress].join('; '));
      for (const node of summary.nodes) {
        const outOfServiceReasons = node.outOfServiceReasons?.join('; ') ?? '';
        const state =
          escapeForTerminal(outOfServiceReasons, maxStateLength) || unchangedText(node) || 'in service';
        this.#printIfChanged(
          `${summary.name}/${node.node}`,
          outOfServiceReasons,
          `${titleOf(summary.name)}: node ${node.node}: ${state}`,
        );
      }
    }
  }

  #printIfChanged(about: string, key: string, text: string): void {
    if ((this.#printed.get(about) ?? '') === key) return;
    this.#printed.set(about, key);
    this.#screen.print(text);
  }
}

/** Returns the key whose changes are printed: of the evacuated pods only every tenth of the total. */
function keyOf({
  nodes,
  podsToEvacuate = 0,
  podsEvacuated,
  podsBlocked,
  ...rest
}: MaintenanceSummary): string {
  const { stage, tier, paused, notProgressing, drained, completed } = rest;
  const tenth = Math.floor((10 * podsEvacuated) / Math.max(1, podsToEvacuate + podsEvacuated));
  const { reason = '' } = notProgressing ?? {};
  const state = [stage, tier?.number, paused, reason, drained, completed];
  return JSON.stringify([...state, podsBlocked, tenth, nodes.length]);
}
