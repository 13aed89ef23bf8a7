import { test } from '@jest/globals';

/** Requirements of some tests that a machine may lack. NM_TEST_REQUIRE lists those that must not be missing, separated by commas, as in .ci/run. */
export const Requirement = {
  /** D-Bus, and what mocks logind on it. */
  Bus: 'bus',
  /** Clocks that are wrong: libfaketime. */
  Clocks: 'clocks',
  /** Real nodes: containers, namespaces, root. */
  Containers: 'containers',
  /** zsh and fish. */
  Shells: 'shells',
  /** Hosts with a systemd of their own. */
  Systemd: 'systemd',
} as const;
export type Requirement = (typeof Requirement)[keyof typeof Requirement];

/**
 * Returns a `test` for what needs the requirement; `missing` says what this machine lacks for it. There the tests are skipped, which counts as such; where
 * NM_TEST_REQUIRE names the requirement they fail with that one line. `declare` may be `test.concurrent`.
 */
export function testsWith(
  requirement: Requirement,
  missing: string | undefined,
  declare: (name: string, check: () => Promise<void>) => void = test,
): (name: string, check: () => Promise<void>) => void {
  if (missing === undefined) return declare;
  if (required().includes(requirement))
    return (name) =>
      test(name, () => {
        throw new Error(`NM_TEST_REQUIRE contains ${requirement}, and ${missing}`);
      });
  // Jest prints which tests were skipped; the reason is the same for all of a file.
  process.stderr.write(`Tests with ${requirement} are skipped, because ${missing}\n`);
  // oxlint-disable-next-line jest/no-disabled-tests -- depends on the machine, and .ci/run permits none
  return (name, check) => test.skip(name, check);
}

function required(): string[] {
  const names = (process.env['NM_TEST_REQUIRE'] ?? '').split(',').filter((name) => name !== '');
  const known: readonly string[] = Object.values(Requirement);
  const unknown = names.find((name) => !known.includes(name));
  if (unknown !== undefined)
    throw new Error(
      `NM_TEST_REQUIRE: expected some of ${known.join(', ')}, separated by commas (got "${unknown}")`,
    );
  return names;
}
