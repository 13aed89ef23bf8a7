import { X509Certificate } from 'node:crypto';
import type { EndpointSlice, KubeObject } from '../../api/core.ts';
import {
  ADMISSION_SERVICE,
  REQUESTED_BY_ANNOTATION,
  REQUESTER_ANNOTATION,
  WEBHOOK_CONFIGURATION,
} from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { noNodeSelectedWarning } from '../../domain/admission/maintenance.ts';
import type { CertificateFacts, RegisteredWebhook, WebhookProbe } from '../../domain/doctor/webhooks.ts';
import { completeDrainPlan } from '../../domain/drain/plan.ts';
import { isKubeError, type KubeError } from '../../kube/errors.ts';
import type { Kube } from '../../kube/client.ts';
import { resourceOfManifest } from '../../kube/installationKinds.ts';
import { resources } from '../../kube/resources.ts';
import { isFromAdmission } from '../maintenance/maintenances.ts';

interface Configuration extends KubeObject {
  webhooks?: {
    name: string;
    failurePolicy?: 'Fail' | 'Ignore';
    clientConfig: {
      url?: string;
      service?: { namespace: string; name: string; port?: number };
      caBundle?: string;
    };
  }[];
}

/** Reads the webhooks of the installation. Rejects with a KubeError. */
export async function registeredWebhooks(kube: Kube, signal: AbortSignal): Promise<RegisteredWebhook[]> {
  const found = await Promise.all(
    ['ValidatingWebhookConfiguration', 'MutatingWebhookConfiguration'].map((kind) => {
      const resource = resourceOfManifest({ kind, metadata: { name: WEBHOOK_CONFIGURATION } });
      if (resource === undefined) throw new Error(`${kind} is no kind of deploy/`);
      return kube.get(resource, { name: WEBHOOK_CONFIGURATION }, { signal });
    }),
  );
  return found.flatMap((one) =>
    ((one as Configuration | undefined)?.webhooks ?? []).map(
      ({ name, failurePolicy = 'Fail', clientConfig }) => ({
        name,
        failurePolicy,
        address: addressOf(clientConfig),
        caBundle: Buffer.from(clientConfig.caBundle ?? '', 'base64').toString(),
      }),
    ),
  );
}

function addressOf({ url, service }: Required<Configuration>['webhooks'][number]['clientConfig']): string {
  if (service !== undefined)
    return `Service ${service.namespace}/${service.name}${service.port === undefined || service.port === 443 ? '' : `:${service.port}`}`;
  return URL.canParse(url ?? '') ? new URL(url ?? '').origin : 'no address';
}

/** Parses a bundle of certificates; undefined if it is none. */
export function authoritiesOf(bundle: string): CertificateFacts[] | undefined {
  const blocks = bundle.match(/-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----/gs) ?? [];
  if (blocks.length === 0) return undefined;
  try {
    return blocks.map((pem) => {
      const { validFrom, validTo } = new X509Certificate(pem);
      return { notBefore: Date.parse(validFrom), notAfter: Date.parse(validTo) };
    });
  } catch {
    return undefined;
  }
}

/** Counts the ready endpoints of the Service of the admission server. Rejects with a KubeError. */
export async function readyEndpoints(
  kube: Kube,
  namespace: string,
  signal: AbortSignal,
): Promise<number | undefined> {
  const labelSelector = `kubernetes.io/service-name=${ADMISSION_SERVICE}`;
  const { items } = await kube.list(resources.endpointSlices, { namespace, labelSelector, signal });
  const endpoints = items.flatMap(({ endpoints: own }: EndpointSlice) => own ?? []);
  return endpoints.filter(({ conditions }) => conditions?.ready !== false).length;
}

interface Probe {
  probe: WebhookProbe;
  missingMutations: string[];
}

/**
 * Makes the apiserver call the webhooks: it creates a NodeMaintenance by a dry run, of which nothing is stored, and that selects no node. The
 * webhook `warnings`, which fails open, then warns about that; without an answer the apiserver says nothing. A webhook that fails closed is
 * called for users who may not delete every node; its failure is an error.
 */
export async function probeWebhooks(kube: Kube, signal: AbortSignal): Promise<Probe> {
  const warnings: string[] = [];
  const onWarning = (text: string) => warnings.push(text);
  try {
    const created = await kube.create(resources.nodeMaintenances, probeObject(), {
      dryRun: true,
      signal,
      onWarning,
    });
    const isAnswered = warnings.some((text) => text.includes(noNodeSelectedWarning));
    return {
      probe: { kind: isAnswered ? 'Answered' : 'Silent' },
      missingMutations: missingMutations(created),
    };
  } catch (error) {
    if (!isKubeError(error)) throw error;
    return { probe: failureOf(error), missingMutations: [] };
  }
}

/** No node has the label, and the stage is the one in which nothing is done. */
function probeObject(): NodeMaintenance {
  const name = `doctor-${crypto.randomUUID()}`;
  const withoutNodes = { key: `nodemaintenance.k8s.io/${name}`, operator: 'Exists' as const };
  return {
    metadata: { name },
    spec: {
      stage: 'Idle',
      reason: 'dry run of kubectl maintenance doctor',
      nodeSelector: { nodeSelectorTerms: [{ matchExpressions: [withoutNodes] }] },
    },
  };
}

function failureOf(error: KubeError): WebhookProbe {
  const message = error.apiMessage;
  const [, webhook] = /failed calling webhook "([^"]+)"/.exec(message) ?? [];
  if (webhook !== undefined) return { kind: 'Failed', webhook, message };
  if (/^admission webhook "[a-z-]+\.nodemaintenance\.k8s\.io" denied/.test(message))
    return { kind: 'Denied', message };
  if (isKubeError(error, 'Forbidden') && !isFromAdmission(error)) return { kind: 'NotPermitted' };
  if (isKubeError(error, 'Unavailable', 'Unauthorized', 'Throttled')) throw error;
  return { kind: 'Rejected', message };
}

function missingMutations({ metadata: { annotations = {} }, spec }: NodeMaintenance): string[] {
  const isPlanComplete = spec.drainPlan?.length === completeDrainPlan(undefined).length;
  return [
    ...(annotations[REQUESTER_ANNOTATION] === undefined ? ['its requester'] : []),
    ...(annotations[REQUESTED_BY_ANNOTATION] === undefined ? ['who requested the change'] : []),
    ...(isPlanComplete ? [] : ['its complete drain plan']),
  ];
}
