import {
  context,
  DiagLogLevel,
  diag,
  isSpanContextValid,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { setGlobalErrorHandler } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { envDetectorSync, Resource } from '@opentelemetry/resources';
import {
  BasicTracerProvider,
  BatchSpanProcessor,
  type IdGenerator,
  RandomIdGenerator,
} from '@opentelemetry/sdk-trace-base';
import type { WorkflowClientInterceptor } from '@temporalio/client';
import {
  makeWorkflowExporter,
  OpenTelemetryActivityInboundInterceptor,
  OpenTelemetryActivityOutboundInterceptor,
  OpenTelemetryWorkflowClientInterceptor,
} from '@temporalio/interceptors-opentelemetry';
import type { WorkerOptions } from '@temporalio/worker';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { isCompleted } from '../domain/common/stage.ts';
import { type TraceIds, traceIdsOf } from '../domain/maintenance/traceIds.ts';
import { abortable, aborted, Deadline } from '../kube/abort.ts';
import type { Cluster } from '../kube/cluster.ts';
import { errorMessage } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';
import type { RequestObservation } from '../kube/transport.ts';
import { packageVersion } from '../process/packageVersion.ts';

/** Exports the traces of maintenances. The trace of each has its UID as identifier (domain/maintenance/traceIds.ts). */
export interface Tracing {
  readonly clientInterceptors: readonly WorkflowClientInterceptor[];
  readonly workerOptions: Pick<WorkerOptions, 'interceptors' | 'sinks'>;
  /** Adds a span for a request to Kubernetes that is part of a trace. */
  onRequest(observation: RequestObservation): void;
  /** Adds the span of each maintenance that completes, until the signal aborts. */
  observe(cluster: Pick<Cluster, 'maintenances'>, leading: AbortSignal): Promise<void>;
  /** Exports what is left, if the collector answers. Never rejects. */
  close(): Promise<void>;
}

/** A collector that does not answer does not delay the end of the process for longer. */
const defaultCloseTimeoutMs = 5_000;

/** Starts to export traces by OTLP over HTTP. The standard environment variables of OpenTelemetry (OTEL_...) configure it. */
export function startTracing(log: Log, closeTimeoutMs = defaultCloseTimeoutMs): Tracing {
  const failed = failureLog(log);
  setGlobalErrorHandler(failed);
  const ignore = () => undefined;
  diag.setLogger(
    { error: failed, warn: failed, info: ignore, debug: ignore, verbose: ignore },
    DiagLogLevel.WARN,
  );
  const ids = new ChosenIds();
  const version = packageVersion();
  const own = { 'service.name': 'node-maintenance', 'service.version': version };
  const resource = new Resource(own).merge(envDetectorSync.detect());
  const processor = new BatchSpanProcessor(new OTLPTraceExporter());
  const provider = new BasicTracerProvider({ resource, idGenerator: ids, spanProcessors: [processor] });
  provider.register({ contextManager: new AsyncLocalStorageContextManager().enable() });
  const tracer = provider.getTracer('node-maintenance', version);
  const addMaintenance = ({ metadata, spec }: NodeMaintenance) => {
    const { uid = '', name, creationTimestamp = '' } = metadata;
    const chosen = traceIdsOf(uid);
    if (chosen === undefined) return;
    const attributes = { 'k8s.nodemaintenance.name': name, 'k8s.nodemaintenance.uid': uid };
    const startTime = new Date(creationTimestamp);
    const reason = spec.reason === undefined ? {} : { 'k8s.nodemaintenance.reason': spec.reason };
    const options = { startTime, root: true, attributes: { ...attributes, ...reason } };
    ids.use(chosen, () => tracer.startSpan('NodeMaintenance', options, ROOT_CONTEXT).end());
  };
  return {
    clientInterceptors: [startInterceptor()],
    workerOptions: {
      interceptors: {
        activity: [
          (activity) => ({
            inbound: new OpenTelemetryActivityInboundInterceptor(activity),
            outbound: new OpenTelemetryActivityOutboundInterceptor(activity),
          }),
        ],
      },
      sinks: { exporter: makeWorkflowExporter(processor, resource) },
    },
    onRequest: ({ verb, resource: kind, status, seconds }) => {
      const parent = trace.getSpanContext(context.active());
      if (parent === undefined || !isSpanContextValid(parent)) return;
      const endedMs = Date.now();
      const attributes = {
        'k8s.request.verb': verb,
        'k8s.request.resource': kind,
        ...(status !== undefined && { 'http.response.status_code': status }),
      };
      const startTime = endedMs - seconds * 1_000;
      const span = tracer.startSpan(`${verb} ${kind}`, { kind: SpanKind.CLIENT, startTime, attributes });
      if (status === undefined || status >= 400) span.setStatus({ code: SpanStatusCode.ERROR });
      span.end(endedMs);
    },
    observe: (cluster, leading) => observeCompletions(cluster, addMaintenance, leading),
    close: () => closeWithin(closeTimeoutMs, () => provider.shutdown()).catch(failed),
  };
}

async function closeWithin(ms: number, close: () => Promise<void>): Promise<void> {
  const deadline = new Deadline(ms, `no response within ${ms / 1_000} s`, undefined);
  try {
    await abortable(close(), deadline.signal);
  } finally {
    deadline.dispose();
  }
}

/** Passes the trace to runs that start. Signals and queries of control loops are not part of it: there are many, and most change nothing. */
function startInterceptor(): WorkflowClientInterceptor {
  const interceptor = new OpenTelemetryWorkflowClientInterceptor();
  return { signalWithStart: (input, next) => interceptor.signalWithStart(input, next) };
}

/** Calls back with each maintenance that completes, once. */
async function observeCompletions(
  { maintenances }: Pick<Cluster, 'maintenances'>,
  onComplete: (maintenance: NodeMaintenance) => void,
  leading: AbortSignal,
): Promise<void> {
  const uidOf = ({ metadata }: NodeMaintenance) => metadata.uid ?? '';
  const completed = new Set(maintenances.list().filter(isCompleted).map(uidOf));
  const unsubscribe = maintenances.subscribe(({ type, object }) => {
    const isNew = !completed.has(uidOf(object)) && (isCompleted(object) || type === 'Deleted');
    if (isNew) onComplete(object);
    if (type === 'Deleted') completed.delete(uidOf(object));
    else if (isNew) completed.add(uidOf(object));
  });
  await aborted(leading);
  unsubscribe();
}

/** Generates random identifiers, but for spans whose identifiers are given. */
class ChosenIds implements IdGenerator {
  readonly #random = new RandomIdGenerator();
  #chosen: TraceIds | undefined;

  /** Every span that `create` starts has these identifiers. */
  use(ids: TraceIds, create: () => void): void {
    this.#chosen = ids;
    try {
      create();
    } finally {
      this.#chosen = undefined;
    }
  }

  generateTraceId(): string {
    return this.#chosen?.traceId ?? this.#random.generateTraceId();
  }

  generateSpanId(): string {
    return this.#chosen?.spanId ?? this.#random.generateSpanId();
  }
}

/** Logs each failure to export once: a collector may be away for long, and no maintenance waits for it. */
function failureLog(log: Log): (failure: unknown) => void {
  const logged = new Set<string>();
  return (failure) => {
    const error = errorMessage(failure);
    if (logged.has(error)) return;
    logged.add(error);
    log.warn('Traces could not be exported', { error });
  };
}
