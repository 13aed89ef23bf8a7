/** The program of the single executable (ADR 53), which contains its own Node.js. */
import { run } from './program.ts';

void run(process.argv.slice(2)).then((code) => {
  process.exitCode = code;
});
