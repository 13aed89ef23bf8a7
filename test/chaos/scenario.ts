import type { DrainPlanEntry, NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import { type Fault, randomFault } from './fault.ts';
import { Random } from './random.ts';

/**
 * API by which the workers ask pods to leave. With lifecycle.k8s.io they are the controller of EvictionRequests, too; `auto`: by EvictionRequests while
 * the apiserver serves them.
 */
export type EvictionApi = 'evacuation' | 'lifecycle' | 'auto';

/** A random world and what happens in it: the same seed gives the same scenario. Names are relative to a run. */
export interface Scenario {
  seed: number;
  /** The last one is never maintained, so that evicted pods have a place. */
  nodes: readonly string[];
  workloads: readonly Workload[];
  maintenances: readonly PlannedMaintenance[];
  /** The nodes of a window that is opened by hand; undefined: there is none. */
  window: readonly string[] | undefined;
  /** Whether the pods of the DaemonSet are readiness gates of their nodes. */
  isGated: boolean;
  workers: 1 | 2;
  steps: readonly Step[];
}

export type Budget = { maxUnavailable: number } | { minAvailable: number };

/** Evacuator that moves the pods before they are evicted: `Silent` never responds. */
export type EvacuatorChoice = 'None' | 'Builtin' | 'Silent';

export interface Workload {
  name: string;
  kind: 'Deployment' | 'StatefulSet' | 'DaemonSet' | 'Pods';
  /** Number of pods; of a DaemonSet, one for each node. */
  replicas: number;
  priority: Priority;
  /** Value of the label `tier`, by which drain plans select. */
  tier: 'a' | 'b';
  budget: Budget | undefined;
  evacuator: EvacuatorChoice;
  /** The node of pods without a controller. */
  node: string | undefined;
  /** Its containers take some seconds to end. */
  isSlow: boolean;
}

export const priorities = [0, 1000, 5000, 9000] as const;
export type Priority = (typeof priorities)[number];

export interface PlannedMaintenance {
  name: string;
  nodes: readonly string[];
  stage: NodeMaintenanceStage;
  drainPlan: readonly DrainPlanEntry[] | undefined;
  /** Seconds after which it deletes what is left. */
  deleteAfterSeconds: number | undefined;
}

/** An action of a user. Failures are part of the run: a request that the apiserver refuses has no effect. */
export type UserAction =
  | { kind: 'Create'; maintenance: string }
  | { kind: 'Advance' | 'Cancel'; maintenance: string; by: 'Kubectl' | 'Signal' }
  | { kind: 'Pause' | 'Resume'; maintenance: string }
  | { kind: 'Delete'; maintenance: string }
  | { kind: 'Select'; maintenance: string; nodes: readonly string[] }
  | { kind: 'Uncordon'; node: string }
  | { kind: 'Lock'; node: string; forMs: number }
  | { kind: 'AddPod'; node: string; priority: Priority }
  | { kind: 'DeleteEvacuation'; node: string }
  | { kind: 'OpenWindow' }
  | { kind: 'Rollout' };

export type Step = { atMs: number } & (
  | { kind: 'User'; action: UserAction }
  | { kind: 'Fault'; fault: Fault }
);

/** Users and faults begin within this time, maintenances within the first part of it. */
const activeMs = 8_000;
const createdWithinMs = 3_000;

/** Scenarios of earlier seeds were recorded before answers of Temporal were truncated, and stay as they are. */
const firstSeedWithTruncation = 20_000;

/** Returns the scenario of a seed. With `auto` the gate of EvictionRequests is switched off for some of the time, in addition. */
export function scenarioOf(seed: number, evictionApi: EvictionApi = 'evacuation'): Scenario {
  const random = new Random(seed);
  const nodes = Array.from({ length: random.integer(3, 5) }, (_, index) => `n${index + 1}`);
  const maintained = nodes.slice(0, -1) as [string, ...string[]];
  const workloads = workloadsOf(random, maintained);
  const maintenances = Array.from({ length: random.integer(1, 3) }, (_, index) =>
    maintenanceOf(random, `m${index + 1}`, maintained),
  );
  const hasDaemons = workloads.some(({ kind }) => kind === 'DaemonSet');
  const window = random.chance(0.35) ? random.some(maintained, random.integer(1, 2)) : undefined;
  const world = { seed, nodes, workloads, maintenances, window, isGated: hasDaemons && random.chance(0.5) };
  const workers = random.chance(0.75) ? 2 : 1;
  const steps = stepsOf(random, { ...world, maintained, workers });
  return { ...world, workers, steps: evictionApi === 'auto' ? inOrder([...steps, gateStep(random)]) : steps };
}

function workloadsOf(random: Random, maintained: readonly [string, ...string[]]): Workload[] {
  return Array.from({ length: random.integer(3, 5) }, (_, index) => {
    const kind = random.pick(['Deployment', 'Deployment', 'StatefulSet', 'DaemonSet', 'Pods']);
    const replicas = kind === 'Deployment' ? random.integer(3, 8) : random.integer(1, 4);
    const hasBudget = (kind === 'Deployment' || kind === 'StatefulSet') && replicas > 1 && random.chance(0.6);
    return {
      name: `w${index + 1}`,
      kind,
      replicas,
      priority: random.pick(priorities),
      tier: random.pick(['a', 'b']),
      budget: hasBudget
        ? random.pick<Budget>([{ maxUnavailable: 1 }, { minAvailable: replicas - 1 }])
        : undefined,
      evacuator: kind === 'DaemonSet' ? 'None' : random.pick(['None', 'None', 'Builtin', 'Silent']),
      node: kind === 'Pods' ? random.pick(maintained) : undefined,
      isSlow: random.chance(0.3),
    };
  });
}

function maintenanceOf(
  random: Random,
  name: string,
  maintained: readonly [string, ...string[]],
): PlannedMaintenance {
  return {
    name,
    nodes: random.some(maintained, random.integer(1, maintained.length)),
    stage: random.pick(['Idle', 'Cordon', 'Drain', 'Drain', 'Drain', 'Drain']),
    drainPlan: random.chance(0.75) ? planOf(random) : undefined,
    deleteAfterSeconds: random.chance(0.1) ? 10 : undefined,
  };
}

/** Returns entries in the order that KEP-4212 requires: ascending, of the same priority those with a selector first. */
function planOf(random: Random): DrainPlanEntry[] {
  const hasSelectors = random.chance(0.3);
  const chosen = random.some(priorities, random.integer(1, 3));
  return chosen.flatMap((podPriority): DrainPlanEntry[] => {
    const whole = { podType: 'Default' as const, podPriority };
    if (!hasSelectors || random.chance(0.5)) return [whole];
    const podSelector = { matchLabels: { tier: random.pick(['a', 'b']) } };
    return random.chance(0.5) ? [{ ...whole, podSelector }] : [{ ...whole, podSelector }, whole];
  });
}

type Setting = Omit<Scenario, 'steps'> & { maintained: readonly [string, ...string[]] };

function stepsOf(random: Random, setting: Setting): Step[] {
  const at = () => random.integer(0, activeMs);
  const actions = Array.from({ length: random.integer(2, 6) }, (): Step => {
    const atMs = at();
    return { atMs, kind: 'User', action: actionOf(random, setting) };
  });
  const creations = setting.maintenances.map(
    ({ name }): Step => ({
      atMs: random.integer(0, createdWithinMs),
      kind: 'User',
      action: { kind: 'Create', maintenance: name },
    }),
  );
  const opening: Step[] =
    setting.window === undefined
      ? []
      : [{ atMs: random.integer(0, 3_000), kind: 'User', action: { kind: 'OpenWindow' } }];
  const faults = Array.from({ length: random.integer(2, 5) }, (): Step => {
    const atMs = at();
    const truncatesTemporal = setting.seed >= firstSeedWithTruncation;
    return { atMs, kind: 'Fault', fault: randomFault(random, setting.workers, truncatesTemporal) };
  });
  return inOrder([...creations, ...opening, ...actions, ...faults]);
}

function inOrder(steps: readonly Step[]): Step[] {
  return steps.toSorted((a, b) => a.atMs - b.atMs);
}

/** In some scenarios the gate is switched off before anything else happens. */
function gateStep(random: Random): Step {
  const atMs = random.chance(0.25) ? 0 : random.integer(createdWithinMs, activeMs);
  const fault: Fault = { kind: 'DisableEvictionRequests', forMs: random.integer(2_000, 10_000) };
  return { atMs, kind: 'Fault', fault };
}

function actionOf(random: Random, { maintenances, maintained }: Setting): UserAction {
  const names = maintenances.map(({ name }) => name) as [string, ...string[]];
  const [maintenance, node] = [random.pick(names), random.pick(maintained)];
  const by = random.pick(['Kubectl', 'Kubectl', 'Signal']);
  const choices: readonly [UserAction, ...UserAction[]] = [
    { kind: 'Advance', maintenance, by },
    { kind: 'Advance', maintenance, by },
    { kind: 'Advance', maintenance, by },
    { kind: 'Cancel', maintenance, by },
    { kind: 'Pause', maintenance },
    { kind: 'Resume', maintenance },
    { kind: 'Delete', maintenance },
    { kind: 'Select', maintenance, nodes: random.some(maintained, random.integer(1, maintained.length)) },
    { kind: 'Uncordon', node },
    { kind: 'Lock', node, forMs: random.integer(2_000, 6_000) },
    { kind: 'AddPod', node, priority: random.pick(priorities) },
    { kind: 'DeleteEvacuation', node },
    { kind: 'Rollout' },
  ];
  return random.pick(choices);
}

/** Returns the scenario with some of its steps only, by their numbers from 1: to find those that a violation needs. */
export function withSteps(scenario: Scenario, numbers: readonly number[]): Scenario {
  return { ...scenario, steps: scenario.steps.filter((_, index) => numbers.includes(index + 1)) };
}

/** Returns the scenario with so many workers, which nothing ends: neither a fault nor a rollout. */
export function withLastingWorkers(scenario: Scenario, workers: Scenario['workers']): Scenario {
  const endsWorker = (step: Step) =>
    step.kind === 'User' ? step.action.kind === 'Rollout' : step.fault.kind === 'KillWorker';
  return { ...scenario, workers, steps: scenario.steps.filter((step) => !endsWorker(step)) };
}

/** Factor by which the times of a scenario are shorter in a run of npm test. */
const shortShare = 0.4;

/** Returns the scenario with shorter times: users act, and faults follow each other, faster, and last shorter. */
export function shortened(scenario: Scenario): Scenario {
  const short = (ms: number) => Math.round(ms * shortShare);
  const steps = scenario.steps.map((step): Step => {
    const atMs = short(step.atMs);
    if (step.kind === 'Fault')
      return { ...step, atMs, fault: { ...step.fault, forMs: short(step.fault.forMs) } };
    const { action } = step;
    return {
      ...step,
      atMs,
      action: action.kind === 'Lock' ? { ...action, forMs: short(action.forMs) } : action,
    };
  });
  return { ...scenario, steps };
}

/** Formats a step: `3.2 s  worker 1: SIGKILL, for 2 s`. */
export function stepText(step: Step): string {
  const { kind, ...rest } = step.kind === 'User' ? step.action : step.fault;
  const fields = Object.entries(rest).map(
    ([name, value]) => `${name} ${Array.isArray(value) ? value.join('+') : value}`,
  );
  return `${(step.atMs / 1_000).toFixed(1).padStart(4)} s  ${step.kind === 'User' ? 'user' : 'fault'}  ${[kind, ...fields].join(', ')}`;
}
