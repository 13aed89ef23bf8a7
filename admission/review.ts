import * as z from 'zod';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';

/** The part of admission.k8s.io/v1 AdmissionReview that is read. The apiserver has checked the objects against the CRD. */

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

const AdmissionRequest = z.discriminatedUnion('operation', [
  z.object({ ...common, operation: z.literal('CREATE'), object: maintenance }),
  z.object({ ...common, operation: z.literal('UPDATE'), object: maintenance, oldObject: maintenance }),
  z.object({ ...common, operation: z.literal('DELETE'), oldObject: maintenance }),
]);

const AdmissionReview = z.object({
  apiVersion: z.literal(apiVersion),
  kind: z.literal(kind),
  request: AdmissionRequest,
});

interface Asked {
  uid: string;
  user: z.infer<typeof userInfo>;
}

/** Somebody wants to change a NodeMaintenance. */
export type AdmissionRequest = Asked &
  (
    | { operation: 'CREATE'; object: NodeMaintenance }
    | { operation: 'UPDATE'; object: NodeMaintenance; oldObject: NodeMaintenance }
    | { operation: 'DELETE'; oldObject: NodeMaintenance }
  );

/** What is answered: with warnings, or with the reason of a refusal. */
export type Verdict =
  | { kind: 'Allowed'; warnings?: readonly string[] }
  | { kind: 'Refused'; reason: 'Forbidden' | 'Invalid'; message: string };

/** Decides on a request; the signal aborts when nobody waits for the answer any more. */
export type Reviewer = (request: AdmissionRequest, signal: AbortSignal) => Promise<Verdict>;

export type Parsed = { ok: true; request: AdmissionRequest } | { ok: false; problem: string };

/** A problem is one line that names the field. */
export function parseReview(text: string): Parsed {
  const json = parseJson(text);
  if (json === undefined) return { ok: false, problem: 'expected an AdmissionReview in JSON' };
  const parsed = AdmissionReview.safeParse(json.value);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    return { ok: false, problem: `AdmissionReview: ${issue?.path.join('.')}: ${issue?.message}` };
  }
  const { userInfo: user, ...request } = parsed.data.request;
  return { ok: true, request: { ...request, user } as unknown as AdmissionRequest };
}

function parseJson(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

const codes = { Forbidden: 403, Invalid: 422 } as const;

/** The review that answers one. */
export function answer(uid: string, verdict: Verdict): object {
  const response =
    verdict.kind === 'Allowed'
      ? { uid, allowed: true, ...(verdict.warnings?.length && { warnings: verdict.warnings }) }
      : {
          uid,
          allowed: false,
          status: { code: codes[verdict.reason], reason: verdict.reason, message: verdict.message },
        };
  return { apiVersion, kind, response };
}
