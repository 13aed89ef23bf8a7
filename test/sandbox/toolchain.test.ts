import { existsSync } from 'node:fs';
import { chmod, cp, mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  binaryNames,
  binarySources,
  defaultKubernetes,
  kubernetesVersions,
  pinnedVersion,
  toolchainParts,
  toolchainSource,
} from '../../sandbox/binaries.ts';
import { cacheName, ensureToolchain } from '../../sandbox/toolchain.ts';

let root: string;
beforeEach(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), 'nm-toolchain-')));
});
afterEach(() => rm(root, { recursive: true, force: true }));

/** Returns the environment of a user with an empty cache, whose PATH holds the usual programs and the given `go`. */
async function userWith(go?: string): Promise<NodeJS.ProcessEnv> {
  const bin = join(root, 'bin');
  if (go) await writeProgram(join(bin, 'go'), go);
  await mkdir(bin, { recursive: true });
  return {
    // Programs such as mkdir, but not a kubectl of this machine.
    PATH: go ? `${bin}:${await usualPrograms()}` : bin,
    HOME: root,
    XDG_CACHE_HOME: join(root, 'cache'),
    ROOT: root,
  };
}

async function usualPrograms(): Promise<string> {
  const dir = join(root, 'usual');
  await mkdir(dir, { recursive: true });
  for (const name of ['sh', 'sleep']) {
    const link = join(dir, name);
    if (!existsSync(link)) await symlink(join('/bin', name), link);
  }
  return dir;
}

async function writeProgram(file: string, script: string): Promise<void> {
  await mkdir(join(file, '..'), { recursive: true });
  await writeFile(file, `#!/bin/sh\n${script}\n`);
  await chmod(file, 0o755);
}

/** A `go` in a shell script: it logs the calls of `go build` and writes the binaries that they ask for. */
const fakeGo = `
if [ "$1" = env ]; then echo go1.26.3; exit; fi
if [ "$1" = list ]; then
  echo "go: downloading example.com/module v1.0.0" >&2
  echo "fmt	/nowhere	print.go		0"
  exit
fi
echo "$GOFLAGS|$GOWORK|$CGO_ENABLED|$PWD|$*" >> "$ROOT/calls"
while [ "$1" != -o ]; do shift; done
output=$2; shift 2
sleep 0.3
for package; do name=\${package%/v3}; echo "$package" > "$output/\${name##*/}"; echo "$package" >&2; done`;

const calls = async () => (await readFile(join(root, 'calls'), 'utf8')).trim().split('\n');

describe('The cache', () => {
  const flags = ['-trimpath'];

  test('has one name for the same sources and flags', () => {
    expect(cacheName(toolchainSource, flags)).toMatch(/^servers-[0-9a-f]{16}$/);
    expect(cacheName(toolchainSource, flags)).toBe(cacheName(toolchainSource, flags));
  });

  test('has another name for other flags', () => {
    expect(cacheName(toolchainSource, [])).not.toBe(cacheName(toolchainSource, flags));
  });

  test.each(['go.mod', 'go.sum', 'tools.go'])('has another name for another %s', async (file) => {
    const copy = join(root, 'toolchain');
    await cp(toolchainSource, copy, { recursive: true });
    expect(cacheName(copy, flags)).toBe(cacheName(toolchainSource, flags));
    await writeFile(join(copy, file), `${await readFile(join(copy, file), 'utf8')}\n// changed\n`);
    expect(cacheName(copy, flags)).not.toBe(cacheName(toolchainSource, flags));
  });
});

describe('A build', () => {
  test('puts every binary under its own name into the cache of the user, once', async () => {
    const env = await userWith(fakeGo);
    const first = await ensureToolchain({ env });
    const second = await ensureToolchain({ env });
    expect(second).toEqual(first);
    for (const [name, path] of Object.entries(first)) {
      expect(path).toMatch(
        new RegExp(`^${root}/cache/node-maintenance/toolchain/servers-[0-9a-f]{16}/${name}$`),
      );
      expect(existsSync(path)).toBe(true);
    }
    expect(await readFile(first.etcd, 'utf8')).toBe('go.etcd.io/etcd/server/v3\n');
    expect(await calls()).toHaveLength(1);
  });

  test.each(kubernetesVersions())(
    'of Kubernetes %s builds every package that tools.go pins',
    async (kubernetes) => {
      for (const { source, names } of toolchainParts({ kubernetes, realNodes: true })) {
        const tools = await readFile(join(source, 'tools.go'), 'utf8');
        const pinned = [...tools.matchAll(/_ "(.*)"/g)].map(([, path = '']) => path);
        const packages = names.map((name) => binarySources[name].package);
        if (kubernetes === defaultKubernetes() || source !== toolchainSource)
          expect(new Set(pinned)).toEqual(new Set(packages));
        expect(pinned).toEqual(expect.arrayContaining(packages));
      }
    },
  );

  test('of another version of Kubernetes takes the other servers from the usual module', async () => {
    const env = await userWith(fakeGo);
    const usual = await ensureToolchain({ env });
    const { kubelet, ...other } = await ensureToolchain({ env, kubernetes: '1.34', realNodes: true });
    for (const name of ['etcd', 'kwok', 'temporal'] as const) expect(other[name]).toBe(usual[name]);
    for (const name of ['kube-apiserver', 'kubectl'] as const) expect(other[name]).not.toBe(usual[name]);
    expect(await readFile(other['kube-apiserver'], 'utf8')).toBe('k8s.io/kubernetes/cmd/kube-apiserver\n');
    expect(await readFile(kubelet ?? '', 'utf8')).toBe('k8s.io/kubernetes/cmd/kubelet\n');
    // One for each module: the usual one was built before.
    expect(await calls()).toHaveLength(2);
  });

  test('includes what real nodes need only if they are asked for', async () => {
    const env = await userWith(fakeGo);
    expect(await ensureToolchain({ env })).not.toHaveProperty('kubelet');
    expect(await ensureToolchain({ env, realNodes: true })).toMatchObject({
      kubelet: expect.stringMatching(/\/kubelet$/),
      'kube-proxy': expect.stringMatching(/\/kube-proxy$/),
    });
  });

  test('of a version of Kubernetes that has no module is refused with the versions that have one', async () => {
    const env = await userWith(fakeGo);
    await expect(ensureToolchain({ env, kubernetes: '1.12' })).rejects.toThrow(
      /^Kubernetes 1\.12 is not supported: choose one of 1\.33, 1\.34, /,
    );
  });

  test('of a version is refused when KUBEBUILDER_ASSETS names another Kubernetes', async () => {
    const env = { ...(await userWith(fakeGo)), KUBEBUILDER_ASSETS: '/usr/local/kubebuilder/bin' };
    await expect(ensureToolchain({ env, kubernetes: '1.34' })).rejects.toThrow(
      'KUBEBUILDER_ASSETS names the Kubernetes of /usr/local/kubebuilder/bin, and Kubernetes 1.34 is asked for: unset it, or leave out the version',
    );
  });

  test('has the versions that docs/how-to/first-run.md names', async () => {
    const text = await readFile(new URL('../../docs/how-to/first-run.md', import.meta.url), 'utf8');
    const names = {
      Kubernetes: 'kube-apiserver',
      etcd: 'etcd',
      kwok: 'kwok',
      'Temporal CLI': 'temporal',
    } as const;
    for (const [name, binary] of Object.entries(names))
      expect(text).toContain(`${name} ${pinnedVersion(binary).slice(1)}`);
  });

  test('ignores what the user set for other projects', async () => {
    const env = { ...(await userWith(fakeGo)), GOFLAGS: '-mod=vendor', GOWORK: '/elsewhere/go.work' };
    await ensureToolchain({ env });
    for (const call of await calls()) expect(call).toMatch(/^-mod=readonly -buildvcs=false\|off\|0\|/);
  });

  test('runs once when two processes need it at the same time', async () => {
    const env = await userWith(fakeGo);
    const [one, other] = await Promise.all([ensureToolchain({ env }), ensureToolchain({ env })]);
    expect(other).toEqual(one);
    expect(await calls()).toHaveLength(1);
  });

  test('reports what it builds, how long it may take and where the binaries are kept', async () => {
    const lines: string[] = [];
    const env = await userWith(fakeGo);
    await ensureToolchain({ env, report: (line) => lines.push(line) });
    expect(lines[0]).toMatch(/^Building etcd, kube-apiserver, .*, temporal with go1\.26\.3, once per user/);
    expect(lines[1]).toContain(join(root, 'cache'));
    expect(lines[2]).toMatch(/^Compiling 1 packages: about \d+ (s|min), less if/);
    expect(lines.at(-1)).toMatch(/^Built etcd, .*, temporal in \d+ s$/);
  });

  test('shows its progress', async () => {
    const lines: string[] = [];
    const go = fakeGo.replace('sleep 0.3', 'echo k8s.io/kubernetes/cmd/kubectl >&2; sleep 2.5');
    const env = await userWith(go);
    await ensureToolchain({ env, progress: (line) => lines.push(line) });
    expect(lines).toContainEqual(
      expect.stringMatching(/^ {2}\d+ s: \d+ % \(\d+ of 1 packages\), (almost done|about \d+ s left)$/),
    );
  });
});

describe('A build that is not possible is refused in one line', () => {
  const rows: { when: string; go?: string; message: RegExp }[] = [
    { when: 'Go is missing', message: /there is no go on PATH: install Go 1\.26 or later from https/ },
    {
      when: 'Go is too old',
      go: 'echo go1.22.4',
      message: /^Go is go1\.22\.4, and Go 1\.26 is needed: install/,
    },
    {
      when: 'Go may not download the Go that it needs',
      go: 'echo "go: go.mod requires go >= 1.26.0 (running go 1.24.1)" >&2; exit 1',
      message: /go env failed \(go: go\.mod requires go >= 1\.26\.0 .*: install Go 1\.26/,
    },
    {
      when: 'the disk is full',
      go: '[ "$1" = env ] && echo go1.26.3 && exit; echo "write /x/a.o: no space left on device" >&2; exit 1',
      message: /^The disk is full while building in .*cache.*: free 8 GB, or set XDG_CACHE_HOME/,
    },
    {
      when: 'the module proxy does not answer',
      go: '[ "$1" = env ] && echo go1.26.3 && exit; echo "dial tcp: lookup proxy.golang.org: no such host" >&2; exit 1',
      message: /^Downloading Go modules failed: dial tcp: .*no such host \(full log: .*\.log\)$/,
    },
    {
      when: 'the compiler reports an error',
      go: 'case $1 in env) echo go1.26.3; exit;; list) exit;; esac; echo "# example.com/pkg" >&2; echo "x.go:3:1: syntax error" >&2; exit 1',
      message: /failed: # example\.com\/pkg \| x\.go:3:1: syntax error \(full log: .*\.log\)$/,
    },
  ];
  test.each(rows)('when $when', async ({ go, message }) => {
    const env = await userWith(go);
    const error = await ensureToolchain({ env }).then(
      () => undefined,
      (reason: Error) => reason,
    );
    expect(error?.name).toBe('SandboxError');
    expect(error?.message).toMatch(message);
    expect(error?.message).not.toContain('\n');
  });
});

describe('Binaries that KUBEBUILDER_ASSETS and TEMPORAL_CLI name', () => {
  test('are used, and only the others are built', async () => {
    const assets = join(root, 'assets');
    for (const name of ['etcd', 'kube-apiserver', 'kubectl'] as const)
      await writeProgram(join(assets, name), 'exit 1');
    await writeProgram(join(root, 'temporal'), 'exit 1');
    const env = {
      ...(await userWith(fakeGo)),
      KUBEBUILDER_ASSETS: assets,
      TEMPORAL_CLI: join(root, 'temporal'),
    };
    const toolchain = await ensureToolchain({ env });
    expect(toolchain.etcd).toBe(join(assets, 'etcd'));
    expect(toolchain['kube-apiserver']).toBe(join(assets, 'kube-apiserver'));
    expect(toolchain.kubectl).toBe(join(assets, 'kubectl'));
    expect(toolchain.temporal).toBe(join(root, 'temporal'));
    expect(toolchain['kube-scheduler'].startsWith(join(root, 'cache'))).toBe(true);
    expect(existsSync(toolchain.kwok)).toBe(true);
    expect((await calls()).join()).not.toMatch(/\/temporal\b|\/kubectl\b/);
  });

  const rows = [
    {
      variable: 'KUBEBUILDER_ASSETS',
      message: /^KUBEBUILDER_ASSETS is \/nowhere\/at-all, which contains none of these programs: name/,
    },
    {
      variable: 'TEMPORAL_CLI',
      message: /^TEMPORAL_CLI is \/nowhere\/at-all, which is not an executable: name/,
    },
  ];
  test.each(rows)('are refused with a remedy when $variable names nothing', async ({ variable, message }) => {
    const env = { ...(await userWith()), [variable]: '/nowhere/at-all' };
    await expect(ensureToolchain({ env })).rejects.toThrow(message);
  });
});

describe('Binaries on PATH', () => {
  /** The output of each released binary that is asked for its version. */
  const outputs: Record<(typeof binaryNames)[number], (version: string) => string> = {
    etcd: (version) => `etcd Version: ${version.slice(1)}\nGit SHA: 1234567\nGo Version: go1.26.8`,
    'kube-apiserver': (version) => `Kubernetes ${version}`,
    'kube-controller-manager': (version) => `Kubernetes ${version}`,
    'kube-scheduler': (version) => `Kubernetes ${version}`,
    kubectl: (version) => `Client Version: ${version}\nKustomize Version: v5.8.0`,
    kwok: (version) => `kwok version ${version} go1.26.8 (linux/amd64)`,
    temporal: (version) => `temporal version ${version.slice(1)} (Server 1.29.1, UI 2.42.1)`,
  };

  async function install(name: (typeof binaryNames)[number], version = pinnedVersion(name)): Promise<string> {
    const file = join(root, 'tools', name);
    await writeProgram(file, `echo '${outputs[name](version)}'`);
    return file;
  }

  async function userWithTools(go?: string): Promise<NodeJS.ProcessEnv> {
    const env = await userWith(go);
    return { ...env, PATH: `${join(root, 'tools')}:${env['PATH']}` };
  }

  test('are used in the pinned versions: nothing is built, and Go is not needed', async () => {
    const installed = await Promise.all(
      binaryNames.map(async (name) => [name, await install(name)] as const),
    );
    const lines: string[] = [];
    const env = await userWithTools();
    const toolchain = await ensureToolchain({ env, report: (line) => lines.push(line) });
    expect(toolchain).toEqual(Object.fromEntries(installed));
    expect(lines.toSorted()).toEqual(
      installed.map(([name, file]) => `Using ${file}, version ${pinnedVersion(name)}`).toSorted(),
    );
  });

  test('of another version are reported and built', async () => {
    const kubectl = await install('kubectl', 'v1.30.2');
    const temporal = await install('temporal');
    const lines: string[] = [];
    const env = await userWithTools(fakeGo);
    const toolchain = await ensureToolchain({ env, report: (line) => lines.push(line) });
    expect(lines).toContain(
      `Not using ${kubectl}: its version is v1.30.2, the sandbox needs ${pinnedVersion('kubectl')}`,
    );
    expect(toolchain.kubectl.startsWith(join(root, 'cache'))).toBe(true);
    expect(toolchain.temporal).toBe(temporal);
  });

  test('that do not print a version are reported and built', async () => {
    await writeProgram(join(root, 'tools', 'etcd'), 'echo "no such option" >&2; exit 2');
    const lines: string[] = [];
    const env = await userWithTools(fakeGo);
    const { etcd } = await ensureToolchain({ env, report: (line) => lines.push(line) });
    expect(lines).toContainEqual(expect.stringMatching(/tools\/etcd: its version is unknown, the sandbox/));
    expect(etcd.startsWith(join(root, 'cache'))).toBe(true);
  });

  test('give way to those that the user names, and to those in the cache', async () => {
    const env = await userWithTools(fakeGo);
    const built = await ensureToolchain({ env });
    await install('etcd');
    expect(await ensureToolchain({ env })).toEqual(built);
    await writeProgram(join(root, 'my-temporal'), 'exit 1');
    await install('temporal');
    const named = { ...env, TEMPORAL_CLI: join(root, 'my-temporal') };
    expect((await ensureToolchain({ env: named })).temporal).toBe(join(root, 'my-temporal'));
  });

  test('are used by their real path, because a sandbox replaces the links in its own bin directory', async () => {
    const etcd = await install('etcd');
    const links = join(root, 'links');
    await mkdir(links);
    await symlink(etcd, join(links, 'etcd'));
    const env = await userWith(fakeGo);
    const toolchain = await ensureToolchain({ env: { ...env, PATH: `${links}:${env['PATH']}` } });
    expect(toolchain.etcd).toBe(etcd);
  });
});
