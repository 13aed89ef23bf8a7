import { ReleaseRelation, relationOf, supportedMinors, unlabelledRelease } from './release.ts';

/** An object of this release's manifests, and what is installed under its name. */
export interface ReviewedObject {
  readonly kind: string;
  readonly name: string;
  /** undefined: it is missing, or this process may not read it. */
  readonly installed: InstalledObject | undefined;
}

export interface InstalledObject {
  /** Value of its label `app.kubernetes.io/version`. */
  readonly release: string | undefined;
  /** Whether it has every field of this release's manifest. */
  readonly isOurs: boolean;
  /** Why this process cannot use it in any release, such as "is not established yet". */
  readonly problem?: string | undefined;
  /** Fields that this process writes and the apiserver drops. */
  readonly unknownFields: readonly string[];
}

/** Number of objects by what was found; together they are all objects. */
export type InstallationCounts = Readonly<Record<InstallationCount, number>>;
export const installationCounts = ['same', 'changed', 'older', 'newer', 'unsupported', 'missing'] as const;
export type InstallationCount = (typeof installationCounts)[number];

export interface InstallationReview {
  /** Sentences that say why a process must not start with this installation. */
  readonly problems: readonly string[];
  /** A sentence about the differences from this release with which a process works nevertheless; undefined if there are none. */
  readonly difference: string | undefined;
  readonly counts: InstallationCounts;
  readonly unknownFields: readonly string[];
}

/** Names in one sentence; the others are counted. */
const maxNames = 4;

/**
 * Decides whether a process of this release works with the installed manifests: those of its own minor version, and of the ones next to it.
 * A release changes schemas and policies only in ways that its neighbours work with (docs/adr/0055).
 */
export function reviewInstallation(objects: readonly ReviewedObject[], release: string): InstallationReview {
  const found = objects.map((object) => ({ object, count: countOf(object, release) }));
  const isNeighbour = isOf(found, 'newer') || isOf(found, 'older');
  const unknown = objects.flatMap(({ installed }) => installed?.unknownFields ?? []);
  const counts = Object.fromEntries(
    installationCounts.map((name) => [name, found.filter(({ count }) => count === name).length]),
  ) as InstallationCounts;
  return {
    problems: [
      ...found.flatMap(({ object, count }) => (count === 'missing' && !isNeighbour ? [missing(object)] : [])),
      ...objects.flatMap(unusable),
      ...unsupported(
        found.filter(({ count }) => count === 'unsupported').map(({ object }) => object),
        release,
      ),
      // Fields are added by releases: only an older schema lacks some for a reason.
      ...found.flatMap(({ object, count }) => (count === 'older' ? [] : incomplete(object))),
    ],
    difference: differenceOf(objects, { counts, release, unknown }),
    counts,
    unknownFields: unknown,
  };
}

/** Reports whether the whole installation is of a newer release, which may have removed policies, or of an older one, which lacks new ones. */
function isOf(
  found: readonly { object: ReviewedObject; count: InstallationCount }[],
  relation: 'newer' | 'older',
): boolean {
  return (
    found.some(({ count }) => count === relation) &&
    found.every(
      ({ object, count }) =>
        count === relation || (count === 'missing' && object.kind !== 'CustomResourceDefinition'),
    )
  );
}

function countOf({ installed }: ReviewedObject, release: string): InstallationCount {
  if (installed === undefined) return 'missing';
  switch (relationOf(installed.release ?? unlabelledRelease, release)) {
    case ReleaseRelation.Same:
      return installed.isOurs ? 'same' : 'changed';
    case ReleaseRelation.Older:
      return 'older';
    case ReleaseRelation.Newer:
      return 'newer';
    case ReleaseRelation.Unsupported:
      return 'unsupported';
  }
}

function nameOf({ kind, name }: ReviewedObject): string {
  return `${kind} ${name}`;
}

function missing(object: ReviewedObject): string {
  return `${nameOf(object)} is missing, or this process may not read it`;
}

function unusable(object: ReviewedObject): string[] {
  const { installed } = object;
  return installed?.problem === undefined ? [] : [`${nameOf(object)} ${installed.problem}`];
}

function incomplete(object: ReviewedObject): string[] {
  const { installed } = object;
  if (installed === undefined || installed.problem !== undefined || installed.unknownFields.length === 0)
    return [];
  return [
    `${nameOf(object)} lacks ${listed(installed.unknownFields)}, although it belongs to release ${installed.release ?? unlabelledRelease}`,
  ];
}

/** One sentence for each release, because an installation has many objects. */
function unsupported(objects: readonly ReviewedObject[], release: string): string[] {
  const releases = new Set(objects.map(({ installed }) => installed?.release ?? unlabelledRelease));
  return [...releases].toSorted().map((one) => {
    const names = objects.filter(({ installed }) => (installed?.release ?? unlabelledRelease) === one);
    return `${listed(names.map(nameOf))} ${names.length === 1 ? 'belongs' : 'belong'} to release ${one}, and this process to release ${release}, which works with releases ${supportedMinors(release)}: start a process of a release next to ${one}, or apply the manifests of a release next to ${release} (docs/how-to/upgrade.md)`;
  });
}

function differenceOf(
  objects: readonly ReviewedObject[],
  { counts, release, unknown }: { counts: InstallationCounts; release: string; unknown: readonly string[] },
): string | undefined {
  const releases = [...new Set(objects.flatMap(({ installed }) => installed?.release ?? []))].toSorted();
  const parts = installationCounts.flatMap((name) =>
    name === 'same' || counts[name] === 0 ? [] : [`${counts[name]} ${name}`],
  );
  if (parts.length === 0) return undefined;
  const of = releases.length === 0 ? 'without a version' : `of release ${releases.join(', ')}`;
  const lost =
    unknown.length === 0
      ? ''
      : `; the apiserver drops or rejects what this process writes: ${listed(unknown)}`;
  return `the installed manifests are ${of} and this process of release ${release} (${parts.join(', ')} of ${objects.length} objects)${lost}`;
}

function listed(names: readonly string[]): string {
  if (names.length <= maxNames) return names.join(', ');
  return `${names.slice(0, maxNames).join(', ')} and ${names.length - maxNames} more`;
}
