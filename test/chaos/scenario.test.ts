import { describe, expect, test } from '@jest/globals';
import * as z from 'zod';
import { DrainPlan } from '../../api/nodeMaintenance.ts';
import { faultName } from './fault.ts';
import { Random } from './random.ts';
import { scenarioOf, shortened, type Step, stepText, withLastingWorkers, withSteps } from './scenario.ts';

const seeds = Array.from({ length: 500 }, (_, index) => index + 1);
const scenarios = seeds.map((seed) => scenarioOf(seed));
const laterScenarios = seeds.map((seed) => scenarioOf(seed + 20_000));

describe('a seed', () => {
  test('gives the same world and the same schedule each time', () => {
    for (const scenario of scenarios) expect(scenarioOf(scenario.seed)).toEqual(scenario);
  });

  test('gives another scenario than other seeds', () => {
    expect(new Set(scenarios.map(({ seed: _, ...rest }) => JSON.stringify(rest))).size).toBe(seeds.length);
  });
});

describe('scenarios', () => {
  test('have valid drain plans', () => {
    const plans = scenarios.flatMap(({ maintenances }) =>
      maintenances.flatMap(({ drainPlan }) => drainPlan ?? []),
    );
    expect(plans.length).toBeGreaterThan(500);
    for (const { maintenances } of scenarios)
      for (const { drainPlan } of maintenances) expect(z.safeParse(DrainPlan, drainPlan).success).toBe(true);
  });

  test('are the same for each API, but for the gate that is switched off with auto', () => {
    const before: number[] = [];
    for (const scenario of scenarios) {
      expect(scenarioOf(scenario.seed, 'lifecycle')).toEqual(scenario);
      const { steps, ...world } = scenarioOf(scenario.seed, 'auto');
      const isGate = (step: Step) => step.kind === 'Fault' && step.fault.kind === 'DisableEvictionRequests';
      expect({ ...world, steps: steps.filter((step) => !isGate(step)) }).toEqual(scenario);
      const gates = steps.filter(isGate);
      expect(gates).toHaveLength(1);
      before.push(...gates.map(({ atMs }) => atMs));
    }
    expect(before.filter((atMs) => atMs === 0).length).toBeGreaterThan(50);
    expect(before.filter((atMs) => atMs > 0).length).toBeGreaterThan(200);
  });

  test('leave a node for the pods that are evicted', () => {
    for (const { nodes, maintenances, window = [] } of scenarios) {
      const maintained = [...maintenances.flatMap((one) => one.nodes), ...window];
      expect(nodes.filter((node) => !maintained.includes(node))).not.toEqual([]);
    }
  });

  test('cause every fault, and every action of users', () => {
    const kinds = new Set(
      scenarios.flatMap(({ steps }) =>
        steps.map((step) => (step.kind === 'User' ? step.action.kind : faultName(step.fault))),
      ),
    );
    for (const kind of [
      'Create',
      'Advance',
      'Cancel',
      'Pause',
      'Resume',
      'Delete',
      'Select',
      'Uncordon',
      'Lock',
      'AddPod',
      'DeleteEvacuation',
      'OpenWindow',
      'Rollout',
    ])
      expect(kinds).toContain(kind);
    for (const server of ['kube-apiserver', 'etcd', 'kube-controller-manager', 'temporal'])
      for (const kind of ['Kill', 'Hang']) expect(kinds).toContain(`${kind} ${server}`);
    for (const network of ['Refuse', 'Swallow', 'Cut', 'Delay', 'Freeze']) {
      expect(kinds).toContain(`Apiserver ${network}`);
      expect(kinds).toContain(`Temporal ${network}`);
    }
    for (const request of [
      'CutWatches',
      'LoseAnswers',
      'Truncate',
      'Repeat',
      'ExpiredCertificate',
      'Answer401',
      'Answer409',
      'Answer429',
      'Answer500',
      'Answer503',
    ])
      expect(kinds).toContain(`Apiserver ${request}`);
    for (const kind of [
      'KillWorker',
      'HangWorker',
      'ClockJump',
      'FullDisk',
      'ExpireWebhookCertificate',
      'Expire',
    ])
      expect(kinds).toContain(kind);
  });

  test('truncate answers of Temporal, but for those that were recorded before', () => {
    const isTruncation = (step: Step) =>
      step.kind === 'Fault' && faultName(step.fault) === 'Temporal Truncate';
    const truncating = ({ steps }: (typeof scenarios)[number]) => steps.some(isTruncation);
    expect(laterScenarios.filter(truncating).length).toBeGreaterThan(20);
    expect(scenarios.filter(truncating)).toEqual([]);
  });

  test('let workers last if they are to', () => {
    const faults = new Set<string>();
    for (const scenario of scenarios) {
      const { steps, workers } = withLastingWorkers(scenario, 2);
      expect(workers).toBe(2);
      for (const step of steps) faults.add(step.kind === 'User' ? step.action.kind : step.fault.kind);
    }
    expect([...faults]).toEqual(expect.arrayContaining(['HangWorker', 'Kill', 'Advance']));
    expect([...faults]).not.toEqual(expect.arrayContaining(['KillWorker']));
    expect([...faults]).not.toEqual(expect.arrayContaining(['Rollout']));
  });

  test('can be shortened, with the same steps', () => {
    for (const scenario of scenarios) {
      const short = shortened(scenario);
      expect(Math.max(...short.steps.map(({ atMs }) => atMs))).toBeLessThanOrEqual(3_200);
      const kinds = ({ steps }: typeof scenario) =>
        steps.map((step) => (step.kind === 'User' ? step.action.kind : faultName(step.fault)));
      expect(kinds(short)).toEqual(kinds(scenario));
    }
  });

  test('can be reduced to some of their steps', () => {
    const [scenario] = scenarios;
    if (scenario === undefined) throw new Error('there is none');
    expect(withSteps(scenario, [2]).steps).toEqual([scenario.steps[1]]);
    expect(scenario.steps.map(stepText).join('\n')).toMatch(/^ *\d+\.\d s {2}(user|fault) {2}\w+/m);
  });
});

test('random numbers are spread over their range', () => {
  const random = new Random(1);
  const counts = [0, 0, 0, 0];
  for (let index = 0; index < 10_000; index++) {
    const number = random.integer(0, 3);
    counts[number] = (counts[number] ?? 0) + 1;
  }
  for (const count of counts) expect(Math.abs(count - 2_500)).toBeLessThan(200);
});
