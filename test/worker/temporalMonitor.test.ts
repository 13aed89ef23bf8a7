import { afterEach, describe, expect, test } from '@jest/globals';
import { untilAvailable } from '../../controllers/temporalAvailability.ts';
import { ClaimedByOther } from '../../worker/clusterClaim.ts';
import { TemporalMonitor } from '../../worker/temporalMonitor.ts';
import { eventually } from '../kit/eventually.ts';
import { recordedLog } from '../kube/fixtures.ts';

const monitors: Monitored[] = [];

afterEach(async () => {
  for (const one of monitors.splice(0)) await one.stopped();
});

/** A monitor of a Temporal that answers as the test says. */
class Monitored {
  /** Fails requests; undefined: they succeed. */
  failure: Error | undefined;
  /** The requests, in order. */
  readonly calls: ('prepare' | 'check')[] = [];
  readonly log = recordedLog();
  readonly changes: boolean[] = [];
  readonly monitor: TemporalMonitor;
  readonly #stop = new AbortController();
  readonly ended: Promise<void>;

  constructor(failure?: Error) {
    monitors.push(this);
    this.failure = failure;
    const backOff = { firstMs: 1, capMs: 4 };
    const options = { address: 'temporal:7233', source: 'the environment', log: this.log, backOff };
    this.monitor = new TemporalMonitor({
      ...options,
      prepare: () => this.#call('prepare'),
      check: () => this.#call('check'),
      checkEveryMs: 2,
    });
    this.monitor.subscribe(() => this.changes.push(this.monitor.outage() === undefined));
    this.ended = this.monitor.run(this.#stop.signal);
  }

  /** Waits for further requests. */
  async called(times: number, call: 'prepare' | 'check'): Promise<void> {
    const before = this.calls.length;
    await eventually(`${times} more calls of ${call}`, () =>
      expect(this.calls.slice(before).filter((one) => one === call).length).toBeGreaterThanOrEqual(times),
    );
  }

  async stopped(): Promise<void> {
    this.#stop.abort();
    await this.ended.catch(() => undefined);
  }

  async #call(name: 'prepare' | 'check'): Promise<void> {
    this.calls.push(name);
    if (this.failure !== undefined) throw this.failure;
  }
}

const refused = new Error('no response from temporal:7233 (ECONNREFUSED)');

describe('the monitor of Temporal', () => {
  test('starts with an outage, which ends when Temporal is prepared', async () => {
    const m = new Monitored();
    expect(m.monitor.outage()).toMatchObject({ reason: 'not connected yet' });
    await m.called(2, 'check');
    expect(m.monitor.outage()).toBeUndefined();
    expect(m.calls.filter((call) => call === 'prepare')).toHaveLength(1);
    expect(m.changes).toEqual([true]);
  });

  test('keeps trying to prepare Temporal, and logs each reason once', async () => {
    const m = new Monitored(refused);
    await m.called(5, 'prepare');
    expect(m.monitor.outage()).toMatchObject({ reason: refused.message });
    m.failure = new Error('namespace (TEMPORAL_NAMESPACE): temporal:7233 has no namespace "prod"');
    await m.called(5, 'prepare');
    const warnings = m.log.lines.filter(({ message }) => message === 'Waiting for Temporal at temporal:7233');
    expect(warnings.map(({ fields }) => fields?.['reason'])).toEqual([refused.message, m.failure.message]);
    expect(m.changes).toEqual([]);
  });

  test('prepares Temporal again after an outage: it may be another one', async () => {
    const m = new Monitored();
    await m.called(1, 'check');
    const began = Date.now();
    m.failure = refused;
    await m.called(4, 'prepare');
    expect(m.monitor.outage()?.sinceMs).toBeGreaterThanOrEqual(began);
    const before = m.calls.length;
    m.failure = undefined;
    await m.called(1, 'check');
    expect(m.calls[before]).toBe('prepare');
    expect(m.changes).toEqual([true, false, true]);
  });

  test.each(['at the start', 'later'])('rejects when another cluster has the names, %s', async (when) => {
    const lost = new ClaimedByOther('task queue node-maintenance belongs to cluster other');
    const m = new Monitored(when === 'later' ? undefined : lost);
    const ended = m.ended.catch((error: unknown) => error);
    if (when === 'later') await m.called(1, 'check');
    m.failure = lost;
    expect(await ended).toBe(lost);
  });
});

describe('a wait for Temporal', () => {
  test('ends when the signal aborts', async () => {
    const { monitor } = new Monitored(refused);
    const stop = new AbortController();
    const waiting = untilAvailable(monitor, stop.signal);
    stop.abort();
    await waiting;
    expect(monitor.outage()).toBeDefined();
  });

  test('ends with the outage', async () => {
    const m = new Monitored(refused);
    const waiting = untilAvailable(m.monitor, new AbortController().signal);
    m.failure = undefined;
    await waiting;
    expect(m.monitor.outage()).toBeUndefined();
  });
});
