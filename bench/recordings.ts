import type { Benchmark } from './benchmarks.ts';
import { type TargetName, targetNames } from './targetNames.ts';

/** Work of `npm run bench -- --record NAME` unless the command line says otherwise, so that releases can be compared. */
export interface Recording {
  /** The heading in docs/performance.md whose figures it has. */
  readonly section: string;
  /** Benchmarks in the format of --work. */
  readonly benchmarks: string;
  /** The kinds of benchmarks that its tables can show. */
  readonly kinds: readonly Benchmark['kind'][];
  readonly targets: readonly TargetName[];
  readonly runs: number;
  /** About how long it takes on two cores, once everything is built. */
  readonly minutes: number;
}

const alone = { targets: ['ours'], runs: 1 } as const;

const drains: Recording = {
  section: 'Drains',
  benchmarks: '1x250,10x70',
  kinds: ['Drain'],
  targets: ['ours', 'node-maintenance-operator', 'floor'],
  runs: 3,
  minutes: 15,
};
const largeDrains: Recording = {
  section: 'Larger drains',
  benchmarks: '100x30',
  kinds: ['Drain'],
  targets: ['ours', 'floor'],
  runs: 2,
  minutes: 20,
};
const peers = {
  section: 'Peers',
  kinds: ['Drain', 'Budget'],
  targets: targetNames.filter((name) => name !== 'ours-lifecycle'),
  runs: 3,
} as const satisfies Partial<Recording>;
const peersDrains: Recording = { ...peers, benchmarks: '1x250,10x70,cold:1x250', minutes: 45 };
const peersLarge: Recording = { ...peers, benchmarks: '50x100', minutes: 90 };
const peersBudget: Recording = { ...peers, benchmarks: 'budget', minutes: 45 };
const peersMaintenances: Recording = { ...peers, benchmarks: 'each:100x5,overlap:20x10', minutes: 60 };
const evictionRequests: Recording = {
  ...drains,
  section: 'EvictionRequests',
  targets: ['ours', 'ours-lifecycle', 'floor'],
  minutes: 20,
};
const budget: Recording = {
  section: 'One PodDisruptionBudget',
  benchmarks: 'budget',
  kinds: ['Budget'],
  targets: ['ours', 'floor'],
  runs: 3,
  minutes: 15,
};
const readiness: Recording = {
  ...alone,
  section: 'Readiness gates',
  benchmarks: 'readiness:200x3',
  kinds: ['Readiness'],
  minutes: 5,
};
const held: Recording = {
  ...alone,
  section: 'Cost in Temporal',
  benchmarks: 'held:500',
  kinds: ['Held'],
  minutes: 10,
};
const idle: Recording = {
  ...alone,
  section: 'Clusters without an open maintenance',
  benchmarks: 'idle:1000x5,idle:100x150',
  kinds: ['Idle'],
  minutes: 15,
};
const traffic: Recording = {
  ...alone,
  section: 'Ordinary requests',
  benchmarks: 'traffic:8',
  kinds: ['Traffic'],
  minutes: 15,
};
const policies: Recording = {
  ...alone,
  section: 'Completed maintenances',
  benchmarks: 'policies:1000',
  kinds: ['Policies'],
  minutes: 5,
};
const takeover: Recording = {
  ...alone,
  section: 'Take-over',
  benchmarks: 'takeover:20',
  kinds: ['TakeOver'],
  minutes: 15,
};

/** Recordings by the name of the file in bench/results, in the order of the page. */
export const recordings = {
  drains,
  'large-drains': largeDrains,
  'peers-drains': peersDrains,
  'peers-large': peersLarge,
  'peers-budget': peersBudget,
  'peers-maintenances': peersMaintenances,
  'eviction-requests': evictionRequests,
  budget,
  readiness,
  held,
  idle,
  traffic,
  policies,
  takeover,
} satisfies Record<string, Recording>;
export type RecordingName = keyof typeof recordings;
export const recordingNames = Object.keys(recordings) as RecordingName[];

/** The recordings of the page that compares all programs. */
export const peersRecordings = recordingNames.filter((name) => recordings[name].section === peers.section);

export function isRecording(name: string): name is RecordingName {
  return Object.hasOwn(recordings, name);
}

/** Returns the committed file, relative to the root of the repository. */
export function recordedFile(name: RecordingName): string {
  return `bench/results/${name}.json`;
}

/** Returns the command that records the file. */
export function recordingCommand(name: RecordingName): string {
  const needsPeers = recordings[name].targets.some((target) => target.startsWith('node-maintenance-'));
  return `${needsPeers ? 'PEERS_SOURCE=peers ' : ''}npm run bench -- --record ${name}`;
}
