import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { ensureGoTools } from './goTools.ts';

const source = fileURLToPath(new URL('../chart/helm/', import.meta.url));
const version = 'v3.18.4';
const flags = [
  '-trimpath',
  '-gcflags=all=-dwarf=false',
  `-ldflags=-s -w -X helm.sh/helm/v3/internal/version.version=${version}`,
];

export const chart = fileURLToPath(new URL('../../deploy/chart', import.meta.url));

/** Returns the path of the helm that test/chart/helm pins. Builds it once per user and version. */
export async function ensureHelm(): Promise<string> {
  const packages = ['helm.sh/helm/v3/cmd/helm'];
  return join(await ensureGoTools({ name: 'helm', source, packages, flags }), 'helm');
}

export interface HelmAnswer {
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs helm with files of its own. */
export class Helm {
  readonly #path: string;
  readonly #env: NodeJS.ProcessEnv;

  constructor(path: string, dir: string, env: Readonly<Record<string, string>> = {}) {
    this.#path = path;
    this.#env = {
      ...env,
      // Its client of Kubernetes keeps files there.
      HOME: dir,
      HELM_CACHE_HOME: join(dir, 'cache'),
      HELM_CONFIG_HOME: join(dir, 'config'),
      HELM_DATA_HOME: join(dir, 'data'),
    };
  }

  async answer(...args: string[]): Promise<HelmAnswer> {
    try {
      const options = { env: this.#env, maxBuffer: 50_000_000 };
      return { code: 0, ...(await promisify(execFile)(this.#path, args, options)) };
    } catch (error) {
      const { code, stdout = '', stderr = '' } = error as Partial<HelmAnswer>;
      return { code: code ?? 1, stdout, stderr };
    }
  }

  /** Returns what a command prints that must succeed. */
  async output(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.answer(...args);
    if (code !== 0) throw new Error(`helm ${args.join(' ')}: exit code ${code}: ${stderr.trim()}`);
    return stdout;
  }
}
