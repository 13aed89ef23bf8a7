import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { KubeObject, Lease } from '../../api/core.ts';
import { AGENT_LEASE_NAMESPACE, AGENT_SERVICE_ACCOUNT, SYSTEM_NAMESPACE } from '../../api/names.ts';
import { type ApiServer, ask, get } from '../apiserver.ts';
import { quoted } from '../commands.ts';
import { SandboxError } from '../errors.ts';
import * as kubernetes from '../kubernetes.ts';
import { type RealNodeName, writePrivate } from '../layout.ts';
import type { Start } from '../servers.ts';
import { until } from '../until.ts';
import { nodeFiles } from './node.ts';
import { root } from './requirements.ts';

const program = join(root, 'agent', 'main.ts');

/** Starts the agent of a node that is Ready, with a token that is bound to the Node. Returns when its Lease is renewed. */
export async function startAgent(
  { layout, state, wait }: Start,
  name: RealNodeName,
  args: readonly string[] = [],
): Promise<void> {
  if (!existsSync(program)) return;
  const server = kubernetes.apiServerOf(layout, state);
  const files = nodeFiles(layout, name);
  const before = await leaseOf(server, name);
  const token = await boundToken(server, name);
  writePrivate(files.agentKubeconfig, kubernetes.kubeconfigWith(layout, state, { name, token }));
  const flags = {
    node: name,
    kubeconfig: files.agentKubeconfig,
    'static-pod-path': files.manifests,
    'hold-directory': files.hold,
  };
  const command = [
    process.execPath,
    program,
    ...Object.entries(flags).map(([flag, value]) => `--${flag}=${value}`),
    ...args,
  ];
  writePrivate(files.agentScript, agentScript(command));
  rmSync(files.disabled('agent'), { force: true });
  const renewed = async () => {
    const lease = await leaseOf(server, name);
    const isRenewed =
      lease !== undefined && lease.metadata.resourceVersion !== before?.metadata.resourceVersion;
    return isRenewed ? undefined : 'its Lease is not renewed';
  };
  await until(`the agent of ${name} to run (its log is ${files.log('agent')})`, renewed, wait);
}

/** Hands on the cache of compiled code that `npm test` gives all its processes. */
function agentScript(command: readonly string[]): string {
  const cache = process.env['NODE_COMPILE_CACHE'];
  const environment = cache === undefined ? '' : `export NODE_COMPILE_CACHE=${quoted(cache)}\n`;
  return `${environment}exec ${command.map(quoted).join(' ')}\n`;
}

/** Returns a token of the agents' ServiceAccount that ends with the Node. */
async function boundToken(server: ApiServer, name: RealNodeName): Promise<string> {
  const node = await get<KubeObject>(server, `/api/v1/nodes/${name}`);
  const account = `/api/v1/namespaces/${SYSTEM_NAMESPACE}/serviceaccounts/${AGENT_SERVICE_ACCOUNT}`;
  const boundObjectRef = { apiVersion: 'v1', kind: 'Node', name, uid: node.metadata.uid };
  const { status, body } = await ask(server, 'POST', `${account}/token`, {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenRequest',
    spec: { boundObjectRef, expirationSeconds: yearSeconds },
  });
  if (status !== 201)
    throw new SandboxError(
      `A token for the agent of ${name} was refused with ${status}: ${body.slice(0, 300)}`,
    );
  return (JSON.parse(body) as { status: { token: string } }).status.token;
}

/** Lifetime of an agent's token: it outlives the sandbox, as its other tokens do, which do not expire. */
const yearSeconds = 365 * 24 * 3600;

async function leaseOf(server: ApiServer, name: RealNodeName): Promise<Lease | undefined> {
  const path = `/apis/coordination.k8s.io/v1/namespaces/${AGENT_LEASE_NAMESPACE}/leases/${name}`;
  const { status, body } = await ask(server, 'GET', path);
  return status === 200 ? (JSON.parse(body) as Lease) : undefined;
}
