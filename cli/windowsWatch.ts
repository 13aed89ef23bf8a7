import type { WindowSummary } from '../domain/windowSummary.ts';
import { rest } from '../kube/abort.ts';
import type { Kube } from '../kube/client.ts';
import { Informer } from '../kube/informer.ts';
import { silentLog as log } from '../kube/log.ts';
import { type Resource, resources } from '../kube/resources.ts';
import { drawnOn, wrapped } from './block.ts';
import { ContactLines, contactLost } from './contact.ts';
import { permittedToLook } from './maintenances.ts';
import { createScreen, type Screen } from './screen.ts';
import { noWindow, summed, windowTitleOf } from './windowObjects.ts';
import { windowBlock, windowsBlock } from './windowsBlock.ts';
import { type Look, lookAt, windowKey, windowLine } from './windowsView.ts';

/** Milliseconds: not more often than somebody can read, and at least as often as clocks move. */
const shortestRest = 200;
const longestRest = 1_000;

/** Until it is interrupted, or the window of this name is gone. */
export async function followWindows(kube: Kube, name: string | undefined): Promise<void> {
  const stop = new AbortController();
  const { signal } = stop;
  const kinds: Resource[] = [resources.maintenanceWindows, resources.nodeMaintenances];
  // Informers try for ever: whether they may read at all is asked by lists of nothing.
  const nothing = { fieldSelector: 'metadata.name=-' };
  await permittedToLook(Promise.all(kinds.map((kind) => kube.list(kind, nothing))));
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
    if (name !== undefined && windows.get(name) === undefined) throw noWindow(name);
    for (;;) {
      changed = Promise.withResolvers();
      const now = kube.now();
      const found = summed({ windows: windows.list(), maintenances: maintenances.list(), name }, now);
      view.show(found, lookAt(now), windows.lostBecause ?? maintenances.lostBecause);
      if (name !== undefined && found.length === 0) return;
      await rest(shortestRest, signal);
      await Promise.race([changed.promise, rest(longestRest, signal)]);
    }
  } finally {
    stop.abort();
    view.end();
  }
}

/** Drawn anew in a terminal; elsewhere a line for what changes. */
class WindowsView {
  readonly #screen: Screen;
  readonly #name: string | undefined;
  /** By window: what was said of it last. */
  readonly #said = new Map<string, string>();
  readonly #contact: ContactLines;

  constructor(screen: Screen, name: string | undefined) {
    this.#screen = screen;
    this.#name = name;
    this.#contact = new ContactLines((text) => screen.say(text));
  }

  show(found: readonly WindowSummary[], look: Look, lostBecause: string | undefined): void {
    const isGone = this.#name !== undefined && found.length === 0;
    if (isGone) this.#screen.say(`${windowTitleOf(this.#name)} is gone`);
    else if (this.#screen.isLive) this.#draw(found, look, lostBecause);
    else this.#tell(found, look, lostBecause);
  }

  /** What was shown last stays. */
  end(): void {
    this.#screen.done();
  }

  #draw(found: readonly WindowSummary[], look: Look, lostBecause: string | undefined): void {
    const screen = this.#screen;
    const { colors } = screen;
    const lost =
      lostBecause === undefined ? [] : wrapped(contactLost(lostBecause), screen.width(), colors.red);
    const paper = { width: () => screen.width(), height: () => screen.height() - lost.length, colors };
    const [first] = found;
    const lines =
      this.#name === undefined || first === undefined
        ? windowsBlock(found, look, paper)
        : windowBlock(first, look, paper);
    screen.draw(drawnOn(screen, [...lost, ...lines]));
  }

  #tell(found: readonly WindowSummary[], look: Look, lostBecause: string | undefined): void {
    this.#contact.tell(lostBecause);
    for (const summary of found) {
      const key = windowKey(summary);
      if (this.#said.get(summary.name) === key) continue;
      this.#said.set(summary.name, key);
      this.#screen.say(windowLine(summary, look));
    }
  }
}
