import { existsSync, writeFileSync } from 'node:fs';

/** The library of the Debian package libfaketime. */
const installedLibrary = '/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1';

/** Says what this machine lacks for clocks that jump; undefined if nothing. */
export const missingForClocks = problemOf(installedLibrary);

function problemOf(library: string): string | undefined {
  return existsSync(library)
    ? undefined
    : 'libfaketime is not installed: run npm run debian-packages as root';
}

/** The time of day of a process. Without libfaketime it is always right. */
export class FakeClock {
  readonly #file: string;
  readonly #library: string;

  constructor(file: string, library = installedLibrary) {
    this.#file = file;
    this.#library = library;
    this.set(0);
  }

  /** Environment variables of the process. */
  get variables(): Record<string, string> {
    if (problemOf(this.#library) !== undefined) return {};
    return {
      LD_PRELOAD: this.#library,
      FAKETIME_TIMESTAMP_FILE: this.#file,
      FAKETIME_CACHE_DURATION: '1',
      // Timers keep running: only the time of day is wrong.
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    };
  }

  /** Sets it, in seconds from the right one. Throws if it cannot be wrong. */
  set(seconds: number): void {
    const problem = problemOf(this.#library);
    if (problem === undefined) writeFileSync(this.#file, `${seconds < 0 ? '-' : '+'}${Math.abs(seconds)}\n`);
    else if (seconds !== 0) throw new Error(`The clock cannot jump, because ${problem}`);
  }
}
