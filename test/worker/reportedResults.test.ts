import { setTimeout as sleep } from 'node:timers/promises';
import { CancelledFailure, Context } from '@temporalio/activity';
import { expect, test } from '@jest/globals';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { withReportedResults } from '../../worker/reportedResults.ts';
import { SettableAvailability } from '../kit/availability.ts';
import { eventually } from '../kit/eventually.ts';

/** A Temporal that answers when a test says so. */
class Server {
  isUp = true;
  checks = 0;
  readonly availability = new SettableAvailability();
  readonly check = async () => {
    this.checks += 1;
    if (!this.isUp) throw new Error('down');
  };
}

/** Runs an activity and notes how it ends. */
function run(server: Server, work: (...args: string[]) => Promise<string>) {
  const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR') });
  const { activity } = withReportedResults({ activity: work }, server);
  const outcome: { value?: unknown; error?: unknown } = {};
  const ended = environment.run(activity, 'argument').then(
    (value) => void (outcome.value = value),
    (error: unknown) => void (outcome.error = error),
  );
  return { environment, outcome, ended };
}

test('an activity gives its result at once while Temporal answers', async () => {
  const server = new Server();
  const { ended, outcome } = run(server, async (argument) => `${argument} and result`);
  await ended;
  expect([outcome.value, server.checks]).toEqual(['argument and result', 1]);
});

test.each([
  ['its result', async (): Promise<string> => 'done', { value: 'done' }],
  [
    'its failure',
    async (): Promise<string> => {
      throw new Error('failed');
    },
    { error: new Error('failed') },
  ],
] as const)('an activity that ends during an outage gives %s after it', async (_what, work, expected) => {
  const server = new Server();
  server.isUp = false;
  const { ended, outcome } = run(server, work);
  await eventually('some checks', () => expect(server.checks).toBeGreaterThan(2));
  expect(outcome).toEqual({});
  server.isUp = true;
  await ended;
  expect(outcome).toEqual(expected);
});

test('an activity that is cancelled does not wait', async () => {
  const server = new Server();
  server.isUp = false;
  const { environment, ended, outcome } = run(server, async () => {
    await Context.current().cancelled.catch(() => sleep(1));
    throw new CancelledFailure('cancelled');
  });
  environment.cancel();
  await ended;
  expect(outcome.error).toBeInstanceOf(CancelledFailure);
});

test('hundreds of activities that end in an outage share their checks, and check nothing while it is known', async () => {
  const server = new Server();
  server.isUp = false;
  const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR') });
  const { activity } = withReportedResults({ activity: async () => 'done' }, server);
  const all = Promise.all(Array.from({ length: 300 }, () => environment.run(activity)));
  await eventually('a check', () => expect(server.checks).toBeGreaterThan(0));
  server.availability.down();
  await sleep(1_000);
  const { checks } = server;
  expect(checks).toBeLessThan(20);
  await sleep(1_000);
  expect(server.checks).toBe(checks);
  server.isUp = true;
  server.availability.up();
  expect(new Set(await all)).toEqual(new Set(['done']));
});
