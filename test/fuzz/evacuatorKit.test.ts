import { expect, test } from '@jest/globals';
import { requireClass } from '../../evacuator-kit/evacuatorClass.ts';
import { requireResponderName } from '../../evacuator-kit/responder.ts';
import { administratorHoldOf, reasonProblem } from '../../domain/leases/administrator.ts';
import { EvacuationSpec, EvacuationStatus, type Evacuation } from '../../api/evacuation.ts';
import { nextEvacuatorStep } from '../../domain/evacuation/evacuatorSelection.ts';
import { daemonPod, mirrorPod, pod } from '../kit/builders.ts';
import { expectClearError, expectReadable, fuzz, thrownBy } from './kit/fuzz.ts';
import { mutationsOf, textsLike } from './kit/mutations.ts';

/** Input of the kit: what the author of an evacuator passes, and what the Evacuations contain that it serves. */

test('any class and any name of a responder is accepted, or an error that names the option', () =>
  fuzz(textsLike(['migrate.example.com', 'example.com/migrate', 'a.k8s.io/x']), (text) => {
    for (const [option, check] of [
      ['evacuatorClass', requireClass],
      ['responderName', requireResponderName],
    ] as const) {
      const error = thrownBy(() => check(text));
      expectClearError(error);
      if (error !== undefined) expect((error as Error).message).toMatch(new RegExp(`^${option} `));
    }
  }));

test('any Evacuation that the schema accepts has a next step', () =>
  fuzz(
    mutationsOf([
      {
        spec: {
          podRef: { name: 'web-1', uid: 'u1' },
          progressDeadlineSeconds: 1800,
          evacuators: [
            { evacuatorClass: 'a.example.com', priority: 5, role: 'owner' },
            { evacuatorClass: 'daemonset.apps.k8s.io', priority: 1, role: 'controller' },
          ],
        },
        status: {
          activeEvacuatorClass: 'a.example.com',
          activeEvacuatorCompleted: false,
          evacuationProgressTimestamp: '2026-01-01T11:00:00Z',
          activeEvacuatorSince: '2026-01-01T10:00:00Z',
        },
      },
    ]),
    (value) => {
      const { spec, status } = (value ?? {}) as { spec?: unknown; status?: unknown };
      const parsed = { spec: EvacuationSpec.safeParse(spec), status: EvacuationStatus.safeParse(status) };
      if (!parsed.spec.success || !parsed.status.success) return;
      const evacuation = { spec: parsed.spec.data, status: parsed.status.data } as unknown as Evacuation;
      for (const one of [pod(), daemonPod(), mirrorPod()]) {
        const step = nextEvacuatorStep(evacuation, one, { now: new Date('2026-01-01T12:00:00Z') });
        if (step.kind === 'AwaitProgress') expect(Number.isFinite(step.deadlineMs)).toBe(true);
      }
    },
    300,
  ));

test('any reason of an administrator is accepted, or its problem says what is expected', () =>
  fuzz(textsLike(['a new disk']), (reason) => {
    const problem = reasonProblem(reason);
    if (problem !== undefined) return expectReadable(problem);
    expect(administratorHoldOf(`kubeadm:jane@h: ${reason}`)?.reason).toBe(reason);
  }));
