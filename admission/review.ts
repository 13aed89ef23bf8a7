import * as z from 'zod';
import type { Evacuation } from '../api/evacuation.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import type { NodeReadinessPolicy } from '../api/nodeReadinessPolicy.ts';
import { numbered, oneLine } from '../domain/common/text.ts';
import type { JsonPatchOperation } from '../kube/client.ts';
import {
  evacuationShape,
  maintenanceShape,
  type MutatedShape,
  mutatedShape,
  readinessPolicyShape,
} from './shapes.ts';

/**
 * Parses the fields of admission.k8s.io/v1 AdmissionReview that the webhooks use. The apiserver validates objects against the schema
 * of the CRD after mutating webhooks and before validating ones.
 */

/** No object of the apiserver nests as deep. Nested arrays need 30 times their size when they are parsed, other JSON half of that. */
const maxDepth = 1_000;

/** Users read messages and warnings in a terminal, and names and annotations of objects are part of them. */
const maxMessageLength = 1_500;
const maxPathLength = 200;

const apiVersion = 'admission.k8s.io/v1';
const kind = 'AdmissionReview';

const userInfo = z.object({
  username: z.string(),
  uid: z.string().optional(),
  groups: z.array(z.string()).optional(),
  extra: z.record(z.string(), z.array(z.string())).optional(),
});

const common = { uid: z.string().min(1), userInfo };

const maintenanceRequest = z.discriminatedUnion('operation', [
  z.object({ ...common, operation: z.literal('CREATE'), object: maintenanceShape }),
  z.object({
    ...common,
    operation: z.literal('UPDATE'),
    object: maintenanceShape,
    oldObject: maintenanceShape,
  }),
  z.object({ ...common, operation: z.literal('DELETE'), oldObject: maintenanceShape }),
]);

const evacuationRequest = z.object({
  ...common,
  operation: z.literal('CREATE'),
  namespace: z.string().min(1),
  object: evacuationShape,
});

const evictionRequest = z.object({
  ...common,
  operation: z.literal('CREATE'),
  namespace: z.string().min(1),
  /** The name of the pod. */
  name: z.string().min(1),
});

const readinessPolicyRequest = z.object({
  ...common,
  operation: z.enum(['CREATE', 'UPDATE']),
  object: readinessPolicyShape,
});

/** Returns the schema of a request to change an object of this shape. */
const mutationRequestOf = (shape: MutatedShape) =>
  z.object({
    ...common,
    operation: z.enum(['CREATE', 'UPDATE']),
    object: shape,
    oldObject: shape.nullish().transform((object) => object ?? undefined),
    options: z.looseObject({ fieldManager: z.string().optional() }).nullish(),
  });

interface AdmissionRequest {
  uid: string;
  user: z.infer<typeof userInfo>;
}

export type MaintenanceRequest = AdmissionRequest &
  (
    | { operation: 'CREATE'; object: NodeMaintenance }
    | { operation: 'UPDATE'; object: NodeMaintenance; oldObject: NodeMaintenance }
    | { operation: 'DELETE'; oldObject: NodeMaintenance }
  );

export type EvacuationRequest = AdmissionRequest & { namespace: string; object: Evacuation };

/** A direct eviction, which bypasses the evacuators of the pod. */
export type EvictionReview = AdmissionRequest & { namespace: string; name: string };

export type ReadinessPolicyRequest = AdmissionRequest & { object: NodeReadinessPolicy };

/** A request that one of the MutatingAdmissionPolicies of deploy/ would change. */
export type MutationRequest = AdmissionRequest &
  Omit<z.infer<ReturnType<typeof mutationRequestOf>>, 'uid' | 'userInfo'>;

export type ReviewResult =
  | { kind: 'Allowed'; warnings?: readonly string[]; patch?: readonly JsonPatchOperation[] }
  | { kind: 'Denied'; reason: 'Forbidden' | 'Invalid' | 'TooManyRequests'; message: string };

/** Decides on a request. The signal aborts when the apiserver closes the connection. */
export type Reviewer<T> = (request: T, signal: AbortSignal) => Promise<ReviewResult>;

/** The response to a review, or the problem of a malformed one: one line that names the field. */
export type WebhookResponse = { ok: true; review: object } | { ok: false; problem: string };
export type Webhook = (text: string, signal: AbortSignal) => Promise<WebhookResponse>;

export const maintenanceWebhook = (reviewer: Reviewer<MaintenanceRequest>) =>
  webhook(maintenanceRequest, reviewer);
export const evacuationWebhook = (reviewer: Reviewer<EvacuationRequest>) =>
  webhook(evacuationRequest, reviewer);
export const evictionWebhook = (reviewer: Reviewer<EvictionReview>) => webhook(evictionRequest, reviewer);

export const mutationWebhook = (reviewer: Reviewer<MutationRequest>, shape: MutatedShape = mutatedShape) =>
  webhook(mutationRequestOf(shape), reviewer);

export const readinessPolicyWebhook = (reviewer: Reviewer<ReadinessPolicyRequest>) =>
  webhook(readinessPolicyRequest, reviewer);

function webhook<T extends AdmissionRequest>(
  request: z.ZodType<Omit<AdmissionRequest, 'user'> & { userInfo: AdmissionRequest['user'] }>,
  reviewer: Reviewer<T>,
): Webhook {
  const schema = z.object({ apiVersion: z.literal(apiVersion), kind: z.literal(kind), request });
  return async (text, signal) => {
    const json = parseJson(text);
    if (json === undefined)
      return { ok: false, problem: `expected an AdmissionReview in JSON of at most ${maxDepth} levels` };
    const parsed = schema.safeParse(json.value);
    if (!parsed.success) {
      const [issue] = parsed.error.issues;
      // The path contains keys of the sender.
      const path = oneLine(issue?.path.join('.') ?? '', maxPathLength) || 'the body';
      return { ok: false, problem: `AdmissionReview: ${path}: ${issue?.message}` };
    }
    const { userInfo: user, ...rest } = parsed.data.request;
    const result = await reviewer({ ...rest, user } as unknown as T, signal);
    return { ok: true, review: reviewOf(rest.uid, result) };
  };
}

function parseJson(text: string): { value: unknown } | undefined {
  if (nestsTooDeeply(text)) return undefined;
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

/** Reports whether arrays and objects nest deeper than `maxDepth`, whether or not the text is valid JSON. */
function nestsTooDeeply(text: string): boolean {
  let depth = 0;
  let isInString = false;
  for (let index = 0; index < text.length && depth <= maxDepth; index += 1) {
    const character = text[index];
    if (isInString && character === '\\') index += 1;
    else if (character === '"') isInString = !isInString;
    else if (isInString) continue;
    else if (character === '[' || character === '{') depth += 1;
    else if (character === ']' || character === '}') depth -= 1;
  }
  return depth > maxDepth;
}

const codes = { Forbidden: 403, Invalid: 422, TooManyRequests: 429 } as const;

/** Returns the AdmissionReview with the response. */
function reviewOf(uid: string, result: ReviewResult): object {
  const response =
    result.kind === 'Allowed'
      ? {
          uid,
          allowed: true,
          ...(result.warnings?.length && { warnings: shownWarnings(result.warnings) }),
          ...(result.patch?.length && { patchType: 'JSONPatch', patch: encodePatch(result.patch) }),
        }
      : {
          uid,
          allowed: false,
          status: {
            code: codes[result.reason],
            reason: result.reason,
            message: oneLine(result.message, maxMessageLength),
          },
        };
  return { apiVersion, kind, response };
}

/** An apiserver shows 4 KiB of warnings. */
const maxWarnings = 20;

function shownWarnings(warnings: readonly string[]): string[] {
  const shown = warnings.slice(0, maxWarnings).map((warning) => oneLine(warning, maxMessageLength));
  const more = warnings.length - shown.length;
  return more === 0 ? shown : [...shown, numbered(more, 'more warning')];
}

function encodePatch(patch: readonly JsonPatchOperation[]): string {
  return Buffer.from(JSON.stringify(patch)).toString('base64');
}
