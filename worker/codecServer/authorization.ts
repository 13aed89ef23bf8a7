import { createHash, timingSafeEqual } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { IncomingHttpHeaders } from 'node:http';
import { createRemoteJWKSet, errors, type JWTPayload, jwtVerify } from 'jose';
import type { Route } from '../../http/server.ts';
import { errorMessage } from '../../kube/errors.ts';
import type { Log } from '../../kube/log.ts';
import type { Authorization, JwtSettings } from './settings.ts';

/** Returns whether a bearer token is valid. */
type Check = (token: string) => Promise<boolean>;

const rejected = {
  status: 401,
  type: 'text/plain',
  body: 'expected a valid token in the header Authorization: Bearer TOKEN\n',
  headers: { 'www-authenticate': 'Bearer' },
};

/** Returns what authorizes the requests of a route; undefined if everyone is answered. */
export function authorizer({ anonymous, tokenFile, jwt }: Authorization, log: Log): Route['authorize'] {
  if (anonymous) return undefined;
  const checks: Check[] = [
    ...(tokenFile === undefined ? [] : [(token: string) => isTokenIn(tokenFile, token)]),
    ...(jwt === undefined ? [] : [jwtCheck(jwt, log)]),
  ];
  return async (headers) => {
    const token = bearerToken(headers);
    if (token === undefined) return rejected;
    for (const check of checks) if (await check(token)) return undefined;
    return rejected;
  };
}

function bearerToken({ authorization = '' }: IncomingHttpHeaders): string | undefined {
  return /^Bearer +(\S+)$/i.exec(authorization)?.[1];
}

/** Reads the file for each request, so that the token can be replaced. Throws if the file cannot be read: nobody is answered then. */
async function isTokenIn(file: string, token: string): Promise<boolean> {
  const expected = (await readFile(file, 'utf8')).trim();
  return expected !== '' && timingSafeEqual(digestOf(expected), digestOf(token));
}

/** Digests have equal lengths, which timingSafeEqual requires. */
function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** Only signatures: with a secret of both sides, the keys of the URL would be that secret. */
const algorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'];

function jwtCheck({ jwksUrl, issuer, audience, claim, users }: JwtSettings, log: Log): Check {
  const keys = createRemoteJWKSet(new URL(jwksUrl));
  const options = {
    algorithms,
    requiredClaims: ['exp'],
    audience,
    ...(issuer && { issuer }),
  };
  return async (token) => {
    try {
      const { payload } = await jwtVerify(token, keys, options);
      const user = payload[claim];
      if (typeof user !== 'string' || (claim === 'email' && isUnverified(payload))) return false;
      return users.some((allowed) => isAllowed(user, allowed));
    } catch (error) {
      // Everything else is a token that is not valid.
      if (isUnavailable(error))
        log.warn('Keys of JWTs could not be read', { url: jwksUrl, reason: errorMessage(error) });
      return false;
    }
  };
}

function isUnavailable(error: unknown): boolean {
  if (!(error instanceof errors.JOSEError)) return true;
  return error instanceof errors.JWKSTimeout || error.code === 'ERR_JOSE_GENERIC';
}

/** Some providers let users enter any address, and say so (OpenID Connect Core › Standard Claims); some write it as text. */
function isUnverified({ email_verified: verified }: JWTPayload): boolean {
  return verified === false || verified === 'false';
}

function isAllowed(user: string, allowed: string): boolean {
  return allowed.startsWith('*') ? user.endsWith(allowed.slice(1)) : user === allowed;
}
