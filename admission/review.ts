import * as z from 'zod';
import type { Evacuation } from '../api/evacuation.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import type { NodeReadinessPolicy } from '../api/nodeReadinessPolicy.ts';
import type { JsonPatchOperation } from '../kube/client.ts';

/**
 * The part of admission.k8s.io/v1 AdmissionReview that is read. What the apiserver checks against the
 * CRD, it checks after mutating webhooks and before validating ones.
 */

const apiVersion = 'admission.k8s.io/v1';
const kind = 'AdmissionReview';

const maintenance = z.looseObject({
  metadata: z.looseObject({ name: z.string().optional() }),
  spec: z.looseObject({
    nodeSelector: z.looseObject({ nodeSelectorTerms: z.array(z.looseObject({})) }),
    stage: z.string(),
  }),
});

const userInfo = z.object({
  username: z.string(),
  uid: z.string().optional(),
  groups: z.array(z.string()).optional(),
  extra: z.record(z.string(), z.array(z.string())).optional(),
});

const common = { uid: z.string().min(1), userInfo };

const maintenanceRequest = z.discriminatedUnion('operation', [
  z.object({ ...common, operation: z.literal('CREATE'), object: maintenance }),
  z.object({ ...common, operation: z.literal('UPDATE'), object: maintenance, oldObject: maintenance }),
  z.object({ ...common, operation: z.literal('DELETE'), oldObject: maintenance }),
]);

const evacuationRequest = z.object({
  ...common,
  operation: z.literal('CREATE'),
  namespace: z.string().min(1),
  object: z.looseObject({
    metadata: z.looseObject({ name: z.string().optional() }),
    spec: z.looseObject({ podRef: z.looseObject({ name: z.string(), uid: z.string() }) }),
  }),
});

const evictionRequest = z.object({
  ...common,
  operation: z.literal('CREATE'),
  namespace: z.string().min(1),
  /** Of the pod. */
  name: z.string().min(1),
});

const readinessPolicyRequest = z.object({
  ...common,
  operation: z.enum(['CREATE', 'UPDATE']),
  object: z.looseObject({
    spec: z.looseObject({
      nodeSelector: z.looseObject({ nodeSelectorTerms: z.array(z.looseObject({})) }),
      readinessGates: z.array(z.looseObject({ name: z.string(), namespace: z.string() })),
    }),
  }),
});

/** What each webhook is asked. */
const requests = { maintenanceRequest, evacuationRequest, evictionRequest, readinessPolicyRequest };

interface Asked {
  uid: string;
  user: z.infer<typeof userInfo>;
}

/** Somebody wants to change a NodeMaintenance. */
export type MaintenanceRequest = Asked &
  (
    | { operation: 'CREATE'; object: NodeMaintenance }
    | { operation: 'UPDATE'; object: NodeMaintenance; oldObject: NodeMaintenance }
    | { operation: 'DELETE'; oldObject: NodeMaintenance }
  );

/** Somebody asks for the evacuation of a pod. */
export type EvacuationRequest = Asked & { namespace: string; object: Evacuation };

/** Somebody wants to evict a pod, past its evacuators. */
export type EvictionRequest = Asked & { namespace: string; name: string };

/** Somebody writes a NodeReadinessPolicy. */
export type ReadinessPolicyRequest = Asked & { object: NodeReadinessPolicy };

/** What is answered: with warnings and changes, or with the reason of a refusal. */
export type Verdict =
  | { kind: 'Allowed'; warnings?: readonly string[]; patch?: readonly JsonPatchOperation[] }
  | { kind: 'Refused'; reason: 'Forbidden' | 'Invalid' | 'TooManyRequests'; message: string };

/** Decides on a request; the signal aborts when nobody waits for the answer any more. */
export type Reviewer<T> = (request: T, signal: AbortSignal) => Promise<Verdict>;

/** The answer to the text of a review, which is undefined when that makes no sense: `problem` is a line that names the field. */
export type Answer = { ok: true; review: object } | { ok: false; problem: string };
export type Webhook = (text: string, signal: AbortSignal) => Promise<Answer>;

export const maintenanceWebhook = (reviewer: Reviewer<MaintenanceRequest>) =>
  webhook('maintenanceRequest', reviewer);
export const evacuationWebhook = (reviewer: Reviewer<EvacuationRequest>) =>
  webhook('evacuationRequest', reviewer);
export const evictionWebhook = (reviewer: Reviewer<EvictionRequest>) => webhook('evictionRequest', reviewer);

export const readinessPolicyWebhook = (reviewer: Reviewer<ReadinessPolicyRequest>) =>
  webhook('readinessPolicyRequest', reviewer);

function webhook<T extends Asked>(asked: keyof typeof requests, reviewer: Reviewer<T>): Webhook {
  const schema = z.object({
    apiVersion: z.literal(apiVersion),
    kind: z.literal(kind),
    request: requests[asked],
  });
  return async (text, signal) => {
    const json = parseJson(text);
    if (json === undefined) return { ok: false, problem: 'expected an AdmissionReview in JSON' };
    const parsed = schema.safeParse(json.value);
    if (!parsed.success) {
      const [issue] = parsed.error.issues;
      return { ok: false, problem: `AdmissionReview: ${issue?.path.join('.')}: ${issue?.message}` };
    }
    const { userInfo: user, ...request } = parsed.data.request;
    const verdict = await reviewer({ ...request, user } as unknown as T, signal);
    return { ok: true, review: reviewOf(request.uid, verdict) };
  };
}

function parseJson(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

const codes = { Forbidden: 403, Invalid: 422, TooManyRequests: 429 } as const;

/** The review that answers one. */
function reviewOf(uid: string, verdict: Verdict): object {
  const response =
    verdict.kind === 'Allowed'
      ? {
          uid,
          allowed: true,
          ...(verdict.warnings?.length && { warnings: verdict.warnings }),
          ...(verdict.patch?.length && { patchType: 'JSONPatch', patch: encoded(verdict.patch) }),
        }
      : {
          uid,
          allowed: false,
          status: { code: codes[verdict.reason], reason: verdict.reason, message: verdict.message },
        };
  return { apiVersion, kind, response };
}

function encoded(patch: readonly JsonPatchOperation[]): string {
  return Buffer.from(JSON.stringify(patch)).toString('base64');
}
