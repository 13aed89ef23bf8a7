import { execFile } from 'node:child_process';
import { oneLine } from '../../domain/common/text.ts';

/** A command that does not end is no reboot. */
const timeoutMs = 300_000;
const maxMessageLength = 256;

/** Runs a command of the administrator of the host in a shell. Returns undefined if it succeeded, or else why it failed. */
export function runCommand(command: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    execFile('/bin/sh', ['-c', command], { timeout: timeoutMs }, (error, _stdout, stderr) => {
      if (error === null) return resolve(undefined);
      const how = error.killed === true ? `it did not end within ${timeoutMs / 1_000} s` : exitOf(error);
      const output = oneLine(stderr, maxMessageLength);
      return resolve(output === '' ? how : `${how}: ${output}`);
    });
  });
}

function exitOf({ code, signal }: { code?: unknown; signal?: unknown }): string {
  return typeof signal === 'string' ? `signal ${signal}` : `exit code ${String(code)}`;
}
