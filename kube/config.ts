import { existsSync } from 'node:fs';
import type { RequestOptions } from 'node:https';
import { delimiter } from 'node:path';
import type { ConnectionOptions } from 'node:tls';
import { KubeConfig } from '@kubernetes/client-node';
import { wordsOf } from './errors.ts';

/** Which cluster to talk to: both absent means what kubectl would use, or the cluster that this process runs in. */
export interface KubeConfigChoice {
  /** Path, or several joined by `:` (`;` on Windows) as in KUBECONFIG; earlier files win. */
  readonly kubeconfig?: string | undefined;
  /** Name of a context; default: the file's current-context. */
  readonly context?: string | undefined;
}

/**
 * Loads and checks the client configuration. Throws an Error of one line that names the file and the remedy.
 * KUBECONFIG is read here, and not in the worker's configuration, because it belongs to every Kubernetes client.
 */
export function loadKubeConfig(choice: KubeConfigChoice): KubeConfig {
  const paths = choice.kubeconfig ?? process.env['KUBECONFIG'];
  const config = paths ? loadFiles(paths) : loadUsual();
  const source = paths ? `kubeconfig ${paths}` : 'the default kubeconfig';
  if (choice.context !== undefined) config.setCurrentContext(choice.context);
  checkContext(config, source);
  allowPlainHttp(config);
  return config;
}

/** The namespace of the context, in a cluster that of the ServiceAccount: where kubectl would work. */
export function defaultNamespace(choice: KubeConfigChoice): string {
  const config = loadKubeConfig(choice);
  return config.getContextObject(config.getCurrentContext())?.namespace ?? 'default';
}

/** The contexts that `--context` may name. Throws as loadKubeConfig does. */
export function contextNames({ kubeconfig }: KubeConfigChoice): string[] {
  return loadKubeConfig({ kubeconfig })
    .getContexts()
    .map(({ name }) => name);
}

function loadFiles(paths: string): KubeConfig {
  const files = paths.split(delimiter).filter((path) => path !== '');
  const [first, ...rest] = files.filter((path) => existsSync(path)).map(loadFile);
  if (first === undefined) {
    throw new Error(`kubeconfig ${paths} does not exist: set KUBECONFIG to a file that does`);
  }
  for (const other of rest) merge(first, other);
  return first;
}

function loadFile(path: string): KubeConfig {
  const config = new KubeConfig();
  try {
    config.loadFromFile(path);
  } catch (error) {
    const advice = 'check it with "kubectl config view"';
    throw new Error(`kubeconfig ${path} cannot be read: ${wordsOf(error)}: ${advice}`, { cause: error });
  }
  return config;
}

/** "If two files define the same cluster, user or context, the first wins", as kubectl does it. */
function merge(into: KubeConfig, other: KubeConfig): void {
  const fresh = <E extends { name: string }>(known: E[], more: E[]) =>
    more.filter((entry) => !known.some(({ name }) => name === entry.name));
  into.clusters = [...into.clusters, ...fresh(into.clusters, other.clusters)];
  into.users = [...into.users, ...fresh(into.users, other.users)];
  into.contexts = [...into.contexts, ...fresh(into.contexts, other.contexts)];
  into.currentContext ||= other.currentContext;
}

function loadUsual(): KubeConfig {
  const config = new KubeConfig();
  try {
    config.loadFromDefault();
  } catch (error) {
    throw new Error(
      `the default kubeconfig cannot be read: ${wordsOf(error)}: set KUBECONFIG to one that works`,
      {
        cause: error,
      },
    );
  }
  // With nothing to load client-node invents http://localhost:8080, where no apiserver has listened for years.
  if (config.getCurrentContext() === 'loaded-context') {
    throw new Error('no kubeconfig found: set KUBECONFIG, create ~/.kube/config, or run inside a cluster');
  }
  return config;
}

function checkContext(config: KubeConfig, source: string): void {
  const name = config.getCurrentContext();
  const known = config.getContexts().map((context) => context.name);
  const remedy = known.length === 0 ? 'it defines no context' : `choose one of: ${known.join(', ')}`;
  if (!name) throw new Error(`${source} has no current-context: ${remedy}`);
  const context = config.getContexts().find((candidate) => candidate.name === name);
  if (context === undefined) throw new Error(`${source} has no context "${name}": ${remedy}`);
  if (config.getCluster(context.cluster) === null) {
    throw new Error(
      `${source}: context "${name}" names cluster "${context.cluster}", which it does not define`,
    );
  }
  if (config.getUser(context.user) === null) {
    throw new Error(`${source}: context "${name}" names user "${context.user}", which it does not define`);
  }
}

/** `kubectl proxy` speaks plain HTTP, where there is no certificate to verify; client-node wants that said. */
function allowPlainHttp(config: KubeConfig): void {
  config.clusters = config.clusters.map((cluster) =>
    cluster.server.startsWith('http:') ? { ...cluster, skipTLSVerify: true } : cluster,
  );
}

export type TlsOptions = Pick<
  ConnectionOptions,
  'ca' | 'cert' | 'key' | 'pfx' | 'passphrase' | 'rejectUnauthorized' | 'servername'
>;

/** What a request needs to be accepted: headers, and the TLS material of the connection. */
export interface Credentials {
  readonly headers: Readonly<Record<string, string>>;
  readonly tls: TlsOptions;
}

/**
 * Asks client-node for credentials, exec plugins and token files included, and keeps the answer for some seconds:
 * each asking reads the CA, the certificate and the key from disk again.
 */
export class CredentialSource {
  readonly #config: KubeConfig;
  readonly #freshMs: number;
  #cached: { at: number; credentials: Promise<Credentials> } | undefined;

  constructor(config: KubeConfig, freshMs = 10_000) {
    this.#config = config;
    this.#freshMs = freshMs;
  }

  current(): Promise<Credentials> {
    const cached = this.#cached;
    if (cached !== undefined && performance.now() - cached.at < this.#freshMs) return cached.credentials;
    const credentials = this.#ask();
    this.#cached = { at: performance.now(), credentials };
    credentials.catch(() => this.forget());
    return credentials;
  }

  /** Asks again next time: the apiserver did not accept what we had. */
  forget(): void {
    this.#cached = undefined;
  }

  async #ask(): Promise<Credentials> {
    const options: RequestOptions = {};
    await this.#config.applyToHTTPSOptions(options);
    const headers: Record<string, string> = {};
    for (const [name, value] of Object.entries(options.headers ?? {})) {
      headers[name.toLowerCase()] = String(value).trim();
    }
    if (options.auth) headers['authorization'] = `Basic ${Buffer.from(options.auth).toString('base64')}`;
    return { headers, tls: tlsOf(options) };
  }
}

function tlsOf(options: RequestOptions): TlsOptions {
  const names = ['ca', 'cert', 'key', 'pfx', 'passphrase', 'rejectUnauthorized', 'servername'] as const;
  return Object.fromEntries(
    names.filter((name) => options[name] !== undefined).map((name) => [name, options[name]]),
  ) as TlsOptions;
}
