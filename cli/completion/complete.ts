#!/usr/bin/env node
/** The entry point of `kubectl_complete-maintenance`: kubectl passes the words after `kubectl maintenance`. */

process.argv.splice(2, 0, '__complete', '--');
await import('../main.ts');
