import { open, readFile, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import { parseDocument } from 'yaml';
import { type NodeTokenClaims, nodeTokenClaims, renewsAt } from '../domain/common/nodeToken.ts';
import { aborted, sleep } from '../kube/abort.ts';
import { errorMessage } from '../kube/errors.ts';
import type { Kube } from '../kube/client.ts';
import type { Log } from '../kube/log.ts';
import { syncFolder } from './files.ts';

interface TokenDeps {
  readonly kube: Pick<Kube, 'now' | 'requestNodeToken'>;
  readonly node: string;
  readonly log: Log;
}

const retryMs = 60_000;
/** The file may be replaced by a person. */
const maxWaitMs = 3_600_000;

/**
 * Renews the token in the kubeconfig until the signal aborts, and writes it back, readable by root alone. Only a token of a ServiceAccount that is
 * bound to a Node is renewed: whatever else authenticates the agent has its own way, such as the kubelet for a pod.
 */
export async function runTokenRenewal(
  deps: TokenDeps,
  { kubeconfig }: { readonly kubeconfig: string | undefined },
  signal: AbortSignal,
): Promise<void> {
  if (kubeconfig === undefined) return aborted(signal);
  let reported: string | undefined;
  while (!signal.aborted) {
    const { waitMs, problem } = await renewedIfDue(deps, kubeconfig, signal);
    if (problem !== undefined && problem !== reported && !signal.aborted)
      deps.log.warn('Token could not be renewed', { node: deps.node, reason: problem });
    reported = problem;
    await sleep(Math.min(waitMs, maxWaitMs), signal);
  }
}

async function renewedIfDue(
  deps: TokenDeps,
  path: string,
  signal: AbortSignal,
): Promise<{ waitMs: number; problem?: string }> {
  const { kube, node, log } = deps;
  try {
    const { token } = await userIn(path);
    const claims = token === undefined ? undefined : nodeTokenClaims(token);
    if (claims === undefined) return { waitMs: maxWaitMs };
    const waitMs = renewsAt(claims).getTime() - kube.now().getTime();
    if (waitMs > 0) return { waitMs };
    await replaceToken(path, await newToken(deps, claims, signal));
    log.info('Token renewed', { node, kubeconfig: path });
    return { waitMs: retryMs };
  } catch (error) {
    const remedy = `kubectl maintenance agent kubeconfig ${node} makes a new one`;
    return {
      waitMs: retryMs,
      problem: `${errorMessage(error)}: if the token in ${path} has expired, ${remedy}`,
    };
  }
}

function newToken({ kube }: TokenDeps, claims: NodeTokenClaims, signal: AbortSignal): Promise<string> {
  const { namespace, serviceAccount, node, expiresAt, issuedAt } = claims;
  const expirationSeconds = Math.round((expiresAt.getTime() - issuedAt.getTime()) / 1_000);
  const account = { namespace, name: serviceAccount };
  const about = { apiVersion: 'v1', kind: 'Node', name: node.name, uid: node.uid };
  return kube.requestNodeToken(account, { node: about, expirationSeconds }, { signal });
}

/** The user of the current context, in a document that keeps the comments of the file. */
async function userIn(path: string) {
  const document = parseDocument(await readFile(path, 'utf8'));
  const config = document.toJS() as {
    'current-context'?: string;
    contexts?: { name: string; context?: { user?: string } }[];
    users?: { name: string; user?: { token?: string } }[];
  } | null;
  const context = config?.contexts?.find(({ name }) => name === config['current-context'])?.context;
  const index = config?.users?.findIndex(({ name }) => name === context?.user) ?? -1;
  return { document, index, token: config?.users?.[index]?.user?.token };
}

/** Writes a file beside it, which only the user of the agent may read, and renames it, so that no reader and no crash finds half a file. */
async function replaceToken(path: string, token: string): Promise<void> {
  const { document, index } = await userIn(path);
  document.setIn(['users', index, 'user', 'token'], token);
  const next = `${path}.next`;
  const file = await open(next, 'w', 0o600);
  try {
    await file.chmod(0o600);
    await file.writeFile(document.toString());
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(next, path);
  await syncFolder(dirname(path));
}
