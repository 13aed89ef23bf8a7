import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from '@jest/globals';
import { eventually } from './eventually.ts';
import { isAsShown, type Listing, type Part, type Step } from './transcript.ts';
import type { World } from './world.ts';

/** Commands that only read are repeated until they print what the document shows: a reader types slower than a test. */
const reads =
  /^(kubectl (.* )?(get|events|describe|maintenance (plan|status|history|workers|windows))|temporal .*(query|show|describe|list))\b/;

/** Less than a test may take: its failure shows what the command has printed until then. */
const endsWithinSeconds = 300;

/** Executes the steps of a document in a directory of its own. */
export class ExecutedDocument {
  readonly directory: string;
  readonly #env: NodeJS.ProcessEnv;

  private constructor(directory: string, env: NodeJS.ProcessEnv) {
    this.directory = directory;
    this.#env = env;
  }

  static async in({ sandbox }: World, name: string): Promise<ExecutedDocument> {
    const directory = join(sandbox.dir, name);
    await mkdir(directory);
    return new ExecutedDocument(directory, sandbox.env);
  }

  perform(part: Part): Promise<void> {
    return 'step' in part ? this.#performed(part.step) : this.#saved(part.listing);
  }

  async #performed({ command, output }: Step): Promise<void> {
    const onlyOutput = reads.test(command) ? undefined : await this.run(command);
    const options = onlyOutput === undefined ? {} : { timeoutMs: 0 };
    await eventually(
      'the output that the document shows',
      async () => {
        const observed = onlyOutput ?? (await this.run(command));
        if (!isAsShown(output, observed)) throw new Error(`\n$ ${command}\n${observed}`);
      },
      options,
    );
  }

  async #saved({ name, text }: Listing): Promise<void> {
    await writeFile(join(this.directory, name), text);
  }

  run(command: string): Promise<string> {
    return new Promise((resolve) => {
      // Both streams, as a terminal shows them, and the exit code if it is not 0: 124 of a command that did not end.
      const shell = [`${endsWithinSeconds}`, 'bash', '-c', `exec 2>&1\n${command}`];
      const options = { cwd: this.directory, env: { ...this.#env, HOME: this.directory } };
      execFile('timeout', shell, options, (error, stdout) =>
        resolve(error === null ? stdout : `${stdout}(exit code ${error.code})\n`),
      );
    });
  }
}

/** Defines a test for each part of a document. The parts build on each other. */
export function testParts(parts: readonly Part[], document: () => ExecutedDocument): void {
  let hasFailed = false;
  const titled = parts.map((part) => ({
    title: 'step' in part ? `line ${part.step.line}: ${part.step.command}` : part.listing.name,
    part,
  }));
  test.each(titled)('$title', async ({ part }) => {
    if (hasFailed) throw new Error('an earlier step has failed');
    hasFailed = true;
    await document().perform(part);
    hasFailed = false;
  });
}
