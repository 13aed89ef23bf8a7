import type { TemporalWorker } from '../leases/processSummary.ts';
import { listed } from '../common/names.ts';
import { numbered } from '../common/text.ts';
import { durationText, error, type Finding, ok, warning } from './finding.ts';

/** A fact that this user may have no permission to read from Temporal. */
export type Asked<T> =
  | { readonly kind: 'Known'; readonly value: T }
  | { readonly kind: 'Unknown'; readonly problem: string };

/** A Temporal namespace that the workers use. */
export interface TemporalNamespaceFacts {
  readonly name: string;
  /** Undefined if Temporal has no such namespace. */
  readonly retentionSeconds: Asked<number | undefined>;
  /** Missing search attributes, and those with another type: name -> required type. */
  readonly attributes: Asked<{
    readonly missing: readonly string[];
    readonly mistyped: readonly string[];
    /** The command that creates the missing ones. */
    readonly command: string;
  }>;
}

/** A live worker, and how long ago it has polled its task queues. */
export interface PollerFacts {
  readonly worker: TemporalWorker;
  readonly host: string;
  /** Milliseconds since the last poll for each kind of task; undefined if Temporal knows none. */
  readonly polls: Asked<Readonly<Record<PolledKind, number | undefined>>>;
}

/** The kinds of tasks that every worker polls for: activities that last have a task queue of their own. */
export const polledKinds = ['workflow', 'activity', 'longRunning'] as const;
export type PolledKind = (typeof polledKinds)[number];

/** Notifications of workers: one without an endpoint starts none and delivers none. */
export interface NotificationFacts {
  readonly taskQueue: string;
  /** Number of notifications that are not delivered yet. */
  readonly waiting: number;
  /** Milliseconds since the last poll of any worker; undefined if Temporal knows none. */
  readonly polledMs: number | undefined;
}

export type TemporalFacts =
  | {
      readonly kind: 'Unavailable';
      /** Why, with the remedy, on one line. */
      readonly problem: string;
      /** Messages of maintenances for which the worker cannot use Temporal either; undefined if they could not be read. */
      readonly reported: readonly string[] | undefined;
    }
  | {
      readonly kind: 'Available';
      readonly address: string;
      readonly namespaces: readonly TemporalNamespaceFacts[];
      readonly pollers: readonly PollerFacts[];
      readonly notifications: readonly NotificationFacts[];
      /** Task queues that this cluster has claimed in the namespace of the user's settings. */
      readonly claims: Asked<readonly string[]>;
      readonly requiredRetentionSeconds: number;
    };

/** A worker polls each task queue at least once a minute. */
const silentAfterMs = 120_000;
const secondsPerDay = 86_400;

/** Checks Temporal as the user of the command sees it. */
export function temporalFindings(facts: TemporalFacts): Finding[] {
  if (facts.kind === 'Unavailable') return unavailable(facts);
  return [
    ok(`Temporal at ${facts.address} answers`),
    ...facts.namespaces.flatMap((one) => namespaceFindings(one, facts.requiredRetentionSeconds)),
    ...claimFindings(facts.claims),
    ...pollerFindings(facts.pollers),
    ...facts.notifications.flatMap(notificationFindings),
  ];
}

function unavailable({ problem, reported }: TemporalFacts & { kind: 'Unavailable' }): Finding[] {
  const [first] = reported ?? [];
  const seen = warning(
    `not checked: ${problem}`,
    'set TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE and the credentials as for the workers, or run the command where Temporal can be reached',
  );
  if (reported === undefined) return [seen];
  return first === undefined
    ? [seen, ok('no maintenance reports that the worker cannot use Temporal')]
    : [seen, error(`the worker cannot use Temporal either: ${first}`, 'see docs/how-to/temporal-outage.md')];
}

function namespaceFindings(
  { name, retentionSeconds, attributes }: TemporalNamespaceFacts,
  requiredSeconds: number,
): Finding[] {
  const object = `temporal-namespace/${name}`;
  if (retentionSeconds.kind === 'Known' && retentionSeconds.value === undefined)
    return [
      error(
        `namespace ${name} of Temporal does not exist`,
        'create it (npm run temporal-config -- apply), or correct TEMPORAL_NAMESPACE',
        object,
      ),
    ];
  return [
    retentionFinding({ name, retentionSeconds }, requiredSeconds),
    ...attributeFindings({ name, attributes }),
  ];
}

function retentionFinding(
  { name, retentionSeconds }: Pick<TemporalNamespaceFacts, 'name' | 'retentionSeconds'>,
  requiredSeconds: number,
): Finding {
  const object = `temporal-namespace/${name}`;
  const check = 'grant this user read access to the namespace';
  if (retentionSeconds.kind === 'Unknown')
    return warning(`retention of namespace ${name} not checked: ${retentionSeconds.problem}`, check, object);
  const seconds = retentionSeconds.value ?? 0;
  const days = (value: number) => numbered(Math.round((value / secondsPerDay) * 10) / 10, 'day');
  return seconds < requiredSeconds
    ? warning(
        `namespace ${name} keeps histories of closed runs for ${days(seconds)} only, and ${days(requiredSeconds)} are expected`,
        `temporal operator namespace update --namespace ${name} --retention ${requiredSeconds / secondsPerDay}d, or npm run temporal-config -- apply`,
        object,
      )
    : ok(`namespace ${name} keeps histories for ${days(seconds)}`);
}

function attributeFindings({
  name,
  attributes,
}: Pick<TemporalNamespaceFacts, 'name' | 'attributes'>): Finding[] {
  const object = `temporal-namespace/${name}`;
  if (attributes.kind === 'Unknown')
    return [
      warning(
        `search attributes of namespace ${name} not checked: ${attributes.problem}`,
        'look at them in the Temporal UI, as in Temporal Cloud; a worker that misses one does not work and names it in its log',
        object,
      ),
    ];
  const { missing, mistyped, command } = attributes.value;
  return [
    ...(missing.length > 0
      ? [
          error(
            `namespace ${name} has no search attribute ${listed(missing)}: runs that set it stop`,
            `${command}; in Temporal Cloud use its UI or tcld namespace search-attributes add`,
            object,
          ),
        ]
      : []),
    ...(mistyped.length > 0
      ? [
          error(
            `search attribute ${listed(mistyped)} of namespace ${name} has another type than required`,
            'use another namespace, or remove the attribute (temporal operator search-attribute remove) and create it again',
            object,
          ),
        ]
      : []),
    ...(missing.length + mistyped.length === 0 ? [ok(`namespace ${name} has all search attributes`)] : []),
  ];
}

function claimFindings(claims: Asked<readonly string[]>): Finding[] {
  if (claims.kind === 'Unknown')
    return [
      warning(
        `not checked whether this cluster uses the namespace: ${claims.problem}`,
        'bind the ClusterRole node-maintenance-view, and grant read access to the Temporal namespace',
      ),
    ];
  return claims.value.length > 0
    ? [ok(`this cluster has claimed task queue ${listed(claims.value)}`)]
    : [
        error(
          'no worker of this cluster has claimed its names in the namespace of these settings',
          'check TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE: they must be those of the workers (kubectl maintenance workers); if they are, check the log of a worker',
        ),
      ];
}

function pollerFindings(pollers: readonly PollerFacts[]): Finding[] {
  if (pollers.length === 0) return [];
  const unknown = pollers.flatMap(({ polls }) => (polls.kind === 'Unknown' ? [polls.problem] : []));
  const silent = pollers.flatMap(({ worker, host, polls }) => {
    const missing = polls.kind === 'Unknown' ? [] : polledKinds.filter((kind) => isSilent(polls.value[kind]));
    if (polls.kind === 'Unknown' || missing.length === 0) return [];
    const lasts = missing.map((kind) => `${kindTexts[kind]} ${lastText(polls.value[kind])}`);
    return [`${host} (${worker.taskQueue}: ${lasts.join(', ')})`];
  });
  const polling = pollers.length - silent.length - unknown.length;
  const text = `live workers that do not poll their task queues: ${listed(silent)}`;
  const remedy = 'check the log of these workers, and that they use this Temporal';
  return [
    ...(polling > 0 ? [ok(`${polling} of ${pollers.length} live workers poll their task queues`)] : []),
    ...(silent.length > 0 ? [polling > 0 ? warning(text, remedy) : error(text, remedy)] : []),
    ...(unknown.length > 0
      ? [
          warning(
            `pollers not checked: ${listed([...new Set(unknown)])}`,
            'grant this user read access to the Temporal namespace',
          ),
        ]
      : []),
  ];
}

const kindTexts: Record<PolledKind, string> = {
  workflow: 'workflows',
  activity: 'activities',
  longRunning: 'long-running activities',
};

function isSilent(ms: number | undefined): boolean {
  return ms === undefined || ms > silentAfterMs;
}

function lastText(ms: number | undefined): string {
  return ms === undefined ? 'never' : `last ${durationText(ms)} ago`;
}

function notificationFindings({ taskQueue, waiting, polledMs }: NotificationFacts): Finding[] {
  if (waiting === 0 || !isSilent(polledMs)) return [];
  return [
    warning(
      `${numbered(waiting, 'notification')} ${waiting === 1 ? 'waits' : 'wait'} on task queue ${taskQueue}, which no worker polls`,
      'start the workers with --notify-url again; without it they are dropped after --notify-max-age of the workers that enqueued them',
    ),
  ];
}
