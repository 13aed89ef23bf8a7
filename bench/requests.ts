import { createReadStream, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

/**
 * The requests of a target, from the audit log of the apiserver: each target has a user of its own (identities.ts), and
 * audit-policy.yaml records the requests of these users only. The counters of the apiserver do not distinguish users.
 */
export interface Requests {
  total: number;
  /** `VERB resource/subresource CODE` -> count, most first. A watch counts once, when it starts. */
  byKind: Record<string, number>;
  /** Evictions that a PodDisruptionBudget rejected. */
  rejected: number;
}

/** The fields of an event in the audit log that count. */
interface AuditEvent {
  stage?: string;
  verb?: string;
  user?: { username?: string };
  objectRef?: { resource?: string; subresource?: string };
  requestURI?: string;
  responseStatus?: { code?: number };
}

export class AuditLog {
  readonly #directory: string;

  /** The directory contains the log of one apiserver. */
  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Returns the current end of the log, in bytes. */
  end(): number {
    return statSync(this.#file()).size;
  }

  /** Returns the requests of a user between two ends of the log. */
  async requests(user: string, { from, to }: { from: number; to: number }): Promise<Requests> {
    if (to <= from) return countRequests(user, []);
    const lines = createInterface({ input: createReadStream(this.#file(), { start: from, end: to - 1 }) });
    return countRequests(user, lines);
  }

  #file(): string {
    const [name, ...others] = readdirSync(this.#directory);
    if (name === undefined || others.length > 0)
      throw new Error(`${this.#directory} must contain one audit log, not ${others.length + 1}`);
    return join(this.#directory, name);
  }
}

/** Counts the requests of a user in the lines of an audit log. */
export async function countRequests(
  user: string,
  lines: AsyncIterable<string> | Iterable<string>,
): Promise<Requests> {
  const counts = new Map<string, number>();
  const requests: Requests = { total: 0, byKind: {}, rejected: 0 };
  for await (const line of lines) {
    // Most lines are of other users, and parsing is what takes time.
    if (!line.includes(user)) continue;
    const event = JSON.parse(line) as AuditEvent;
    if (event.user?.username !== user || !isCounted(event)) continue;
    const kind = kindOf(event);
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
    requests.total += 1;
    if (event.objectRef?.subresource === 'eviction' && event.responseStatus?.code === 429)
      requests.rejected += 1;
  }
  const sorted = [...counts].toSorted(([a, count], [b, other]) => other - count || (a < b ? -1 : 1));
  return { ...requests, byKind: Object.fromEntries(sorted) };
}

/** A watch has two events: it starts, and it ends. */
function isCounted({ stage, verb }: AuditEvent): boolean {
  return stage === (verb === 'watch' ? 'ResponseStarted' : 'ResponseComplete');
}

function kindOf({ verb, objectRef, requestURI = '', responseStatus }: AuditEvent): string {
  const { resource, subresource } = objectRef ?? {};
  const object = [resource ?? requestURI.split('?')[0], subresource].filter(Boolean).join('/');
  return `${verb} ${object} ${responseStatus?.code ?? '-'}`;
}
