import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SandboxError } from './errors.ts';

const kubernetesBinaries = [
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kubectl',
] as const;

/** The binaries that every sandbox needs. */
export const binaryNames = ['etcd', ...kubernetesBinaries, 'kwok', 'temporal'] as const;

/** The binaries of real nodes. */
export const nodeBinaryNames = ['kube-proxy', 'kubelet'] as const;

export type BinaryName = (typeof binaryNames)[number] | (typeof nodeBinaryNames)[number];

/** The path of each binary; those of real nodes only if they were asked for. */
export type Toolchain = Record<(typeof binaryNames)[number], string> &
  Partial<Record<(typeof nodeBinaryNames)[number], string>>;

/** The source of a binary, and the way to read its version. */
interface BinarySource {
  /** The Go package of its main function. */
  package: string;
  /** The Go module whose version is the version of the binary. */
  module: string;
  /** Arguments that make the binary print its version. */
  versionArgs: readonly string[];
}

const kubernetes = (name: string): BinarySource => ({
  package: `k8s.io/kubernetes/cmd/${name}`,
  module: 'k8s.io/kubernetes',
  versionArgs: ['--version'],
});

export const binarySources: Readonly<Record<BinaryName, BinarySource>> = {
  etcd: {
    package: 'go.etcd.io/etcd/server/v3',
    module: 'go.etcd.io/etcd/server/v3',
    versionArgs: ['--version'],
  },
  'kube-apiserver': kubernetes('kube-apiserver'),
  'kube-controller-manager': kubernetes('kube-controller-manager'),
  'kube-scheduler': kubernetes('kube-scheduler'),
  kubectl: { ...kubernetes('kubectl'), versionArgs: ['version', '--client'] },
  kwok: {
    package: 'sigs.k8s.io/kwok/cmd/kwok',
    module: 'sigs.k8s.io/kwok',
    versionArgs: ['--version'],
  },
  temporal: {
    package: 'github.com/temporalio/cli/cmd/temporal',
    module: 'github.com/temporalio/cli',
    versionArgs: ['--version'],
  },
  'kube-proxy': kubernetes('kube-proxy'),
  kubelet: kubernetes('kubelet'),
};

/** The Go module of all binaries: its go.mod pins the versions, its tools.go the packages. */
export const toolchainSource = fileURLToPath(new URL('./toolchain/', import.meta.url));

/** A Go module, and the binaries that are taken from it. */
export interface ToolchainPart {
  source: string;
  names: readonly BinaryName[];
}

export interface ToolchainSelection {
  /** Minor version of Kubernetes, such as `1.34`; by default that of `toolchainSource`. */
  kubernetes?: string | undefined;
  /** True to include the binaries of real nodes. */
  realNodes?: boolean | undefined;
}

/** Returns the Go modules of a selection: other versions of Kubernetes have modules of their own. */
export function toolchainParts({
  kubernetes: version,
  realNodes = false,
}: ToolchainSelection): ToolchainPart[] {
  const nodeBinaries = realNodes ? nodeBinaryNames : [];
  if (version === undefined || version === defaultKubernetes())
    return [{ source: toolchainSource, names: [...binaryNames, ...nodeBinaries] }];
  if (!kubernetesVersions().includes(version)) {
    const known = kubernetesVersions().join(', ');
    throw new SandboxError(`Kubernetes ${version} is not supported: choose one of ${known}`);
  }
  return [
    {
      source: join(toolchainSource, `${versionPrefix}${version}/`),
      names: [...kubernetesBinaries, ...nodeBinaries],
    },
    { source: toolchainSource, names: ['etcd', 'kwok', 'temporal'] },
  ];
}

/** Returns the minor versions of Kubernetes that a sandbox can run, the oldest first. */
export function kubernetesVersions(): string[] {
  const others = readdirSync(toolchainSource).filter((name) => name.startsWith(versionPrefix));
  return [...others.map((name) => name.slice(versionPrefix.length)), defaultKubernetes()].toSorted();
}

const versionPrefix = 'kubernetes-';

/** Returns the minor version of Kubernetes that a sandbox runs by default. */
export function defaultKubernetes(): string {
  return minorVersion(pinnedVersion('kube-apiserver'));
}

/** Returns the version of a binary that a go.mod pins, such as `v1.37.1`. */
export function pinnedVersion(name: BinaryName, source = toolchainSource): string {
  const { module } = binarySources[name];
  const version = requiredVersion(module, source);
  if (version === undefined) throw new SandboxError(`${source}go.mod does not require ${module}`);
  return version;
}

function requiredVersion(module: string, source: string): string | undefined {
  const goMod = readFileSync(join(source, 'go.mod'), 'utf8');
  return new RegExp(`^(?:require)?\\s+${module} (v\\S+)`, 'm').exec(goMod)?.[1];
}

/**
 * Returns the flags of the build. The linker settings make each binary report its version instead of v0.0.0; a setting of a
 * package that a binary does not contain has no effect. The binaries are stripped, so the compiler need not produce DWARF
 * debug information, which saves an eighth of the time.
 */
export function buildFlags(source = toolchainSource): string[] {
  const kwok = requiredVersion(binarySources.kwok.module, source)?.slice(1);
  const temporal = requiredVersion(binarySources.temporal.module, source)?.slice(1);
  const settings = [
    ...kubernetesVersion(pinnedVersion('kube-apiserver', source)),
    ...(kwok ? [`sigs.k8s.io/kwok/pkg/consts.Version=${kwok}`] : []),
    ...(temporal ? [`github.com/temporalio/cli/temporalcli.Version=${temporal}`] : []),
  ].map((setting) => `-X ${setting}`);
  return ['-trimpath', '-gcflags=all=-dwarf=false', `-ldflags=-s -w ${settings.join(' ')}`];
}

function kubernetesVersion(version: string): string[] {
  const [major, minor] = minorVersion(version).split('.');
  return ['k8s.io/component-base/version', 'k8s.io/client-go/pkg/version'].flatMap((path) => [
    `${path}.gitVersion=${version}`,
    `${path}.gitMajor=${major}`,
    `${path}.gitMinor=${minor}`,
  ]);
}

/** Returns `1.37` for `v1.37.1`. */
function minorVersion(version: string): string {
  return version.slice(1).split('.').slice(0, 2).join('.');
}
