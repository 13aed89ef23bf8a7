/** A computation in steps, between which its caller may do something else, or give it up. */
export type Steps<Result> = Generator<undefined, Result, undefined>;

/** Performs all steps at once. */
export function finish<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}
