import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { parseAllDocuments } from 'yaml';
import { NODE_LEASE_NAMESPACE, REQUESTER_ANNOTATION, WindowOverrideAnnotation } from '../../api/names.ts';
import { authorityOf } from '../../domain/common/requester.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import { resources } from '../../kube/resources.ts';
import {
  type AccountName,
  type Action,
  absent,
  accounts,
  budgetObject,
  type Consequence,
  consequences,
  evacuatedPod,
  evacuationObject,
  jobOf,
  laterLabel,
  maintenanceOf,
  mine,
  otherNamespace,
  otherNode,
  others,
  ownNamespace,
  ownNodes,
  paused,
  pod,
  podBudget,
  policyOf,
  protectedPod,
  readinessOf,
  type Row,
  sections,
  selecting,
  uidOf,
  volumeObjects,
  windowOf,
} from '../../scripts/reference/rbacTable.ts';
import { type Answer, type Kubectl, kubectlOf, succeeds } from '../api/kubectl.ts';
import { eventually } from '../kit/eventually.ts';
import {
  type Impersonation,
  impersonationIn,
  type Response,
  type UserRequest,
} from '../kit/impersonation.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, finished, type World } from '../kit/world.ts';

// Runs each cell of docs/reference/rbac.md, which says "yes" or "-", as the account of its column.

let world: World;
let worker: WorkerProcess;
let kubectl: Kubectl;
let users: Impersonation;
/** The UIDs of the pods, by their placeholders in the table. */
const uids = new Map<string, string>();

const cellsAtOnce = 8;

const rbac = { group: 'rbac.authorization.k8s.io', version: 'v1' };
const rows = sections.flatMap(({ title, rows: of }) => of.map((row) => ({ title, row })));
const names = Object.keys(accounts) as AccountName[];

beforeAll(async () => {
  world = await createWorld({ nodes: 3 });
  kubectl = kubectlOf(world.sandbox);
  users = await impersonationIn(world.sandbox);
  worker = startWorker(world.sandbox);
  await applied(...[ownNamespace, otherNamespace].flatMap(tenantObjects));
  await applied(...names.flatMap(roleObjects));
  await worker.ready();
  await eventually('the permissions and the admission of the worker to take effect', async () => {
    const object = maintenanceOf('new', selecting(otherNode));
    const { stderr } = await as('operator', ['create', '--dry-run=server', '-f', '-'], object);
    expect(stderr).toContain('may not delete node "node-3"');
  });
  await Promise.all([ownNamespace, otherNamespace].map(evacuated));
  await applied(
    maintenanceOf(others, selecting(otherNode)),
    windowOf(others, selecting(otherNode)),
    windowOf(
      paused,
      selecting(otherNode),
      { suspend: true },
      {
        [WindowOverrideAnnotation.Paused]: 'reason',
        [WindowOverrideAnnotation.SkippedDates]: '2027-01-02',
      },
    ),
    policyOf(others, selecting(otherNode)),
    readinessOf(ownNodes[1]),
    readinessOf(otherNode),
    budgetObject,
    jobOf(mine),
    ...volumeObjects,
  );
  await succeeds(as('operator', ['create', '-f', '-'], maintenanceOf(mine, selecting(ownNodes[0]))));
  await succeeds(as('operator', ['create', '-f', '-'], policyOf(mine, selecting(ownNodes[1]))));
  await succeeds(as('scheduler', ['create', '-f', '-'], windowOf(mine, selecting(ownNodes[0]))));
  await eventually('the Lease of the other node', async () =>
    expect(
      await world.kube.get(resources.leases, { namespace: NODE_LEASE_NAMESPACE, name: otherNode }),
    ).toBeDefined(),
  );
});

afterAll(async () => {
  users?.close();
  await kubectl?.(['delete', '-f', '-', '--ignore-not-found'], listOf(names.flatMap(roleObjects)));
  expect(await worker?.stop()).toBe(0);
  await world?.close();
});

const listOf = (items: object[]) => ({ apiVersion: 'v1', kind: 'List', items });

async function applied(...objects: object[]): Promise<void> {
  await eventually('the objects of the administrator to be applied', () =>
    succeeds(
      kubectl(['apply', '--server-side', '--force-conflicts', '-f', '-'], listOf(objects.map(withUids))),
    ),
  );
}

/** Returns the roles and bindings of an account. */
function roleObjects(account: AccountName): object[] {
  const { user, grants } = accounts[account];
  return grants.flatMap((grant: (typeof accounts)[AccountName]['grants'][number], index) => {
    const metadata = {
      name: `rbac-table-${user}-${index}`,
      ...('namespace' in grant && { namespace: grant.namespace }),
    };
    const [apiVersion, suffix] = [`${rbac.group}/${rbac.version}`, 'namespace' in grant ? '' : 'Cluster'];
    const own = {
      apiVersion,
      kind: `${suffix}Role`,
      metadata,
      ...('rules' in grant && { rules: grant.rules }),
    };
    const roleRef = {
      apiGroup: rbac.group,
      ...('role' in grant ? grant.role : { kind: own.kind, name: metadata.name }),
    };
    const subjects = [{ apiGroup: rbac.group, kind: 'User', name: user }];
    const binding = { apiVersion, kind: `${suffix}RoleBinding`, metadata, roleRef, subjects };
    return 'rules' in grant ? [own, binding] : [binding];
  });
}

/** Returns a namespace with its pods. */
function tenantObjects(namespace: string): object[] {
  const podOf = (name: string, labels: object) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace, labels },
    spec: {
      nodeName: otherNode,
      containers: [{ name: 'main', image: 'none' }],
      terminationGracePeriodSeconds: 0,
    },
  });
  const matchLabels = { isProtected: 'yes' };
  return [
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } },
    {
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      metadata: { name: podBudget, namespace },
      spec: { minAvailable: 2, selector: { matchLabels } },
    },
    podOf(pod, {}),
    ...[protectedPod, evacuatedPod].map((name) => podOf(name, matchLabels)),
  ];
}

/** Creates the Evacuation of a pod of the namespace, when its budget counts the pods. */
async function evacuated(namespace: string): Promise<void> {
  await eventually('the budget to count its pods', async () => {
    const budget = await world.kube.get(resources.podDisruptionBudgets, { namespace, name: podBudget });
    expect(budget?.status).toMatchObject({ expectedPods: 2, currentHealthy: 2 });
  });
  for (const name of [pod, protectedPod, evacuatedPod]) {
    const found = await world.kube.get(resources.pods, { namespace, name });
    uids.set(uidOf(namespace, name), found?.metadata.uid ?? '');
  }
  await applied(evacuationObject(namespace, evacuatedPod));
}

/** Replaces the placeholders of the table. */
function withUids<T>(value: T): T {
  const text = JSON.stringify(value);
  return JSON.parse(text.replaceAll(/<UID of [^>]*>/g, (of) => uids.get(of) ?? of)) as T;
}

const as = (account: AccountName, args: readonly string[], object?: object): Promise<Answer> =>
  kubectl([...args, '--as', accounts[account].user], object);

/** Sends the request of an action, without storing anything. */
async function sent(account: AccountName, action: Action): Promise<Response> {
  const { verb, subresource, object } = action;
  const path = pathOf(action);
  const dryRun = `${path}?dryRun=All`;
  const send = (method: UserRequest['method'], to: string, body?: object) =>
    users.send(accounts[account].user, { method, path: to, body });
  switch (verb) {
    case 'get':
    case 'list':
      return send('GET', path);
    case 'watch':
      return send('GET', `${path}?watch=1`);
    case 'create':
      // The object of an eviction says itself that it is a dry run.
      return send('POST', subresource === undefined ? dryRun : path, object);
    case 'update':
      return send('PUT', dryRun, await changed(action));
    case 'patch':
      return send('PATCH', dryRun, object);
    case 'delete':
      return send('DELETE', dryRun);
  }
}

function kubectlWordsOf({ group, resource, subresource, namespace }: Action) {
  const options = [
    ...(namespace === undefined ? [] : ['-n', namespace]),
    ...(subresource === undefined ? [] : [`--subresource=${subresource}`]),
  ];
  return { kind: group === '' ? resource : `${resource}.${group}`, options };
}

function pathOf({ group, version, resource, subresource, namespace, name }: Action): string {
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
  const place = namespace === undefined ? root : `${root}/namespaces/${namespace}`;
  return [place, resource, name, subresource].filter(Boolean).join('/');
}

/** Returns the object as it is now, with the fields that the action changes. */
async function changed(action: Action): Promise<object> {
  const { kind, options } = kubectlWordsOf(action);
  const current = await succeeds(kubectl(['get', kind, action.name ?? '', ...options, '-o', 'json']));
  return merged(JSON.parse(current), action.object) as object;
}

/** Applies a merge patch (RFC 7386). */
function merged(value: unknown, change: unknown): unknown {
  if (!isObject(change)) return change;
  const result = isObject(value) ? { ...value } : {};
  for (const [key, part] of Object.entries(change)) result[key] = merged(result[key], part);
  return result;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns `allowed` or `denied`, or what went wrong. */
function outcomeOf({ status, body: { reason, message } }: Response, { name }: Action): string {
  // The apiserver checks the permission before it checks whether the object exists.
  if (status < 300 || reason === 'AlreadyExists') return 'allowed';
  if (reason === 'NotFound' && name === absent) return 'allowed';
  // And before it checks whether it serves the kind: MutatingAdmissionPolicies since Kubernetes 1.36.
  const isUnknownKind =
    reason === undefined || message === 'the server could not find the requested resource';
  if (status === 404 && isUnknownKind) return 'allowed';
  const problem = `${status} (${reason}): ${message}`;
  return /forbidden/i.test(problem) ? 'denied' : problem;
}

const described = ({ verb, resource, subresource, name }: Action) =>
  [verb, resource, subresource, name].filter(Boolean).join(' ');

interface Cell {
  row: Row;
  account: AccountName;
  action: Action;
  outcome: string;
}

/** Runs all actions of all rows, several at the same time. */
async function filledIn(): Promise<Cell[]> {
  const cells = rows.flatMap(({ row }) =>
    names.flatMap((account) =>
      row.actions.map((action): Cell => ({ row, account, action: withUids(action), outcome: '' })),
    ),
  );
  await forEachBounded(cellsAtOnce, cells, async (cell) => {
    // The worker may change an object in the meantime.
    do cell.outcome = outcomeOf(await sent(cell.account, cell.action), cell.action);
    while (cell.outcome.includes('(Conflict)'));
  });
  return cells;
}

describe('what each account may do', () => {
  let cells: Cell[];
  beforeAll(async () => {
    cells = await filledIn();
  });

  test.each(rows)('$title: $row.what', ({ row }: { row: Row }) => {
    const ofRow = cells.filter((cell) => cell.row === row);
    const outcomes = ofRow.map(
      ({ account, action, outcome }) => `${account}: ${described(action)}: ${outcome}`,
    );
    const expected = ofRow.map(({ account, action }) => {
      const outcome = row.allowed.includes(account) ? 'allowed' : 'denied';
      return `${account}: ${described(action)}: ${outcome}`;
    });
    expect(outcomes).toEqual(expected);
  });
});

/** Returns the object of the first action of the row with this consequence. */
function objectOf(of: Consequence): object {
  const row = rows.find(({ row: { consequence } }) => consequence === of)?.row;
  return withUids(row?.actions[0]?.object ?? {});
}

/** Creates the object of a row as an account that may. */
const created = async (account: AccountName, of: Consequence, ...args: string[]): Promise<string> =>
  succeeds(as(account, ['create', ...args, '-f', '-'], objectOf(of)));

const isCordoned = async (name: string) => (await world.node(name)).spec.unschedulable ?? false;

const gatesOf = async (name: string) =>
  (await world.kube.get(resources.nodeReadinesses, { name }))?.spec.readinessGates.map((gate) => gate.name) ??
  [];

/** Verifies each consequence that the table names. */
const verified: Record<Consequence, () => Promise<void>> = {
  cordons: async () => {
    await created('operator', 'cordons');
    await eventually('the cordon', async () => expect(await isCordoned(ownNodes[0])).toBe(true));
    await succeeds(
      as('operator', ['patch', 'nm', 'new', '--type=merge', '-p', '{"spec":{"stage":"Complete"}}']),
    );
    await world.eventually('new', 'it to be finished', finished);
    expect(await isCordoned(ownNodes[0])).toBe(false);
    await succeeds(as('operator', ['delete', 'nm', 'new']));
  },
  skipsOthers: async () => {
    await created('operator', 'skipsOthers');
    await succeeds(kubectl(['label', 'node', otherNode, `${laterLabel}=yes`]));
    await eventually('the other node to be skipped', async () =>
      expect((await world.maintenance('new'))?.status?.nodeStatuses).toEqual([
        expect.objectContaining({
          nodeRef: expect.objectContaining({ name: otherNode }),
          drainMessage: expect.stringContaining('Skipped: user "operator"'),
        }),
      ]),
    );
    expect(await isCordoned(otherNode)).toBe(false);
    await succeeds(kubectl(['delete', 'nm', 'new']));
  },
  recordsThem: async () => {
    const output = await created('operator', 'recordsThem', '--dry-run=server', '-o', 'json');
    const { annotations } = (JSON.parse(output) as { metadata: { annotations: Record<string, string> } })
      .metadata;
    expect(authorityOf(annotations[REQUESTER_ANNOTATION])).toMatchObject({
      kind: 'User',
      requester: { username: 'operator' },
    });
  },
  evictsPod: async () => {
    await created('tenant', 'evictsPod');
    await eventually('the pod to be gone', async () =>
      expect(await world.kube.get(resources.pods, { namespace: ownNamespace, name: pod })).toBeUndefined(),
    );
  },
  respectsBudget: async () => {
    await created('tenant', 'respectsBudget');
    const { name } = (objectOf('respectsBudget') as { metadata: { name: string } }).metadata;
    await eventually('the Evacuation to name the budget', async () => {
      const found = await world.kube.get(resources.evacuations, { namespace: ownNamespace, name });
      expect(found?.status?.message).toContain(podBudget);
    });
    const found = await world.kube.get(resources.pods, { namespace: ownNamespace, name: protectedPod });
    expect(found?.metadata.deletionTimestamp).toBeUndefined();
  },
  gatesOwnNodes: async () => {
    await created('operator', 'gatesOwnNodes');
    await eventually('the gates of their nodes', async () => {
      for (const name of ownNodes) expect(await gatesOf(name)).toContain('new');
    });
    await eventually('the policy to name the other node', async () => {
      const found = await world.kube.get(resources.nodeReadinessPolicies, { name: 'new' });
      expect(found?.status?.conditions.find(({ type }) => type === 'NodesAuthorized')).toMatchObject({
        status: 'False',
        message: expect.stringContaining(`${otherNode}: user "operator"`),
      });
    });
    expect(await gatesOf(otherNode)).not.toContain('new');
  },
};

describe('what is allowed causes', () => {
  test.each(
    Object.entries(verified).map(([of, verify]) => ({ text: consequences[of as Consequence], verify })),
  )('$text', async ({ verify }) => {
    await verify();
  });

  test('is verified for each row that names it', () => {
    const named = rows.flatMap(({ row: { consequence } }) => consequence ?? []);
    expect(new Set(named)).toEqual(new Set(Object.keys(consequences)));
  });
});

test('each verb of a role for users is in a row that its account may do', () => {
  const text = readFileSync(new URL('../../deploy/user-roles.yaml', import.meta.url), 'utf8');
  const roles = parseAllDocuments(text).map((one) => one.toJS() as RoleManifest);
  const missing = roles.flatMap(({ metadata, rules }) => {
    const done = actionsOf(metadata.name);
    return rules
      .flatMap(({ apiGroups, resources: of, verbs }) =>
        apiGroups.flatMap((group) => of.flatMap((one) => verbs.map((verb) => `${verb} ${one}.${group}`))),
      )
      .filter((verb) => !done.has(verb))
      .map((verb) => `${metadata.name}: ${verb}`);
  });
  // Not a verb of requests: admission asks for it, in the rows about gates.
  expect(missing).toEqual(['node-maintenance-gate-writer: gate nodereadinesses.nodemaintenance.k8s.io']);
});

interface RoleManifest {
  metadata: { name: string };
  rules: { apiGroups: string[]; resources: string[]; verbs: string[] }[];
}

/** Returns the verbs of the rows that are allowed to the account with this role. */
function actionsOf(roleName: string): Set<string> {
  // The built-in role `edit` includes it.
  const name = roleName === 'node-maintenance-edit' ? 'edit' : roleName;
  const holders = names.filter((account) =>
    accounts[account].grants.some((grant) => 'role' in grant && grant.role.name === name),
  );
  const done = rows.filter(({ row }) => holders.some((account) => row.allowed.includes(account)));
  return new Set(
    done.flatMap(({ row }) =>
      row.actions.map(({ verb, resource, subresource, group }) => {
        const of = subresource === undefined ? resource : `${resource}/${subresource}`;
        return `${verb} ${of}.${group}`;
      }),
    ),
  );
}
