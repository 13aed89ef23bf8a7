import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { ReleaseRelation, relationOf, supportedMinors } from '../../../domain/installation/release.ts';

const { Same, Older, Newer, Unsupported } = ReleaseRelation;

describe('a release works with manifests', () => {
  test.each([
    { installed: '0.2.1', own: '0.2.1', want: Same },
    { installed: '0.2.0', own: '0.2.1', want: Older },
    { installed: '0.2.10', own: '0.2.9', want: Newer },
    { installed: '0.1.9', own: '0.2.0', want: Older },
    { installed: '0.3.0', own: '0.2.4', want: Newer },
    { installed: '0.10.0', own: '0.9.0', want: Newer },
    { installed: '0.2.0-rc.1', own: '0.2.0', want: Older },
    { installed: '0.2.0', own: '0.2.0-rc.1', want: Newer },
    { installed: '0.2.0-rc.1', own: '0.2.0-rc.2', want: Older },
    { installed: '0.0.0', own: '0.1.0', want: Older },
    { installed: '0.4.0', own: '0.2.0', want: Unsupported },
    { installed: '0.0.0', own: '0.2.0', want: Unsupported },
    { installed: '1.0.0', own: '0.9.0', want: Unsupported },
    { installed: '0.2', own: '0.2.0', want: Unsupported },
    { installed: 'latest', own: '0.2.0', want: Unsupported },
    { installed: '', own: '0.2.0', want: Unsupported },
  ])('of $installed in $own: $want', ({ installed, own, want }) => {
    expect(relationOf(installed, own)).toBe(want);
  });

  test('of which neighbours see each other the other way round', () => {
    const release = fc.tuple(fc.nat(3), fc.nat(5), fc.nat(20)).map((numbers) => numbers.join('.'));
    const opposite = { Same, Older: Newer, Newer: Older, Unsupported };
    fc.assert(
      fc.property(release, release, (a, b) => expect(relationOf(b, a)).toBe(opposite[relationOf(a, b)])),
    );
  });

  test('whatever the label says', () => {
    fc.assert(
      fc.property(fc.string(), (label) =>
        expect(Object.values(ReleaseRelation)).toContain(relationOf(label, '0.2.0')),
      ),
    );
  });
});

test.each([
  { own: '0.2.1', want: '0.1, 0.2 and 0.3' },
  { own: '0.0.0', want: '0.0 and 0.1' },
  { own: '1.4.0', want: '1.3, 1.4 and 1.5' },
])('release $own names $want', ({ own, want }) => {
  expect(supportedMinors(own)).toBe(want);
});
