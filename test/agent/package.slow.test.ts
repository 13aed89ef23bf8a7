import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { AGENT_LEASE_NAMESPACE } from '../../api/names.ts';
import { compareNames } from '../../domain/common/names.ts';
import { resources } from '../../kube/resources.ts';
import { eventually } from '../kit/eventually.ts';
import { Requirement, testsWith } from '../kit/requirements.ts';
import { type Answer, SystemdHost } from '../kit/systemdHost.ts';
import { controllers, startAdmission, startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, type World } from '../kit/world.ts';

// Builds the Debian package of the node agent, and installs, upgrades, removes and purges it with dpkg in a folder that stands for the root of a host,
// and on a host with a real systemd and a real logind.

const repository = fileURLToPath(new URL('../..', import.meta.url));
const output = join(repository, 'dist', 'agent-package');

let world: World;
let host: string;
let file: string;

beforeAll(async () => {
  world = await createWorld({ nodes: 2 });
  host = await mkdtemp(join(tmpdir(), 'nm-host-'));
  for (const folder of ['var/lib/dpkg/info', 'var/lib/dpkg/updates', 'etc', 'usr'])
    await mkdir(join(host, folder), { recursive: true });
  for (const name of ['status', 'available']) await writeFile(join(host, 'var/lib/dpkg', name), '');
  const built = await ran(process.execPath, [join(repository, 'scripts/agentPackage/agentPackage.ts')]);
  expect(built).toMatchObject({ code: 0, stderr: '' });
  const [name = ''] = readdirSync(output).filter((one) => one.endsWith('.deb'));
  file = join(output, name);
});

afterAll(async () => {
  await world?.close();
  await rm(host, { recursive: true, force: true });
});

function ran(program: string, args: string[], env: NodeJS.ProcessEnv = process.env): Promise<Answer> {
  return new Promise((resolve) =>
    execFile(program, args, { env, maxBuffer: 10_000_000 }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    ),
  );
}

/** The scripts of the package run outside of the folder, and find it in DPKG_ROOT. The folder has no other packages. */
const dpkg = (...args: string[]) =>
  ran('dpkg', [`--root=${host}`, '--force-script-chrootless,depends', ...args], {
    ...process.env,
    PATH: `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`,
  });
const onHost = (path: string) => join(host, path);
const program = () => onHost('usr/bin/node-maintenance-agent');
const state = async () =>
  (await dpkg('--status', 'node-maintenance-agent')).stdout.match(/^Status: (.*)$/m)?.[1];

/** Returns the kubeconfig that the command prints for the agent of a node. */
async function kubeconfigOf(node: string): Promise<string> {
  const args = [join(repository, 'cli/main.ts'), 'agent', 'kubeconfig', node];
  const made = await ran(process.execPath, args, { ...process.env, KUBECONFIG: world.sandbox.kubeconfig });
  expect(made).toMatchObject({ code: 0 });
  return made.stdout;
}

/** Returns the holder of the Lease of an agent, once it is another one than `previous`. */
const eventuallyHolder = (node: string, previous?: string) =>
  eventually('the Lease of the agent', async () => {
    const lease = await world.kube.get(resources.leases, { namespace: AGENT_LEASE_NAMESPACE, name: node });
    const holder = lease?.spec.holderIdentity;
    expect(holder).toBeDefined();
    expect(holder).not.toBe(previous);
    return holder;
  });

test('is named after its version, and contains what a node needs', async () => {
  const { version } = JSON.parse(await readFile(join(repository, 'package.json'), 'utf8')) as {
    version: string;
  };
  expect(file.endsWith(`/node-maintenance-agent_${version}_amd64.deb`)).toBe(true);
  const { stdout } = await ran('dpkg-deb', ['--contents', file]);
  const owners = new Set(
    stdout
      .trim()
      .split('\n')
      .map((line) => line.split(/\s+/)[1]),
  );
  expect([...owners]).toEqual(['root/root']);
  const files = stdout
    .split('\n')
    .flatMap((line) => (line.startsWith('-') ? (line.split(' ./')[1] ?? []) : []));
  expect(files.toSorted(compareNames)).toEqual([
    'etc/default/node-maintenance-agent',
    'usr/bin/node-maintenance-agent',
    'usr/lib/systemd/logind.conf.d/99-node-maintenance-agent.conf',
    'usr/lib/systemd/system/node-maintenance-agent.service',
    'usr/lib/systemd/system/node-maintenance-kubelet-bus.service',
    'usr/share/dbus-1/system.d/io.k8s.nodemaintenance.Agent.conf',
    'usr/share/doc/node-maintenance-agent/LICENSES.txt.gz',
    'usr/share/doc/node-maintenance-agent/changelog.gz',
    'usr/share/doc/node-maintenance-agent/copyright',
    'usr/share/lintian/overrides/node-maintenance-agent',
    'usr/share/node-maintenance-agent/kubelet.service.d/20-node-maintenance-agent.conf',
  ]);
});

test('enables the unit, which systemd accepts', async () => {
  expect(await dpkg('--install', file)).toMatchObject({ code: 0 });
  expect(await state()).toBe('install ok installed');
  expect(
    existsSync(onHost('etc/systemd/system/multi-user.target.wants/node-maintenance-agent.service')),
  ).toBe(false);
  const wants = readdirSync(onHost('etc/systemd/system/multi-user.target.wants'));
  expect(wants).toEqual(['node-maintenance-agent.service']);
  expect((await stat(onHost('etc/node-maintenance-agent'))).mode & 0o777).toBe(0o700);
  const unit = 'node-maintenance-agent.service';
  const { stderr } = await ran('systemd-analyze', [
    `--root=${host}`,
    '--recursive-errors=no',
    'verify',
    unit,
  ]);
  expect(stderr).toBe('');
});

describe('the installed executable', () => {
  let agent: ChildProcess | undefined;
  afterEach(() => agent?.kill('SIGKILL'));

  test('explains its settings, without Node.js', async () => {
    const { code, stdout, stderr } = await ran(program(), ['--help'], {});
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^Usage: node-maintenance-agent \[options\]/);
    expect(stdout).toContain('--static-pod-path');
  });

  test('rejects an invalid setting', async () => {
    const { code, stderr } = await ran(program(), ['--hold-directory', 'x'], {});
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringContaining('expected an absolute path'),
    });
  });

  test('runs as the agent of a node, with the token that the command gives it', async () => {
    const node = 'node-1';
    const kubeconfig = onHost('etc/node-maintenance-agent/kubeconfig');
    await writeFile(kubeconfig, await kubeconfigOf(node), { mode: 0o600 });
    await mkdir(onHost('etc/kubernetes/manifests'), { recursive: true });
    const paths = ['--static-pod-path', onHost('etc/kubernetes/manifests')];
    agent = spawn(program(), ['--node', node, '--kubeconfig', kubeconfig, ...paths], {
      stdio: 'ignore',
      env: {},
    });
    await eventuallyHolder(node);
    expect(existsSync(onHost('etc/kubernetes/held-manifests'))).toBe(true);
    agent.kill('SIGTERM');
    await eventually('the agent to end', () => expect(agent?.exitCode).toBe(0));
  });
});

test('keeps what is held at an upgrade, and puts it back at the removal', async () => {
  const manifests = onHost('etc/kubernetes/manifests');
  const held = onHost('etc/kubernetes/held-manifests');
  await mkdir(manifests, { recursive: true });
  await mkdir(held, { recursive: true });
  const manifest = 'apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n';
  await writeFile(join(held, 'web.yaml'), manifest);
  // systemd takes the rest of a line as the value: no shell may run it.
  const [touched, elsewhere] = [onHost('touched'), onHost('etc/kubernetes/elsewhere')];
  const settings = `LOG_LEVEL=debug\nREBOOT_COMMAND=touch ${touched} && touch ${touched}\nHOLD_DIRECTORY="/etc/kubernetes/elsewhere"\n#HOLD_DIRECTORY=/nowhere\nHOLD_DIRECTORY="/etc/kubernetes/held-manifests"\n`;
  await writeFile(onHost('etc/default/node-maintenance-agent'), settings);
  expect(await dpkg('--install', file)).toMatchObject({ code: 0 });
  expect(readdirSync(manifests)).toEqual([]);
  // Two files of this name: nothing decides which is right, so the package stays.
  await writeFile(join(manifests, 'web.yaml'), 'another');
  const refused = await dpkg('--remove', 'node-maintenance-agent');
  expect(refused.code).not.toBe(0);
  expect(refused.stderr).toContain(`${join(held, 'web.yaml')}: not put back into ${manifests}`);
  expect(existsSync(program())).toBe(true);
  await rm(join(manifests, 'web.yaml'));
  expect(await dpkg('--remove', 'node-maintenance-agent')).toMatchObject({ code: 0 });
  expect(await readFile(join(manifests, 'web.yaml'), 'utf8')).toBe(manifest);
  expect([program(), touched, elsewhere].filter((path) => existsSync(path))).toEqual([]);
  expect(await readFile(onHost('etc/default/node-maintenance-agent'), 'utf8')).toBe(settings);
  expect(existsSync(onHost('etc/node-maintenance-agent/kubeconfig'))).toBe(true);
});

test('purges its settings and the token, and no manifest', async () => {
  expect(await dpkg('--purge', 'node-maintenance-agent')).toMatchObject({ code: 0 });
  expect(await dpkg('--status', 'node-maintenance-agent')).toMatchObject({ code: 1 });
  for (const path of ['etc/default/node-maintenance-agent', 'etc/node-maintenance-agent'])
    expect(existsSync(onHost(path))).toBe(false);
  expect(readdirSync(onHost('etc/systemd/system'))).toEqual([]);
  expect(readdirSync(onHost('etc/kubernetes/manifests'))).toEqual(['web.yaml']);
});

const withSystemd = testsWith(Requirement.Systemd, await SystemdHost.problem());

withSystemd('under systemd it runs, is removed, and delays a reboot until the node is drained', async () => {
  const booted = await SystemdHost.boot();
  const unit = 'node-maintenance-agent.service';
  const processes: WorkerProcess[] = [];
  const manifest = 'apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n';
  const inhibitors = () => booted.printed('systemd-inhibit', '--list', '--no-legend');
  try {
    const node = 'node-2';
    await copyFile(file, join(booted.shared, 'agent.deb'));
    await writeFile(join(booted.shared, 'kubeconfig'), await kubeconfigOf(node), { mode: 0o600 });
    await writeFile(join(booted.shared, 'web.yaml'), manifest);
    await booted.printed('mkdir', '-p', '/etc/kubernetes/manifests');
    // Without a token it waits.
    await booted.printed('dpkg', '--install', '/mnt/agent.deb');
    expect((await booted.ran('systemctl', 'is-active', unit)).stdout).toBe('inactive\n');
    await booted.printed('install', '-m', '600', '/mnt/kubeconfig', '/etc/node-maintenance-agent/kubeconfig');
    await booted.printed('sh', '-c', `echo NODE_NAME=${node} >> /etc/default/node-maintenance-agent`);
    await booted.printed('systemctl', 'start', unit);
    const holder = await eventuallyHolder(node);
    await eventually('the inhibitor of logind', async () =>
      expect(await inhibitors()).toContain('node-maintenance-agent'),
    );
    const logind = ['org.freedesktop.login1', '/org/freedesktop/login1', 'org.freedesktop.login1.Manager'];
    const delay = await booted.printed('busctl', 'get-property', ...logind, 'InhibitDelayMaxUSec');
    expect(delay).toBe('t 600000000\n');

    // An agent that crashes is started again, and what it holds is put back by the removal.
    await booted.printed('systemctl', 'kill', '--signal=KILL', '--kill-whom=main', unit);
    await eventuallyHolder(node, holder);
    await booted.printed('cp', '/mnt/web.yaml', '/etc/kubernetes/held-manifests/');
    await booted.printed('dpkg', '--remove', 'node-maintenance-agent');
    expect(await booted.printed('cat', '/etc/kubernetes/manifests/web.yaml')).toBe(manifest);
    expect(await inhibitors()).not.toContain('node-maintenance-agent');

    await booted.printed('dpkg', '--install', '/mnt/agent.deb');
    await eventually('the inhibitor of logind', async () =>
      expect(await inhibitors()).toContain('node-maintenance-agent'),
    );

    // Nothing drains the node while a budget protects its pod.
    processes.push(startAdmission(world.sandbox), startWorker(world.sandbox, controllers));
    for (const one of processes) await one.ready();
    await world.placePods(node, 1, { labels: { app: 'guarded' } });
    const guard = { namespace: 'default', name: 'guard' };
    await world.budget(guard.name, { app: 'guarded' }, { minAvailable: 1 });
    // systemd stops this unit when the shutdown begins.
    const stopped = join(booted.shared, 'stopped');
    const stop = '--property=ExecStop=/usr/bin/touch /mnt/stopped';
    await booted.printed('systemd-run', '--unit=stopped', '--property=RemainAfterExit=yes', stop, 'true');
    await booted.printed('systemctl', 'reboot');
    const name = `shutdown-${node}`;
    await world.eventually(
      name,
      'the drain to wait for the budget',
      ({ status }) => status?.podsBlocked === 1,
    );
    expect(await booted.printed('busctl', 'get-property', ...logind, 'PreparingForShutdown')).toBe(
      'b true\n',
    );
    expect(await inhibitors()).toContain('node-maintenance-agent');
    expect({ isUp: booted.isUp, hasStopped: existsSync(stopped) }).toEqual({ isUp: true, hasStopped: false });
    const { uid = '' } = (await world.kube.get(resources.podDisruptionBudgets, guard))?.metadata ?? {};
    await world.kube.delete(resources.podDisruptionBudgets, guard, { uid });
    const { status } = await world.eventually(name, 'the node to be drained', drained);
    await eventually('the host to end', () => expect(booted.isUp).toBe(false));
    const drainedAt = status?.conditions?.find(({ type }) => type === 'Drained')?.lastTransitionTime;
    expect((await stat(stopped)).mtime.getTime()).toBeGreaterThanOrEqual(Date.parse(drainedAt ?? ''));
  } finally {
    await booted.close();
    for (const one of processes) await one.kill();
  }
});
