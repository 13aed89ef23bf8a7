import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { recordedTables, recordingList } from '../../bench/recordedTables.ts';
import { isRecording, recordedFile, recordingCommand, recordingNames } from '../../bench/recordings.ts';
import type { RecordedFile } from '../../bench/results.ts';

/** A part of docs/performance.md that is generated, between two lines that name its source. */
const block = /^<!-- generated: (.*) -->$/;
const endOf = (source: string) => `<!-- end of ${source} -->`;
const list = 'bench/recordings.ts';

/** A block that cannot be written, and what to do about it. */
export class BlockError extends Error {
  override readonly name = 'BlockError';
}

/**
 * Returns the page with its blocks written from the files of bench/results in a directory. Everything else is written by hand. Throws a
 * BlockError that names the file which a block misses, and the command that records it.
 */
export function performancePage(page: string, root: string): string {
  const lines = page.split('\n');
  const written: string[] = [];
  let isCode = false;
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at] ?? '';
    written.push(line);
    if (line.startsWith('```')) isCode = !isCode;
    const source = isCode ? undefined : block.exec(line)?.[1];
    if (source === undefined) continue;
    const end = lines.indexOf(endOf(source), at);
    if (end === -1)
      throw new BlockError(`docs/performance.md: "${line}" has no end: add the line "${endOf(source)}"`);
    written.push('', ...contentOf(source, root).split('\n'), '', endOf(source));
    at = end;
  }
  return written.join('\n');
}

function contentOf(source: string, root: string): string {
  if (source === list) return recordingList();
  const name = /^bench\/results\/([\w-]+)\.json$/.exec(source)?.[1] ?? '';
  if (!isRecording(name))
    throw new BlockError(
      `docs/performance.md: a block has the source ${source}; it can have ${[list, ...recordingNames.map(recordedFile)].join(', ')}`,
    );
  const file = join(root, source);
  if (!existsSync(file))
    throw new BlockError(
      `docs/performance.md: a block has the source ${source}, which does not exist: record it with \`${recordingCommand(name)}\``,
    );
  const recorded = JSON.parse(readFileSync(file, 'utf8')) as Partial<RecordedFile>;
  if (recorded.name !== name)
    throw new BlockError(
      `${source} is no recorded file: it was written by --json; record it with \`${recordingCommand(name)} --force\``,
    );
  return recordedTables(recorded as RecordedFile);
}
