import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { deployedNodeOptions, workerArguments } from '../../scripts/tools.ts';

interface Deployment {
  spec: { template: { spec: { containers: [{ resources: { limits: { memory: string } } }] } } };
}

const file = new URL('../../deploy/worker/deployment.yaml', import.meta.url);
const { spec } = parse(readFileSync(file, 'utf8')) as Deployment;
const { memory } = spec.template.spec.containers[0].resources.limits;

/** Prints the limits of the heaps of the main thread and of another one, such as that of the workflows, in bytes. */
const printLimits = `
  const limit = () => require('node:v8').getHeapStatistics().heap_size_limit;
  const { Worker } = require('node:worker_threads');
  const other = new Worker('require("node:worker_threads").parentPort.postMessage((' + limit + ')())', { eval: true });
  other.once('message', (thread) => console.log(JSON.stringify({ main: limit(), thread })));
`;

test('both heaps of the worker leave a quarter of the memory limit of its pod to everything else', async () => {
  const flags = workerArguments().filter((argument) => argument.startsWith('--'));
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, '-e', printLimits], {
    env: { ...process.env, NODE_OPTIONS: deployedNodeOptions() },
  });
  const { main, thread } = JSON.parse(stdout) as { main: number; thread: number };
  expect(main).toBe(thread);
  const gibibytes = Number(/^(\d+)Gi$/.exec(memory)?.[1]);
  const share = (main + thread) / (gibibytes * 1024 ** 3);
  expect(share).toBeLessThan(0.75);
  expect(share).toBeGreaterThan(0.6);
});
