import type { Requester } from '../api/requester.ts';
import { maxConcurrentReviews } from './authorization.ts';
import { forEachBounded } from './bounded.ts';
import type { Kube } from './client.ts';

interface Answer {
  readonly isPermitted: boolean;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

interface ReviewedNode {
  readonly name: string;
  readonly isStarted: boolean;
}

/** Decides which questions are asked; see domain/common/permissionReviews.ts. */
export interface ReviewRules {
  readonly validMs: number;
  /** Asks for one node, or for any node if `name` is undefined. */
  may(kube: Kube, requester: Requester, name: string | undefined): Promise<boolean>;
  isDue(nodes: readonly ReviewedNode[], answers: ReadonlyMap<string, Answer>, now: number): string[];
}

interface Answers {
  /** Whether the user may change any node. */
  any: Answer | undefined;
  /** The request for that answer, while it is in progress. */
  asking: Promise<boolean> | undefined;
  readonly nodes: Map<string, Answer>;
  usedAt: number;
}

/** Answers that are not used for this long are forgotten. */
const forgetAfterMs = 900_000;
const forgetEveryMs = 60_000;

/** Asks the apiserver which nodes users may change, and remembers the answers for a bounded time. A user who may change every node costs one request. */
export class NodePermissions {
  readonly #kube: Kube;
  readonly #rules: ReviewRules;
  /** Requester in JSON -> the answers about them. */
  readonly #answers = new Map<string, Answers>();
  #forgottenAt = Date.now();

  constructor(kube: Kube, rules: ReviewRules) {
    this.#kube = kube;
    this.#rules = rules;
  }

  /** Resolves with the names of the nodes that the requester may change. */
  async permitted(requester: Requester, nodes: readonly ReviewedNode[]): Promise<ReadonlySet<string>> {
    const names = nodes.map(({ name }) => name);
    if (nodes.length === 0) return new Set();
    const known = this.#of(requester);
    if (await this.#mayChangeAny(requester, known)) return new Set(names);
    const due = this.#rules.isDue(nodes, known.nodes, Date.now());
    await forEachBounded(maxConcurrentReviews, due, async (name) => {
      const at = Date.now();
      known.nodes.set(name, { isPermitted: await this.#rules.may(this.#kube, requester, name), at });
    });
    return new Set(names.filter((name) => known.nodes.get(name)?.isPermitted === true));
  }

  /** One request serves all callers that arrive while it is in progress. */
  async #mayChangeAny(requester: Requester, known: Answers): Promise<boolean> {
    const { any } = known;
    const now = Date.now();
    // The clock may have been set back since.
    if (any !== undefined && any.at <= now && now - any.at < this.#rules.validMs) return any.isPermitted;
    known.asking ??= this.#askForAny(requester, known).finally(() => {
      known.asking = undefined;
    });
    return known.asking;
  }

  async #askForAny(requester: Requester, known: Answers): Promise<boolean> {
    const at = Date.now();
    const isPermitted = await this.#rules.may(this.#kube, requester, undefined);
    known.any = { isPermitted, at };
    return isPermitted;
  }

  #of(requester: Requester): Answers {
    const now = Date.now();
    this.#forget(now);
    const { username, uid, groups, extra } = requester;
    const key = JSON.stringify([username, uid, groups, extra]);
    const known: Answers = this.#answers.get(key) ?? {
      any: undefined,
      asking: undefined,
      nodes: new Map<string, Answer>(),
      usedAt: now,
    };
    known.usedAt = now;
    this.#answers.set(key, known);
    return known;
  }

  #forget(now: number): void {
    if (now - this.#forgottenAt < forgetEveryMs) return;
    this.#forgottenAt = now;
    for (const [key, { usedAt, nodes }] of this.#answers) {
      if (now - usedAt > forgetAfterMs) this.#answers.delete(key);
      for (const [name, { at }] of nodes) if (now - at > forgetAfterMs) nodes.delete(name);
    }
  }
}
