import { createPrivateKey, X509Certificate } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import {
  type ClientConfigProfile,
  type ClientConnectConfig,
  type ConfigDataSource,
  loadClientConfig,
  loadClientConfigProfile,
  toClientOptions,
} from '@temporalio/envconfig';

/** Where Temporal is, and who we are to it. */
export interface TemporalSettings {
  connectionOptions: ClientConnectConfig['connectionOptions'];
  /** Host and port. */
  address: string;
  namespace: string;
  /** Where the settings come from, for people: `profile "cluster"`. */
  source: string;
}

/** What is wrong with the settings of Temporal, in one line that names the setting and the remedy. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError';
}

interface Choice {
  /** In place of TEMPORAL_PROFILE. */
  profile?: string | undefined;
  /** In place of TEMPORAL_CONFIG_FILE. */
  file?: string | undefined;
  /** The environment that is read. */
  env?: Record<string, string | undefined>;
}

/**
 * The settings of the environment and of temporal.toml, as the temporal CLI has them. Throws a SettingsError for what cannot be
 * meant, before anything is connected: what the SDK would pass over silently (a file that is not there, a misspelled key, a
 * certificate without its key) would otherwise be a refusal by the server that explains nothing.
 */
export function temporalSettings({ profile: asked, file, env = process.env }: Choice = {}): TemporalSettings {
  const given = Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
  const { name, profile } = profileOf(given, asked ?? given['TEMPORAL_PROFILE'], file);
  const problem = checks.map((check) => check(profile, given)).find((found) => found !== undefined);
  if (problem !== undefined) throw new SettingsError(problem);
  const { connectionOptions, namespace = 'default' } = toClientOptions(profile);
  const source = name === undefined ? 'the environment' : `profile "${name}"`;
  return { connectionOptions, namespace, address: profile.address ?? 'localhost:7233', source };
}

/** `name` is that of a profile in the file, if one is used. */
function profileOf(
  env: Record<string, string>,
  wanted: string | undefined,
  file: string | undefined,
): { name: string | undefined; profile: ClientConfigProfile } {
  const path = file ?? env['TEMPORAL_CONFIG_FILE'];
  if (path !== undefined && !existsSync(path))
    throw new SettingsError(
      `${file === undefined ? 'TEMPORAL_CONFIG_FILE' : '--config-file'}: there is no file ${path}: correct the path, or leave it out`,
    );
  const source = path === undefined ? {} : { configSource: { path } };
  const options = { configFileStrict: true, overrideEnvVars: env, ...source };
  const where = path ?? 'temporal.toml of the user';
  const names = readable(where, () => Object.keys(loadClientConfig(options).profiles));
  if (wanted !== undefined && !names.includes(wanted))
    throw new SettingsError(`${where}: there is no profile "${wanted}"; ${those(names)}`);
  const name = [wanted ?? 'default'].find((one) => names.includes(one));
  const chosen = wanted === undefined ? {} : { profile: wanted };
  return { name, profile: readable(where, () => loadClientConfigProfile({ ...options, ...chosen })) };
}

/** What is wrong with a file, in one line that begins with its name. */
function readable<T>(where: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    const [words = ''] = (error instanceof Error ? error.message : String(error)).split('\n');
    // The SDK reads on where the file has no profiles at all.
    const reason = error instanceof TypeError ? 'it has no profile' : words.replace('Validation error: ', '');
    throw new SettingsError(`${where}: ${reason}: correct it, as temporal-config/temporal.toml shows`, {
      cause: error,
    });
  }
}

function those(names: readonly string[]): string {
  return names.length === 0
    ? 'it has none: write one, as temporal-config/temporal.toml shows'
    : `it has ${names.join(', ')}: correct --profile or TEMPORAL_PROFILE`;
}

type Check = (profile: ClientConfigProfile, env: Record<string, string>) => string | undefined;

const checks: readonly Check[] = [
  skipsNoVerification,
  keyIsGiven,
  certificateHasItsKey,
  ...(['serverCACert', 'clientCert'] as const).map(
    (field): Check =>
      ({ tls }) =>
        certificateProblem(field, tls?.[field]),
  ),
  privateKeyFits,
];

const settingNames = {
  serverCACert: 'tls.server_ca_cert_path (TEMPORAL_TLS_SERVER_CA_CERT_PATH)',
  clientCert: 'tls.client_cert_path (TEMPORAL_TLS_CLIENT_CERT_PATH)',
  clientKey: 'tls.client_key_path (TEMPORAL_TLS_CLIENT_KEY_PATH)',
};

/** The SDK passes over it: the server is verified all the same. */
function skipsNoVerification(_profile: ClientConfigProfile, env: Record<string, string>): string | undefined {
  if (!['1', 'true'].includes(env['TEMPORAL_TLS_DISABLE_HOST_VERIFICATION'] ?? '')) return undefined;
  return `TEMPORAL_TLS_DISABLE_HOST_VERIFICATION: the certificate of the server is always verified: unset it, and give its authority by ${settingNames.serverCACert}`;
}

function keyIsGiven({ apiKey }: ClientConfigProfile): string | undefined {
  return apiKey === ''
    ? 'api_key (TEMPORAL_API_KEY): it is empty: give the key, or leave it out where Temporal wants none'
    : undefined;
}

/** The SDK would present no certificate at all. */
function certificateHasItsKey({ tls }: ClientConfigProfile): string | undefined {
  if ((tls?.clientCert === undefined) === (tls?.clientKey === undefined)) return undefined;
  const [given, missing] =
    tls?.clientCert === undefined
      ? [settingNames.clientKey, settingNames.clientCert]
      : [settingNames.clientCert, settingNames.clientKey];
  return `${given} is given without ${missing}: give both, or none`;
}

const pemBlocks = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g;

function certificateProblem(
  field: 'serverCACert' | 'clientCert',
  source: ConfigDataSource | undefined,
): string | undefined {
  if (source === undefined) return undefined;
  const text = contentOf(source);
  if (typeof text !== 'string') return `${settingNames[field]}: ${text.problem}`;
  try {
    // Of several authorities, as while one is replaced, one that is valid is enough; of a chain the first is ours.
    const blocks = field === 'clientCert' ? [text] : (text.match(pemBlocks) ?? [text]);
    const ends = blocks.map((block) => new X509Certificate(block).validTo);
    const validTo = ends.toSorted((a, b) => Date.parse(b) - Date.parse(a))[0] ?? '';
    return Date.parse(validTo) < Date.now()
      ? `${settingNames[field]}: the certificate${named(source)} has expired (${validTo}): renew it`
      : undefined;
  } catch {
    return `${settingNames[field]}:${named(source)} is no certificate: give one in PEM, which begins with -----BEGIN CERTIFICATE-----`;
  }
}

function privateKeyFits({ tls }: ClientConfigProfile): string | undefined {
  if (tls?.clientKey === undefined || tls.clientCert === undefined) return undefined;
  const [key, certificate] = [contentOf(tls.clientKey), contentOf(tls.clientCert)];
  if (typeof key !== 'string') return `${settingNames.clientKey}: ${key.problem}`;
  if (typeof certificate !== 'string') return undefined;
  try {
    return new X509Certificate(certificate).checkPrivateKey(createPrivateKey(key))
      ? undefined
      : `${settingNames.clientKey}:${named(tls.clientKey)} is the key of another certificate than ${settingNames.clientCert}: give the two that were issued together`;
  } catch {
    return `${settingNames.clientKey}:${named(tls.clientKey)} is no private key: give one in PEM, without a passphrase`;
  }
}

function contentOf(source: ConfigDataSource): string | { problem: string } {
  if ('data' in source)
    return typeof source.data === 'string' ? source.data : Buffer.from(source.data).toString();
  try {
    return readFileSync(source.path, 'utf8');
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    return { problem: `${source.path} cannot be read (${code}): correct the path, or its permissions` };
  }
}

function named(source: ConfigDataSource): string {
  return 'path' in source ? ` ${source.path}` : '';
}
