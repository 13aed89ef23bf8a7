import { describe, expect, test } from '@jest/globals';
import {
  type InstalledObject,
  type ReviewedObject,
  reviewInstallation,
} from '../../../domain/installation/review.ts';

const own = '0.2.0';

const found = (differs: Partial<InstalledObject> = {}): InstalledObject => ({
  release: own,
  isOurs: true,
  unknownFields: [],
  ...differs,
});
const crd = (installed: InstalledObject | undefined): ReviewedObject => ({
  kind: 'CustomResourceDefinition',
  name: 'cars',
  installed,
});
const policy = (installed: InstalledObject | undefined, name = 'speed'): ReviewedObject => ({
  kind: 'ValidatingAdmissionPolicy',
  name,
  installed,
});
const newer = found({ release: '0.3.0', isOurs: false });
const older = found({ release: '0.1.4', isOurs: false });

describe('a process works with', () => {
  test.each([
    { manifests: 'those of its release', objects: [crd(found()), policy(found())], want: undefined },
    {
      manifests: 'those of its release that an administrator has changed',
      objects: [crd(found()), policy(found({ isOurs: false }))],
      want: 'the installed manifests are of release 0.2.0 and this process of release 0.2.0 (1 changed of 2 objects)',
    },
    {
      manifests: 'those of the next minor version',
      objects: [crd(newer), policy(newer)],
      want: 'the installed manifests are of release 0.3.0 and this process of release 0.2.0 (2 newer of 2 objects)',
    },
    {
      manifests: 'those of the next minor version, which has removed a policy',
      objects: [crd(newer), policy(undefined)],
      want: 'the installed manifests are of release 0.3.0 and this process of release 0.2.0 (1 newer, 1 missing of 2 objects)',
    },
    {
      manifests: 'those of the previous minor version, and says which fields are lost',
      objects: [crd({ ...older, unknownFields: ['Car.status.a'] }), policy(older)],
      want: 'the installed manifests are of release 0.1.4 and this process of release 0.2.0 (2 older of 2 objects); the apiserver drops or rejects what this process writes: Car.status.a',
    },
    {
      manifests: 'those of the previous minor version, which did not have a policy yet',
      objects: [crd(older), policy(undefined)],
      want: 'the installed manifests are of release 0.1.4 and this process of release 0.2.0 (1 older, 1 missing of 2 objects)',
    },
    {
      manifests: 'half of an upgrade',
      objects: [crd(newer), policy(found())],
      want: 'the installed manifests are of release 0.2.0, 0.3.0 and this process of release 0.2.0 (1 newer of 2 objects)',
    },
  ])('$manifests', ({ objects, want }) => {
    const { problems, difference } = reviewInstallation(objects, own);
    expect({ problems, difference }).toEqual({ problems: [], difference: want });
  });

  test('manifests before the first release, which have no version, only in that release', () => {
    const objects = [crd(found({ release: undefined, isOurs: false }))];
    const { problems, difference } = reviewInstallation(objects, '0.1.0');
    expect(problems).toEqual([]);
    expect(difference).toBe(
      'the installed manifests are without a version and this process of release 0.1.0 (1 older of 1 objects)',
    );
    expect(reviewInstallation(objects, own).problems).toHaveLength(1);
  });
});

describe('a process does not start with', () => {
  test.each([
    {
      manifests: 'a missing policy',
      objects: [crd(found()), policy(undefined)],
      want: ['ValidatingAdmissionPolicy speed is missing, or this process may not read it'],
    },
    {
      manifests: 'a policy that is missing while only some are older',
      objects: [crd(older), policy(found()), policy(undefined, 'brakes')],
      want: ['ValidatingAdmissionPolicy brakes is missing, or this process may not read it'],
    },
    {
      manifests: 'a policy that is missing while only some are newer',
      objects: [crd(newer), policy(found()), policy(undefined, 'brakes')],
      want: ['ValidatingAdmissionPolicy brakes is missing, or this process may not read it'],
    },
    {
      manifests: 'a missing CRD, of whatever release the others are',
      objects: [crd(undefined), policy(newer)],
      want: ['CustomResourceDefinition cars is missing, or this process may not read it'],
    },
    {
      manifests: 'a CRD that does not serve its version',
      objects: [crd({ ...newer, problem: 'does not serve version v1' })],
      want: ['CustomResourceDefinition cars does not serve version v1'],
    },
    {
      manifests: 'a CRD of its own release that lacks fields',
      objects: [crd(found({ isOurs: false, unknownFields: ['a', 'b', 'c', 'd', 'e'] }))],
      want: [
        'CustomResourceDefinition cars lacks a, b, c, d and 1 more, although it belongs to release 0.2.0',
      ],
    },
    {
      manifests: 'those of two minor versions later',
      objects: [crd(found({ release: '0.4.0' })), policy(found({ release: '0.4.0' }))],
      want: [
        'CustomResourceDefinition cars, ValidatingAdmissionPolicy speed belong to release 0.4.0, and this process to release 0.2.0, which works with releases 0.1, 0.2 and 0.3: start a process of a release next to 0.4.0, or apply the manifests of a release next to 0.2.0 (docs/how-to/upgrade.md)',
      ],
    },
  ])('$manifests', ({ objects, want }) => {
    expect(reviewInstallation(objects, own).problems).toEqual(want);
  });
});

test('every object is counted once', () => {
  const objects = [
    crd(found()),
    policy(newer),
    policy(older),
    policy(undefined),
    policy(found({ isOurs: false })),
  ];
  const { counts } = reviewInstallation(objects, own);
  expect(counts).toEqual({ same: 1, changed: 1, older: 1, newer: 1, unsupported: 0, missing: 1 });
});
