import { env } from 'node:process';

/** Jest runs TypeScript through SWC, as native ES modules; `npm test` and `npm run check` choose what to run. */
export default {
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    '^.+\\.ts$': ['@swc/jest', { jsc: { target: 'es2024', parser: { syntax: 'typescript' } }, module: { type: 'es6' } }],
  },
  // Each file loads its own modules: a thousand of them are the Kubernetes client, of which `npm test` bundles what kube/ imports, and
  // hundreds are rxjs, which contains itself as one module.
  moduleNameMapper: {
    '^rxjs(/operators)?$': '<rootDir>/node_modules/rxjs/dist/bundles/rxjs.umd.js',
    ...(env.NM_TEST_KUBERNETES_CLIENT && { '^@kubernetes/client-node$': env.NM_TEST_KUBERNETES_CLIENT }),
  },
  testMatch: ['<rootDir>/test/**/*.test.ts'],
  // Longer than any wait for a fact, which names the fact when it fails.
  testTimeout: 600_000,
  // Shards of `npm test`, each with a sandbox of its own. Without them each file starts one, and they run one by one.
  maxWorkers: Number(env.NM_TEST_SHARDS ?? 1),
  // A shard has this long to end after its last test; `npm test` fails if it has to be killed.
  workerGracefulExitTimeout: 20_000,
  // Beside the sources: `npm test` gives every run a temporary directory of its own. Jest also keeps there how long each
  // file took, and runs the longest first.
  cacheDirectory: '<rootDir>/node_modules/.cache/jest',
};
