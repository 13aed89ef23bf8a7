import { isatty } from 'node:tty';
import { createLogUpdate } from 'log-update';
import picocolors from 'picocolors';
import { escapeLines } from '../output.ts';
import { displayWidth, truncate } from './width.ts';

export { wrap } from './width.ts';

export type Colors = ReturnType<typeof picocolors.createColors>;

/**
 * Terminal output: persistent lines and, in a terminal, a block below them that is redrawn. There is no such block in a
 * pipe: print its changes as lines.
 */
export interface Screen {
  /** True if the block is available. */
  readonly isLive: boolean;
  readonly colors: Colors;
  /** Columns of the terminal. */
  width(): number;
  /** Lines of the terminal. */
  height(): number;
  print(text?: string): void;
  /** Replaces the block. Its lines must not be wider than the screen. */
  draw(lines: readonly string[]): void;
  /** Removes the block and shows the cursor. */
  clear(): void;
  /** Keeps the block on the screen and shows the cursor. */
  done(): void;
}

/** Columns if the stream is not a terminal. */
const defaultWidth = 110;
/** Lines of a terminal that does not report its size. */
const defaultHeight = 24;

/** Moves the cursor to the top and erases everything below it. Lines that were scrolled away stay. */
const clearVisibleScreen = '\u001B[H\u001B[J';

export function createScreen(stream: NodeJS.WriteStream & { fd: number }): Screen {
  const isTerminal = isatty(stream.fd);
  const colors = picocolors.createColors(isTerminal && picocolors.isColorSupported);
  const width = () => stream.columns || defaultWidth;
  const height = () => stream.rows || defaultHeight;
  if (!isTerminal || process.env['TERM'] === 'dumb') {
    const print = (text = '') => void stream.write(`${escapeLines(text)}\n`);
    const nothing = () => undefined;
    return { isLive: false, colors, width, height, print, draw: nothing, clear: nothing, done: nothing };
  }
  const block = createLogUpdate(stream);
  const sizeNow = () => `${width()} ${height()}`;
  let drawnAt = sizeNow();
  /** A terminal that is resized wraps the lines of the last block again, or shows lines that had left it: nobody knows where the block begins. */
  const clearIfResized = () => {
    if (drawnAt === sizeNow()) return;
    drawnAt = sizeNow();
    block.done();
    stream.write(clearVisibleScreen);
  };
  const clear = () => {
    block.clear();
    block.done();
  };
  return {
    isLive: true,
    colors,
    width,
    height,
    print: (text = '') => block.persist(escapeLines(text)),
    draw: (lines) => {
      clearIfResized();
      block(escapeLines(lines.join('\n')));
    },
    clear,
    done: () => block.done(),
  };
}

/** A piece of a line and its color. */
export type Piece = readonly [text: string, paint?: (text: string) => string];

/** Joins pieces to one line that fits the width. Truncates before coloring because color codes have no width. */
export function line(pieces: readonly Piece[], width: number): string {
  let room = width;
  let text = '';
  for (const [piece, paint = (same: string) => same] of pieces) {
    const fitting = truncate(piece, room);
    if (fitting !== '') text += paint(fitting);
    room -= displayWidth(fitting);
  }
  return text;
}
