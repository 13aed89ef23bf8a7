/** Claims of a token of a ServiceAccount that is bound to a Node. */
export interface NodeTokenClaims {
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly node: { readonly name: string; readonly uid: string };
  readonly issuedAt: Date;
  readonly expiresAt: Date;
}

/** Returns the claims of a token that is bound to a Node and to no pod; undefined for any other text. Checks no signature: the apiserver does. */
export function nodeTokenClaims(token: string): NodeTokenClaims | undefined {
  const claims = payloadOf(token);
  const { exp, iat } = claims;
  const kubernetes = recordOf(claims['kubernetes.io']);
  const { namespace } = kubernetes;
  const [node, account] = [recordOf(kubernetes['node']), recordOf(kubernetes['serviceaccount'])];
  if (typeof exp !== 'number' || typeof iat !== 'number' || kubernetes['pod'] !== undefined) return undefined;
  if (typeof namespace !== 'string' || typeof account['name'] !== 'string') return undefined;
  if (typeof node['name'] !== 'string' || typeof node['uid'] !== 'string') return undefined;
  return {
    namespace,
    serviceAccount: account['name'],
    node: { name: node['name'], uid: node['uid'] },
    issuedAt: new Date(iat * 1_000),
    expiresAt: new Date(exp * 1_000),
  };
}

/** Returns the time at which a token is renewed: half of its time is left for an apiserver that does not answer. */
export function renewsAt({ issuedAt, expiresAt }: NodeTokenClaims): Date {
  return new Date((issuedAt.getTime() + expiresAt.getTime()) / 2);
}

function payloadOf(token: string): Record<string, unknown> {
  const [, payload = ''] = token.split('.');
  try {
    const bytes = Uint8Array.from(atob(payload.replaceAll('-', '+').replaceAll('_', '/')), (one) =>
      one.charCodeAt(0),
    );
    return recordOf(JSON.parse(new TextDecoder().decode(bytes)));
  } catch {
    return {};
  }
}

function recordOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
