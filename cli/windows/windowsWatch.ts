import { printError } from '../output.ts';
import type { WindowSummary } from '../../domain/windows/summary.ts';
import { sleep } from '../../kube/abort.ts';
import type { Kube } from '../../kube/client.ts';
import { Informer } from '../../kube/informer.ts';
import { silentLog as log } from '../../kube/log.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import { permittedToRead } from '../maintenance/maintenances.ts';
import { fitToScreen, wrapped } from '../terminal/block.ts';
import { connectionLostMessage, ConnectionStatus } from '../terminal/connectionStatus.ts';
import { createScreen, type Screen } from '../terminal/screen.ts';
import { windowNotFound, windowSummaries, windowTitleOf } from './windowObjects.ts';
import { windowBlock, windowsBlock } from './windowsBlock.ts';
import { type Viewer, viewerAt, windowKey, windowLine } from './windowsView.ts';

/** Limits redraws to what a user can read. */
const minRefreshMs = 200;
/** Refreshes at least this often, because the output contains ages. */
const maxRefreshMs = 1_000;

/** Shows windows until the process is interrupted, or the named window is deleted. */
export async function followWindows(kube: Kube, name: string | undefined): Promise<void> {
  const stop = new AbortController();
  const { signal } = stop;
  const kinds: Resource[] = [resources.maintenanceWindows, resources.nodeMaintenances];
  // Informers retry forever. These empty lists check the permissions first.
  const emptyList = { fieldSelector: 'metadata.name=-' };
  await permittedToRead(Promise.all(kinds.map((kind) => kube.list(kind, emptyList))));
  const windows = new Informer({ kube, resource: resources.maintenanceWindows, log });
  const maintenances = new Informer({ kube, resource: resources.nodeMaintenances, log });
  let changed = Promise.withResolvers<void>();
  for (const informer of [windows, maintenances]) {
    informer.subscribe(() => changed.resolve());
    informer.start(signal);
  }
  const view = new WindowsView(createScreen(process.stdout), name);
  try {
    await Promise.all([windows.synced(signal), maintenances.synced(signal)]);
    if (name !== undefined && windows.get(name) === undefined) throw windowNotFound(name);
    for (;;) {
      changed = Promise.withResolvers();
      const now = kube.now();
      const input = { windows: windows.list(), maintenances: maintenances.list(), name };
      const summaries = windowSummaries(input, now);
      view.show(summaries, viewerAt(now), windows.lastError ?? maintenances.lastError);
      if (name !== undefined && summaries.length === 0) return;
      await sleep(minRefreshMs, signal);
      await Promise.race([changed.promise, sleep(maxRefreshMs, signal)]);
    }
  } finally {
    stop.abort();
    view.end();
  }
}

/** Redraws the windows in a terminal, or prints a line for each change. */
class WindowsView {
  readonly #screen: Screen;
  readonly #name: string | undefined;
  /** Last printed key of each window. */
  readonly #printed = new Map<string, string>();
  readonly #connection: ConnectionStatus;

  constructor(screen: Screen, name: string | undefined) {
    this.#screen = screen;
    this.#name = name;
    this.#connection = new ConnectionStatus((text) =>
      screen.isLive ? screen.print(text) : printError(text),
    );
  }

  show(summaries: readonly WindowSummary[], viewer: Viewer, lastError: string | undefined): void {
    const isDeleted = this.#name !== undefined && summaries.length === 0;
    if (isDeleted) this.#screen.print(`${windowTitleOf(this.#name)} deleted`);
    else if (this.#screen.isLive) this.#draw(summaries, viewer, lastError);
    else this.#printChanges(summaries, viewer, lastError);
  }

  /** Keeps the last output on the screen. */
  end(): void {
    this.#screen.done();
  }

  #draw(summaries: readonly WindowSummary[], viewer: Viewer, lastError: string | undefined): void {
    const screen = this.#screen;
    const { colors } = screen;
    const lost =
      lastError === undefined ? [] : wrapped(connectionLostMessage(lastError), screen.width(), colors.red);
    const viewport = { width: () => screen.width(), height: () => screen.height() - lost.length, colors };
    const [first] = summaries;
    const lines =
      this.#name === undefined || first === undefined
        ? windowsBlock(summaries, viewer, viewport)
        : windowBlock(first, viewer, viewport);
    screen.draw(fitToScreen(screen, [...lost, ...lines]));
  }

  #printChanges(summaries: readonly WindowSummary[], viewer: Viewer, lastError: string | undefined): void {
    this.#connection.report(lastError);
    for (const summary of summaries) {
      const key = windowKey(summary);
      if (this.#printed.get(summary.name) === key) continue;
      this.#printed.set(summary.name, key);
      this.#screen.print(windowLine(summary, viewer));
    }
  }
}
