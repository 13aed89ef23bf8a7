import { Context } from '@temporalio/activity';
import { parseMaintenanceInput, toNodeMaintenance, type MaintenanceInput } from '../api/maintenanceInput.ts';
import { FIELD_MANAGER, NODE_BUDGET_NAME, STARTED_BY, workflowIdOf } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { claimedTurns } from '../api/windowTurn.ts';
import { admissionWarnings, storageProblem } from '../domain/admission.ts';
import { isTrue } from '../domain/conditions.ts';
import { completeDrainPlan, drainPlanProblems, entryKey } from '../domain/drainPlan.ts';
import { asItStands } from '../domain/nodeBudget.ts';
import { stageOf } from '../domain/stage.ts';
import { KubeError } from '../kube/errors.ts';
import { resources } from '../kube/resources.ts';
import type { Admitted } from './contract.ts';
import type { Deps } from './deps.ts';
import { invalidInput } from './failures.ts';
import { authorizeTemporal } from './temporalUser.ts';
import { planOf, selectedNodes } from './view.ts';

/**
 * The first act of every run: validates what it was started with, creates the NodeMaintenance if the run was started
 * from Temporal, and reads where the maintenance stands. Refuses, with InvalidInput and a sentence that names field and
 * remedy, what cannot become a maintenance; then nothing was created.
 */
export async function admit(deps: Deps, request: { input: unknown; workflowId: string }): Promise<Admitted> {
  const input = parse(request.input);
  const expectedId = workflowIdOf(input.name);
  if (request.workflowId !== expectedId) {
    throw invalidInput(
      `workflow id: expected "${expectedId}" for the maintenance "${input.name}" (got "${request.workflowId}"), so that no node has two runs for one maintenance`,
    );
  }
  const existing = await deps.cluster.kube.get(resources.nodeMaintenances, { name: input.name });
  if (existing === undefined) return admitted(deps, await create(deps, input));
  const wanted = toNodeMaintenance(input);
  // The controller starts a run with the name alone: the object is all that there is to say.
  const difference = wanted === undefined ? undefined : differingField(existing, wanted);
  if (difference !== undefined) {
    throw invalidInput(
      `name: NodeMaintenance "${input.name}" exists with another ${difference}; choose another name, or give only the name to run the existing one`,
    );
  }
  return admitted(deps, existing);
}

function parse(value: unknown): MaintenanceInput {
  const parsed = parseMaintenanceInput(value);
  const problems = parsed.ok ? drainPlanProblems(parsed.input.drainPlan ?? []) : parsed.problems;
  if (parsed.ok && problems.length === 0) return parsed.input;
  throw invalidInput(`The maintenance was not started: ${problems.join('; ')}`);
}

async function create(deps: Deps, input: MaintenanceInput): Promise<NodeMaintenance> {
  const object = toNodeMaintenance(input);
  if (object === undefined) {
    throw invalidInput(
      `name: there is no NodeMaintenance "${input.name}"; give "nodes" or "nodeSelector" to create it`,
    );
  }
  for (const [index, node] of (input.nodes ?? []).entries()) {
    if ((await deps.cluster.kube.get(resources.nodes, { name: node })) === undefined) {
      throw invalidInput(`nodes[${index}]: there is no node "${node}"; kubectl get nodes lists them`);
    }
  }
  const warnings = await examine(deps, object);
  const created = await store(deps, object);
  for (const message of warnings)
    deps.events.record(created, { type: 'Warning', reason: 'AdmissionWarning', message });
  return created;
}

/** The checks of the admission server, from which the worker is exempt. Returns what is worth a warning. */
async function examine(deps: Deps, { metadata, spec }: NodeMaintenance): Promise<string[]> {
  const { cluster } = deps;
  const maintenances = cluster.maintenances.list();
  const budget = cluster.nodeBudgets.get(NODE_BUDGET_NAME);
  const claims = { turns: claimedTurns(maintenances), now: cluster.kube.now().getTime() };
  const surroundings = {
    nodes: cluster.nodes.list(),
    maintenances,
    budget: budget && asItStands(budget, claims),
  };
  const proposal = { name: metadata.name, spec };
  const problem = storageProblem(proposal, surroundings);
  if (problem !== undefined) throw invalidInput(problem);
  await authorizeTemporal(deps, spec);
  return admissionWarnings(proposal, surroundings);
}

async function store({ cluster, starterOf }: Deps, object: NodeMaintenance): Promise<NodeMaintenance> {
  const { metadata, spec } = object;
  const run = Context.current().info.workflowExecution;
  const starter = run === undefined ? 'unknown' : await starterOf(run.workflowId, run.runId);
  const complete = {
    ...object,
    metadata: { ...metadata, annotations: { [STARTED_BY]: `temporal:${starter}` } },
    spec: { ...spec, drainPlan: completeDrainPlan(spec.drainPlan) },
  };
  try {
    return await cluster.kube.create(resources.nodeMaintenances, complete, { fieldManager: FIELD_MANAGER });
  } catch (error) {
    if (error instanceof KubeError && error.kind === 'Invalid') throw invalidInput(error.message);
    throw error;
  }
}

/** The first field in which an existing maintenance differs from the wanted one; its stage may have moved on. */
function differingField(existing: NodeMaintenance, wanted: NodeMaintenance): string | undefined {
  const text = (value: unknown) => JSON.stringify(value) ?? '';
  if (text(existing.spec.nodeSelector) !== text(wanted.spec.nodeSelector)) return 'nodeSelector';
  if (text(planOf(existing).map(entryKey)) !== text(planOf(wanted).map(entryKey))) return 'drainPlan';
  return (existing.spec.reason ?? '') === (wanted.spec.reason ?? '') ? undefined : 'reason';
}

function admitted({ cluster }: Deps, maintenance: NodeMaintenance): Admitted {
  const { metadata, spec, status } = maintenance;
  const plan = completeDrainPlan(spec.drainPlan);
  return {
    name: metadata.name,
    uid: metadata.uid ?? '',
    generation: metadata.generation ?? 0,
    stage: stageOf(maintenance),
    paused: isTrue(status?.conditions, 'Paused'),
    position: Math.min(status?.drainPosition ?? 0, plan.length - 1),
    planLength: plan.length,
    nodes: selectedNodes(maintenance, cluster.nodes.list())
      .map((node) => node.metadata.name)
      .toSorted(),
  };
}
