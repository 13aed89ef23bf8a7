/** Jest runs TypeScript through SWC, as native ES modules; `npm test` and `npm run check` choose what to run. */
export default {
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    '^.+\\.ts$': ['@swc/jest', { jsc: { target: 'es2024', parser: { syntax: 'typescript' } }, module: { type: 'es6' } }],
  },
  testMatch: ['<rootDir>/test/**/*.test.ts'],
  // Longer than any wait for a fact: that one says what it waits for.
  testTimeout: 180_000,
  // Test files share one cluster; `npm test` runs two of us, each with one.
  maxWorkers: 1,
  // Beside what it is made from: `npm test` gives every run a temporary directory of its own.
  cacheDirectory: '<rootDir>/node_modules/.cache/jest',
};
