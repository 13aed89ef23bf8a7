/** For `node --expose-gc --import`: on SIGUSR2 the main thread collects all its garbage, so that what is left is in use. */
process.on('SIGUSR2', () => globalThis.gc?.());
