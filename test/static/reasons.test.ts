import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { conditionReasons } from '../../api/conditionReasons.ts';
import { eventReasons } from '../../api/eventReasons.ts';
import { waitingReasons } from '../../api/waitingReasons.ts';

const root = join(import.meta.dirname, '../..');
const folders = ['activities', 'admission', 'agent', 'controllers', 'domain', 'worker', 'workflows'];
const sources = new Map(
  globSync(
    folders.map((folder) => `${folder}/**/*.ts`),
    { cwd: root },
  ).map((path) => [path, readFileSync(join(root, path), 'utf8')]),
);
const code = [...sources.values()].join('\n');

const conditions = Object.entries(conditionReasons).flatMap(([kind, types]) =>
  Object.entries(types).flatMap(([type, { reasons }]) =>
    Object.keys(reasons).map((reason) => ({ kind, type, reason })),
  ),
);
const registered = new Set<string>([
  ...Object.keys(eventReasons),
  ...conditions.map(({ reason }) => reason),
  ...Object.keys(waitingReasons),
]);

/** Reasons that are neither of an Event nor of a condition, each with the field that has it. */
const otherReasons: Record<string, readonly string[]> = {
  'admission/': ['Forbidden', 'Invalid', 'TooManyRequests'], // metav1.Status of a rejected request
  'domain/leases/abandoned.ts': [
    'NeverRenewed',
    'NotRenewedForAnHour',
    'RenewedInTheFuture',
    'StoppedRenewing',
  ],
  'domain/readiness/gates.ts': ['NoPods', 'PodsNotReady'], // .status.readiness[].reason of a NodeReadiness
  'domain/maintenance/summary.ts': ['NoWorker'], // .notProgressing.reason of `kubectl maintenance status`
  'domain/windows/summary.ts': ['Pending'], // problems in `kubectl maintenance windows`
};

/** Matches `reason: 'X'` and both branches of `reason: condition ? 'X' : 'Y'`. */
const literals = /\breason: (?:'(\w+)'|[^,;\n]*\? '(\w+)' : '(\w+)')/g;

/** Returns the reasons that a file contains as literals. */
function reasonsIn(text: string): string[] {
  return [...text.matchAll(literals)].flatMap(([, ...found]) => found.filter((one) => one !== undefined));
}

function isOther(path: string, reason: string): boolean {
  return Object.entries(otherReasons).some(
    ([prefix, reasons]) => path.startsWith(prefix) && reasons.includes(reason),
  );
}

describe('the reasons of Events, conditions and waiting windows', () => {
  test.each(Object.keys(eventReasons))('contain the Event reason %s of the code', (reason) => {
    expect(code).toContain(`'${reason}'`);
  });

  test.each(conditions)('contain $reason of condition $type of $kind of the code', ({ reason, type }) => {
    expect(code).toContain(`'${reason}'`);
    expect(code + readFileSync(join(root, 'api/names.ts'), 'utf8')).toContain(`'${type}'`);
  });

  test.each(Object.keys(waitingReasons))('contain the reason %s of waiting windows in the code', (reason) => {
    expect(sources.get('domain/windows/rollout.ts')).toContain(`'${reason}'`);
  });

  test('include every reason in the code', () => {
    const unknown = [...sources].flatMap(([path, text]) =>
      reasonsIn(text)
        .filter((reason) => !registered.has(reason) && !isOther(path, reason))
        .map((reason) => `${path}: ${reason}`),
    );
    expect(unknown).toEqual([]);
  });

  test('are sorted', () => {
    const lists = [
      eventReasons,
      waitingReasons,
      ...Object.values(conditionReasons).flatMap((types) => Object.values(types)),
    ];
    for (const list of lists) {
      const names = Object.keys('reasons' in list ? list.reasons : list);
      expect(names).toEqual(names.toSorted());
    }
  });

  test('have meanings of one sentence', () => {
    const meanings = [
      ...Object.values(eventReasons),
      ...Object.values(conditionReasons).flatMap((types) => Object.values(types)),
    ].map(({ meaning }) => meaning);
    for (const meaning of [...meanings, ...Object.values(waitingReasons)])
      expect(meaning).toMatch(/^[A-Z.][^|\n]*\.$/);
  });
});
