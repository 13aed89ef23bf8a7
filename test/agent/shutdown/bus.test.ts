import { describe, expect, test } from '@jest/globals';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { AGENT_BUS_NAME } from '../../../agent/shutdown/logind.ts';
import type { ShutdownOptions } from '../../../agent/shutdown/shutdown.ts';
import { root } from '../../../scripts/tools.ts';
import { eventually, eventuallyHolds, throughout } from '../../kit/eventually.ts';
import { Requirement, testsWith } from '../../kit/requirements.ts';
import { missingForBus, off, PrivateBus, type Running, toHaveLogged } from '../kit/privateBus.ts';

/** Tests of the agent with logind and the kubelet, without any apiserver. */

// Each test has a bus of its own, and waits most of the time: they run side by side.
const withBus = testsWith(Requirement.Bus, missingForBus, test.concurrent);

/** Runs a test with a bus. */
function onBus(
  check: (bus: PrivateBus) => Promise<void>,
  options: { inhibitDelayMaxSeconds?: number } = {},
): () => Promise<void> {
  return async () => {
    const bus = await PrivateBus.start(options);
    try {
      await check(bus);
    } finally {
      await bus.stop();
    }
  };
}

/** The options of the unit that nodes run. */
async function proxyOptions(): Promise<string[]> {
  const unit = await readFile(
    join(root, 'deploy', 'agent', 'systemd', 'node-maintenance-kubelet-bus.service'),
    'utf8',
  );
  return [...unit.matchAll(/^ {2}(--\S+)/gm)].map(([, option]) => option as string);
}

/** Starts an agent whose apiserver refuses connections. */
async function startAgent(bus: PrivateBus, options: Partial<ShutdownOptions> = {}): Promise<Running> {
  const kubeconfig = join(bus.dir, 'kubeconfig');
  await writeFile(
    kubeconfig,
    stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'none', cluster: { server: 'https://127.0.0.1:1' } }],
      users: [{ name: 'none', user: { token: 'none' } }],
      contexts: [{ name: 'none', context: { cluster: 'none', user: 'none' } }],
      'current-context': 'none',
    }),
  );
  const runDirectory = join(bus.dir, 'run');
  await mkdir(runDirectory, { recursive: true });
  const shutdown: ShutdownOptions = {
    priorities: [],
    kubeletPeriodSeconds: 5,
    apiserverTimeoutSeconds: 1,
    busAddress: bus.address,
    runDirectory,
    ...options,
  };
  return bus.startAgent({ kubeconfig, node: 'node-1', bootId: 'boot-1', shutdown });
}

const delayed = (bus: PrivateBus, ...who: string[]) =>
  eventuallyHolds(
    `${who.join(' and ') || 'nothing'} to delay shutdowns`,
    () => bus.delayedBy(),
    (by) => `${by}` === `${who}`,
  );

describe('the bus of the kubelet', () => {
  withBus(
    'passes its inhibitor, and PrepareForShutdown of the agent only',
    onBus(async (bus) => {
      await bus.startProxy(await proxyOptions());
      const direct = await bus.startKubelet(bus.address, 3_600);
      const kubelet = await bus.startKubelet(bus.proxyAddress);
      expect(kubelet.output()).toContain('started 60000000');
      await bus.forgeSignal();
      await bus.powerOff();
      await eventuallyHolds(
        'both signals to arrive',
        () => direct.output(),
        (text) => text.split('True').length === 3,
      );
      expect(kubelet.output()).not.toContain('PrepareForShutdown');
      const agent = await startAgent(bus);
      await toHaveLogged(kubelet, 'PrepareForShutdown True');
      await toHaveLogged(kubelet, 'released');
      await toHaveLogged(agent, 'Kubelet was notified of the shutdown');
    }),
  );
});

test('the files of a node name the agent as it is named on the bus', async () => {
  const dir = join(root, 'deploy', 'agent', 'systemd');
  const policy = await readFile(join(dir, 'dbus', `${AGENT_BUS_NAME}.conf`), 'utf8');
  expect(policy).toContain(`<allow own="${AGENT_BUS_NAME}"/>`);
  expect((await proxyOptions()).join(' ')).toContain(`--broadcast=${AGENT_BUS_NAME}=`);
});

describe('a shutdown without an apiserver', () => {
  withBus(
    'is that of the kubelet: the agent waits until the kubelet has terminated the pods',
    onBus(async (bus) => {
      await bus.startProxy(await proxyOptions());
      const kubelet = await bus.startKubelet(bus.proxyAddress, 3);
      await startAgent(bus);
      await delayed(bus, 'kubelet', 'node-maintenance-agent');
      await bus.powerOff();
      await toHaveLogged(kubelet, 'True');
      expect(await bus.delayedBy()).toEqual(['kubelet', 'node-maintenance-agent']);
      await off(bus, 'NothingDelays');
      await toHaveLogged(kubelet, 'released');
      expect(kubelet.output().match(/PrepareForShutdown/g)).toHaveLength(1);
    }),
  );

  withBus(
    'is not delayed further where the kubelet does not delay it',
    onBus(async (bus) => {
      await startAgent(bus);
      await delayed(bus, 'node-maintenance-agent');
      await bus.powerOff();
      await off(bus, 'NothingDelays');
    }),
  );

  withBus(
    'ends at the limit',
    onBus(async (bus) => {
      const agent = await startAgent(bus, {
        limitSeconds: 4,
        apiserverTimeoutSeconds: 3_600,
        kubeletPeriodSeconds: 1,
      });
      await delayed(bus, 'node-maintenance-agent');
      await bus.powerOff();
      await off(bus, 'NothingDelays');
      await toHaveLogged(agent, '"cause":"Limit"');
    }),
  );
});

describe('the inhibitor of the agent', () => {
  withBus(
    'survives the agent, and the next one uses it, also during a shutdown',
    onBus(async (bus) => {
      const limits = { apiserverTimeoutSeconds: 3_600 };
      const first = await startAgent(bus, limits);
      await delayed(bus, 'node-maintenance-agent');
      await first.end('SIGKILL');
      expect(await bus.delayedBy()).toEqual(['node-maintenance-agent']);
      const second = await startAgent(bus, limits);
      await toHaveLogged(second, 'Return to service');
      expect(await bus.delayedBy()).toEqual(['node-maintenance-agent']);
      await bus.powerOff();
      await toHaveLogged(second, 'Shutdown started');
      await second.end('SIGKILL');
      await startAgent(bus, { apiserverTimeoutSeconds: 1 });
      await off(bus, 'NothingDelays');
    }),
  );

  withBus(
    'ends with an agent that is stopped, unless a shutdown is in progress',
    onBus(async (bus) => {
      const limits = { apiserverTimeoutSeconds: 3_600 };
      const first = await startAgent(bus, limits);
      await delayed(bus, 'node-maintenance-agent');
      await first.end('SIGTERM');
      await delayed(bus);
      const second = await startAgent(bus, limits);
      await delayed(bus, 'node-maintenance-agent');
      await bus.powerOff();
      await toHaveLogged(second, 'Shutdown started');
      await second.end('SIGTERM');
      expect(await bus.delayedBy()).toEqual(['node-maintenance-agent']);
      expect(await bus.poweredOff()).toBe('');
      await startAgent(bus, { apiserverTimeoutSeconds: 1 });
      await off(bus, 'NothingDelays');
    }),
  );

  withBus(
    'is started again when it ends',
    onBus(async (bus) => {
      const agent = await startAgent(bus);
      await delayed(bus, 'node-maintenance-agent');
      await toHaveLogged(agent, '"Shutdown inhibitor was started"');
      const pid = Number(/"Shutdown inhibitor was started","pid":(\d+)/.exec(agent.output())?.[1]);
      process.kill(pid, 'SIGKILL');
      await eventuallyHolds(
        'another inhibitor',
        () => agent.output(),
        (text) => text.split('was started"').length === 3,
      );
      await delayed(bus, 'node-maintenance-agent');
    }),
  );
});

describe('a bus', () => {
  withBus(
    'that restarts during a shutdown hides none',
    onBus(async (bus) => {
      const agent = await startAgent(bus, { apiserverTimeoutSeconds: 3_600 });
      await delayed(bus, 'node-maintenance-agent');
      await bus.restart({ preparing: true });
      await toHaveLogged(agent, 'Shutdown started');
    }),
  );

  withBus(
    'on which another process forges PrepareForShutdown begins none',
    onBus(async (bus) => {
      const agent = await startAgent(bus);
      await delayed(bus, 'node-maintenance-agent');
      await bus.forgeSignal();
      await bus.forgeSignal('io.k8s.nodemaintenance.Agent');
      await throughout('no shutdown begins', 2_000, () =>
        expect(agent.output()).not.toContain('Shutdown started'),
      );
      await bus.powerOff();
      await eventually('a shutdown to begin', () => expect(agent.output()).toContain('Shutdown started'));
    }),
  );

  withBus(
    'that grants too little time is named with the remedy',
    onBus(
      async (bus) => {
        const agent = await startAgent(bus, { limitSeconds: 120 });
        await toHaveLogged(agent, 'InhibitDelayMaxSec=120');
      },
      { inhibitDelayMaxSeconds: 5 },
    ),
  );

  withBus(
    'that cancels the shutdown has the kubelet delay the next one',
    onBus(async (bus) => {
      await bus.startProxy(await proxyOptions());
      const kubelet = await bus.startKubelet(bus.proxyAddress, 3_600);
      const agent = await startAgent(bus, { apiserverTimeoutSeconds: 1 });
      await delayed(bus, 'kubelet', 'node-maintenance-agent');
      await bus.powerOff();
      await toHaveLogged(kubelet, 'True');
      await bus.cancelShutdown();
      await toHaveLogged(kubelet, 'False');
      await eventually('the agent to see it', () =>
        expect(agent.output()).toContain('Shutdown was cancelled'),
      );
      expect(await bus.delayedBy()).toEqual(['kubelet', 'node-maintenance-agent']);
    }),
  );
});
