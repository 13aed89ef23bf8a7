import {
  parseMaintenanceInput,
  toNodeMaintenance,
  type MaintenanceInput,
} from '../../api/maintenanceInput.ts';
import { FIELD_MANAGER, STARTED_BY } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { windowMaintenancesIn } from '../../domain/windows/windowMaintenance.ts';
import { admissionWarnings, deadlineProblem, storageProblem } from '../../domain/admission/maintenance.ts';
import { canonicalJson } from '../../domain/common/canonicalJson.ts';
import { isTrue } from '../../domain/common/conditions.ts';
import { listed } from '../../domain/common/names.ts';
import {
  completeDrainPlan,
  drainPlanProblems,
  entryKey,
  planOf,
  positionOf,
} from '../../domain/drain/plan.ts';
import { unverifiedIdentity } from '../../domain/common/temporalIdentity.ts';
import { joinedProblems } from '../../domain/common/text.ts';
import { shown } from '../../domain/common/untrusted.ts';
import { activeReservationsIn } from '../../domain/windows/reservations.ts';
import { isCompleted, stageOf } from '../../domain/common/stage.ts';
import { KubeError } from '../../kube/errors.ts';
import { resources } from '../../kube/resources.ts';
import type { Admitted, AdmitRequest } from '../contract.ts';
import type { Deps } from '../deps.ts';
import { currentExecution, requireOwnCluster } from '../execution.ts';
import { invalidInput } from '../failures.ts';
import {
  authorizeTemporal,
  authorizeTemporalForName,
  requestedByTemporal,
  requesterIsTemporal,
} from '../temporalUser.ts';
import { selectedNodes } from '../view.ts';

/**
 * The first activity of every run: validates its input, creates the NodeMaintenance if the run was started from Temporal, and reads the
 * state of the maintenance. Fails with InvalidInput, naming the field and the remedy, if the input cannot become a maintenance; then nothing
 * is created.
 */
export async function admit(
  deps: Deps,
  request: Pick<AdmitRequest, 'input' | 'clusterUid'>,
): Promise<Admitted> {
  requireOwnCluster(deps.scope, request.clusterUid);
  const input = parse(request.input);
  const expectedId = deps.scope.names.maintenanceId(input.name);
  const { workflowId } = currentExecution();
  if (workflowId !== expectedId) {
    throw invalidInput(
      `workflow id: expected "${expectedId}" for the maintenance "${input.name}" (got ${shown(workflowId)}): a maintenance must not have two runs`,
    );
  }
  const existing = await deps.cluster.kube.get(resources.nodeMaintenances, { name: input.name });
  if (existing === undefined) return admitted(deps, await create(deps, input));
  const wanted = toNodeMaintenance(input);
  // The controller starts a run with only the name: the object exists.
  const difference = wanted === undefined ? undefined : differingField(existing, wanted);
  if (difference !== undefined) {
    throw invalidInput(
      `name: NodeMaintenance "${input.name}" exists with a different ${difference}; choose another name, or give only the name to run the existing one`,
    );
  }
  // Otherwise a Schedule, or a user, would take a run that does nothing for the maintenance of nodes that are in service.
  if (wanted !== undefined && isCompleted(existing))
    throw invalidInput(
      `name: NodeMaintenance "${input.name}" exists and is complete; choose another name, or delete it first`,
    );
  return admitted(deps, existing);
}

function parse(value: unknown): MaintenanceInput {
  const parsed = parseMaintenanceInput(value);
  const problems = parsed.ok ? drainPlanProblems(parsed.input.drainPlan ?? []) : parsed.problems;
  if (parsed.ok && problems.length === 0) return parsed.input;
  throw invalidInput(`The maintenance was not started: ${joinedProblems(problems)}`);
}

async function create(deps: Deps, input: MaintenanceInput): Promise<NodeMaintenance> {
  const object = toNodeMaintenance(input);
  if (object === undefined) {
    throw invalidInput(
      `name: there is no NodeMaintenance "${input.name}"; give "nodes" or "nodeSelector" to create it`,
    );
  }
  await requireNodes(deps, input.nodes ?? []);
  const warnings = await validate(deps, object);
  const created = await store(deps, object);
  for (const message of warnings)
    deps.events.record(created, { type: 'Warning', reason: 'AdmissionWarning', message });
  return created;
}

/** Fails if nodes that the input names do not exist, and names them. */
async function requireNodes({ cluster }: Deps, names: readonly string[]): Promise<void> {
  if (names.every((name) => cluster.nodes.get(name) !== undefined)) return;
  // The informer may not have a new node yet.
  const { items } = await cluster.kube.list(resources.nodes);
  const existing = new Set(items.map(({ metadata }) => metadata.name));
  const missing = names.filter((name) => !existing.has(name));
  const [first] = missing;
  if (first === undefined) return;
  const [field, there] =
    missing.length === 1
      ? [`nodes[${names.indexOf(first)}]`, 'there is no node']
      : ['nodes', 'there are no nodes'];
  const quoted = listed(missing.map((name) => `"${name}"`));
  throw invalidInput(`${field}: ${there} ${quoted}; kubectl get nodes lists them`);
}

/** Runs the checks of the admission server, from which the worker is exempt. Returns the warnings. */
async function validate(deps: Deps, { metadata, spec }: NodeMaintenance): Promise<string[]> {
  const { cluster } = deps;
  const maintenances = cluster.maintenances.list();
  const budgets = cluster.nodeDisruptionBudgets.list();
  const reservations = activeReservationsIn(budgets, {
    maintenances: windowMaintenancesIn(maintenances),
    nowMs: cluster.kube.now().getTime(),
  });
  const existing = { nodes: cluster.nodes.list(), maintenances, budgets, reservations };
  const proposal = { name: metadata.name, spec };
  const problem = deadlineProblem(proposal, cluster.kube.now()) ?? storageProblem(proposal, existing);
  if (problem !== undefined) throw invalidInput(problem);
  await authorizeTemporal(deps, { spec });
  await authorizeTemporalForName(deps, metadata.name);
  return admissionWarnings(proposal, existing);
}

async function store({ cluster, starterOf }: Deps, object: NodeMaintenance): Promise<NodeMaintenance> {
  const { metadata, spec } = object;
  const { workflowId, runId } = currentExecution();
  const startedBy = unverifiedIdentity(await starterOf(workflowId, runId));
  const complete = {
    ...object,
    metadata: {
      ...metadata,
      annotations: { ...requestedByTemporal, ...requesterIsTemporal, [STARTED_BY]: startedBy },
    },
    spec: { ...spec, drainPlan: completeDrainPlan(spec.drainPlan) },
  };
  try {
    return await cluster.kube.create(resources.nodeMaintenances, complete, { fieldManager: FIELD_MANAGER });
  } catch (error) {
    if (error instanceof KubeError && error.kind === 'Invalid') throw invalidInput(error.message);
    throw error;
  }
}

/** Returns the first field in which the existing maintenance differs from the input. The stage may differ. */
function differingField(existing: NodeMaintenance, wanted: NodeMaintenance): string | undefined {
  const text = (value: unknown) => JSON.stringify(value) ?? '';
  if (text(existing.spec.nodeSelector) !== text(wanted.spec.nodeSelector)) return 'nodeSelector';
  if (text(planOf(existing).map(entryKey)) !== text(planOf(wanted).map(entryKey))) return 'drainPlan';
  if (canonicalJson(existing.spec.drainDeadline ?? null) !== canonicalJson(wanted.spec.drainDeadline ?? null))
    return 'drainDeadline';
  if ((existing.spec.reason ?? '') !== (wanted.spec.reason ?? '')) return 'reason';
  return existing.spec.requireCapacity === wanted.spec.requireCapacity ? undefined : 'requireCapacity';
}

function admitted({ cluster, scope, heartbeatTimeoutSeconds }: Deps, maintenance: NodeMaintenance): Admitted {
  const { metadata, status } = maintenance;
  return {
    name: metadata.name,
    uid: metadata.uid ?? '',
    generation: metadata.generation ?? 0,
    cluster: { name: scope.name, uid: scope.uid },
    stage: stageOf(maintenance),
    paused: isTrue(status?.conditions, 'Paused'),
    position: positionOf(maintenance),
    planLength: planOf(maintenance).length,
    heartbeatTimeoutSeconds,
    nodes: selectedNodes(maintenance, cluster.nodes.list())
      .map((node) => node.metadata.name)
      .toSorted(),
  };
}
