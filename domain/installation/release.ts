/** How the release of an installed object relates to the release of this process. */
export const ReleaseRelation = {
  Same: 'Same',
  Older: 'Older',
  Newer: 'Newer',
  /** More than one minor version apart, of another major version, or not a version: nothing is known about working with it. */
  Unsupported: 'Unsupported',
} as const;
export type ReleaseRelation = (typeof ReleaseRelation)[keyof typeof ReleaseRelation];

/** Manifests had no version before release 0.1.0. */
export const unlabelledRelease = '0.0.0';

interface Release {
  readonly major: number;
  readonly minor: number;
  readonly patch: number;
  /** The part after the hyphen of a pre-release; '' for a release. */
  readonly pre: string;
}

/** Compares the release of an installed object with that of this process. Both are versions such as `0.2.1` or `0.2.0-rc.1`. */
export function relationOf(installed: string, own: string): ReleaseRelation {
  if (installed === own) return ReleaseRelation.Same;
  const [other, mine] = [parse(installed), parse(own)];
  if (other === undefined || mine === undefined) return ReleaseRelation.Unsupported;
  if (other.major !== mine.major || Math.abs(other.minor - mine.minor) > 1)
    return ReleaseRelation.Unsupported;
  return isBefore(other, mine) ? ReleaseRelation.Older : ReleaseRelation.Newer;
}

/** Returns the minor versions that processes of this release work with, such as `0.1, 0.2 and 0.3`. */
export function supportedMinors(own: string): string {
  const { major, minor } = parse(own) ?? { major: 0, minor: 0 };
  const minors = [minor - 1, minor, minor + 1].filter((one) => one >= 0).map((one) => `${major}.${one}`);
  return `${minors.slice(0, -1).join(', ')} and ${minors.at(-1)}`;
}

function parse(version: string): Release | undefined {
  const [, major, minor, patch, pre = ''] = /^(\d{1,6})\.(\d{1,6})\.(\d{1,6})(?:-(.+))?$/.exec(version) ?? [];
  if (patch === undefined) return undefined;
  return { major: Number(major), minor: Number(minor), patch: Number(patch), pre };
}

function isBefore(a: Release, b: Release): boolean {
  const difference = a.minor - b.minor || a.patch - b.patch;
  if (difference !== 0) return difference < 0;
  // A pre-release precedes its release.
  if (a.pre === '' || b.pre === '') return a.pre !== '';
  return a.pre < b.pre;
}
