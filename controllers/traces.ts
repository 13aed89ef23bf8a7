import {
  type Attributes,
  type Context,
  context,
  ROOT_CONTEXT,
  SpanStatusCode,
  TraceFlags,
  trace,
} from '@opentelemetry/api';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { traceIdsOf } from '../domain/maintenance/traceIds.ts';
import { errorMessage } from '../kube/errors.ts';

/** Spans of control loops. Unless the worker exports traces, the API of OpenTelemetry does nothing. */
const tracer = trace.getTracer('node-maintenance');

/** Returns the context in which spans belong to the trace of the maintenance. */
function contextOf({ metadata: { uid = '' } }: NodeMaintenance): Context {
  const ids = traceIdsOf(uid);
  if (ids === undefined) return ROOT_CONTEXT;
  return trace.setSpanContext(ROOT_CONTEXT, { ...ids, traceFlags: TraceFlags.SAMPLED, isRemote: true });
}

/** Runs `work` in the trace of the maintenance. */
export function inTraceOf<T>(maintenance: NodeMaintenance, work: () => Promise<T>): Promise<T> {
  return context.with(contextOf(maintenance), work);
}

/** Runs `work` in a span of the trace of the first maintenance, with links to the others; outside of a trace if there is none. */
export function inSpanOf<T>(
  [first, ...others]: readonly NodeMaintenance[],
  { name, attributes }: { name: string; attributes: Attributes },
  work: () => Promise<T>,
): Promise<T> {
  if (first === undefined) return work();
  const links = others.flatMap((one) => trace.getSpanContext(contextOf(one)) ?? []);
  const options = { attributes, links: links.map((linked) => ({ context: linked })) };
  return tracer.startActiveSpan(name, options, contextOf(first), async (span) => {
    try {
      return await work();
    } catch (error) {
      span.setStatus({ code: SpanStatusCode.ERROR, message: errorMessage(error) });
      throw error;
    } finally {
      span.end();
    }
  });
}
