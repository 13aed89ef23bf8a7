import { execFile } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { stringify } from 'yaml';
import type { Toolchain } from '../binaries.ts';
import { SandboxError } from '../errors.ts';
import {
  type Layout,
  type RealNodeName,
  type SandboxState,
  type ServerCommand,
  writePrivate,
} from '../layout.ts';
import { type NodeAddress, realNodes, removeNetwork } from './network.ts';
import { busybox, nodePath, pluginFolder } from './requirements.ts';

/** The image of the containers that hold the namespaces of a pod. Pods of tests use it too: it contains busybox. */
export const pauseImage = 'node-maintenance.local/pause:1';

/** The services of a node, in the order of their start; each has a log in the folder `log` of the node. */
export type NodeService =
  | 'dbus-daemon'
  | 'logind'
  | 'kubelet-bus'
  | 'containerd'
  | 'kube-proxy'
  | 'kubelet'
  | 'agent';

/** Options of real nodes that tests change. */
export interface RealNodeOptions {
  /** Whether the nodes run the node agent, if deploy/ is installed; true by default. */
  agent?: boolean | undefined;
  /** Additional arguments of the agents. */
  agentArguments?: readonly string[] | undefined;
  /** Fields of the KubeletConfiguration that replace or add to the usual ones. */
  kubelet?: object | undefined;
  /** InhibitDelayMaxSec of logind; 1800 by default. */
  inhibitDelayMaxSeconds?: number | undefined;
}

/** The files of a node. All are on its disk: they survive a reboot and a power failure. */
export interface NodeFiles {
  dir: string;
  /** The folder of the kubelet with the manifests of static pods. */
  manifests: string;
  /** The folder in which the agent holds manifests. */
  hold: string;
  /** ID of the last boot. */
  bootId: string;
  agentScript: string;
  agentKubeconfig: string;
  log(service: NodeService): string;
  /** The service does not run while this file exists. */
  disabled(service: NodeService): string;
}

export function nodeFiles({ dir }: Layout, name: RealNodeName): NodeFiles {
  const root = join(dir, 'nodes', name);
  return {
    dir: root,
    manifests: join(root, 'manifests'),
    hold: join(root, 'hold'),
    bootId: join(root, 'boot_id'),
    agentScript: join(root, 'agent.sh'),
    agentKubeconfig: join(root, 'agent.kubeconfig'),
    log: (service) => join(root, 'log', `${service}.log`),
    disabled: (service) => join(root, 'disabled', service),
  };
}

/** Returns the ID of the last boot of a node, which the kernel of a machine shows in /proc/sys/kernel/random/boot_id; undefined before its first. */
export function bootIdOf(layout: Layout, name: RealNodeName): string | undefined {
  const { bootId } = nodeFiles(layout, name);
  return existsSync(bootId) ? readFileSync(bootId, 'utf8').trim() : undefined;
}

/** Returns the command that runs a node until it is powered off or killed, and everything in the node with it. */
export function realNodeServer(
  layout: Layout,
  node: NodeAddress,
  toolchain: Toolchain,
  { inhibitDelayMaxSeconds = 1_800 }: RealNodeOptions,
): ServerCommand {
  const { kubelet, 'kube-proxy': kubeProxy } = toolchain;
  if (kubelet === undefined || kubeProxy === undefined)
    throw new Error('The binaries of real nodes are missing');
  const script = fileURLToPath(new URL('./machine.sh', import.meta.url));
  return {
    command: 'nsenter',
    args: [
      `--net=/run/netns/${node.netns}`,
      'bash',
      script,
      nodeFiles(layout, node.name).dir,
      node.name,
      node.address,
      kubelet,
      kubeProxy,
      String(inhibitDelayMaxSeconds * 1_000_000),
    ],
  };
}

/** The kubeconfigs of a node. */
interface NodeKubeconfigs {
  kubelet: string;
  kubeProxy: string;
}

/** Writes the configuration of a node, whose agent is disabled. */
export async function configureNode(
  layout: Layout,
  node: NodeAddress,
  kubeconfigs: NodeKubeconfigs,
  { kubelet = {} }: RealNodeOptions,
): Promise<void> {
  const files = nodeFiles(layout, node.name);
  const { dir } = files;
  for (const folder of ['cni', 'lib', 'log', 'manifests', 'hold', 'disabled'])
    mkdirSync(join(dir, folder), { recursive: true, mode: 0o700 });
  const file = (name: string) => join(dir, name);
  writeFileSync(files.disabled('agent'), '');
  writePrivate(file('kubelet.kubeconfig'), kubeconfigs.kubelet);
  writePrivate(file('kube-proxy.kubeconfig'), kubeconfigs.kubeProxy);
  writeFileSync(file('containerd.toml'), containerdConfiguration(dir));
  writeFileSync(file('kubelet.yaml'), stringify({ ...kubeletConfiguration(dir), ...kubelet }));
  writeFileSync(file('kube-proxy.yaml'), stringify(kubeProxyConfiguration(dir)));
  writeFileSync(join(dir, 'cni', '10-bridge.conflist'), JSON.stringify(networkConfiguration(node)));
  copyFileSync(await buildPauseImage(layout), file('pause.tar'));
}

function containerdConfiguration(dir: string): string {
  return `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "${dir}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${pauseImage}"
  # The processes may not lower their scores below that of this process.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "${pluginFolder()}"
    conf_dir = "${dir}/cni"
`;
}

function kubeletConfiguration(dir: string): object {
  return {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    containerRuntimeEndpoint: `unix://${dir}/containerd.sock`,
    staticPodPath: join(dir, 'manifests'),
    // Only this host and the pods of the sandbox reach it.
    authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
    authorization: { mode: 'AlwaysAllow' },
    cgroupDriver: 'cgroupfs',
    // The limits of this machine are not divided among its nodes.
    cgroupsPerQOS: false,
    enforceNodeAllocatable: [],
    failCgroupV1: false,
    failSwapOn: false,
    localStorageCapacityIsolation: false,
    // Images cannot be pulled again.
    imageGCHighThresholdPercent: 100,
    evictionHard: { 'nodefs.available': '0%', 'imagefs.available': '0%', 'memory.available': '0%' },
    resolvConf: '',
    nodeStatusUpdateFrequency: '5s',
  };
}

function kubeProxyConfiguration(dir: string): object {
  return {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    clientConnection: { kubeconfig: join(dir, 'kube-proxy.kubeconfig') },
    mode: 'iptables',
    // These settings of the kernel are not those of a namespace.
    conntrack: { maxPerCore: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' },
  };
}

function networkConfiguration({ podCidr }: NodeAddress): object {
  const ipam = { type: 'host-local', ranges: [[{ subnet: podCidr }]], routes: [{ dst: '0.0.0.0/0' }] };
  return {
    cniVersion: '0.4.0',
    name: 'sandbox',
    plugins: [{ type: 'bridge', bridge: 'cni0', isGateway: true, hairpinMode: true, ipam }],
  };
}

/** Builds the image once for each sandbox. Returns the path of its archive. */
async function buildPauseImage({ dir }: Layout): Promise<string> {
  const archive = join(dir, 'nodes', 'pause.tar');
  if (existsSync(archive)) return archive;
  const program = busybox();
  if (program === undefined) throw new SandboxError('busybox is missing: apt-get install busybox-static');
  const storage = join(dir, 'nodes', 'buildah');
  const buildah = async (...args: string[]) => {
    const options = [
      '--root',
      join(storage, 'root'),
      '--runroot',
      join(storage, 'run'),
      '--storage-driver',
      'vfs',
    ];
    const { stdout } = await promisify(execFile)('buildah', [...options, ...args], {
      env: { PATH: nodePath, HOME: dir },
    });
    return stdout.trim();
  };
  try {
    const container = await buildah('from', 'scratch');
    await buildah('copy', container, program, '/bin/busybox');
    await buildah('copy', container, program, '/bin/sh');
    await buildah('copy', container, program, '/bin/sleep');
    await buildah('config', '--entrypoint', '["/bin/sleep", "2147483647"]', container);
    await buildah('commit', container, `docker-archive:${archive}:${pauseImage}`);
    await buildah('rm', container);
  } finally {
    rmSync(storage, { recursive: true, force: true });
  }
  return archive;
}

/** Removes what real nodes that have ended left outside the directory of the sandbox. */
export async function removeRealNodes(layout: Layout, left: SandboxState['realNodes']): Promise<void> {
  if (left === undefined) return;
  for (const node of realNodes(left.network, left.count)) removeCgroups(nodeFiles(layout, node.name).dir);
  await removeNetwork(left.network, left.count);
}

/** Removes the cgroups of containers that were killed. Only empty ones can be removed. */
function removeCgroups(dir: string): void {
  const containers = ['containers', 'sandboxes'].flatMap((kind) =>
    entriesOf(join(dir, 'lib', 'containerd', 'io.containerd.grpc.v1.cri', kind)),
  );
  const hierarchies = ['', ...entriesOf(cgroups)].map((name) => join(cgroups, name, 'k8s.io'));
  for (const container of containers)
    for (const hierarchy of hierarchies) removeIfEmpty(join(hierarchy, container));
}

const cgroups = '/sys/fs/cgroup';

function entriesOf(dir: string): string[] {
  return existsSync(dir) ? readdirSync(dir) : [];
}

function removeIfEmpty(dir: string): void {
  try {
    rmdirSync(dir);
  } catch {
    // It does not exist, or something uses it.
  }
}

/** Imports the archive of an image, as if the node had pulled it. */
export async function importImage(layout: Layout, node: NodeAddress, archive: string): Promise<void> {
  const socket = join(nodeFiles(layout, node.name).dir, 'containerd.sock');
  await promisify(execFile)(
    'ctr',
    ['--address', socket, '--namespace', 'k8s.io', 'images', 'import', archive],
    {
      env: { PATH: nodePath },
    },
  );
}
