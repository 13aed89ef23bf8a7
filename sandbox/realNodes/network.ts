import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { SandboxError } from '../errors.ts';
import type { RealNodeName } from '../layout.ts';
import { nodePath } from './requirements.ts';

/**
 * The network of real nodes: each has a network namespace, which a bridge connects to this host. Addresses, for a sandbox whose network has the
 * number N:
 *
 *     10.201.N.1          this host, on the bridge nmN
 *     10.201.N.10 + i     node i
 *     10.202.N.64 * i/26  pods of node i
 */
export interface NodeAddress {
  /** Number of the node, from 0. */
  readonly index: number;
  readonly name: RealNodeName;
  readonly address: string;
  readonly podCidr: string;
  /** Name of the network namespace. */
  readonly netns: string;
}

export const maxRealNodes = 4;

export function hostAddress(network: number): string {
  return `10.201.${network}.1`;
}

export function realNodes(network: number, count: number): NodeAddress[] {
  return Array.from({ length: count }, (_, index) => ({
    index,
    name: realNodeName(index),
    address: `10.201.${network}.${10 + index}`,
    podCidr: `10.202.${network}.${64 * index}/26`,
    netns: `nm${network}-${index}`,
  }));
}

export function realNodeName(index: number): RealNodeName {
  return `real-${index + 1}`;
}

/** Creates the bridge and the namespaces of the nodes. Returns the number of the network: `preferred`, unless it is taken. */
export async function createNetwork(count: number, preferred: number | undefined): Promise<number> {
  const network = await createBridge(preferred);
  try {
    const nodes = realNodes(network, count);
    for (const node of nodes) await connect(network, node, nodes);
    return network;
  } catch (error) {
    await removeNetwork(network, count);
    throw error;
  }
}

async function createBridge(preferred: number | undefined): Promise<number> {
  const numbers = Array.from({ length: maxNetworks }, (_, index) => index + 1);
  const start = Math.floor(Math.random() * maxNetworks);
  const candidates = [...numbers.slice(start), ...numbers.slice(0, start)];
  for (const network of preferred === undefined ? candidates : [preferred, ...candidates]) {
    const bridge = `nm${network}`;
    try {
      await ip('link', 'add', bridge, 'type', 'bridge');
    } catch (error) {
      if (/File exists/.test(String(error))) continue;
      throw error;
    }
    await ip('address', 'add', `${hostAddress(network)}/24`, 'dev', bridge);
    await ip('link', 'set', bridge, 'up');
    return network;
  }
  throw new SandboxError('Every network of the sandboxes is taken: stop other sandboxes with real nodes');
}

const maxNetworks = 254;

async function connect(network: number, node: NodeAddress, nodes: readonly NodeAddress[]): Promise<void> {
  const { address, podCidr, netns } = node;
  const inside = (...args: string[]) => ip('-n', netns, ...args);
  await ip('netns', 'add', netns);
  await ip('link', 'add', netns, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', netns);
  await ip('link', 'set', netns, 'master', `nm${network}`, 'up');
  await inside('link', 'set', 'lo', 'up');
  await inside('address', 'add', `${address}/24`, 'dev', 'eth0');
  await inside('link', 'set', 'eth0', 'up');
  await inside('route', 'add', 'default', 'via', hostAddress(network));
  // The apiserver calls webhooks at the addresses of their pods.
  await ip('route', 'add', podCidr, 'via', address);
  for (const other of nodes.filter(({ name }) => name !== node.name))
    await inside('route', 'add', other.podCidr, 'via', other.address);
}

/** Removes what createNetwork made, and what is left of it. */
export async function removeNetwork(network: number, count: number): Promise<void> {
  for (const { netns } of realNodes(network, count)) {
    await ip('link', 'delete', netns).catch(() => undefined);
    await ip('netns', 'delete', netns).catch(() => undefined);
  }
  await ip('link', 'delete', `nm${network}`).catch(() => undefined);
}

async function ip(...args: string[]): Promise<void> {
  await promisify(execFile)('ip', args, { env: { PATH: nodePath } });
}
