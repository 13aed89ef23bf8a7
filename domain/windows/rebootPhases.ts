import type { Condition } from '../../api/core.ts';
import { DEFAULT_REBOOT_TIMEOUT_SECONDS, WindowAnnotation } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { oneLine } from '../common/text.ts';
import { needsReboot, type RebootState, rebootStateOf } from '../reboot/nodeReboot.ts';
import { awaitLease, awaitUntil, type NodeStepFacts, type NodeStep } from './nodeFacts.ts';
import { nodeAdvanced, rebootNotRequired } from './nodeResult.ts';

/** The phases of a node whose work is a reboot. `nodeStep.ts` has the table of all phases. */

/** Returns the boot ID that the work of a maintenance ends; empty if it is unknown. */
export function endedBootIdOf({ metadata }: Pick<NodeMaintenance, 'metadata'>): string {
  return metadata.annotations?.[WindowAnnotation.BootId] ?? '';
}

/** Returns the state of the reboot of a node that exists; undefined for other work. */
function stateOf({ work, node, maintenance }: NodeStepFacts): RebootState | undefined {
  if (work !== 'Reboot' || node.kind !== 'Present') return undefined;
  return rebootStateOf(node.node, endedBootIdOf(maintenance));
}

/** Reports whether the agent is about to reboot the node. */
export function isRebooting(facts: NodeStepFacts): boolean {
  return stateOf(facts) === 'Started';
}

/** Keeps a node without further work cordoned until its request is withdrawn, or its reboot has ended. */
export function endReboot(facts: NodeStepFacts): NodeStep | undefined {
  const { isComplete, result, workResult } = facts;
  const isInProgress = result === undefined && workResult?.status !== 'True';
  if (isComplete || isInProgress) return undefined;
  const state = stateOf(facts);
  // The request of a failed node is withdrawn in any case.
  if (state === 'Requested' || (state === 'Started' && result?.status === 'True'))
    return { kind: 'Wait', message: 'the request to reboot the node is being withdrawn' };
  return state === 'Started' ? awaitBoot(facts, state) : undefined;
}

/** A reboot of any origin is one: what the node needed it for has happened. An advanced node is uncordoned first. */
export function finishReboot(facts: NodeStepFacts): NodeStep | undefined {
  const { isComplete, result, workResult } = facts;
  const isInProgress = result === undefined || (result.status === 'Unknown' && isComplete);
  if (!isInProgress || workResult?.status === 'True') return undefined;
  return stateOf(facts) === 'Done' ? { kind: 'FinishReboot' } : undefined;
}

/** The reboot of a node that failed, for example because it took too long, has happened when a user marks its work as done. */
export function finishLateReboot(facts: NodeStepFacts): NodeStep | undefined {
  const { isComplete, result, workResult } = facts;
  const isAdvanced = isComplete && result?.status === 'True' && result.reason === nodeAdvanced.reason;
  if (!isAdvanced || workResult?.status === 'True') return undefined;
  return stateOf(facts) === 'Done' ? { kind: 'FinishReboot' } : undefined;
}

export function awaitReboot(facts: NodeStepFacts): NodeStep | undefined {
  const state = stateOf(facts);
  if (state === undefined || facts.workResult === undefined) return undefined;
  if (state === 'Started') return awaitBoot(facts, state);
  const undrained = awaitDrainedNode(facts);
  if (undrained !== undefined) return undrained;
  if (state !== 'NotRequested') return awaitBoot(facts, state);
  return awaitLease(facts) ?? { kind: 'RequestReboot' };
}

/** The agent reboots only a node that all its maintenances have drained: another one may select it, too. */
function awaitDrainedNode(facts: NodeStepFacts): NodeStep | undefined {
  const drained = nodeDrainedOf(facts);
  if (drained?.status === 'True') return undefined;
  const cause = drained?.message ? `: ${oneLine(drained.message, maxCauseLength)}` : '';
  return { kind: 'Wait', message: `the node, which is to be rebooted, is not drained${cause}` };
}

const maxCauseLength = 256;

/** Returns the condition Drained of the Node. */
function nodeDrainedOf({ node }: NodeStepFacts): Condition | undefined {
  if (node.kind !== 'Present') return undefined;
  return node.node.status?.conditions?.find(({ type }) => type === 'Drained');
}

export function skipReboot({ work, reboot, node }: NodeStepFacts): NodeStep | undefined {
  if (work !== 'Reboot' || reboot?.policy !== 'IfRequired' || node.kind !== 'Present') return undefined;
  return needsReboot(node.node) ? undefined : { kind: 'RecordWork', facts: rebootNotRequired };
}

export function awaitAgent(facts: NodeStepFacts): NodeStep | undefined {
  const { work, agent, maintenance, readyTimeoutSeconds: seconds } = facts;
  if (work !== 'Reboot') return undefined;
  if (endedBootIdOf(maintenance) === '')
    return {
      kind: 'Fail',
      reason: 'BootIdUnknown',
      message:
        'the kubelet had not reported a boot ID when the maintenance was created: delete the NodeMaintenance to maintain the node again',
    };
  if (agent === 'Able') return undefined;
  const drained = maintenance.status?.conditions.find(({ type }) => type === 'Drained');
  const isRunning = agent === 'NoRebootCommand';
  return awaitUntil(
    facts,
    isRunning ? 'its node agent has no reboot command' : 'its node agent does not run',
    {
      at: Date.parse(drained?.lastTransitionTime ?? ''),
      seconds,
      failure: {
        reason: 'AgentNotRunning',
        message: `its node agent, which would reboot it, has ${isRunning ? 'had no reboot command' : 'not run'} for more than ${seconds} s since the node was drained: ${isRunning ? 'set its --reboot-command (REBOOT_COMMAND)' : 'start the agent'} and delete the NodeMaintenance to maintain the node again, or reboot the node and mark its work as done (kubectl maintenance window advance)`,
      },
    },
  );
}

function awaitBoot(facts: NodeStepFacts, state: RebootState): NodeStep {
  const { reboot, workResult, nowMs } = facts;
  const seconds = reboot?.timeoutSeconds ?? DEFAULT_REBOOT_TIMEOUT_SECONDS;
  const isStarted = state === 'Started';
  const failed = isStarted
    ? 'its agent started to reboot it, and it did not report a new boot ID'
    : 'its agent did not begin to reboot it';
  return awaitUntil(facts, isStarted ? 'the node is rebooting' : 'the reboot of the node is requested', {
    at: workResult === undefined ? nowMs : requestedAt(facts, workResult),
    seconds,
    failure: {
      reason: 'RebootTimeout',
      message: `${failed} within ${seconds} s: check ${isStarted ? 'the console of the node' : 'the log of the agent on the node'}, reboot the node if that is needed, then mark its work as done (kubectl maintenance window advance), or set the NodeMaintenance to Complete and delete it to maintain the node again`,
    },
  });
}

/** When the agent could begin: the reboot was requested, and the node was drained. */
function requestedAt(facts: NodeStepFacts, { lastTransitionTime }: Condition): number {
  const drainedAt = Date.parse(nodeDrainedOf(facts)?.lastTransitionTime ?? '') || 0;
  return Math.max(Date.parse(lastTransitionTime), drainedAt);
}
