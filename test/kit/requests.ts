import type { RequestObservation } from '../../kube/transport.ts';

const writingVerbs = ['create', 'apply', 'patch', 'delete', 'evict'];

/** The requests of one client, such as `patch nodes`, in the order of their answers. */
export class RequestLog {
  readonly #observed: string[] = [];

  /** For `connectKube({ onRequest })`. */
  readonly note = ({ verb, resource }: RequestObservation): void => {
    this.#observed.push(`${verb} ${resource}`);
  };

  /** Counts one kind of request, such as `evict pods`. */
  count(request: string): number {
    return this.#observed.filter((observed) => observed === request).length;
  }

  /** Returns the requests that change the cluster, without Events. A review of permissions is created, but changes nothing. */
  writes(from = 0): string[] {
    return this.#observed
      .slice(from)
      .filter(
        (observed) =>
          writingVerbs.includes(observed.split(' ')[0] ?? '') &&
          !observed.endsWith(' events') &&
          !observed.endsWith('subjectaccessreviews.authorization.k8s.io'),
      );
  }

  /** Returns the writes of `act`; nothing else may use the client at the same time. */
  async writesOf(act: () => Promise<unknown>): Promise<string[]> {
    const before = this.#observed.length;
    await act();
    return this.writes(before);
  }

  /** Forgets all requests. */
  clear(): void {
    this.#observed.length = 0;
  }
}
