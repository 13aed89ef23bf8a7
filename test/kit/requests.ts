import type { RequestObservation } from '../../kube/transport.ts';

const writingVerbs = ['create', 'apply', 'patch', 'delete', 'evict'];

/** What one client asked of the apiserver, in the order of the answers, as `patch nodes`. */
export class RequestLog {
  readonly #seen: string[] = [];

  /** For `connectKube({ onRequest })`. */
  readonly note = ({ verb, resource }: RequestObservation): void => {
    this.#seen.push(`${verb} ${resource}`);
  };

  /** How often this was asked: `evict pods`. */
  count(request: string): number {
    return this.#seen.filter((seen) => seen === request).length;
  }

  /** What changes the cluster. Events tell about a change and are none. */
  writes(from = 0): string[] {
    return this.#seen
      .slice(from)
      .filter((seen) => writingVerbs.includes(seen.split(' ')[0] ?? '') && !seen.endsWith(' events'));
  }

  /** What `act` wrote; nothing else may use the client meanwhile. */
  async writesOf(act: () => Promise<unknown>): Promise<string[]> {
    const before = this.#seen.length;
    await act();
    return this.writes(before);
  }

  /** Begins anew. */
  clear(): void {
    this.#seen.length = 0;
  }
}
