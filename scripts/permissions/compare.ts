/**
 * Compares the permissions that manifests grant to ServiceAccounts with the requests in audit logs of an apiserver. Two kinds of requests
 * need a permission that they do not name: an apply that creates its object also needs `create`, and a watch that selects one object by
 * its name is allowed by a rule with this name.
 */

/** The fields of an RBAC manifest that count. */
export interface Manifest {
  kind: string;
  metadata: { name: string; namespace?: string };
  rules?: Rule[];
  roleRef?: { kind: string; name: string };
  subjects?: { kind: string; name: string; namespace?: string }[];
}

interface Rule {
  apiGroups?: string[];
  resources?: string[];
  resourceNames?: string[];
  nonResourceURLs?: string[];
  verbs: string[];
}

/** One verb on one resource. Undefined: in all namespaces, for all names. */
export interface Permission {
  /** `<namespace>/<name>` of the ServiceAccount. */
  account: string;
  group: string;
  /** Resource with the subresource, if any: `pods/eviction`. */
  resource: string;
  verb: string;
  namespace?: string | undefined;
  name?: string | undefined;
}

/** The fields of an event in an audit log that count. */
export interface AuditEvent {
  verb: string;
  requestURI: string;
  user: { username: string };
  impersonatedUser?: object;
  userAgent?: string;
  objectRef?: {
    apiGroup?: string;
    resource?: string;
    subresource?: string;
    namespace?: string;
    name?: string;
  };
  responseStatus?: { code?: number };
  annotations?: Record<string, string>;
}

/** A request that RBAC allowed, or rejected. */
export interface Request extends Permission {
  isDenied: boolean;
}

export interface Comparison {
  /** Permissions that RBAC rules grant by `*`, which no request proves necessary. */
  wildcards: Permission[];
  unused: Permission[];
  /** Permissions that no rule grants: a test may take permissions away, to see what the worker reports then. */
  denied: Permission[];
}

/** User agents of the processes of an installation. Tests that use their tokens have others: what they do proves no permission necessary. */
const userAgents: readonly string[] = [
  'node-maintenance',
  'node-maintenance-admission',
  'node-maintenance-agent',
];

/** Returns every permission that the manifests grant to a ServiceAccount. Throws if one has a role that is not among them. */
export function permissionsIn(manifests: readonly Manifest[]): Permission[] {
  return manifests.flatMap((binding) => {
    const { kind, roleRef, subjects = [], metadata } = binding;
    const accounts = subjects.filter((subject) => subject.kind === 'ServiceAccount');
    if (roleRef === undefined || accounts.length === 0) return [];
    const namespace = kind === 'RoleBinding' ? metadata.namespace : undefined;
    const rules = manifests.find((one) => isRole(one, roleRef, namespace))?.rules;
    if (rules === undefined)
      throw new Error(
        `${kind} ${metadata.name}: ${roleRef.kind} ${roleRef.name} is not in the same manifests`,
      );
    return accounts.flatMap((account) =>
      rules.flatMap((rule) => permissionsOf(rule, `${account.namespace ?? ''}/${account.name}`, namespace)),
    );
  });
}

function isRole(
  { kind, metadata }: Manifest,
  roleRef: { kind: string; name: string },
  namespace: string | undefined,
): boolean {
  // A kustomization has no metadata.
  if (kind !== roleRef.kind || metadata.name !== roleRef.name) return false;
  return kind === 'ClusterRole' || metadata.namespace === namespace;
}

function permissionsOf(rule: Rule, account: string, namespace: string | undefined): Permission[] {
  const { apiGroups = [], resources = [], resourceNames = [undefined], nonResourceURLs = [], verbs } = rule;
  const paths = nonResourceURLs.map((resource) => ({ group: '', resource, name: undefined }));
  const objects = apiGroups.flatMap((group) =>
    resources.flatMap((resource) => resourceNames.map((name) => ({ group, resource, name }))),
  );
  return [...objects, ...paths].flatMap((what) =>
    verbs.map((verb) => ({ account, ...what, verb, namespace })),
  );
}

/** Returns the permissions that a request of the worker needed; none for a request of anybody else. */
export function requestsIn(event: AuditEvent): Request[] {
  const account = accountOf(event.user.username);
  const [userAgent = ''] = (event.userAgent ?? '').split('/');
  if (account === undefined || event.impersonatedUser !== undefined || !userAgents.includes(userAgent))
    return [];
  const { apiGroup: group = '', resource, subresource, namespace, name } = event.objectRef ?? {};
  const [path = ''] = event.requestURI.split('?');
  const of = resource === undefined ? path : [resource, subresource].filter(Boolean).join('/');
  const isDenied = event.annotations?.['authorization.k8s.io/decision'] === 'forbid';
  const request = { account, group, resource: of, verb: event.verb, namespace, name, isDenied };
  const hasCreated = event.verb === 'patch' && event.responseStatus?.code === 201;
  return hasCreated ? [request, { ...request, verb: 'create' }] : [request];
}

function accountOf(username: string): string | undefined {
  return /^system:serviceaccount:([^:]+):([^:]+)$/.exec(username)?.slice(1).join('/');
}

export function compare(granted: readonly Permission[], requests: readonly Request[]): Comparison {
  const usesOf = usage(requests);
  const wildcards = granted.filter(hasWildcard);
  // Kubernetes grants paths such as /version to everybody, but an apiserver that starts denies them for a moment.
  const open = new Set(requests.filter((request) => !request.isDenied && isPath(request)).map(keyOf));
  return {
    wildcards,
    unused: granted.filter(
      (permission) => !wildcards.includes(permission) && usesOf(permission).length === 0,
    ),
    denied: requests.filter(
      (request) => request.isDenied && !isGranted(request, granted) && !open.has(keyOf(request)),
    ),
  };
}

function isPath({ resource }: Permission): boolean {
  return resource.startsWith('/');
}

function isGranted(request: Request, granted: readonly Permission[]): boolean {
  return granted.some((permission) => keyOf(request) === keyOf(permission) && isWithin(request, permission));
}

function hasWildcard({ group, resource, verb }: Permission): boolean {
  return [group, resource, verb].some((text) => text.includes('*'));
}

/** Returns a function that finds the requests which a permission allowed. */
function usage(requests: readonly Request[]): (permission: Permission) => Request[] {
  const allowed = Map.groupBy(
    requests.filter(({ isDenied }) => !isDenied),
    keyOf,
  );
  return (permission) =>
    (allowed.get(keyOf(permission)) ?? []).filter((request) => isWithin(request, permission));
}

const keyOf = ({ account, group, resource, verb }: Permission) => [account, group, resource, verb].join(' ');

function isWithin(request: Permission, { namespace, name }: Permission): boolean {
  return (
    (namespace === undefined || request.namespace === namespace) &&
    (name === undefined || request.name === name)
  );
}

/** Describes each problem on a line. */
export function problemsOf({ wildcards, unused, denied }: Comparison): string[] {
  const remedies = [
    { found: wildcards, fact: 'is granted by a wildcard', remedy: 'name what is needed' },
    { found: unused, fact: 'is granted and was never used', remedy: 'remove it, or test what needs it' },
    { found: denied, fact: 'was denied', remedy: 'grant it, or do not ask for it' },
  ];
  return remedies.flatMap(({ found, fact, remedy }) => {
    const texts = new Set(found.map((one) => `${one.account}: ${one.verb} ${placeOf(one)}`));
    return [...texts].toSorted().map((text) => `${text} ${fact}: ${remedy}`);
  });
}

function placeOf({ group, resource, namespace, name }: Permission): string {
  const of = group === '' ? resource : `${resource}.${group}`;
  const where = namespace === undefined ? '' : ` in namespace ${namespace}`;
  return `${of}${name === undefined ? '' : ` "${name}"`}${where}`;
}

/**
 * Returns a table of what is granted, with the number of events that used it, and of what other roles allowed, such as
 * `system:basic-user`. A watch has an event at its start and one at its end.
 */
export function usageTable(granted: readonly Permission[], requests: readonly Request[]): string {
  const usesOf = usage(requests);
  const used = new Set(granted.flatMap(usesOf));
  const others = requests
    .filter((request) => !request.isDenied && !used.has(request))
    .map((request) => ({ ...request, namespace: undefined, name: undefined }));
  return [
    'Granted, with the number of events in the logs:',
    ...rowsOf(granted.map((permission) => ({ permission, uses: usesOf(permission).length }))),
    'Allowed by roles of others:',
    ...rowsOf(others.map((permission) => ({ permission, uses: 1 }))),
  ].join('\n');
}

/** Returns a line for each account and resource, with its verbs. */
function rowsOf(counts: readonly { permission: Permission; uses: number }[]): string[] {
  const rows = Map.groupBy(counts, ({ permission }) => `${permission.account}: ${placeOf(permission)}`);
  const lines = [...rows].map(([row, cells]) => {
    const verbs = Map.groupBy(cells, ({ permission }) => permission.verb);
    const texts = [...verbs].map(
      ([verb, same]) => `${verb} ${same.reduce((sum, { uses }) => sum + uses, 0)}`,
    );
    return `  ${row}: ${texts.join(', ')}`;
  });
  return lines.toSorted();
}
