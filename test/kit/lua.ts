import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { KubeObject } from '../../api/core.ts';
import { goBuild, requireGo } from '../../sandbox/go.ts';

const source = fileURLToPath(new URL('../argocd/lua/', import.meta.url));

/** Result of a health check of Argo CD. */
export interface Health {
  status?: string;
  message?: string;
  error?: string;
}

/** The interpreter of Argo CD, which test/argocd/lua builds. Go caches the packages that it compiles. */
export class LuaInterpreter {
  readonly #dir: string;
  readonly #process: ChildProcessByStdio<Writable, Readable, null>;
  readonly #answers: AsyncIterator<string>;

  private constructor(dir: string) {
    this.#dir = dir;
    this.#process = spawn(join(dir, 'lua'), { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#answers = createInterface({ input: this.#process.stdout })[Symbol.asyncIterator]();
  }

  static async start(): Promise<LuaInterpreter> {
    const dir = mkdtempSync(join(tmpdir(), 'nm-lua-'));
    try {
      await requireGo(source, process.env);
      await goBuild({
        source,
        packages: ['.'],
        log: join(dir, 'build.log'),
        env: process.env,
        flags: ['-trimpath'],
        output: dir,
        name: 'the interpreter of Lua',
        onPackage: () => undefined,
      });
      return new LuaInterpreter(dir);
    } catch (error) {
      rmSync(dir, { recursive: true, force: true });
      throw error;
    }
  }

  /** Runs one script at a time. */
  async run(script: string, object: KubeObject | object): Promise<Health> {
    this.#process.stdin.write(`${JSON.stringify({ script, object })}\n`);
    const { value } = await this.#answers.next();
    return JSON.parse(value as string) as Health;
  }

  async stop(): Promise<void> {
    const exited = once(this.#process, 'exit');
    this.#process.stdin.end();
    await exited;
    rmSync(this.#dir, { recursive: true, force: true });
  }
}
