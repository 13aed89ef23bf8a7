import { createPrivateKey, X509Certificate } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import type { DataConverter } from '@temporalio/common';
import {
  type ClientConfigProfile,
  type ClientConnectConfig,
  type ConfigDataSource,
  loadClientConfig,
  loadClientConfigProfile,
  toClientOptions,
} from '@temporalio/envconfig';
import { type DecryptionError, EncryptionCodec } from './encryptionCodec.ts';
import { PayloadKeys, PayloadKeysError } from './payloadKeys.ts';

/** How to connect to Temporal, and how to read and write its payloads. */
export interface TemporalSettings extends ConnectionSettings, PayloadSettings {}

/** Address of Temporal and credentials for it. */
export interface ConnectionSettings {
  connectionOptions: ClientConnectConfig['connectionOptions'];
  /** Host and port. */
  address: string;
  namespace: string;
  /** Source of the settings for messages, such as `profile "cluster"`. */
  source: string;
}

/** Every client and worker takes these: one that does not could read nothing. */
export interface PayloadSettings {
  dataConverter: DataConverter;
  /** Whether payloads are encrypted, not only decrypted. */
  encryptsPayloads: boolean;
}

/** An invalid setting of Temporal. The message is one line that names the setting and the remedy. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError';
}

interface Choice {
  /** Replaces TEMPORAL_PROFILE. */
  profile?: string | undefined;
  /** Replaces TEMPORAL_CONFIG_FILE. */
  file?: string | undefined;
  /** Default: the environment of the process. */
  env?: Record<string, string | undefined>;
}

/** Receives what a process reports about its keys. */
export interface PayloadObserver {
  onDecryptionFailure?: (error: DecryptionError) => void;
  /** Called with undefined when the problem is solved. */
  onKeysProblem?: (problem: string | undefined) => void;
}

/** Reads all settings of Temporal. Throws a SettingsError for invalid ones. */
export function temporalSettings({
  observer,
  ...choice
}: Choice & { observer?: PayloadObserver } = {}): TemporalSettings {
  return { ...connectionSettings(choice), ...payloadSettings(choice.env, observer) };
}

/** Reads the keys of payloads. Without them nothing is encrypted, and what others have encrypted is recognized. */
export function payloadSettings(
  env: Record<string, string | undefined> = process.env,
  { onDecryptionFailure: onFailure, onKeysProblem: onProblem }: PayloadObserver = {},
): PayloadSettings {
  const folder = env[payloadKeysVariable];
  try {
    const keys = folder ? new PayloadKeys(folder, { onProblem }) : undefined;
    const dataConverter = { payloadCodecs: [new EncryptionCodec({ keys, onFailure })] };
    return { dataConverter, encryptsPayloads: keys !== undefined };
  } catch (error) {
    if (!(error instanceof PayloadKeysError)) throw error;
    throw new SettingsError(`${payloadKeysVariable}: ${error.message}`, { cause: error });
  }
}

const payloadKeysVariable = 'NODE_MAINTENANCE_PAYLOAD_KEYS';
const apiKeyFileVariable = 'TEMPORAL_API_KEY_FILE';

/**
 * Reads the environment and temporal.toml like the temporal CLI. Throws a SettingsError for invalid settings before it connects: the
 * SDK ignores some of them (a missing file, a misspelled key, a certificate without its key), and the server would then reject the
 * connection without an explanation.
 */
export function connectionSettings({
  profile: chosenName,
  file,
  env = process.env,
}: Choice = {}): ConnectionSettings {
  const given = Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
  const variables = { ...given, ...apiKeyInFile(given) };
  const { name, profile } = profileOf(variables, chosenName ?? variables['TEMPORAL_PROFILE'], file);
  const problem = checks.map((check) => check(profile, variables)).find((found) => found !== undefined);
  if (problem !== undefined) throw new SettingsError(problem);
  const { connectionOptions, namespace = 'default' } = toClientOptions(profile);
  const source = name === undefined ? 'the environment' : `profile "${name}"`;
  return { connectionOptions, namespace, address: profile.address ?? 'localhost:7233', source };
}

/** Reads the key from a file, such as one of a mounted Secret, whose content changes while the process runs. */
function apiKeyInFile(env: Record<string, string>): Record<string, string> {
  const path = env[apiKeyFileVariable];
  if (!path) return {};
  if (env['TEMPORAL_API_KEY'] !== undefined)
    throw new SettingsError(`${apiKeyFileVariable}: TEMPORAL_API_KEY is set too: set one of them`);
  const content = contentOf({ path });
  if (typeof content !== 'string') throw new SettingsError(`${apiKeyFileVariable}: ${content.problem}`);
  const key = content.trim();
  if (key === '') throw new SettingsError(`${apiKeyFileVariable}: ${path} is empty: write the key into it`);
  return { TEMPORAL_API_KEY: key };
}

/** Loads a profile. `name` is undefined if the file has none of that name and the environment alone applies. */
function profileOf(
  env: Record<string, string>,
  requested: string | undefined,
  file: string | undefined,
): { name: string | undefined; profile: ClientConfigProfile } {
  const path = file ?? env['TEMPORAL_CONFIG_FILE'];
  if (path !== undefined && !existsSync(path))
    throw new SettingsError(
      `${file === undefined ? 'TEMPORAL_CONFIG_FILE' : '--config-file'}: file ${path} does not exist: correct the path or omit it`,
    );
  const source = path === undefined ? {} : { configSource: { path } };
  const options = { configFileStrict: true, overrideEnvVars: env, ...source };
  const where = path ?? 'the default temporal.toml';
  const names = readable(where, () => Object.keys(loadClientConfig(options).profiles));
  if (requested !== undefined && !names.includes(requested))
    throw new SettingsError(`${where}: there is no profile "${requested}"; ${describeProfiles(names)}`);
  const name = [requested ?? 'default'].find((one) => names.includes(one));
  const chosen = requested === undefined ? {} : { profile: requested };
  return { name, profile: readable(where, () => loadClientConfigProfile({ ...options, ...chosen })) };
}

/** Rethrows an error of the SDK as one line that starts with the name of the file. */
function readable<T>(where: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    const [message = ''] = (error instanceof Error ? error.message : String(error)).split('\n');
    // The SDK throws a TypeError if the file has no profiles.
    const reason =
      error instanceof TypeError ? 'the file has no profile' : message.replace('Validation error: ', '');
    throw new SettingsError(`${where}: ${reason}: correct it; temporal-config/temporal.toml is an example`, {
      cause: error,
    });
  }
}

function describeProfiles(names: readonly string[]): string {
  return names.length === 0
    ? 'it has none: add one; temporal-config/temporal.toml is an example'
    : `it has ${names.join(', ')}: correct --profile or TEMPORAL_PROFILE`;
}

type Check = (profile: ClientConfigProfile, env: Record<string, string>) => string | undefined;

const checks: readonly Check[] = [
  verificationIsEnabled,
  apiKeyIsNotEmpty,
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

/** The SDK ignores the variable and verifies the server. */
function verificationIsEnabled(
  _profile: ClientConfigProfile,
  env: Record<string, string>,
): string | undefined {
  if (!['1', 'true'].includes(env['TEMPORAL_TLS_DISABLE_HOST_VERIFICATION'] ?? '')) return undefined;
  return `TEMPORAL_TLS_DISABLE_HOST_VERIFICATION: server certificates are always verified: unset it, and set the CA with ${settingNames.serverCACert}`;
}

function apiKeyIsNotEmpty({ apiKey }: ClientConfigProfile): string | undefined {
  return apiKey === ''
    ? 'api_key (TEMPORAL_API_KEY): empty: set the key, or omit it if Temporal requires none'
    : undefined;
}

/** The SDK would present no certificate. */
function certificateHasItsKey({ tls }: ClientConfigProfile): string | undefined {
  if ((tls?.clientCert === undefined) === (tls?.clientKey === undefined)) return undefined;
  const [present, missing] =
    tls?.clientCert === undefined
      ? [settingNames.clientKey, settingNames.clientCert]
      : [settingNames.clientCert, settingNames.clientKey];
  return `${present} is set without ${missing}: set both or none`;
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
    // One valid CA of several is sufficient, for example during a rotation. The first certificate of a chain is the client's.
    const blocks = field === 'clientCert' ? [text] : (text.match(pemBlocks) ?? [text]);
    const ends = blocks.map((block) => new X509Certificate(block).validTo);
    const validTo = ends.toSorted((a, b) => Date.parse(b) - Date.parse(a))[0] ?? '';
    return Date.parse(validTo) < Date.now()
      ? `${settingNames[field]}: the certificate${named(source)} has expired (${validTo}): renew it`
      : undefined;
  } catch {
    return `${settingNames[field]}:${named(source)} is not a certificate: use PEM, which starts with -----BEGIN CERTIFICATE-----`;
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
      : `${settingNames.clientKey}:${named(tls.clientKey)} does not belong to the certificate of ${settingNames.clientCert}: use the pair that was issued together`;
  } catch {
    return `${settingNames.clientKey}:${named(tls.clientKey)} is not a private key: use PEM without a passphrase`;
  }
}

function contentOf(source: ConfigDataSource): string | { problem: string } {
  if ('data' in source)
    return typeof source.data === 'string' ? source.data : Buffer.from(source.data).toString();
  try {
    return readFileSync(source.path, 'utf8');
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    return { problem: `${source.path} cannot be read (${code}): correct the path or its permissions` };
  }
}

function named(source: ConfigDataSource): string {
  return 'path' in source ? ` ${source.path}` : '';
}
