import { spawnSync } from 'node:child_process';

/**
 * `npm run debian-packages` installs what tests with containers and with other shells need, as root on Debian. Elsewhere it says what is left
 * out, and exits 0: these tests are skipped then, or fail where NM_TEST_REQUIRE names what they need.
 */

const packages = [
  'buildah',
  'busybox-static',
  'containerd',
  'containernetworking-plugins',
  'dbus',
  'fish',
  'iproute2',
  'iptables',
  'libfaketime',
  'python3-dbusmock',
  'runc',
  'socat',
  'systemd',
  'util-linux',
  'xdg-dbus-proxy',
  'zsh',
];
const timeoutMs = 300_000;

const run = (command: string, ...args: string[]) =>
  spawnSync(command, args, {
    encoding: 'utf8',
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    timeout: timeoutMs,
  });

function problem(): string | undefined {
  if (run('dpkg-query', '--show', ...packages).status === 0) return undefined;
  if (process.getuid?.() !== 0) return 'only root may install packages';
  const options = ['--quiet', '--yes', '--no-install-recommends'];
  for (const args of [['update'], ['install', ...options, ...packages]]) {
    const { status, stderr, error } = run('apt-get', ...args);
    if (status !== 0) return `apt-get ${args[0]}: ${(error?.message ?? stderr).trim().split('\n').at(-1)}`;
  }
  return undefined;
}

const found = problem();
console.log(
  found === undefined
    ? `Installed: ${packages.join(', ')}`
    : `Tests with containers, D-Bus, systemd, zsh and fish may be skipped or fail, because they need ${packages.join(', ')}: ${found}`,
);
