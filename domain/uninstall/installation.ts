import type { Lease } from '../../api/core.ts';
import { AGENT_COMPONENT, Component, COMPONENT_LABEL } from '../../api/names.ts';
import { listed } from '../common/names.ts';
import { numbered } from '../common/text.ts';
import type {
  InstalledDefinition,
  InstalledNamespace,
  InstalledObject,
  UninstallChoices,
  UninstallFacts,
} from './facts.ts';
import { itemsAbout, type UninstallItem } from './item.ts';
import { otherHolderOf } from './nodes.ts';

const partOf = 'app.kubernetes.io/part-of';
const project = 'node-maintenance';
const managedBy = 'app.kubernetes.io/managed-by';
const releaseAnnotation = 'meta.helm.sh/release-name';

/** Kinds that act on the cluster without a process of ours. */
const actingKinds: readonly string[] = [
  'ValidatingWebhookConfiguration',
  'MutatingWebhookConfiguration',
  'MutatingAdmissionPolicyBinding',
];
/** Kinds that permit the processes to write. */
const permittingKinds: readonly string[] = ['RoleBinding', 'ClusterRoleBinding'];
const processNames: readonly string[] = Object.values(Component);

/** Reports whether Helm has installed the object, and removes it with its release. */
function isOfHelm({ metadata }: InstalledObject): boolean {
  return metadata.labels?.[managedBy] === 'Helm';
}

function releaseOf({ metadata }: InstalledObject): string {
  return metadata.annotations?.[releaseAnnotation] ?? 'the release';
}

/**
 * Stops the processes, takes their permissions, so that a process that runs elsewhere writes nothing more, and removes what would change new
 * pods and nodes. Helm does not miss these objects when it removes its release.
 */
export function stopItems({ installed, leader }: UninstallFacts, choices: UninstallChoices): UninstallItem[] {
  const items = installed.flatMap((object) => stopItemsOf(object, choices));
  if (leader === undefined) return items;
  const worker = itemsAbout({ phase: 'Stop', kind: 'Worker' }, { metadata: { name: leader } });
  return [...items, worker.wait('it still leads the control loops: stop it')];
}

function stopItemsOf(object: InstalledObject, { helmObjects }: UninstallChoices): UninstallItem[] {
  const { kind = '', metadata, spec } = object;
  const about = itemsAbout({ phase: 'Stop', kind }, object);
  if (kind === 'Deployment') {
    if (!isOfHelm(object) || helmObjects) return [about.delete()];
    const path = '/spec/replicas';
    const { replicas = 1 } = spec ?? {};
    return replicas === 0
      ? []
      : [
          about.patch('scale to 0', [
            { op: 'test', path, value: replicas },
            { op: 'replace', path, value: 0 },
          ]),
        ];
  }
  const isPermission = permittingKinds.includes(kind) && processNames.includes(metadata.name);
  return actingKinds.includes(kind) || isPermission ? [about.delete()] : [];
}

export function installationItems(facts: UninstallFacts, choices: UninstallChoices): UninstallItem[] {
  const stopped = new Set(stopItems(facts, choices).map(keyOf));
  const objects = facts.installed.flatMap((object) => {
    const { kind = '' } = object;
    const about = itemsAbout({ phase: 'Installation', kind }, object);
    if (stopped.has(keyOf({ kind, ...object.metadata }))) return [];
    const reason = reasonToKeep(object, choices);
    return [reason === undefined ? about.delete() : about.keep(reason)];
  });
  return [...objects, ...facts.namespaces.flatMap((one) => namespaceItems(one, facts, choices))];
}

/** Returns why an object is left to what has created it; undefined if it is deleted. */
function reasonToKeep(object: InstalledObject, { helmObjects }: UninstallChoices): string | undefined {
  if (helmObjects) return undefined;
  if (isOfCertManager(object)) return 'cert-manager would write it again: delete it after its Certificate';
  return isOfHelm(object) ? `Helm removes it: helm uninstall ${releaseOf(object)}` : undefined;
}

function isOfCertManager({ metadata }: Pick<InstalledObject, 'metadata'>): boolean {
  return metadata.annotations?.['cert-manager.io/certificate-name'] !== undefined;
}

function isOfAgent({ metadata }: Lease): boolean {
  return metadata.labels?.[COMPONENT_LABEL] === AGENT_COMPONENT;
}

/** A namespace in which others have something stays. */
function namespaceItems(
  namespace: InstalledNamespace,
  facts: UninstallFacts,
  choices: UninstallChoices,
): UninstallItem[] {
  const about = itemsAbout({ phase: 'Installation', kind: 'Namespace' }, namespace);
  if (namespace.metadata.labels?.[partOf] !== project)
    return [about.keep('the installation has not created it')];
  const reason = reasonToKeep(namespace, choices);
  if (reason !== undefined) return [about.keep(reason)];
  const leases = facts.nodeLeases.filter(
    (lease) => otherHolderOf(lease, facts.namespace, facts.now) === undefined,
  );
  const own = new Set(
    [
      ...facts.installed.filter((object) => reasonToKeep(object, choices) === undefined),
      ...leases,
      ...facts.processLeases,
      ...facts.agentLeases.filter(isOfAgent),
      ...facts.jobs,
    ].map(({ metadata }) => metadata.uid),
  );
  const foreign = namespace.contents.filter(
    ({ metadata }) => !own.has(metadata.uid) && metadata.labels?.[partOf] !== project,
  );
  if (foreign.length === 0) return [about.delete()];
  const names = foreign.map(({ kind, metadata }) => `${kind} ${metadata.name}`).toSorted();
  return [about.keep(`it contains ${listed(names)}; kubectl delete namespace ${namespace.metadata.name}`)];
}

/** A CRD stays while one of its objects does: `items` are what is done with these. */
export function definitionItems(
  definition: InstalledDefinition,
  items: readonly UninstallItem[],
  { crds }: UninstallChoices,
): UninstallItem[] {
  const about = itemsAbout({ phase: 'Definitions', kind: 'CustomResourceDefinition' }, definition);
  const left = items.filter(
    ({ kind, action }) => kind === definition.spec.names.kind && action.kind === 'Blocked',
  );
  if (!crds) return [about.keep('--crds deletes it, with what users have written')];
  return left.length === 0
    ? [about.delete()]
    : [about.blocked(`${numbered(left.length, 'object')} of it left`)];
}

function keyOf({
  kind,
  namespace = '',
  name,
}: {
  kind: string;
  namespace?: string | undefined;
  name: string;
}) {
  return `${kind} ${namespace}/${name}`;
}
