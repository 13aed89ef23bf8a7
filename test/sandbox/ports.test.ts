import { createServer, type Server } from 'node:net';
import { PortConflictError, SandboxError } from '../../sandbox/errors.ts';
import { choosePorts, listensOn, retryOnPortConflict } from '../../sandbox/ports.ts';

const servers: Server[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => new Promise((resolve) => server.close(resolve))));
});

async function listen(): Promise<number> {
  const server = createServer();
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as { port: number }).port;
}

describe('The chosen ports', () => {
  test('are free and differ', async () => {
    const ports = await choosePorts({});
    expect(new Set(Object.values(ports)).size).toBe(Object.keys(ports).length);
    expect(await choosePorts(ports)).toEqual(ports);
  });

  test('are the preferred ones where these are free', async () => {
    const earlier = await choosePorts({});
    const taken = await listen();
    const ports = await choosePorts({}, { ...earlier, etcd: taken });
    expect(ports).toEqual({ ...earlier, etcd: ports.etcd });
    expect(ports.etcd).not.toBe(taken);
  });
});

describe('A start whose port another process has taken', () => {
  const conflict = (port: number) => new PortConflictError(port, `etcd: ${port} is in use`);

  test('is repeated with other ports, and this is reported', async () => {
    const lines: string[] = [];
    const taken = [20_001, 20_002];
    const start = async () => {
      const port = taken.shift();
      if (port !== undefined) throw conflict(port);
      return 'started';
    };
    expect(await retryOnPortConflict({}, (line) => lines.push(line), start)).toBe('started');
    expect(lines).toEqual(
      [20_001, 20_002].map(
        (port) => `Another process has taken port ${port}: starting again with other ports`,
      ),
    );
  });

  test('is repeated twice at most', async () => {
    let starts = 0;
    const start = async () => {
      starts += 1;
      throw conflict(20_001);
    };
    await expect(retryOnPortConflict({}, () => undefined, start)).rejects.toThrow('20001 is in use');
    expect(starts).toBe(3);
  });

  test('is refused when the port was requested', async () => {
    const start = async () => {
      throw conflict(20_001);
    };
    await expect(retryOnPortConflict({ etcd: 20_001 }, () => undefined, start)).rejects.toThrow(
      'Port 20001 (--etcd-port) is taken: name another, or leave the option out to get a free one',
    );
  });

  test('is not repeated after another error', async () => {
    let starts = 0;
    const start = async () => {
      starts += 1;
      throw new SandboxError('etcd exited while starting');
    };
    await expect(retryOnPortConflict({}, () => undefined, start)).rejects.toThrow('etcd exited');
    expect(starts).toBe(1);
  });
});

test('The owner of a port is known', async () => {
  const port = await listen();
  expect(listensOn(process.pid, port)).toBe(true);
  expect(listensOn(process.ppid, port)).toBe(false);
});
