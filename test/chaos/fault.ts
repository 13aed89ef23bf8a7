import type { Random } from './random.ts';

/** A fault that lasts for a while. Workers are numbered from 0: each has a network of its own to the apiserver and to Temporal. */
export type Fault = { forMs: number } & (
  | { kind: 'Kill' | 'Hang'; server: ServerWithFaults }
  | { kind: 'KillWorker' | 'HangWorker'; worker: number }
  | { kind: 'ClockJump'; worker: number; seconds: number }
  | { kind: 'Apiserver'; worker: number; network: ApiserverFault }
  | { kind: 'Temporal'; worker: number; network: TemporalFault }
  /** Temporal cannot write to its files, as on a full disk. */
  | { kind: 'FullDisk' }
  /** The Secret of the webhooks gets a serving certificate that has expired. */
  | { kind: 'ExpireWebhookCertificate' }
  /** The apiserver restarts after etcd has forgotten all earlier revisions: watches must list again. */
  | { kind: 'Expire' }
  /** The apiserver restarts without the feature gate of EvictionRequests, and with it again at the end. */
  | { kind: 'DisableEvictionRequests' }
);

export const serversWithFaults = ['kube-apiserver', 'etcd', 'kube-controller-manager', 'temporal'] as const;
export type ServerWithFaults = (typeof serversWithFaults)[number];

/** Faults of connections. */
export const networkFaults = [
  /** Closes all connections, and accepts none. */
  'Refuse',
  /** Accepts connections, and forwards nothing. */
  'Swallow',
  /** Closes all connections once. */
  'Cut',
  /** Delays each part of an answer by half a second. */
  'Delay',
  /** Existing connections forward nothing any more, and stay open. */
  'Freeze',
] as const;
export type NetworkFault = (typeof networkFaults)[number];

/** Faults of requests, in addition. */
export const requestFaults = [
  /** Closes the connections of all watches once. */
  'CutWatches',
  /** Performs requests, and closes the connection instead of answering. */
  'LoseAnswers',
  /** Ends each answer in its middle. */
  'Truncate',
  /** Sends each request twice, as a proxy does that tries again; not evictions. */
  'Repeat',
  /** New connections are presented a certificate that has expired. */
  'ExpiredCertificate',
  /** Answers as while the token of the worker has expired. */
  'Answer401',
  'Answer409',
  'Answer429',
  'Answer500',
  'Answer503',
] as const;
export type RequestFault = (typeof requestFaults)[number];
export type ApiserverFault = NetworkFault | RequestFault;

/** Calls of Temporal share one connection: single ones are neither lost nor repeated. */
const temporalFaults = [
  ...networkFaults,
  /** Ends each answer anywhere, and its connection with it. */
  'Truncate',
] as const;
export type TemporalFault = (typeof temporalFaults)[number];

/** `truncatesTemporal`: false for scenarios that were recorded before Temporal had that fault. */
export function randomFault(random: Random, workers: number, truncatesTemporal: boolean): Fault {
  const forMs = random.integer(500, 4_000);
  const worker = random.integer(0, workers - 1);
  const server = random.pick(serversWithFaults);
  const request = random.pick([...requestFaults] as const);
  const choices: readonly [Fault, ...Fault[]] = [
    { kind: 'Kill', server, forMs },
    { kind: 'Hang', server, forMs },
    { kind: 'KillWorker', worker, forMs },
    { kind: 'KillWorker', worker, forMs },
    { kind: 'HangWorker', worker, forMs: forMs * 2 },
    { kind: 'ClockJump', worker, seconds: random.pick([-600, -20, 20, 600]), forMs },
    { kind: 'Apiserver', worker, network: random.pick(networkFaults), forMs },
    { kind: 'Apiserver', worker, network: request, forMs },
    { kind: 'Apiserver', worker, network: request, forMs },
    {
      kind: 'Temporal',
      worker,
      network: random.pick(truncatesTemporal ? temporalFaults : networkFaults),
      forMs,
    },
    { kind: 'FullDisk', forMs },
    { kind: 'ExpireWebhookCertificate', forMs },
    { kind: 'Expire', forMs },
  ];
  return random.pick(choices);
}

/** `Apiserver Truncate`, `Kill etcd`: the kind of a fault, without its time and worker. */
export function faultName(fault: Fault): string {
  if ('server' in fault) return `${fault.kind} ${fault.server}`;
  return 'network' in fault ? `${fault.kind} ${fault.network}` : fault.kind;
}
