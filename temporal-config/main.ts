import { CommanderError } from 'commander';
import { commandLine } from './program.ts';
import { oneLine } from './connectionErrors.ts';

/** `npm run temporal-config -- diff | apply`. Exit code: see program.ts. */

try {
  await commandLine((code) => {
    process.exitCode = code;
  }).parseAsync(process.argv.slice(2), { from: 'user' });
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2;
  else {
    console.error(`error: ${oneLine(error)}`);
    process.exitCode = 2;
  }
}
