#!/usr/bin/env node
/** What kubectl runs as `kubectl_complete-maintenance`, with the words that were typed after `kubectl maintenance`. */

process.argv.splice(2, 0, '__complete', '--');
await import('./main.ts');
