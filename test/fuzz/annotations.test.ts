import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Pod } from '../../api/core.ts';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import {
  MAX_EVACUATORS,
  OWNER_ANNOTATION,
  WindowAnnotation,
  WindowOverrideAnnotation,
  WindowRequestAnnotation,
} from '../../api/names.ts';
import { authorityOf, countsForEveryNode, denialOf } from '../../domain/common/requester.ts';
import { joinedProblems } from '../../domain/common/text.ts';
import { ownersOf } from '../../domain/drain/escalation.ts';
import { registeredEvacuators } from '../../domain/evacuation/evacuatorSelection.ts';
import { parseRelease, releaseText } from '../../domain/evacuation/podRelease.ts';
import { windowMaintenancesIn } from '../../domain/windows/windowMaintenance.ts';
import { openingProblems, pauseOf, scheduleOf, skippedBecause } from '../../domain/windows/overrides.ts';
import { decideAnnotatedRequests } from '../../domain/windows/requests.ts';
import { manifestOf, mirrorPod } from '../../domain/staticPods/manifest.ts';
import { parseShutdownPriorities } from '../../domain/shutdown/priorities.ts';
import { expectReadable, fuzz } from './kit/fuzz.ts';
import { jsonTextsLike, mutationsOf, textsLike } from './kit/mutations.ts';

/** Users who may write an object write any text as the value of an annotation. Its keys are qualified names: the apiserver stores no others. */

const now = Date.parse('2026-01-01T12:00:00Z');
const prefix = 'evacuation.coordination.k8s.io/priority_';
const classes = fc.oneof(
  fc.constantFrom('migrate.example.com', 'deployment.apps.k8s.io', 'a', 'A', 'a..b', '-a', 'a-', '_', ''),
  fc.stringMatching(/^[-A-Za-z0-9_.]{0,54}$/),
);

const podWith = (annotations: Record<string, string>): Pod => ({
  metadata: { name: 'web-1', namespace: 'shop', uid: 'u1', annotations },
  spec: { nodeName: 'n1' },
  status: { ready: true },
});

describe('any value of an annotation', () => {
  test('registers an evacuator, or is a problem that names the annotation', () => {
    const values = textsLike(['10000/controller', '-5/owner', '2147483648/x', '1/'.padEnd(70, 'x')]);
    const annotations = fc.dictionary(
      classes.map((one) => `${prefix}${one}`),
      values,
      { maxKeys: 30 },
    );
    return fuzz(
      annotations,
      (given) => {
        const { evacuators, problems } = registeredEvacuators(podWith(given));
        expect(evacuators.length).toBeLessThanOrEqual(MAX_EVACUATORS);
        expect(evacuators.map(({ priority }) => priority)).toEqual(
          evacuators.map(({ priority }) => priority).toSorted((a, b) => b - a),
        );
        for (const problem of problems) {
          expect(problem).toMatch(/^metadata\.annotations/);
          expectReadable(problem, { max: 400 });
        }
        expectReadable(joinedProblems(problems));
      },
      200,
    );
  });

  test('names a requester, or grants nothing', () =>
    fuzz(
      jsonTextsLike([
        { everyNode: true, username: 'jane', uid: 'u', groups: ['a'], extra: { 'example.com/a': ['b'] } },
        { window: 'os-patch' },
      ]),
      (record) => {
        const authority = authorityOf(record);
        expectReadable(denialOf(authority));
        countsForEveryNode(record);
        if (authority.kind === 'User') expect(authority.requester.username).not.toBe('');
      },
    ));

  test('is the record of a released pod, or none', () => {
    const named = { name: 'web', uid: 'u' };
    const record = {
      deployment: named,
      replicaSet: named,
      podTemplateHash: 'x',
      releasedAt: '2026-01-01T00:00:00Z',
    };
    return fuzz(jsonTextsLike([{ ...record, servedBefore: 3 }]), (text) => {
      const release = parseRelease(text);
      if (release === undefined) return;
      expect(typeof release.deployment.uid).toBe('string');
      expect(typeof release.replicaSet.uid).toBe('string');
      expect(['number', 'undefined']).toContain(typeof release.servedBefore);
      expect(parseRelease(releaseText(release))).toEqual(release);
    });
  });

  test('names an owner in a readable text', () =>
    fuzz(textsLike(['team-a']), (value) => {
      for (const { owner } of ownersOf([podWith({ [OWNER_ANNOTATION]: value })]))
        expectReadable(owner, { max: 253 });
    }));
});

const window = (annotations: Record<string, string>): MaintenanceWindow =>
  ({
    metadata: { name: 'os', uid: 'w', annotations },
    spec: {
      approval: 'PerNode',
      suspend: false,
      schedule: { calendar: [{ time: '02:00' }], timeZone: 'Europe/Berlin', durationSeconds: 3600 },
    },
    status: { active: { runId: 'run-1', requests: {} } },
  }) as unknown as MaintenanceWindow;

describe('any annotation of a window', () => {
  const keys = fc.constantFrom(...Object.values(WindowRequestAnnotation));
  const values = textsLike(['run-1', 'run-1:n1,n2', 'run-1:', 'run-1:n1,,n2']);

  test('is a request, or a problem that names the annotation', () =>
    fuzz(
      fc.dictionary(keys, values, { minKeys: 1 }),
      (annotations) => {
        const { problems, requests } = decideAnnotatedRequests(window(annotations), (node) =>
          /^n\d$/.test(node),
        );
        expect(requests?.approvedNodes?.every((node) => /^n\d$/.test(node)) ?? true).toBe(true);
        for (const problem of problems) {
          expect(problem).toMatch(/^metadata\.annotations\[/);
          expectReadable(problem);
        }
      },
      150,
    ));

  test('skips openings, or is a problem that names the annotation', () =>
    fuzz(
      fc.record({
        [WindowOverrideAnnotation.SkippedDates]: textsLike([
          '2026-12-24',
          '2026-12-24,2026-12-25',
          '2026-02-30',
        ]),
        [WindowOverrideAnnotation.Paused]: textsLike(['a freeze']),
      }),
      (annotations) => {
        const one = window(annotations);
        for (const problem of openingProblems(one, now)) {
          expect(problem).toMatch(/^metadata\.annotations\[|^spec\./);
          expectReadable(problem);
        }
        expectReadable(pauseOf(one) ?? '', { max: 256 });
        expect(skippedBecause(one, now)).toBe('is paused');
        expect(scheduleOf(one).timeZone).toBe('Europe/Berlin');
      },
      60,
    ));

  test('makes a maintenance that of a window, or not', () =>
    fuzz(
      fc.dictionary(fc.constantFrom(...Object.values(WindowAnnotation)), textsLike(['n1', 'Reboot', '3'])),
      (annotations) => {
        const metadata = {
          name: 'm',
          uid: 'm',
          labels: { 'nodemaintenance.k8s.io/window': 'os' },
          annotations,
        };
        const spec = { stage: 'Drain', nodeSelector: { nodeSelectorTerms: [] } };
        const found = windowMaintenancesIn([
          { metadata, spec } as unknown as Parameters<typeof windowMaintenancesIn>[0][number],
        ]);
        expect(found.length).toBeLessThanOrEqual(1);
      },
      150,
    ));
});

test('any file of a static pod is a manifest, or none', () =>
  fuzz(
    mutationsOf([
      {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: 'etcd', namespace: 'kube-system', labels: { a: 'b' }, annotations: { c: 'd' } },
        spec: { priority: 5, priorityClassName: 'system-node-critical', terminationGracePeriodSeconds: 30 },
      },
    ]),
    (content) => {
      const manifest = manifestOf('etcd.yaml', content);
      if (manifest === undefined) return;
      expect(manifest.gracePeriodSeconds).toBeGreaterThanOrEqual(0);
      expect(typeof mirrorPod(manifest, 'Node-1').metadata.name).toBe('string');
    },
    600,
  ));

test('any list of shutdown priorities is parsed, or its problem shows what is expected', () =>
  fuzz(textsLike(['0:60,1000:120,2000000000', '-5', '5:0']), (list) => {
    const parsed = parseShutdownPriorities(list);
    if (!parsed.ok) return expectReadable(parsed.problem);
    expect(parsed.priorities.length).toBeLessThanOrEqual(80);
  }));
