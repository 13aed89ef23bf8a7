import { compareNames } from './names.ts';

/** The answer of the apiserver whether a user may delete a node. */
export interface PermissionAnswer {
  readonly isPermitted: boolean;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

interface ReviewedNode {
  readonly name: string;
  /** Something was started on the node with this permission already. */
  readonly isStarted: boolean;
}

/** How long an answer is valid. */
export interface ReviewTiming {
  readonly validMs: number;
  /** The same for a node on which something was started: its permission only decides whether more is started. */
  readonly startedValidMs: number;
}

export const defaultReviewTiming: ReviewTiming = { validMs: 30_000, startedValidMs: 300_000 };

/** Answers for many nodes are valid for longer, so that one list of nodes causes at most 50 reviews a second. */
const minMsPerReview = 20;
/** A repeated question that can wait is asked in one of this many calls, so that no call waits for all of them. */
const callsPerRound = 30;
const minRepeated = 16;

/**
 * Returns the nodes whose permission is to be asked for now. A node without an answer, or about to be started with an expired one, cannot
 * wait. All other expired answers are renewed a few at a time, the oldest first, and apply until then.
 */
export function reviewsDue(
  nodes: readonly ReviewedNode[],
  answers: ReadonlyMap<string, PermissionAnswer>,
  timing: ReviewTiming,
  now: number,
): string[] {
  const due: string[] = [];
  const repeated: { name: string; at: number }[] = [];
  for (const { name, isStarted } of nodes) {
    const answer = answers.get(name);
    if (answer === undefined) due.push(name);
    else if (isValid(answer, validityOf(timing, isStarted, nodes.length), now)) continue;
    else if (answer.isPermitted && !isStarted) due.push(name);
    else repeated.push({ name, at: answer.at });
  }
  const oldest = repeated.toSorted((a, b) => a.at - b.at || compareNames(a.name, b.name));
  const limit = Math.max(minRepeated, Math.ceil(nodes.length / callsPerRound));
  return [...due, ...oldest.slice(0, limit).map(({ name }) => name)];
}

function isValid({ at }: PermissionAnswer, validMs: number, now: number): boolean {
  return at <= now && now - at < validMs;
}

function validityOf({ validMs, startedValidMs }: ReviewTiming, isStarted: boolean, count: number): number {
  return Math.max(isStarted ? startedValidMs : validMs, count * minMsPerReview);
}
