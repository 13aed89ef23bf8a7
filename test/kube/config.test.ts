import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { CredentialSource, loadKubeConfig } from '../../kube/config.ts';

const whole = `
apiVersion: v1
kind: Config
clusters: [{name: west, cluster: {server: 'https://west:6443'}}, {name: plain, cluster: {server: 'http://127.0.0.1:8001'}}]
users: [{name: ops, user: {token: secret}}]
contexts: [{name: west, context: {cluster: west, user: ops}}, {name: proxy, context: {cluster: plain, user: ops}}]
current-context: west
`;

describe('the kubeconfig', () => {
  const dir = mkdtempSync(join(tmpdir(), 'nm-config-'));
  const path = join(dir, 'config');
  afterAll(() => rmSync(dir, { recursive: true }));

  test.each([
    { when: 'is not YAML', text: 'clusters: [', message: `kubeconfig ${path} cannot be read: ` },
    { when: 'is empty', text: '', message: `kubeconfig ${path} cannot be read: ` },
    {
      when: 'lacks a server',
      text: 'clusters: [{name: a, cluster: {}}]',
      message: 'clusters[0].cluster.server is missing',
    },
    {
      when: 'has no current-context',
      text: whole.replace('current-context: west', ''),
      message: `kubeconfig ${path} has no current-context: choose one of: west, proxy`,
    },
    {
      when: 'has a current-context that it does not define',
      text: whole.replace('current-context: west', 'current-context: north'),
      message: `kubeconfig ${path} has no context "north": choose one of: west, proxy`,
    },
    {
      when: 'defines no context',
      text: 'apiVersion: v1\nkind: Config\ncurrent-context: west',
      message: `kubeconfig ${path} has no context "west": it defines no context`,
    },
    {
      when: 'has a context without its cluster',
      text: whole.replace('{name: west, cluster:', '{name: east, cluster:'),
      message: `kubeconfig ${path}: context "west" names cluster "west", which it does not define`,
    },
    {
      when: 'has a context without its user',
      text: whole.replace('users: [{name: ops', 'users: [{name: dev'),
      message: `kubeconfig ${path}: context "west" names user "ops", which it does not define`,
    },
  ])('that $when is rejected with its name and a remedy, in one line', ({ text, message }) => {
    writeFileSync(path, text);
    const load = () => loadKubeConfig({ kubeconfig: path });
    expect(load).toThrow(message);
    expect(load).toThrow(/^[^\n]*$/);
  });

  test('that is missing is named', () => {
    const missing = join(dir, 'nowhere');
    expect(() => loadKubeConfig({ kubeconfig: missing })).toThrow(
      `kubeconfig ${missing} does not exist: set KUBECONFIG to an existing file`,
    );
  });

  test('gives its current context, or the one that was asked for', () => {
    writeFileSync(path, whole);
    expect(loadKubeConfig({ kubeconfig: path }).getCurrentCluster()?.server).toBe('https://west:6443');
    expect(loadKubeConfig({ kubeconfig: path, context: 'proxy' }).getCurrentCluster()?.server).toBe(
      'http://127.0.0.1:8001',
    );
    expect(() => loadKubeConfig({ kubeconfig: path, context: 'moon' })).toThrow(
      'has no context "moon": choose one of: west, proxy',
    );
  });

  test('may be several files: missing ones are skipped, the first definition of a name wins', () => {
    const other = join(dir, 'other');
    writeFileSync(path, whole);
    writeFileSync(
      other,
      whole.replaceAll('https://west:6443', 'https://elsewhere').replaceAll('proxy', 'second'),
    );
    const config = loadKubeConfig({ kubeconfig: [join(dir, 'nowhere'), path, other].join(delimiter) });
    expect(config.getCurrentCluster()?.server).toBe('https://west:6443');
    expect(config.getContexts().map(({ name }) => name)).toEqual(['west', 'proxy', 'second']);
  });
});

describe('a credential plugin', () => {
  const dir = mkdtempSync(join(tmpdir(), 'nm-plugin-'));
  const path = join(dir, 'config');
  afterAll(() => rmSync(dir, { recursive: true }));

  /** Returns the credentials of a user whose plugin is a shell script. */
  function credentialsOf(script: string): CredentialSource {
    const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: 'sh', args: ['-c', script] };
    const user = JSON.stringify({ exec });
    writeFileSync(path, whole.replace('{token: secret}', user));
    return new CredentialSource(loadKubeConfig({ kubeconfig: path }), 0);
  }

  const answer = (token: string) =>
    `printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}' ${token}`;

  test('is asked once, and again when the apiserver has rejected its token', async () => {
    const count = join(dir, 'count');
    const credentials = credentialsOf(`echo >> ${count}; ${answer(`t$(wc -l < ${count})`)}`);
    const token = async () => (await credentials.current()).headers['authorization'];
    expect(await token()).toBe('Bearer t1');
    expect(await token()).toBe('Bearer t1');
    credentials.forget(0);
    expect(await token()).toBe('Bearer t1');
    credentials.forget(performance.now());
    expect(await token()).toBe('Bearer t2');
  });

  test('has no input to wait for, if no user can give it', async () => {
    const credentials = credentialsOf(`cat >/dev/null; ${answer('t')}`);
    expect((await credentials.current()).headers).toEqual({ authorization: 'Bearer t' });
  });

  test('that fails is quoted', async () => {
    await expect(credentialsOf('echo session expired >&2; exit 1').current()).rejects.toThrow(
      'session expired',
    );
  });
});
