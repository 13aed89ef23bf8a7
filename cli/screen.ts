import { isatty } from 'node:tty';
import { createLogUpdate } from 'log-update';
import picocolors from 'picocolors';

export type Colors = ReturnType<typeof picocolors.createColors>;

/**
 * Where programs speak to people: lines that stay and, in a terminal, a block below them that is drawn anew. In a pipe
 * there is no such block: whoever has one must say its changes as lines.
 */
export interface Screen {
  /** Whether there is a block. */
  readonly isLive: boolean;
  readonly colors: Colors;
  /** Columns. */
  width(): number;
  /** Lines. */
  height(): number;
  say(text?: string): void;
  /** Replaces the block; lines longer than the screen is wide must have been cut. */
  draw(lines: readonly string[]): void;
  /** Removes the block and shows the cursor again. */
  clear(): void;
  /** Leaves the block as it is, and shows the cursor again. */
  done(): void;
}

/** Columns of what is not a terminal. */
const widthOfPipes = 110;
/** Lines of a terminal that does not say. */
const heightOfUnknown = 24;

export function createScreen(stream: NodeJS.WriteStream & { fd: number }): Screen {
  const isTerminal = isatty(stream.fd);
  const colors = picocolors.createColors(isTerminal && picocolors.isColorSupported);
  const width = () => stream.columns || widthOfPipes;
  const height = () => stream.rows || heightOfUnknown;
  if (!isTerminal || process.env['TERM'] === 'dumb') {
    const say = (text = '') => void stream.write(`${text}\n`);
    const nothing = () => undefined;
    return { isLive: false, colors, width, height, say, draw: nothing, clear: nothing, done: nothing };
  }
  const block = createLogUpdate(stream);
  const clear = () => {
    block.clear();
    block.done();
  };
  return {
    isLive: true,
    colors,
    width,
    height,
    say: (text = '') => block.persist(text),
    draw: (lines) => block(lines.join('\n')),
    clear,
    done: () => block.done(),
  };
}

/** A piece of a line and how it is painted. */
export type Piece = readonly [text: string, paint?: (text: string) => string];

/** One line that fits: cut before it is painted, because color codes have no width. */
export function line(pieces: readonly Piece[], width: number): string {
  let room = width;
  let text = '';
  for (const [words, paint = (same: string) => same] of pieces) {
    const shown = words.length > room ? `${words.slice(0, Math.max(0, room - 1))}…`.slice(0, room) : words;
    if (shown !== '') text += paint(shown);
    room -= shown.length;
  }
  return text;
}

/** Lines of at most `width` characters, broken between words; a longer word is broken anywhere. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = [''];
  for (const word of text.split(' ').flatMap((long) => long.match(new RegExp(`.{1,${width}}`, 'g')) ?? [])) {
    const last = lines.at(-1) ?? '';
    if (last === '') lines[lines.length - 1] = word;
    else if (last.length + 1 + word.length <= width) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}
