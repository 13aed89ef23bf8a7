import { existsSync } from 'node:fs';
import { chmod, cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cacheName, ensureToolchain } from '../../sandbox/toolchain.ts';

const toolchains = fileURLToPath(new URL('../../sandbox/toolchain/', import.meta.url));

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'nm-toolchain-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

/** A user with an empty cache, whose PATH holds the programs that every script needs and the given `go`. */
async function userWith(go?: string): Promise<NodeJS.ProcessEnv> {
  const bin = join(root, 'bin');
  await mkdir(bin, { recursive: true });
  if (go) {
    await writeFile(join(bin, 'go'), `#!/bin/sh\n${go}\n`);
    await chmod(join(bin, 'go'), 0o755);
  }
  return {
    PATH: go ? `${bin}:/usr/bin:/bin` : bin,
    HOME: root,
    XDG_CACHE_HOME: join(root, 'cache'),
    ROOT: root,
  };
}

/** A compiler in a shell script: it notes how it was called and makes the binaries that it was asked for. */
const obedientGo = `
if [ "$1" = env ]; then echo go1.26.3; exit; fi
echo "$GOFLAGS|$GOWORK|$CGO_ENABLED|$PWD" >> "$ROOT/calls"
while [ "$1" != -o ]; do shift; done
output=$2; shift 2
sleep 0.3
for package; do name=\${package%/v3}; echo "$package" > "$output/\${name##*/}"; echo "$package" >&2; done`;

describe('The cache', () => {
  const flags = ['-trimpath'];
  const kwok = join(toolchains, 'kwok');

  test('has one name for the same sources and flags', () => {
    expect(cacheName('kwok', kwok, flags)).toMatch(/^kwok-[0-9a-f]{16}$/);
    expect(cacheName('kwok', kwok, flags)).toBe(cacheName('kwok', kwok, flags));
  });

  test('has another name for other flags', () => {
    expect(cacheName('kwok', kwok, [])).not.toBe(cacheName('kwok', kwok, flags));
  });

  test.each(['go.mod', 'go.sum', 'tools.go'])('has another name for another %s', async (file) => {
    const copy = join(root, 'kwok');
    await cp(kwok, copy, { recursive: true });
    expect(cacheName('kwok', copy, flags)).toBe(cacheName('kwok', kwok, flags));
    await writeFile(join(copy, file), `${await readFile(join(copy, file), 'utf8')}\n// changed\n`);
    expect(cacheName('kwok', copy, flags)).not.toBe(cacheName('kwok', kwok, flags));
  });
});

describe('Building', () => {
  test('gives every binary under its own name, in the directory of the user, and once', async () => {
    const env = await userWith(obedientGo);
    const first = await ensureToolchain({ env });
    const second = await ensureToolchain({ env });
    expect(second).toEqual(first);
    for (const [name, path] of Object.entries(first)) {
      expect(path).toMatch(
        new RegExp(`^${root}/cache/node-maintenance/toolchain/[a-z]+-[0-9a-f]{16}/${name}$`),
      );
      expect(existsSync(path)).toBe(true);
    }
    expect(await readFile(first.etcd, 'utf8')).toBe('go.etcd.io/etcd/server/v3\n');
    expect(await calls()).toHaveLength(3);
  });

  test('is not led astray by what the user set for other projects', async () => {
    const env = { ...(await userWith(obedientGo)), GOFLAGS: '-mod=vendor', GOWORK: '/elsewhere/go.work' };
    await ensureToolchain({ env });
    for (const call of await calls()) expect(call).toMatch(/^-mod=readonly -buildvcs=false\|off\|0\|/);
  });

  test('by two at the same time is done by one of them', async () => {
    const env = await userWith(obedientGo);
    const [one, other] = await Promise.all([ensureToolchain({ env }), ensureToolchain({ env })]);
    expect(other).toEqual(one);
    expect(await calls()).toHaveLength(3);
  });

  test('says what is built, how long it may take and where it is kept', async () => {
    const lines: string[] = [];
    const env = await userWith(obedientGo);
    await ensureToolchain({ env, report: (line) => lines.push(line) });
    expect(lines[0]).toMatch(
      /^Building etcd, kube-apiserver, .*, temporal with go1\.26\.3: up to \d+ (s|min), once$/,
    );
    expect(lines[1]).toContain(join(root, 'cache'));
    expect(lines).toContainEqual(expect.stringMatching(/^Built kwok in \d+ s$/));
  });

  const calls = async () => (await readFile(join(root, 'calls'), 'utf8')).trim().split('\n');
});

describe('A build that cannot be is refused in one line', () => {
  const rows: { when: string; go?: string; says: RegExp }[] = [
    { when: 'Go is missing', says: /there is no go on PATH: install Go 1\.26 or later from https/ },
    {
      when: 'Go is too old',
      go: 'echo go1.22.4',
      says: /^Go is go1\.22\.4, and Go 1\.26 is needed: install/,
    },
    {
      when: 'Go may not fetch the Go that it needs',
      go: 'echo "go: go.mod requires go >= 1.26.0 (running go 1.24.1)" >&2; exit 1',
      says: /go env failed \(go: go\.mod requires go >= 1\.26\.0 .*: install Go 1\.26/,
    },
    {
      when: 'the disk is full',
      go: '[ "$1" = env ] && echo go1.26.3 && exit; echo "write /x/a.o: no space left on device" >&2; exit 1',
      says: /^The disk is full while building kubernetes in .*cache.*: free 8 GB, or set XDG_CACHE_HOME/,
    },
    {
      when: 'the compiler finds fault',
      go: '[ "$1" = env ] && echo go1.26.3 && exit; echo "# example.com/pkg" >&2; echo "x.go:3:1: syntax error" >&2; exit 1',
      says: /failed: # example\.com\/pkg \| x\.go:3:1: syntax error \(all of it: .*kubernetes\.log\)$/,
    },
  ];
  test.each(rows)('when $when', async ({ go, says }) => {
    const env = await userWith(go);
    const refusal = await ensureToolchain({ env }).then(
      () => undefined,
      (error: Error) => error,
    );
    expect(refusal?.name).toBe('SandboxError');
    expect(refusal?.message).toMatch(says);
    expect(refusal?.message).not.toContain('\n');
  });
});

describe('Binaries that exist already', () => {
  test('KUBEBUILDER_ASSETS and TEMPORAL_CLI are used, and only what they lack is built', async () => {
    const built = await ensureToolchain({ env: await userWith(obedientGo) });
    await rm(join(root, 'calls'));
    for (const name of ['etcd', 'kube-apiserver', 'kubectl', 'temporal'] as const) {
      await chmod(built[name], 0o755);
      await symlink(built[name], join(root, name));
    }
    const cache = join(root, 'another-cache');
    const env = {
      ...(await userWith(obedientGo)),
      XDG_CACHE_HOME: cache,
      KUBEBUILDER_ASSETS: root,
      TEMPORAL_CLI: join(root, 'temporal'),
    };
    const toolchain = await ensureToolchain({ env });
    expect(toolchain.etcd).toBe(join(root, 'etcd'));
    expect(toolchain['kube-apiserver']).toBe(join(root, 'kube-apiserver'));
    expect(toolchain.kubectl).toBe(join(root, 'kubectl'));
    expect(toolchain.temporal).toBe(join(root, 'temporal'));
    expect(toolchain['kube-scheduler'].startsWith(cache)).toBe(true);
    expect(await readFile(join(root, 'calls'), 'utf8')).not.toContain('/temporal\n');
    expect(existsSync(toolchain.kwok)).toBe(true);
  });

  const rows = [
    {
      variable: 'KUBEBUILDER_ASSETS',
      says: /^KUBEBUILDER_ASSETS is \/nowhere\/at-all, where no such program is: name/,
    },
    { variable: 'TEMPORAL_CLI', says: /^TEMPORAL_CLI is \/nowhere\/at-all, which is not a program: name/ },
  ];
  test.each(rows)('$variable that names nothing is refused, with the remedy', async ({ variable, says }) => {
    const env = { ...(await userWith()), [variable]: '/nowhere/at-all' };
    await expect(ensureToolchain({ env })).rejects.toThrow(says);
  });
});
