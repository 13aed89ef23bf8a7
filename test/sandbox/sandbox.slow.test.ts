import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, realpath, rm, stat, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { PortName, Ports } from '../../sandbox/ports.ts';
import type { AuditEvent } from '../../scripts/permissions/compare.ts';
import { attachSandbox, type Sandbox, startSandbox, stopSandbox } from '../../sandbox/sandbox.ts';
import { until } from '../../sandbox/until.ts';

const run = promisify(execFile);
const dirs: string[] = [];

async function newDir(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'nm-sandbox-test-'));
  dirs.push(dir);
  return dir;
}

/** Replaces the user's home directory, whose profiles are about other servers. */
function environmentOf(sandbox: Sandbox): NodeJS.ProcessEnv {
  return { ...sandbox.env, HOME: sandbox.dir };
}

async function kubectl(sandbox: Sandbox, ...args: string[]): Promise<string> {
  const { stdout } = await run('kubectl', args, { env: environmentOf(sandbox) });
  return stdout.trim();
}

async function errorOf(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => 'no error',
    (error: { stderr?: string; message: string }) => error.stderr || error.message,
  );
}

let one: Sandbox;
let other: Sandbox;
let auditLogs: string;

beforeAll(async () => {
  const [first, second] = [await newDir(), await newDir()];
  auditLogs = await newDir();
  [one, other] = await Promise.all([
    startSandbox({ dir: first, auditLogs }),
    startSandbox({ dir: second, nodes: 1 }),
  ]);
});

afterAll(async () => {
  await Promise.all(dirs.map((dir) => stopSandbox(dir)));
  await Promise.all(dirs.map((dir) => rm(dir, { recursive: true, force: true })));
});

describe('Two sandboxes side by side', () => {
  test('share no address', () => {
    expect(one.temporalAddress).not.toBe(other.temporalAddress);
    expect(one.temporalUi).not.toBe(other.temporalUi);
  });

  test('share no object', async () => {
    await kubectl(one, 'create', 'namespace', 'only-here');
    expect(await kubectl(one, 'get', 'namespaces', '-o', 'name')).toContain('namespace/only-here');
    expect(await kubectl(other, 'get', 'namespaces', '-o', 'name')).not.toContain('namespace/only-here');
  });

  test('have the requested numbers of nodes', async () => {
    expect((await kubectl(one, 'get', 'nodes', '-o', 'name')).split('\n')).toHaveLength(3);
    expect(await kubectl(other, 'get', 'nodes', '-o', 'name')).toBe('node/node-1');
  });

  test('are independent: when one stops, the other keeps running', async () => {
    expect(await stopSandbox(other.dir)).toHaveLength(6);
    expect(await kubectl(one, 'get', '--raw', '/readyz')).toBe('ok');
    await expect(attachSandbox(other.dir)).rejects.toThrow(
      /^No sandbox is running in .*: npm run sandbox -- up --dir/,
    );
  });
});

describe('A sandbox', () => {
  test('runs pods, also on added nodes, and reports its version', async () => {
    await one.addNodes(['rack-7'], { rack: '7' });
    const overrides = JSON.stringify({ spec: { nodeSelector: { rack: '7' } } });
    await kubectl(one, 'run', 'on-rack-7', '--image=any', `--overrides=${overrides}`);
    await untilPod('on-rack-7', 'Running');
    expect(await kubectl(one, 'get', 'node', 'rack-7', '-o', 'jsonpath={.status.allocatable}')).toBe(
      '{"cpu":"32","memory":"256Gi","pods":"500"}',
    );
    expect(await kubectl(one, 'version')).toMatch(/Server Version: v1\.\d+\.\d+/);
  });

  test('records the requests of the worker, and of nobody else, where audit logs are wanted', async () => {
    const isDenied = kubectl(one, 'get', 'secrets', '-A', '--kubeconfig', one.workerKubeconfig);
    await expect(isDenied).rejects.toThrow('forbidden');
    await kubectl(one, 'get', 'nodes', '--kubeconfig', one.workerKubeconfig);
    await kubectl(one, 'get', 'pods');
    const [name = '', ...others] = await readdir(auditLogs);
    expect(others).toEqual([]);
    const lines = (await readFile(join(auditLogs, name), 'utf8')).trimEnd().split('\n');
    const events = lines.map((line) => JSON.parse(line) as AuditEvent);
    const requests = events.flatMap(({ verb, objectRef, annotations }) =>
      objectRef ? [`${verb} ${objectRef.resource}: ${annotations?.['authorization.k8s.io/decision']}`] : [],
    );
    expect(requests).toEqual(['list secrets: forbid', 'list nodes: allow']);
    expect(new Set(events.map(({ user }) => user.username))).toEqual(
      new Set(['system:serviceaccount:node-maintenance:node-maintenance-worker']),
    );
  });

  test('ends an evicted pod at once', async () => {
    await kubectl(one, 'run', 'leaves', '--image=any');
    await untilPod('leaves', 'Running');
    const eviction = {
      apiVersion: 'policy/v1',
      kind: 'Eviction',
      metadata: { name: 'leaves', namespace: 'default' },
    };
    const file = join(one.dir, 'eviction.json');
    await writeFile(file, JSON.stringify(eviction));
    await kubectl(one, 'create', '--raw', '/api/v1/namespaces/default/pods/leaves/eviction', '-f', file);
    await kubectl(one, 'wait', 'pod/leaves', '--for=delete', '--timeout=60s');
  });

  test('ends a pod with the slow-exit label some seconds later', async () => {
    await kubectl(
      one,
      'run',
      'lingers',
      '--image=any',
      '--labels=sandbox.nodemaintenance.k8s.io/slow-exit=true',
    );
    await untilPod('lingers', 'Running');
    const startedAt = performance.now();
    await kubectl(one, 'delete', 'pod', 'lingers', '--wait=true');
    const elapsedMs = performance.now() - startedAt;
    expect(elapsedMs).toBeGreaterThan(1_500);
  });

  test('ends the pods of a Job successfully', async () => {
    await kubectl(one, 'create', 'job', 'ends', '--image=any');
    await kubectl(one, 'wait', 'job/ends', '--for=condition=Complete', '--timeout=180s');
  });

  test.each([
    { name: 'node-maintenance-worker', kubeconfigOf: (sandbox: Sandbox) => sandbox.workerKubeconfig },
    { name: 'node-maintenance-admission', kubeconfigOf: (sandbox: Sandbox) => sandbox.admissionKubeconfig },
  ])(
    'gives $name the identity of its ServiceAccount and only its permissions',
    async ({ name, kubeconfigOf }) => {
      const as = ['--kubeconfig', kubeconfigOf(one)];
      const whoami = await kubectl(
        one,
        ...as,
        'auth',
        'whoami',
        '-o',
        'jsonpath={.status.userInfo.username}',
      );
      expect(whoami).toBe(`system:serviceaccount:node-maintenance:${name}`);
      expect(await errorOf(kubectl(one, ...as, 'delete', 'namespace', 'only-here'))).toMatch(/forbidden/);
    },
  );

  test('hides its tokens from other users', async () => {
    for (const file of [one.kubeconfig, one.workerKubeconfig, one.admissionKubeconfig])
      expect((await stat(file)).mode & 0o077).toBe(0);
    expect(await readFile(join(one.dir, 'sandbox.json'), 'utf8')).not.toContain(await token(one.kubeconfig));
  });

  test('writes a shell file that configures kubectl and temporal', async () => {
    const script = `. ${one.dir}/env && kubectl config current-context && temporal operator cluster health`;
    const { stdout } = await run('sh', ['-c', script], { env: { PATH: '/usr/bin:/bin', HOME: one.dir } });
    expect(stdout).toContain('sandbox-admin');
    expect(stdout).toContain('SERVING');
  });

  test('serves the Temporal UI', async () => {
    expect((await fetch(one.temporalUi)).status).toBe(200);
  });

  test('refuses a second start', async () => {
    await expect(startSandbox({ dir: one.dir })).rejects.toThrow(/is already running in/);
  });

  async function token(kubeconfig: string): Promise<string> {
    return /token: (\S+)/.exec(await readFile(kubeconfig, 'utf8'))?.[1] ?? 'no token';
  }
});

describe('An outage', () => {
  test('of kube-apiserver loses no object', async () => {
    await kubectl(one, 'create', 'configmap', 'kept', '--from-literal=a=b');
    const apiserver = one.server('kube-apiserver');
    await apiserver.stop();
    expect(apiserver.pid()).toBeUndefined();
    expect(await errorOf(kubectl(one, 'get', 'configmap', 'kept'))).toMatch(/refused/);
    await apiserver.start();
    expect(await kubectl(one, 'get', 'configmap', 'kept', '-o', 'jsonpath={.data.a}')).toBe('b');
  });

  test('of etcd by a crash loses no object', async () => {
    await one.server('etcd').kill();
    await one.server('etcd').start();
    await until(
      'kube-apiserver to find etcd again',
      async () => {
        const output = await kubectl(one, 'get', 'configmap', 'kept', '-o', 'name').catch(String);
        return output === 'configmap/kept' ? undefined : output;
      },
      { timeoutMs: 180_000 },
    );
  });

  test('of kwok ends as soon as it runs again', async () => {
    await one.server('kwok').kill();
    await one.server('kwok').start();
    await kubectl(one, 'run', 'after-the-outage', '--image=any');
    await untilPod('after-the-outage', 'Running', 30_000);
  });

  test('of Temporal by a crash loses no search attribute', async () => {
    await one.server('temporal').kill();
    await one.server('temporal').start();
    expect(await searchAttributes(one)).toMatch(/NodeMaintenanceStage +Keyword/);
  });

  test('by a pause of Temporal ends when it is resumed', async () => {
    const temporal = one.server('temporal');
    temporal.pause();
    const health = ['operator', 'cluster', 'health', '--command-timeout=1s'];
    expect(await errorOf(run('temporal', health, { env: environmentOf(one) }))).toMatch(
      /interrupted|deadline|timeout/i,
    );
    temporal.resume();
    expect((await run('temporal', health, { env: environmentOf(one) })).stdout).toContain('SERVING');
  });

  test('by a full disk of Temporal ends when there is room again', async () => {
    const temporal = one.server('temporal');
    const start = (id: string) =>
      run(
        'temporal',
        [
          'workflow',
          'start',
          '--type=any',
          '--task-queue=none',
          `--workflow-id=${id}`,
          '--command-timeout=5s',
        ],
        {
          env: environmentOf(one),
        },
      );
    temporal.limitFileSize(4_096);
    expect(await errorOf(start('without-room'))).toMatch(/disk|unavailable|deadline|timeout/i);
    temporal.limitFileSize(undefined);
    // It may have exited.
    await temporal.start();
    const started = () => start('with-room').then(() => undefined, String);
    await until('a workflow to start', started, { timeoutMs: 30_000 });
  });
});

describe('A start', () => {
  test('is refused when a requested port is taken', async () => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
    const { port } = taken.address() as { port: number };
    const dir = await newDir();
    const message = await errorOf(startSandbox({ dir, ports: { temporal: port } }));
    taken.close();
    expect(message).toBe(
      `Port ${port} (--temporal-port) is taken: name another, or leave the option out to get a free one`,
    );
  });

  test.each(['apiserver', 'temporalUi'] as const)(
    'uses other ports when another process takes its port %s after it was chosen',
    async (name) => {
      const dir = await newDir();
      const lines: string[] = [];
      const { open } = await gateServers();
      const starting = startSandbox({ dir, nodes: 1, report: (line) => lines.push(line) });
      const { server, port } = await takePort(dir, name);
      await open();
      const sandbox = await starting.finally(() => server.close());
      expect(lines).toContain(`Another process has taken port ${port}: starting again with other ports`);
      expect((await statePorts(dir))[name]).not.toBe(port);
      expect(await kubectl(sandbox, 'get', 'nodes', '-o', 'name')).toBe('node/node-1');
      expect((await fetch(sandbox.temporalUi)).status).toBe(200);
      await sandbox.discard();
    },
  );

  afterEach(() => {
    delete process.env['TEMPORAL_CLI'];
    delete process.env['KUBEBUILDER_ASSETS'];
  });

  /** Lets sandboxes start Temporal and kube-apiserver only after `open`, so that no server binds its port before. */
  async function gateServers(): Promise<{ open(): Promise<void> }> {
    const programs = await newDir();
    const gate = join(programs, 'open');
    for (const [name, argument] of Object.entries({
      temporal: 'server start-dev',
      'kube-apiserver': '--etcd-servers',
    })) {
      const real = await realpath(join(one.bin, name));
      const wait = `case "$*" in *'${argument}'*) until [ -e '${gate}' ]; do /bin/sleep 0.1; done ;; esac`;
      await writeFile(join(programs, name), `#!/bin/sh\n${wait}\nexec '${real}' "$@"\n`, { mode: 0o755 });
    }
    process.env['TEMPORAL_CLI'] = join(programs, 'temporal');
    process.env['KUBEBUILDER_ASSETS'] = programs;
    return { open: () => writeFile(gate, '') };
  }

  /** Listens on the port as soon as the launcher has chosen it. */
  async function takePort(dir: string, name: PortName): Promise<{ server: Server; port: number }> {
    const unchosen = async () => ((await statePorts(dir).catch(() => undefined)) ? undefined : 'no ports');
    await until('the ports to be chosen', unchosen, { timeoutMs: 180_000, intervalMs: 1 });
    const port = (await statePorts(dir))[name];
    const server = createServer();
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, '127.0.0.1', resolve);
    });
    return { server, port };
  }

  async function statePorts(dir: string): Promise<Ports> {
    return (JSON.parse(await readFile(join(dir, 'sandbox.json'), 'utf8')) as { ports: Ports }).ports;
  }
});

describe('Data of an earlier run', () => {
  test('is upgraded: a Temporal database without our search attributes gets them', async () => {
    const dir = await newDir();
    const sandbox = await startSandbox({ dir, nodes: 0, install: false });
    const temporal = sandbox.server('temporal');
    for (const name of ['NodeMaintenanceStage', 'MaintenanceNodes']) {
      const remove = ['operator', 'search-attribute', 'remove', `--name=${name}`, '--yes'];
      await run('temporal', remove, { env: environmentOf(sandbox) });
    }
    expect(await searchAttributes(sandbox)).not.toContain('NodeMaintenanceStage');
    await temporal.stop();
    await temporal.start();
    expect(await searchAttributes(sandbox)).toMatch(/NodeMaintenanceStage +Keyword/);
    expect(await searchAttributes(sandbox)).toMatch(/NodeMaintenanceName +Keyword/);
    expect(await searchAttributes(sandbox)).toMatch(/MaintenanceNodes +KeywordList/);
  });

  test('is used again at the same addresses, and its nodes run pods at once', async () => {
    const [before] = [other.temporalAddress];
    other = await startSandbox({ dir: other.dir, nodes: 1 });
    expect(other.temporalAddress).toBe(before);
    await kubectl(other, 'run', 'again', '--image=any');
    await untilPod('again', 'Running', 30_000, other);
  });
});

async function searchAttributes(sandbox: Sandbox): Promise<string> {
  return (await run('temporal', ['operator', 'search-attribute', 'list'], { env: environmentOf(sandbox) }))
    .stdout;
}

async function untilPod(name: string, phase: string, timeoutMs = 180_000, sandbox = one): Promise<void> {
  await until(
    `pod ${name} to be ${phase}`,
    async () => {
      const output = await kubectl(sandbox, 'get', 'pod', name, '-o', 'jsonpath={.status.phase}').catch(
        String,
      );
      return output === phase ? undefined : output;
    },
    { timeoutMs },
  );
}
