import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import * as names from '../../api/names.ts';
import { agentMetrics } from '../../agent/metrics.ts';
import { metricDefinitions } from '../../worker/metrics/definitions.ts';

const root = join(import.meta.dirname, '../..');
const folders = ['docs', 'evacuator-kit', 'node-lease', 'temporal-config'];
const paths = globSync(['*.md', ...folders.map((folder) => `${folder}/**/*.md`)], { cwd: root }).toSorted();
const documents = new Map(paths.map((path) => [path, readFileSync(join(root, path), 'utf8')]));

function textOf(path: string): string {
  const text = documents.get(path);
  if (text === undefined) throw new Error(`${path} does not exist`);
  return text;
}

function linesOf(path: string): string[] {
  return textOf(path).trimEnd().split('\n');
}

/** Removes code blocks, which may contain `#` and brackets. */
function proseOf(text: string): string {
  return text.replaceAll(/^( *)```[^\n]*\n[\s\S]*?^\1```$/gm, '');
}

/** Returns the anchors of the headings, as GitHub creates them. */
function anchorsOf(path: string): Set<string> {
  const counts = new Map<string, number>();
  const anchors = [...proseOf(textOf(path)).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => {
    const text = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase();
    const slug = text.replaceAll(/[^\p{L}\p{N}\- _]/gu, '').replaceAll(' ', '-');
    const count = counts.get(slug) ?? 0;
    counts.set(slug, count + 1);
    return count === 0 ? slug : `${slug}-${count}`;
  });
  return new Set(anchors);
}

/** Returns the links of a document to files and headings of the repository. */
function linksOf(text: string): string[] {
  const targets = [...proseOf(text).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target);
  return targets.filter((target) => !/^[a-z]+:/.test(target));
}

function problemOf(path: string, link: string): string | undefined {
  const [target = '', anchor] = link.split('#');
  const file = target === '' ? path : relative(root, resolve(root, dirname(path), target));
  if (!existsSync(join(root, file))) return `${link}: ${file} does not exist`;
  if (anchor === undefined || anchorsOf(file).has(anchor)) return undefined;
  return `${link}: ${file} has no such heading`;
}

describe('links', () => {
  test.each(paths)('of %s lead to files and headings that exist', (path) => {
    expect(linksOf(textOf(path)).flatMap((link) => problemOf(path, link) ?? [])).toEqual([]);
  });

  test.each(paths)('of %s: files in backticks exist', (path) => {
    const named = [...proseOf(textOf(path)).matchAll(/`((?:[\w-]+\/)+[\w.-]+\.(?:ts|ya?ml|md))`/g)].map(
      ([, file = '']) => file,
    );
    const ofRepository = named.filter((file) => existsSync(join(root, file.split('/')[0] ?? '')));
    expect(ofRepository.filter((file) => !existsSync(join(root, file)))).toEqual([]);
  });

  test('lead from the README to every page of docs/', () => {
    const reached = new Set(['README.md']);
    for (const path of reached)
      for (const link of linksOf(textOf(path))) {
        const [target = ''] = link.split('#');
        const file = relative(root, resolve(root, dirname(path), target));
        if (documents.has(file)) reached.add(file);
      }
    expect(paths.filter((path) => path.startsWith('docs/') && !reached.has(path))).toEqual([]);
  });
});

describe('lengths', () => {
  test('the README has at most 160 lines', () => {
    expect(linesOf('README.md').length).toBeLessThanOrEqual(160);
  });

  test('the glossary of ARCHITECTURE.md has at most 15 terms', () => {
    const [, glossary = ''] = textOf('ARCHITECTURE.md').split(/^## Glossary$/m);
    const terms = glossary.split('\n').filter((line) => line.startsWith('| ') && !line.startsWith('| term'));
    expect(terms.length).toBeGreaterThan(5);
    expect(terms.length).toBeLessThanOrEqual(15);
  });
});

const records = paths.filter((path) => /^docs\/adr\/\d/.test(path));

describe('decision records', () => {
  test.each(records)('%s has at most 40 lines', (path) => {
    expect(linesOf(path).length).toBeLessThanOrEqual(40);
  });

  test('are listed in docs/adr/README.md in order, with their titles', () => {
    const listed = linesOf('docs/adr/README.md').flatMap((line) => {
      const [, number, title, file] = /^\| (\d+) \| \[(.+)\]\((.+)\) \|/.exec(line) ?? [];
      return file === undefined ? [] : [`docs/adr/${file}: # ${number}. ${title}`];
    });
    expect(listed).toEqual(records.map((path) => `${path}: ${linesOf(path)[0]}`));
  });
});

/** Words that the project replaced by the terms of Kubernetes, Temporal and SRE practice. */
const replacedWords = [
  'somebody',
  'whoever',
  'anew',
  'meanwhile',
  'of late',
  'under way',
  'newborn',
  'withh[eo]ld',
  'giv(e|es|en|ing) back',
  'left (alone|behind)',
  'glance',
  'wishe?s?',
  'verdict',
  'patience',
  'steers?',
  'goes on',
  'cannot go on',
  'lets? go',
  'judge[ds]?',
  'obstacles?',
  'census',
  'begun',
  'plant(s|ed)?',
  'nodeBudgets?',
  'forgiving',
];

const replaced = new RegExp(`\\b(${replacedWords.join('|')})\\b`, 'gi');

/** A word that is replaced, too: a process reports, signals or logs. Records of decisions keep their words. */
const tell = /\b(tells?|told|telling)\b/gi;
const stillTelling = /^docs\/adr\//;

function replacedWordsIn(path: string, text: string): string[] {
  const patterns = stillTelling.test(path) ? [replaced] : [replaced, tell];
  return patterns.flatMap((pattern) => [...text.matchAll(pattern)].map(([word]) => word));
}

describe('words', () => {
  test.each(paths)('of %s are standard terms', (path) => {
    // Quotations of specifications, in tables and lists, have the words of others.
    const own = textOf(path).replaceAll(/^(\| |  - )".*?"(?=<br>| \||$)/gm, '');
    expect(replacedWordsIn(path, own)).toEqual([]);
  });

  // This file lists them.
  const sources = globSync('**/*.{ts,mjs,yaml,lua,sh}', {
    cwd: root,
    exclude: ['**/node_modules', '**/dist', '.*', 'test/static/docs.test.ts'],
  });

  test('of sources and manifests are standard terms', () => {
    const used = sources.flatMap((path) =>
      replacedWordsIn(path, readFileSync(join(root, path), 'utf8')).map((word) => `${path}: ${word}`),
    );
    expect(sources.length).toBeGreaterThan(900);
    expect(used).toEqual([]);
  });
});

/** Returns all strings of the constants, including those of nested objects. */
function stringsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(stringsIn) : [];
}

describe('names', () => {
  test.each(paths)('of metrics in %s exist', (path) => {
    const used = [...textOf(path).matchAll(/\bnode_maintenance_\w+/g)].map(([name]) => name);
    const known = [...Object.values(metricDefinitions), ...agentMetrics].map(({ name }) => name);
    const isKnown = (name: string) => known.some((one) => one === name || `${one}_`.startsWith(name));
    expect(used.filter((name) => !isKnown(name))).toEqual([]);
  });

  test.each(paths)('of annotations, labels and finalizers in %s exist', (path) => {
    const used = [...textOf(path).matchAll(/[^.\w](nodemaintenance\.k8s\.io\/[a-z][\w-]+)/g)];
    const manifests = globSync('deploy/**/*.yaml', { cwd: root }).map((file) =>
      readFileSync(join(root, file), 'utf8'),
    );
    const known = [...stringsIn(names), ...manifests].join('\n');
    const unknown = used.map(([, name = '']) => name).filter((name) => !known.includes(name));
    expect(unknown.filter((name) => !name.endsWith('/v1alpha1'))).toEqual([]);
  });
});
