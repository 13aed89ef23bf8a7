import { type Sandbox, sandboxStatus } from '../../sandbox/sandbox.ts';

interface RangeResponse {
  header?: { revision?: string };
  /** Base64. */
  kvs?: readonly { key: string; value?: string }[];
}

/** All keys, if it is the key and the end of a range. */
const everything = Buffer.from([0]).toString('base64');

/** Lets etcd forget its history before a revision, the current one unless given. */
export async function compact(sandbox: Sandbox, revision?: string): Promise<void> {
  const { header } = await ask(sandbox, 'kv/range', { key: everything });
  await ask(sandbox, 'kv/compaction', { revision: revision ?? header?.revision });
}

/**
 * Returns the size of the current revision of all keys with their values. The file of the database is larger: it keeps earlier revisions until
 * the apiserver has run for ten minutes, and never becomes smaller.
 */
export async function storedMb(sandbox: Sandbox): Promise<number> {
  const { kvs = [] } = await ask(sandbox, 'kv/range', { key: everything, range_end: everything });
  const bytes = kvs.map(
    ({ key, value = '' }) => Buffer.byteLength(key, 'base64') + Buffer.byteLength(value, 'base64'),
  );
  return bytes.reduce((total, one) => total + one, 0) / 2 ** 20;
}

/** Sends a request to the JSON gateway. */
async function ask(sandbox: Sandbox, path: string, body: object): Promise<RangeResponse> {
  const status = sandboxStatus(sandbox.dir);
  const port = status.kind === 'Down' ? undefined : status.servers.find(({ name }) => name === 'etcd')?.port;
  const response = await fetch(`http://127.0.0.1:${port}/v3/${path}`, {
    method: 'POST',
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(5_000),
  });
  if (!response.ok) throw new Error(`etcd answers ${path} with ${response.status}`);
  return (await response.json()) as RangeResponse;
}
