import { defaultPayloadConverter, type Headers } from '@temporalio/common';
import {
  OpenTelemetryInboundInterceptor,
  OpenTelemetryOutboundInterceptor,
} from '@temporalio/interceptors-opentelemetry/lib/workflow/index.js';
import type { WorkflowInterceptors } from '@temporalio/workflow';

/**
 * Spans of runs, in the bundle of a worker that exports traces. Only a run that was started with the context of a trace has them: others replay
 * as they ran, whether the worker exports traces or not.
 */
export function interceptors(): WorkflowInterceptors {
  let spans:
    | { inbound: OpenTelemetryInboundInterceptor; outbound: OpenTelemetryOutboundInterceptor }
    | undefined;
  return {
    inbound: [
      {
        execute: (input, next) => {
          if (!hasTraceContext(input.headers)) return next(input);
          spans = {
            inbound: new OpenTelemetryInboundInterceptor(),
            outbound: new OpenTelemetryOutboundInterceptor(),
          };
          return spans.inbound.execute(input, next);
        },
      },
    ],
    outbound: [
      {
        scheduleActivity: (input, next) => spans?.outbound.scheduleActivity(input, next) ?? next(input),
        continueAsNew: (input, next) => spans?.outbound.continueAsNew(input, next) ?? next(input),
        getLogAttributes: (input, next) => spans?.outbound.getLogAttributes(input, next) ?? next(input),
      },
    ],
  };
}

/** Any client may send any header. The interceptors of the library would fail the workflow task again and again for one that is malformed. */
function hasTraceContext({ '_tracer-data': payload }: Headers): boolean {
  if (payload === undefined) return false;
  try {
    const carrier: unknown = defaultPayloadConverter.fromPayload(payload);
    return typeof (carrier as { traceparent?: unknown } | null)?.traceparent === 'string';
  } catch {
    return false;
  }
}
