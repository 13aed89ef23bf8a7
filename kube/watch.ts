import type { KubeObject } from '../api/core.ts';
import { Deadline } from './abort.ts';
import type { Kube, Selection } from './client.ts';
import { errorOf, KubeError, type StatusBody, unavailable } from './errors.ts';
import { fullNameOf, type Resource } from './resources.ts';

export type WatchEvent<T> =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: T }
  /** No change up to the object's resourceVersion, which is all that it carries. */
  | { readonly type: 'BOOKMARK'; readonly object: KubeObject };

export interface WatchRequest<T extends KubeObject> {
  readonly kube: Kube;
  readonly resource: Resource<T>;
  readonly selection: Selection;
  /** The watch starts after this version. */
  readonly resourceVersion: string;
  /** Time after which the server closes the watch. */
  readonly timeoutSeconds: number;
  /** A watch without any event for this long is considered dead; the server sends a bookmark about every minute. */
  readonly idleTimeoutMs: number;
  /** Called when the server has accepted the watch. */
  readonly onOpen: () => void;
  readonly signal: AbortSignal;
}

/**
 * Yields the events of one watch, in the batches in which they arrive. Returns when the server closes the watch, which is
 * normal at any time; throws KubeError (Expired if the resourceVersion is too old), or the signal's reason.
 */
export async function* streamWatchEvents<T extends KubeObject>(
  request: WatchRequest<T>,
): AsyncGenerator<WatchEvent<T>[], void, undefined> {
  const { kube, resource, selection, resourceVersion, timeoutSeconds, idleTimeoutMs, signal } = request;
  const silence = new Deadline(
    idleTimeoutMs,
    `the watch was silent for ${Math.round(idleTimeoutMs / 1000)} s`,
    signal,
  );
  const parameters = { resourceVersion, timeoutSeconds: String(timeoutSeconds), allowWatchBookmarks: 'true' };
  try {
    const stream = await kube.openWatch(resource, selection, parameters, silence.signal);
    request.onOpen();
    const lines = new Lines();
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      silence.extend();
      const events = lines.push(chunk).map((line) => parseEvent<T>(line, request));
      if (events.length > 0) yield events;
    }
  } catch (error) {
    signal.throwIfAborted();
    throw error instanceof KubeError ? error : unavailable(watchName(request), error);
  } finally {
    silence.cancel();
  }
}

/** Parses a line of JSON. Throws the error that an ERROR event carries. */
function parseEvent<T extends KubeObject>(line: string, request: WatchRequest<T>): WatchEvent<T> {
  const event = JSON.parse(line) as WatchEvent<T> | { type: 'ERROR'; object: StatusBody };
  if (event.type !== 'ERROR') return event;
  throw errorOf(watchName(request), { status: event.object.code ?? 500, text: JSON.stringify(event.object) });
}

function watchName<T extends KubeObject>({ resource, selection }: WatchRequest<T>) {
  return { verb: 'watch', resource: fullNameOf(resource), namespace: selection.namespace };
}

/** Splits a byte stream into lines. Works on bytes because a chunk can end within a character. */
class Lines {
  #rest: Buffer[] = [];

  push(chunk: Buffer): string[] {
    const end = chunk.lastIndexOf(newline);
    if (end === -1) {
      this.#rest.push(chunk);
      return [];
    }
    const text = Buffer.concat([...this.#rest, chunk.subarray(0, end)]).toString('utf8');
    this.#rest = end + 1 < chunk.length ? [chunk.subarray(end + 1)] : [];
    return text.split('\n').filter((line) => line !== '');
  }
}

const newline = 0x0a;
