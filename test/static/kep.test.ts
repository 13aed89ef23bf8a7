import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { sentencesOf, type SpecifiedSentence, specifiedSentences } from '../kit/specification.ts';

const root = join(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

interface Kep {
  page: string;
  /** Every sentence of these sections is on the page. */
  covered: readonly string[];
  /** The headings of its text, which does not mark them. None if it does. */
  headings?: readonly string[];
}

const covered4212 = [
  'Goals',
  'Proposal',
  'Story 1',
  'Story 2',
  'Story 3',
  'Risks and Mitigations',
  'Kubectl',
  'NodeMaintenance API',
  'NodeMaintenance Admission',
  'NodeMaintenance Controller',
  'Idle',
  'Finalizers and Deletion of the NodeMaintenance',
  'Cordon',
  'Uncordon (Complete)',
  'Drain',
  'Pod Selection',
  'Pod Selection and DrainTargets Example',
  'PodTypes and Label Selectors Progression',
  'Status',
  'Supported Stage Transitions',
  'DaemonSet Controller',
  'kubelet: Graceful Node Shutdown',
  'kubelet: Static Pods',
];

/** Headings that end a covered section. */
const notCovered4212 = [
  'Summary',
  'Non-Goals',
  'User Stories',
  'Notes/Constraints/Caveats (Optional)',
  'Design Details',
  'Test Plan',
];

const keps: readonly Kep[] = [
  { page: 'kep-4212.md', covered: covered4212, headings: [...covered4212, ...notCovered4212] },
  {
    page: 'kep-1411.md',
    covered: [
      'Goals',
      'Proposal',
      'Story 1',
      'Story 2',
      'Story 3',
      'Impact to the Kubelet',
      'Impact to Scheduleability',
      'Acquiring and Releasing the Lease',
      'Acquisition',
      'Release',
      'Expected Client Behavior',
      'Risks and Mitigations',
    ],
  },
  { page: 'kep-1965.md', covered: ['Proposal', 'Test Plan'] },
  {
    page: 'node-readiness-gates.md',
    covered: [
      'Goals',
      'Proposal',
      'Determining Readiness via Pod Selectors',
      'Readiness Gates from External Sources',
      'Reporting Node Readiness via Node Status',
      'Tolerating the Readiness Taint',
      'Unintended Pod Label Query for a Readiness Gate',
      'Alpha',
    ],
  },
];

/** A row of a page: `"Sentence. Another one."<br>Remark. | tests | code`, or `Example: what | tests | code`. */
interface Row {
  section: string;
  sentences: readonly string[];
  remark: string;
  shownBy: string;
  code: string;
}

const notNormative = 'Not normative';

/** Returns the rows of a page, and the quotations of its last section, which have neither tests nor code. */
function pageOf(page: string): { sections: string[]; rows: Row[]; others: string[] } {
  const sections: string[] = [];
  const rows: Row[] = [];
  const others: string[] = [];
  for (const line of read(`docs/${page}`).split('\n')) {
    const [, heading] = /^## (.*)$/.exec(line) ?? [];
    const section = sections.at(-1) ?? '';
    if (heading !== undefined) sections.push(heading);
    else if (/^\| (?!sentence )/.test(line)) rows.push(rowOf(section, line));
    else if (section === notNormative) others.push(...quoted(line.trim().replace(/^- /, '')).sentences);
  }
  return { sections, rows, others };
}

function rowOf(section: string, line: string): Row {
  const [first = '', shownBy = '', code = ''] = line
    .split(' | ')
    .map((cell) => cell.replace(/^\| | \|$/g, ''));
  return { section, ...quoted(first), shownBy, code };
}

/** A quotation begins and ends the cell, or ends before a line break and the remark. It may contain quotation marks itself. */
function quoted(cell: string): { sentences: string[]; remark: string } {
  const [, quotation, remark = ''] = /^"(.*?)"(?:<br>(.*))?$/.exec(cell) ?? [];
  return quotation === undefined
    ? { sentences: [], remark: cell }
    : { sentences: sentencesOf(quotation), remark };
}

/** Splits `file` title<br>`file` title. */
const citation = /^`(test\/[^`]+\.test\.ts)` (.+)$/;
/** Instead of a test, for a sentence that nothing shows. */
const noTest = /^(not done|out of reach): \S/;

function problemOfCitation(cited: string): string | undefined {
  const [, file = '', title = ''] = citation.exec(cited) ?? [];
  if (file === '') return `expected \`file\` title (got ${cited})`;
  if (!existsSync(join(root, file))) return `${file} does not exist`;
  const literal = title.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&');
  const isTitle = new RegExp(`(\\(|when: )\\s*(['"\`])${literal}\\2`);
  return isTitle.test(read(file).replaceAll(String.raw`\'`, "'"))
    ? undefined
    : `${file} has no test "${title}"`;
}

const shownInFull = ({ section, sentence }: SpecifiedSentence) => `${section}: ${sentence}`;

describe.each(keps)('docs/$page', ({ page, covered: sections, headings }) => {
  const specified = specifiedSentences(read(`test/static/data/${page}`), headings).filter(({ section }) =>
    sections.includes(section),
  );
  const { sections: written, rows, others } = pageOf(page);

  test('has the covered sections of the KEP in its order, and no others', () => {
    expect(new Set(specified.map(({ section }) => section))).toEqual(new Set(sections));
    const normative = specified.filter(({ sentence }) => !others.includes(sentence));
    expect(written).toEqual([...new Set(normative.map(({ section }) => section)), notNormative]);
  });

  test('quotes whole sentences of the section that they are in', () => {
    const known = new Set(specified.map(shownInFull));
    const quotations = rows.flatMap(({ section, sentences }) =>
      sentences.map((sentence) => shownInFull({ section, sentence })),
    );
    expect(quotations.filter((quotation) => !known.has(quotation))).toEqual([]);
    const texts = new Set(specified.map(({ sentence }) => sentence));
    expect(others.filter((sentence) => !texts.has(sentence))).toEqual([]);
  });

  test('omits no sentence of these sections', () => {
    const exempt = new Set(others);
    const inRows = new Set(
      rows.flatMap(({ section, sentences }) =>
        sentences.map((sentence) => shownInFull({ section, sentence })),
      ),
    );
    const omitted = specified.filter((one) => !inRows.has(shownInFull(one)) && !exempt.has(one.sentence));
    expect(omitted.map(shownInFull)).toEqual([]);
  });

  test.each(rows)('$section: $sentences.0$remark', ({ sentences, remark, shownBy, code }) => {
    if (sentences.length === 0) expect(remark).toMatch(/^Example: /);
    const files = [...code.matchAll(/`([^`]+)`/g)].map(([, path = '']) => path);
    if (!noTest.test(shownBy)) {
      expect(shownBy.split('<br>').flatMap((cited) => problemOfCitation(cited) ?? [])).toEqual([]);
      expect(files.length).toBeGreaterThan(0);
    }
    expect(files.filter((path) => !existsSync(join(root, path)))).toEqual([]);
    if (remark.includes('**Deviation:**')) expect(remark).toMatch(/\]\((adr|concepts)\//);
  });
});

describe('a quotation', () => {
  const text =
    '# A\n\nIt *will* do so, e.g. at\nonce (30m). The `field` must not.\n\n1. One item\n2. Another\n';

  test('is compared without emphasis, line breaks and links, sentence by sentence', () => {
    expect(specifiedSentences(text)).toEqual(
      ['It will do so, e.g. at once (30m).', 'The field must not.', 'One item', 'Another'].map(
        (sentence) => ({ section: 'A', sentence }),
      ),
    );
    expect(sentencesOf('The [field](x.md) must not. `.spec.x` may.')).toEqual([
      'The field must not.',
      '.spec.x may.',
    ]);
  });

  test('of a part of a sentence is found, whichever part', () => {
    const sentences = specifiedSentences(text).map(({ sentence }) => sentence);
    for (const part of ['It will do so', 'at once (30m).', 'It will do so, ... (30m).'])
      expect(sentences).not.toEqual(expect.arrayContaining(sentencesOf(part)));
  });
});
