import { existsSync, readFileSync } from 'node:fs';
import type { RequestOptions } from 'node:https';
import { delimiter } from 'node:path';
import type { ConnectionOptions } from 'node:tls';
import { type Cluster, KubeConfig } from '@kubernetes/client-node';
import { oneLine } from '../domain/common/text.ts';
import { forgetPluginTokens, letPluginsAsk } from './credentialPlugins.ts';
import { errorMessage } from './errors.ts';

/** Selects the cluster. Without any setting: the cluster that kubectl would use, or the one that this process runs in. */
export interface KubeConfigChoice {
  /**
   * One path, or several joined by `:` (`;` on Windows) as in KUBECONFIG; earlier files take precedence. Or a loaded KubeConfig, which is not changed.
   */
  readonly kubeconfig?: string | KubeConfig | undefined;
  /** Name of a context; default: the file's current-context. */
  readonly context?: string | undefined;
}

/**
 * Loads and checks the client configuration. Throws a one-line Error that names the file and the remedy.
 * KUBECONFIG is read here instead of in the configuration of the worker because every Kubernetes client uses it.
 */
export function loadKubeConfig(choice: KubeConfigChoice): KubeConfig {
  const { config, source } = load(choice.kubeconfig ?? process.env['KUBECONFIG']);
  if (choice.context !== undefined) config.setCurrentContext(choice.context);
  checkContext(config, source);
  allowPlainHttp(config);
  // That of a program stays as it is.
  if (typeof choice.kubeconfig !== 'object') letPluginsAsk(config);
  return config;
}

function load(given: string | KubeConfig | undefined): { config: KubeConfig; source: string } {
  if (typeof given === 'object') return { config: copyOf(given), source: 'the given KubeConfig' };
  if (given) return { config: loadFiles(given), source: `kubeconfig ${given}` };
  return { config: loadDefault(), source: 'the default kubeconfig' };
}

/** Keeps the class and the authenticators that a program may have added. */
function copyOf(config: KubeConfig): KubeConfig {
  return Object.assign(Object.create(Object.getPrototypeOf(config) as object) as KubeConfig, config);
}

/** Returns the namespace that kubectl would use: the one of the context or, in a cluster, of the ServiceAccount. */
export function defaultNamespace(choice: KubeConfigChoice): string {
  const config = loadKubeConfig(choice);
  return config.getContextObject(config.getCurrentContext())?.namespace ?? 'default';
}

/** How to reach a cluster, without credentials. The authority is PEM. */
export interface ClusterAccess {
  readonly server: string;
  readonly authority: string | undefined;
  readonly tlsServerName: string | undefined;
  /** Certificates of the server are not verified. */
  readonly skipsVerification: boolean;
}

/** Returns how to reach the chosen cluster. Throws as loadKubeConfig does. */
export function clusterAccess(choice: KubeConfigChoice): ClusterAccess {
  const cluster = loadKubeConfig(choice).getCurrentCluster();
  if (cluster === null) throw new Error('the kubeconfig names no cluster');
  const { server, tlsServerName, skipTLSVerify: skipsVerification } = cluster;
  return { server, authority: authorityOf(cluster), tlsServerName, skipsVerification };
}

function authorityOf({ name, caData, caFile }: Cluster): string | undefined {
  try {
    if (caData !== undefined) return Buffer.from(caData, 'base64').toString();
    return caFile === undefined ? undefined : readFileSync(caFile, 'utf8');
  } catch (error) {
    throw new Error(
      `the authority of cluster "${shown(name)}" in the kubeconfig cannot be read: ${shown(errorMessage(error))}`,
      { cause: error },
    );
  }
}

/** Returns the contexts that `--context` accepts. Throws as loadKubeConfig does. */
export function contextNames({ kubeconfig }: KubeConfigChoice): string[] {
  return loadKubeConfig({ kubeconfig })
    .getContexts()
    .map(({ name }) => name);
}

function loadFiles(paths: string): KubeConfig {
  const files = paths.split(delimiter).filter((path) => path !== '');
  const [first, ...rest] = files.filter((path) => existsSync(path)).map(loadFile);
  if (first === undefined) {
    throw new Error(`kubeconfig ${paths} does not exist: set KUBECONFIG to an existing file`);
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
    throw new Error(`kubeconfig ${path} cannot be read: ${shown(errorMessage(error))}: ${advice}`, {
      cause: error,
    });
  }
  return config;
}

/** "If two files define the same cluster, user or context, the first wins", as kubectl does it. */
function merge(into: KubeConfig, other: KubeConfig): void {
  const additional = <E extends { name: string }>(known: E[], more: E[]) =>
    more.filter((entry) => !known.some(({ name }) => name === entry.name));
  into.clusters = [...into.clusters, ...additional(into.clusters, other.clusters)];
  into.users = [...into.users, ...additional(into.users, other.users)];
  into.contexts = [...into.contexts, ...additional(into.contexts, other.contexts)];
  into.currentContext ||= other.currentContext;
}

function loadDefault(): KubeConfig {
  const config = new KubeConfig();
  try {
    config.loadFromDefault();
  } catch (error) {
    throw new Error(
      `the default kubeconfig cannot be read: ${errorMessage(error)}: set KUBECONFIG to a valid file`,
      {
        cause: error,
      },
    );
  }
  // Without any configuration client-node falls back to http://localhost:8080, which no current apiserver serves.
  if (config.getCurrentContext() === 'loaded-context') {
    throw new Error('no kubeconfig found: set KUBECONFIG, create ~/.kube/config, or run inside a cluster');
  }
  return config;
}

function checkContext(config: KubeConfig, source: string): void {
  const name = config.getCurrentContext();
  const known = config.getContexts().map((context) => context.name);
  const remedy = known.length === 0 ? 'it defines no context' : `choose one of: ${shown(known.join(', '))}`;
  if (!name) throw new Error(`${source} has no current-context: ${remedy}`);
  const context = config.getContexts().find((candidate) => candidate.name === name);
  if (context === undefined) throw new Error(`${source} has no context "${shown(name)}": ${remedy}`);
  const cluster = config.getCluster(context.cluster);
  if (cluster === null) {
    throw new Error(
      `${source}: context "${shown(name)}" names cluster "${shown(context.cluster)}", which it does not define`,
    );
  }
  if (typeof cluster.server !== 'string')
    throw new Error(`${source}: cluster "${shown(cluster.name)}" has no server: set its URL`);
  if (config.getUser(context.user) === null) {
    throw new Error(
      `${source}: context "${shown(name)}" names user "${shown(context.user)}", which it does not define`,
    );
  }
}

const maxShownLength = 300;

/** A file may have any value where a name is expected. */
function shown(value: unknown): string {
  return oneLine(String(value), maxShownLength);
}

/** `kubectl proxy` serves plain HTTP without a certificate to verify; client-node requires skipTLSVerify for it. */
function allowPlainHttp(config: KubeConfig): void {
  config.clusters = config.clusters.map((cluster) =>
    cluster.server.startsWith('http:') ? { ...cluster, skipTLSVerify: true } : cluster,
  );
}

export type TlsOptions = Pick<
  ConnectionOptions,
  'ca' | 'cert' | 'key' | 'pfx' | 'passphrase' | 'rejectUnauthorized' | 'servername'
>;

/** The credentials of a request: headers, and the TLS options of the connection. */
export interface Credentials {
  readonly headers: Readonly<Record<string, string>>;
  readonly tls: TlsOptions;
}

interface CachedCredentials {
  readonly credentials: Promise<Credentials>;
  /** Time of loading, as performance.now() returned it; undefined while they are loaded: a plugin may ask a user. */
  loadedMs?: number;
}

/**
 * Provides credentials from client-node, including exec plugins and token files, and caches them for some seconds because
 * client-node reads the CA, the certificate and the key from disk on every call.
 */
export class CredentialSource {
  #config: KubeConfig;
  readonly #cacheMs: number;
  readonly #reload: (() => KubeConfig) | undefined;
  #cached: CachedCredentials | undefined;

  /** `reload` reads the configuration again for each load, in case its file was renewed; what it read before stays if it throws. */
  constructor(config: KubeConfig, cacheMs = 10_000, reload?: () => KubeConfig) {
    this.#config = config;
    this.#cacheMs = cacheMs;
    this.#reload = reload;
  }

  current(): Promise<Credentials> {
    const { credentials: known, loadedMs = Infinity } = this.#cached ?? {};
    if (known !== undefined && performance.now() - loadedMs < this.#cacheMs) return known;
    const credentials = this.#load();
    const loading: CachedCredentials = { credentials };
    this.#cached = loading;
    credentials.then(
      () => {
        loading.loadedMs = performance.now();
      },
      () => {
        if (this.#cached === loading) this.#cached = undefined;
      },
    );
    return credentials;
  }

  /** Discards the cached credentials because the apiserver rejected those of a request that had them at this time. Later ones stay. */
  forget(usedMs: number): void {
    if ((this.#cached?.loadedMs ?? Infinity) > usedMs) return;
    this.#cached = undefined;
    forgetPluginTokens(this.#config);
  }

  async #load(): Promise<Credentials> {
    this.#readAgain();
    const options: RequestOptions = {};
    await this.#config.applyToHTTPSOptions(options);
    const headers: Record<string, string> = {};
    for (const [name, value] of Object.entries(options.headers ?? {})) {
      headers[name.toLowerCase()] = String(value).trim();
    }
    if (options.auth) headers['authorization'] = `Basic ${Buffer.from(options.auth).toString('base64')}`;
    return { headers, tls: tlsOf(options) };
  }

  #readAgain(): void {
    try {
      this.#config = this.#reload?.() ?? this.#config;
    } catch {
      // Requests fail with what the apiserver says about the former credentials.
    }
  }
}

function tlsOf(options: RequestOptions): TlsOptions {
  const names = ['ca', 'cert', 'key', 'pfx', 'passphrase', 'rejectUnauthorized', 'servername'] as const;
  return Object.fromEntries(
    names.filter((name) => options[name] !== undefined).map((name) => [name, options[name]]),
  ) as TlsOptions;
}
