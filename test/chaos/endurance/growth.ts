/** A value that was read at a time. */
export interface Point {
  hours: number;
  value: number;
}

/** A straight line through points by least squares; `low` and `high` limit its slope with a confidence of 95 %. */
export interface Growth {
  mean: number;
  perHour: number;
  low: number;
  high: number;
}

/** Points that follow each other are alike: the means of so many parts of the time are treated as independent. */
const parts = 20;
/** Quantile 0.975 of Student's t distribution with `parts` - 2 degrees of freedom. */
const quantile = 2.101;

/** Share of its mean by which a value may grow in an hour: less does not matter within a release of the worker. */
const toleratedShare = 0.01;

/** Returns the growth of points in the order of time; undefined if there are too few. */
export function growthOf(points: readonly Point[]): Growth | undefined {
  const means = meansOf(points);
  if (means.length < parts) return undefined;
  const [hours, value] = [mean(means.map((one) => one.hours)), mean(means.map((one) => one.value))];
  const spread = sum(means.map((one) => (one.hours - hours) ** 2));
  const perHour = sum(means.map((one) => (one.hours - hours) * (one.value - value))) / spread;
  const residuals = means.map((one) => one.value - value - perHour * (one.hours - hours));
  const error = Math.sqrt(sum(residuals.map((one) => one ** 2)) / (parts - 2) / spread);
  return { mean: value, perHour, low: perHour - quantile * error, high: perHour + quantile * error };
}

/** Reports whether a value grows: with confidence, and by a share of it that matters. */
export function isGrowing({ mean: value, perHour, low }: Growth): boolean {
  return low > 0 && perHour > toleratedShare * Math.abs(value);
}

/** Share of the points that may be higher: a single one says nothing. */
const outliers = 0.1;

/** Returns the highest value without outliers; -Infinity of none. */
export function highOf(points: readonly Point[]): number {
  const sorted = points.map(({ value }) => value).toSorted((a, b) => a - b);
  return sorted[Math.ceil(sorted.length * (1 - outliers)) - 1] ?? -Infinity;
}

function meansOf(points: readonly Point[]): Point[] {
  return Array.from({ length: parts }, (_, part) =>
    points.slice(
      Math.floor((points.length * part) / parts),
      Math.floor((points.length * (part + 1)) / parts),
    ),
  )
    .filter((some) => some.length > 0)
    .map((some) => ({
      hours: mean(some.map(({ hours }) => hours)),
      value: mean(some.map(({ value }) => value)),
    }));
}

function mean(values: readonly number[]): number {
  return sum(values) / values.length;
}

export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
