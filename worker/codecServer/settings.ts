import { isIP } from 'node:net';
import { Command } from 'commander';
import * as z from 'zod';
import {
  parseSettings,
  setting,
  type SettingSource,
  sourcesOf,
  wholeNumber,
} from '../../process/settings.ts';

/** The configuration of the codec server, parsed once. The keys have a setting of their own, which worker and CLI have too. */
export interface CodecServerConfig {
  port: number;
  address: string;
  /** Origins of the Temporal UIs whose pages may call the server. */
  origins: readonly string[];
  authorization: Authorization;
  tls: { certificateFile: string; keyFile: string } | undefined;
  logLevel: string;
}

/** Clients whose requests are answered. With both a token and JWTs, either suffices: a token for the CLI, JWTs for the UI. */
export interface Authorization {
  /** Everyone. */
  anonymous: boolean;
  tokenFile: string | undefined;
  jwt: JwtSettings | undefined;
}

export interface JwtSettings {
  jwksUrl: string;
  issuer: string | undefined;
  /** Its keys sign tokens for other applications too. */
  audience: string;
  /** The claim that names the user, and the users who are allowed; `*@example.com` stands for all of this domain. */
  claim: string;
  users: readonly string[];
}

const file = () => z.string().min(1, { error: 'expected a file' }).optional();
const logLevels = ['debug', 'info', 'warn', 'error'] as const;

const originList = z
  .string()
  .default('')
  .transform((text) => listed(text))
  .refine((origins) => origins.every((origin) => URL.parse(origin)?.origin === origin), {
    error: 'expected origins separated by commas, such as https://cloud.temporal.io or http://localhost:8233',
  });

/** URL of the keys, which must be trustworthy: a client that can change the keys in transit can sign tokens. */
const jwksUrl = z
  .string()
  .refine((text) => isTrustworthy(URL.parse(text)), {
    error:
      'expected an https: URL, such as https://login.tmprl.cloud/.well-known/jwks.json; http: only with localhost',
  })
  .optional();

function isTrustworthy(url: URL | null): boolean {
  const isLoopback = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url?.hostname ?? '');
  return url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback);
}

const userList = z
  .string()
  .default('')
  .transform((text) => listed(text))
  .refine((users) => users.every((user) => !user.includes('*') || allOfDomain.test(user)), {
    error:
      'expected users separated by commas, such as jane@example.com, or *@example.com for all of a domain; "*" stands nowhere else',
  });

const allOfDomain = /^\*@[^@*.]+(\.[^@*.]+)+$/;

const Settings = z
  .object({
    port: setting(wholeNumber('a port', 0, 65_535).default(8888), {
      flags: '--port <port>',
      variable: 'CODEC_SERVER_PORT',
      description: 'port of the server',
      defaultText: '8888',
    }),
    bindAddress: setting(
      z
        .string()
        .refine((address) => isIP(address) !== 0, { error: 'expected an IP address, such as 0.0.0.0' })
        .default('127.0.0.1'),
      {
        flags: '--bind-address <ip>',
        variable: 'CODEC_SERVER_BIND_ADDRESS',
        description: 'IP address to listen on',
        defaultText: '127.0.0.1',
      },
    ),
    corsOrigins: setting(originList, {
      flags: '--cors-origins <origins>',
      variable: 'CODEC_SERVER_CORS_ORIGINS',
      description: 'origins of the Temporal UIs that may call the server, separated by commas',
      defaultText: 'none',
    }),
    tokenFile: setting(file(), {
      flags: '--token-file <file>',
      variable: 'CODEC_SERVER_TOKEN_FILE',
      description: 'answer requests with the bearer token in this file, which is read for each request',
    }),
    jwksUrl: setting(jwksUrl, {
      flags: '--jwks-url <url>',
      variable: 'CODEC_SERVER_JWKS_URL',
      description:
        'answer requests with a JWT that one of these keys has signed, such as the access token of a UI user',
    }),
    jwtUsers: setting(userList, {
      flags: '--jwt-users <users>',
      variable: 'CODEC_SERVER_JWT_USERS',
      description: 'users that are answered, separated by commas, such as jane@example.com or *@example.com',
    }),
    jwtClaim: setting(z.string().min(1).default('email'), {
      flags: '--jwt-claim <claim>',
      variable: 'CODEC_SERVER_JWT_CLAIM',
      description: 'claim that names the user; for Temporal Cloud https://saas-api.tmprl.cloud/user/email',
      defaultText: 'email',
    }),
    jwtIssuer: setting(z.string().min(1).optional(), {
      flags: '--jwt-issuer <issuer>',
      variable: 'CODEC_SERVER_JWT_ISSUER',
      description: 'required issuer of a JWT',
      defaultText: 'any',
    }),
    jwtAudience: setting(z.string().min(1).optional(), {
      flags: '--jwt-audience <audience>',
      variable: 'CODEC_SERVER_JWT_AUDIENCE',
      description:
        'required audience of a JWT; for Temporal Cloud https://saas-api.tmprl.cloud; required with --jwks-url',
    }),
    anonymousAuth: setting(z.boolean().default(false), {
      flags: '--anonymous-auth',
      description: 'answer everyone who can connect, without authorization',
    }),
    tlsCertFile: setting(file(), {
      flags: '--tls-cert-file <file>',
      variable: 'CODEC_SERVER_TLS_CERT_FILE',
      description: 'certificate chain in PEM; read again when it changes',
      defaultText: 'no TLS',
    }),
    tlsPrivateKeyFile: setting(file(), {
      flags: '--tls-private-key-file <file>',
      variable: 'CODEC_SERVER_TLS_PRIVATE_KEY_FILE',
      description: 'private key of the certificate',
    }),
    logLevel: setting(
      z.enum(logLevels, { error: `expected one of ${logLevels.join(', ')}` }).default('info'),
      {
        flags: '--log-level <level>',
        variable: 'LOG_LEVEL',
        description: 'least severe level to log',
        choices: logLevels,
        defaultText: 'info',
      },
    ),
  })
  .check(({ value, issues }) => void issues.push(...checkAuthorization(value), ...checkTls(value)));
type Settings = z.output<typeof Settings>;

/** The settings of the codec server, for the documentation. */
export const codecServerSettingSources: readonly SettingSource[] = sourcesOf(Settings);

/** Throws an Error that names flag, variable and remedy of each invalid setting, or commander's CommanderError. */
export function parseCodecServerConfig(argv: readonly string[], env: NodeJS.ProcessEnv): CodecServerConfig {
  const command = new Command('npm run codec-server --')
    .description(
      'Decrypts and encrypts payloads for the Temporal UI and CLI, with the keys in the folder NODE_MAINTENANCE_PAYLOAD_KEYS.',
    )
    .exitOverride();
  const settings = parseSettings(Settings, { command, argv, env });
  const { port, bindAddress: address, corsOrigins: origins, logLevel } = settings;
  const { tlsCertFile: certificateFile, tlsPrivateKeyFile: keyFile } = settings;
  const tls = certificateFile && keyFile ? { certificateFile, keyFile } : undefined;
  return { port, address, origins, authorization: authorizationOf(settings), tls, logLevel };
}

function authorizationOf(settings: Settings): Authorization {
  const { anonymousAuth: anonymous, tokenFile, jwksUrl: url } = settings;
  const { jwtIssuer: issuer, jwtAudience: audience, jwtClaim: claim, jwtUsers: users } = settings;
  const jwt =
    url === undefined || audience === undefined
      ? undefined
      : { jwksUrl: url, issuer, audience, claim, users };
  return { anonymous, tokenFile, jwt };
}

function listed(text: string): string[] {
  return text
    .split(',')
    .map((one) => one.trim())
    .filter(Boolean);
}

function issue(path: keyof Settings, message: string): z.core.$ZodRawIssue {
  return { code: 'custom', path: [path], message, input: undefined };
}

function checkAuthorization(settings: Settings): z.core.$ZodRawIssue[] {
  const { anonymousAuth, tokenFile, jwksUrl: url } = settings;
  const isAuthorizing = tokenFile !== undefined || url !== undefined;
  if (anonymousAuth && isAuthorizing)
    return [
      issue('anonymousAuth', 'everyone would be answered: omit it, or the other settings of authorization'),
    ];
  if (!anonymousAuth && !isAuthorizing)
    return [
      issue(
        'tokenFile',
        'the server decrypts for everyone who may call it: set --token-file or --jwks-url, or --anonymous-auth if nobody else can connect',
      ),
    ];
  return checkJwt(settings);
}

/** The keys of a provider sign tokens of all its users, for all their applications; those of Temporal Cloud, of all its customers. */
function checkJwt({ jwksUrl: url, jwtUsers, jwtAudience }: Settings): z.core.$ZodRawIssue[] {
  if (url === undefined) return jwtUsers.length > 0 ? [issue('jwksUrl', 'required with --jwt-users')] : [];
  const noUsers =
    jwtUsers.length === 0 &&
    issue('jwtUsers', 'required with --jwks-url: its keys sign tokens for others too');
  const noAudience =
    jwtAudience === undefined &&
    issue(
      'jwtAudience',
      'required with --jwks-url: its keys sign tokens for other applications too: set the aud of the access tokens that the UI sends, for Temporal Cloud https://saas-api.tmprl.cloud',
    );
  return [noUsers, noAudience].filter((one) => one !== false);
}

function checkTls({ tlsCertFile, tlsPrivateKeyFile }: Settings): z.core.$ZodRawIssue[] {
  if ((tlsCertFile === undefined) === (tlsPrivateKeyFile === undefined)) return [];
  return tlsCertFile === undefined
    ? [issue('tlsCertFile', 'required with --tls-private-key-file')]
    : [issue('tlsPrivateKeyFile', 'required with --tls-cert-file')];
}
