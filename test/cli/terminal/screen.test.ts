import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, test } from '@jest/globals';

const module = join(import.meta.dirname, '../../../cli/terminal/screen.ts');

/** Draws a block three times at a terminal, which is resized before the third time. */
const program = `
  import { execFileSync } from 'node:child_process';
  import { once } from 'node:events';
  import { createScreen } from ${JSON.stringify(module)};
  const resize = (columns, rows) =>
    execFileSync('stty', ['cols', String(columns), 'rows', String(rows)], { stdio: 'inherit' });
  const alive = setInterval(() => undefined, 1_000);
  resize(80, 8);
  if (process.stdout.columns !== 80) await once(process.stdout, 'resize');
  const screen = createScreen(process.stdout);
  screen.draw(['first', 'block']);
  screen.draw(['second', 'block']);
  const resized = once(process.stdout, 'resize');
  resize(120, 40);
  await resized;
  screen.draw(['third', 'block']);
  screen.done();
  clearInterval(alive);
`;

test('a block that was drawn before the terminal was resized is erased, wherever it begins now', async () => {
  const command = `'${process.execPath}' --input-type=module --eval "$PROGRAM"`;
  const child = spawn('script', ['--quiet', '--return', '--command', command, '/dev/null'], {
    env: { ...process.env, TERM: 'xterm', PROGRAM: program },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const output = await text(child.stdout);
  const clear = '\u001B[H\u001B[J';
  const [before = '', after = '', ...more] = output.split(clear);
  expect(more).toEqual([]);
  expect([before.includes('first'), before.includes('second'), before.includes('third')]).toEqual([
    true,
    true,
    false,
  ]);
  expect(after).toContain('third');
});
