/** The program of the single executable in the Debian package, which contains its own Node.js (ADR 53). */
import { runProgram } from './program.ts';

void runProgram(process.argv.slice(2), process.env, 'node-maintenance-agent').then((code) =>
  process.exit(code),
);
