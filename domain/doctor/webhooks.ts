import { applyInstallation } from '../common/applyInstallation.ts';
import { listed } from '../common/names.ts';
import { numbered } from '../common/text.ts';
import { durationText, error, type Finding, ok, warning } from './finding.ts';

/** A webhook as the apiserver has it. */
export interface RegisteredWebhook {
  readonly name: string;
  readonly failurePolicy: 'Fail' | 'Ignore';
  /** Service or URL, such as `Service node-maintenance/node-maintenance-admission` or `https://10.0.0.7:9443`, without the path. */
  readonly address: string;
  /** PEM; empty until an admission server has registered itself. */
  readonly caBundle: string;
}

/** Result of a request that the apiserver must send to webhooks, and does not store. */
export type WebhookProbe =
  /** The webhook that fails open has answered. */
  | { readonly kind: 'Answered' }
  /** The request was accepted, and the webhook that fails open has not answered. */
  | { readonly kind: 'Silent' }
  /** The apiserver could not call a webhook that fails closed. */
  | { readonly kind: 'Failed'; readonly webhook: string; readonly message: string }
  /** A webhook has answered, and denied the request. */
  | { readonly kind: 'Denied'; readonly message: string }
  /** Something other than a webhook rejects maintenances. */
  | { readonly kind: 'Rejected'; readonly message: string }
  /** The user may not create maintenances. */
  | { readonly kind: 'NotPermitted' };

export interface WebhookFacts {
  /** Undefined if they could not be read. */
  readonly webhooks: readonly RegisteredWebhook[] | undefined;
  readonly probe: WebhookProbe;
  /** Additions of the apiserver to a maintenance that were missing in the response, such as `the requester`. */
  readonly missingMutations: readonly string[];
  /** Endpoints of the Service that are ready; undefined if they could not be read, or the webhooks have a URL. */
  readonly readyEndpoints: number | undefined;
}

const serverRemedy =
  'start the admission server (a worker with the component admission, or deploy/admission-server), and check that the apiserver reaches its port 9443: NetworkPolicies, firewalls, and the network of the control plane';

/** Checks whether the apiserver reaches the admission server. */
export function webhookFindings(facts: WebhookFacts): Finding[] {
  const { webhooks, probe, readyEndpoints, missingMutations } = facts;
  const unregistered = webhooks?.filter(({ caBundle }) => caBundle === '') ?? [];
  return [
    ...(webhooks?.length === 0
      ? [error('no webhook is installed', `apply the installation again: ${applyInstallation}`)]
      : []),
    ...(unregistered.length > 0
      ? [
          error(
            `no admission server has registered its certificate authority in ${listed(unregistered.map(({ name }) => name))}`,
            `${serverRemedy}; its log says why it does not register itself`,
          ),
        ]
      : []),
    ...(readyEndpoints === 0
      ? [error('the Service of the admission server has no ready endpoint', serverRemedy)]
      : []),
    ...addressFindings(webhooks ?? []),
    probeFinding(probe, webhooks),
    ...(missingMutations.length > 0
      ? [
          error(
            `a new maintenance is stored without ${missingMutations.join(' and ')}`,
            'check the MutatingAdmissionPolicies and their bindings or, before Kubernetes 1.36, the admission server: the apiserver logs why one fails',
          ),
        ]
      : []),
  ];
}

/** One server has all webhooks: what the probe shows about one of them holds for all that have its address and authority. */
function addressFindings(webhooks: readonly RegisteredWebhook[]): Finding[] {
  const registered = webhooks.filter(({ caBundle }) => caBundle !== '');
  const groups = Map.groupBy(registered, ({ address, caBundle }) => `${address} ${caBundle}`);
  if (groups.size < 2) return [];
  const [usual = [], ...others] = [...groups.values()].toSorted((a, b) => b.length - a.length);
  const names = others.flat().map(({ name }) => name);
  return [
    error(
      `${listed(names)} ${names.length === 1 ? 'has' : 'have'} another address or certificate authority than the other webhooks (${usual[0]?.address})`,
      'restart the admission server, which registers itself, and look for the client that changed the configuration',
    ),
  ];
}

function probeFinding(probe: WebhookProbe, webhooks: readonly RegisteredWebhook[] | undefined): Finding {
  const open = namesOf(webhooks, 'Ignore');
  const closed = namesOf(webhooks, 'Fail');
  switch (probe.kind) {
    case 'Answered':
    case 'Denied':
      return ok(
        `the apiserver reaches ${webhooks === undefined ? 'the admission server' : `${numbered(webhooks.length, 'webhook')} at ${webhooks[0]?.address}`}`,
      );
    case 'Failed':
      return error(
        `the apiserver cannot call webhook ${probe.webhook}, which fails closed: ${probe.message}`,
        causeRemedy(probe.message),
      );
    case 'Silent':
      return error(
        `the apiserver gets no answer from the admission server: webhooks with failurePolicy Fail (${closed}) reject users who may not delete every node, and those with Ignore (${open}) neither warn nor check`,
        `${serverRemedy}; the log of the apiserver names the cause ("failing open")`,
      );
    case 'Rejected':
      return error(
        `maintenances cannot be created: ${probe.message}`,
        'check the policy or the webhook that the message names; requests of Node Maintenance must be allowed',
      );
    case 'NotPermitted':
      return warning(
        'not checked whether the apiserver reaches the webhooks: this needs the right to create nodemaintenances, of which nothing is stored',
        'run the command with the ClusterRole node-maintenance-operator',
      );
  }
}

function namesOf(webhooks: readonly RegisteredWebhook[] | undefined, policy: string): string {
  const names = webhooks?.filter(({ failurePolicy }) => failurePolicy === policy).map(({ name }) => name);
  if (names === undefined || names.length === 0)
    return policy === 'Fail' ? 'checks of permissions' : 'the others';
  return listed(names.map((name) => name.split('.')[0] ?? name));
}

/** Returns the remedy for an error of the apiserver. */
function causeRemedy(message: string): string {
  if (/x509|certificate/.test(message))
    return 'the caBundle of the webhook configurations is not that of the server: restart the admission server, which registers its own (with cert-manager: check the Certificate and WEBHOOK_CERTIFICATES=external)';
  return serverRemedy;
}

/** A certificate of a bundle. Times are milliseconds since the epoch. */
export interface CertificateFacts {
  readonly notBefore: number;
  readonly notAfter: number;
}

/** Checks the authorities in the caBundle: the server renews one after two thirds of its lifetime. */
export function certificateFindings(
  bundles: readonly { webhook: string; authorities: readonly CertificateFacts[] | undefined }[],
  now: number,
): Finding[] {
  const remedy =
    'check the log of the admission server, which renews its certificates (or the issuer, with WEBHOOK_CERTIFICATES=external), and that it may patch the webhook configurations';
  const problems = bundles.flatMap(({ webhook, authorities }): Finding[] => {
    const object = `webhook/${webhook}`;
    if (authorities === undefined)
      return [error(`the caBundle of ${webhook} is no list of certificates`, remedy, object)];
    const valid = authorities.filter(({ notBefore, notAfter }) => notBefore <= now && now < notAfter);
    const newest = valid.toSorted((a, b) => b.notAfter - a.notAfter)[0];
    if (newest === undefined)
      return [error(`no certificate authority of ${webhook} is valid now`, remedy, object)];
    const leftMs = newest.notAfter - now;
    return leftMs < (newest.notAfter - newest.notBefore) / 4
      ? [
          warning(
            `the certificate authority of ${webhook} expires in ${durationText(leftMs)}, and was not renewed`,
            remedy,
            object,
          ),
        ]
      : [];
  });
  // All webhooks have the same bundle, unless another client changed one.
  const distinct = [
    ...new Map(problems.map((one) => [one.message.replace(one.object?.slice(8) ?? '', ''), one])).values(),
  ];
  if (distinct.length > 0) return distinct;
  const expiry = Math.max(
    ...bundles.flatMap(({ authorities = [] }) => authorities.map(({ notAfter }) => notAfter)),
  );
  return bundles.length === 0
    ? []
    : [ok(`the certificate authority of the webhooks is valid until ${new Date(expiry).toISOString()}`)];
}
