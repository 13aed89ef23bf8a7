import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { parseAllDocuments } from 'yaml';
import { oneLine } from '../../domain/common/text.ts';
import { errorMessage } from '../../kube/errors.ts';
import { UsageError } from '../output.ts';

/** Reads a YAML or JSON file with one document; `-` is standard input. Rejects with a UsageError that names the file. */
export async function readDocument(file: string): Promise<unknown> {
  const content = await readContent(file);
  try {
    return documentIn(content);
  } catch (error) {
    // Also of the parser itself, for too many aliases or levels.
    throw new UsageError(`${file}: ${oneLine(errorMessage(error), maxProblemLength)}`, { cause: error });
  }
}

const maxProblemLength = 300;

function documentIn(content: string): unknown {
  const documents = parseAllDocuments(content).filter(({ contents }) => contents !== null);
  const [first, ...more] = documents;
  const problem = first?.errors[0]?.message.split('\n')[0];
  if (problem !== undefined) throw new Error(problem);
  if (first === undefined) throw new Error('the file is empty');
  if (more.length > 0) throw new Error(`expected one document (got ${documents.length})`);
  return first.toJS() as unknown;
}

async function readContent(file: string): Promise<string> {
  try {
    return file === '-' ? await text(process.stdin) : await readFile(file, 'utf8');
  } catch (error) {
    throw new UsageError(`${file}: cannot be read: ${errorMessage(error)}`, { cause: error });
  }
}

/** Reads a drain plan: a list of entries, or an object with a drain plan, such as a NodeMaintenance. */
export async function readDrainPlan(file: string): Promise<unknown> {
  const document = await readDocument(file);
  if (Array.isArray(document)) return document;
  const { spec, drainPlan } = (document ?? {}) as { spec?: { drainPlan?: unknown }; drainPlan?: unknown };
  const plan = drainPlan ?? spec?.drainPlan;
  if (plan === undefined)
    throw new UsageError(`${file}: expected a list of drain plan entries, or a field drainPlan`);
  return plan;
}
