import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { parseAllDocuments } from 'yaml';
import { wordsOf } from '../kube/errors.ts';
import { UsageError } from './output.ts';

/** The one document of a YAML or JSON file; `-` is standard input. Rejects with a UsageError that names the file. */
export async function documentOf(file: string): Promise<unknown> {
  const content = await contentOf(file);
  const documents = parseAllDocuments(content).filter(({ contents }) => contents !== null);
  const [first, ...more] = documents;
  const problem = first?.errors[0]?.message.split('\n')[0];
  if (problem !== undefined) throw new UsageError(`${file}: ${problem}`);
  if (first === undefined) throw new UsageError(`${file}: is empty`);
  if (more.length > 0) throw new UsageError(`${file}: expected one document (got ${documents.length})`);
  return first.toJS() as unknown;
}

async function contentOf(file: string): Promise<string> {
  try {
    return file === '-' ? await text(process.stdin) : await readFile(file, 'utf8');
  } catch (error) {
    throw new UsageError(`${file}: cannot be read: ${wordsOf(error)}`, { cause: error });
  }
}

/** The drain plan in a file: a list of entries, or an object that has one, such as a NodeMaintenance. */
export async function drainPlanOf(file: string): Promise<unknown> {
  const document = await documentOf(file);
  if (Array.isArray(document)) return document;
  const { spec, drainPlan } = (document ?? {}) as { spec?: { drainPlan?: unknown }; drainPlan?: unknown };
  const plan = drainPlan ?? spec?.drainPlan;
  if (plan === undefined)
    throw new UsageError(`${file}: expected a list of drain plan entries, or a field drainPlan`);
  return plan;
}
