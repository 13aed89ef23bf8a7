import type { NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import { tierText } from '../drain/tiers.ts';
import { code, fitRows, plain, section, table, utc } from '../common/markdown.ts';
import { listed } from '../common/names.ts';
import { numbered } from '../common/text.ts';
import type { DetailsCause, DetailsRow, DetailsSnapshot } from './detailsSnapshot.ts';

/** The state of a maintenance that its run knows. */
export interface CurrentDetailsInput {
  name: string;
  stage: NodeMaintenanceStage;
  paused: boolean;
  drained: boolean;
  nodes: readonly string[];
  /** Missing until the pods have been counted. */
  details?: DetailsSnapshot;
}

/** Renders the current details that the Temporal UI shows for a maintenance: its state, blockers, and the effects of messages. Markdown. */
export function renderCurrentDetails(input: CurrentDetailsInput): string {
  const { details: snapshot, ...known } = input;
  // A snapshot of another stage is outdated.
  const details = snapshot?.stage === input.stage ? bounded(snapshot) : undefined;
  // A drained maintenance evacuates pods that appear later, and nodes that it selects later.
  const drained = input.drained && !((details?.podsToEvacuate ?? 0) > 0);
  const maintenance: CurrentDetailsInput = { ...known, drained, ...(details && { details }) };
  return fitRows(details?.rows.length ?? 0, (rows) => [
    `### ${headline(maintenance)}`,
    '',
    ...facts(maintenance),
    ...section('Blocked pods', causeLines(details)),
    ...section('Nodes', nodeLines(maintenance, rows)),
    ...section('Available actions', actionLines(maintenance)),
    ...section('See also', seeAlso(maintenance)),
  ]);
}

const maxRows = 20;
const maxCauses = 10;

/** A number, or NaN for anything else. */
const numberOf = (value: unknown) => Number(value);

/** Limits what any user may send in a `refreshDetails` signal: the number of rows, and numbers that are something else. */
function bounded(details: DetailsSnapshot): DetailsSnapshot {
  const { podsToEvacuate, podsEvacuated, podsBlocked, more, moreDone, moreCauses } = details;
  return {
    ...details,
    podsToEvacuate: numberOf(podsToEvacuate),
    podsEvacuated: numberOf(podsEvacuated),
    podsBlocked: numberOf(podsBlocked),
    rows: details.rows.slice(0, maxRows).map((row) => ({
      ...row,
      podsToEvacuate: numberOf(row.podsToEvacuate),
      podsEvacuated: numberOf(row.podsEvacuated),
    })),
    more: numberOf(more),
    moreDone: numberOf(moreDone),
    causes: details.causes.slice(0, maxCauses).map((cause) => ({
      ...cause,
      pods: cause.pods.slice(0, maxCauses),
      morePods: numberOf(cause.morePods),
    })),
    moreCauses: numberOf(moreCauses),
  };
}

function headline({ stage, paused, drained, nodes }: CurrentDetailsInput): string {
  const count = numbered(nodes.length, 'node');
  if (stage === 'Drain' && paused) return `Paused: drain of ${count}`;
  if (stage === 'Drain' && drained) return `Drained: ${count} ready for work`;
  return {
    Idle: `Idle: ${count} selected`,
    Cordon: `Cordoned: ${count}`,
    Drain: `Draining ${count}`,
    Complete: `Complete: ${count} returned to service`,
  }[stage];
}

function facts(maintenance: CurrentDetailsInput): string[] {
  const { name, stage, paused, details } = maintenance;
  const since = details?.since === undefined ? '' : ` since ${utc(details.since)}`;
  const reason = details?.reason === undefined ? '' : `: ${plain(details.reason)}`;
  const rows = [
    ['NodeMaintenance', `${code(name)}${reason}`],
    ['Stage', `**${stage}**${since}${paused ? ', **paused**' : ''}`],
    ['Now', now(maintenance)],
    ...(stage === 'Drain' ? tierRows(maintenance) : []),
    ...(details?.deadline === undefined ? [] : [['Drain deadline', plain(details.deadline)]]),
    ...(stage === 'Drain' && details !== undefined ? [['Pods', podCounts(details)]] : []),
  ];
  return rows.map(([label, text]) => `- **${label}:** ${text}`);
}

function now({ stage, paused, drained }: CurrentDetailsInput): string {
  switch (stage) {
    case 'Idle':
      return 'no node is changed until the stage is advanced';
    case 'Cordon':
      return 'no new pod is scheduled on the nodes; running pods stay';
    case 'Drain':
      if (paused)
        return 'no new Evacuation is created and no new tier starts; the nodes stay cordoned, and Evacuations in progress continue';
      return drained
        ? 'every pod that can be evacuated has left; the nodes stay cordoned until the stage is advanced'
        : 'pods are evacuated tier by tier';
    case 'Complete':
      return 'Evacuations are deleted and nodes are uncordoned, except nodes that were cordoned before or that another maintenance holds';
  }
}

/** Nothing about tiers is known until the first snapshot that has counted them. */
function tierRows({ drained, details }: CurrentDetailsInput): string[][] {
  if (drained) return [['Drain plan', 'all tiers drained']];
  if (details?.drainTier === undefined) return [];
  const pods = details.tier === undefined ? '' : `: ${plain(details.tier)}`;
  return [['Drain plan', `${plain(tierText(details.drainTier))}${pods}`]];
}

function podCounts({ podsToEvacuate, podsEvacuated, podsBlocked, at }: DetailsSnapshot): string {
  const blocked = podsBlocked === 0 ? '' : `, **${podsBlocked} blocked**`;
  return `${podsToEvacuate} of ${podsToEvacuate + podsEvacuated} left${blocked} (at ${utc(at)})`;
}

function causeLines(details: DetailsSnapshot | undefined): string[] {
  if (details === undefined) return [];
  const more = details.moreCauses === 0 ? [] : [`- and ${details.moreCauses} more causes`];
  return [...details.causes.map(causeLine), ...more];
}

function causeLine({ message, requiresIntervention, pods, morePods }: DetailsCause): string {
  const others = morePods === 0 ? '' : ` and ${morePods} more`;
  const urgency = requiresIntervention ? '**Action required:** ' : 'May resolve by itself: ';
  return `- ${urgency}${pods.map((pod) => plain(pod)).join(', ')}${others}: ${plain(message, 400)}`;
}

function nodeLines({ stage, nodes, details }: CurrentDetailsInput, shown: number): string[] {
  if (nodes.length === 0) return ['No node matches the selector.'];
  if (stage !== 'Drain' || details === undefined || details.rows.length === 0)
    return [plain(listed(nodes), maxNodesLength)];
  const omitted = details.rows.slice(shown);
  const more = details.more + omitted.length;
  const done = details.moreDone + omitted.filter(({ podsToEvacuate }) => podsToEvacuate === 0).length;
  return [
    ...table(['Node', 'Pods left', 'State'], details.rows.slice(0, shown).map(nodeRow)),
    ...(more === 0 ? [] : ['', `and ${more} more nodes, ${done} of them without pods to evacuate`]),
  ];
}

function nodeRow({ node, podsToEvacuate, podsEvacuated, message }: DetailsRow): string[] {
  return [code(node), `${podsToEvacuate} of ${podsToEvacuate + podsEvacuated}`, plain(message) || 'Cordoned'];
}

/** Five of the longest names. */
const maxNodesLength = 1_500;

/** A message, its input, and its effect in the current state. */
type Action = readonly [name: string, input: string, effect: string];

const none = 'none';
/** Formats the input of a signal with the stage from which it advances: sent twice, it has the same effect as once. */
const from = (stage: NodeMaintenanceStage, to?: NodeMaintenanceStage) =>
  code(`{"from": "${stage}"${to === undefined ? '' : `, "to": "${to}"`}}`);

function actionLines(maintenance: CurrentDetailsInput): string[] {
  const actions = actionsIn(maintenance).map(([name, input, effect]) => [code(name), input, effect]);
  if (actions.length === 0)
    return ['None: Complete is final. Create a new NodeMaintenance for further work.'];
  return table(['Signal', 'Input', 'Effect'], actions);
}

function actionsIn(maintenance: CurrentDetailsInput): Action[] {
  switch (maintenance.stage) {
    case 'Idle':
      return [
        ['advance', from('Idle'), 'advances to **Cordon**: cordons the nodes'],
        ['advance', from('Idle', 'Drain'), 'cordons the nodes and evacuates their pods'],
        ['cancel', none, 'ends the maintenance; no node has been changed'],
      ];
    case 'Cordon':
      return [
        ['advance', from('Cordon'), 'advances to **Drain**: evacuates the pods tier by tier'],
        ['cancel', none, 'uncordons the nodes; no pod has been evacuated'],
      ];
    case 'Drain':
      return [...pauseOrResume(maintenance), ...endOfDrain(maintenance)];
    case 'Complete':
      return [];
  }
}

function pauseOrResume({ paused, drained, details }: CurrentDetailsInput): Action[] {
  const next = details?.drainTier === undefined ? 'the drain' : `with ${plain(tierText(details.drainTier))}`;
  const effect = drained ? 'evacuates pods that appear on the nodes' : `continues ${next}`;
  if (paused) return [['resume', none, effect]];
  return [
    [
      'pause',
      none,
      'creates no new Evacuation and starts no new tier; as an update, it returns when the drain is paused',
    ],
  ];
}

function endOfDrain({ drained, paused, details }: CurrentDetailsInput): Action[] {
  if (drained && !paused)
    return [
      ['advance', from('Drain'), 'ends the work: advances to **Complete** and uncordons the nodes'],
      ['cancel', none, 'same as advance'],
    ];
  const pods =
    details === undefined || details.podsToEvacuate === 0
      ? 'the remaining pods stay'
      : `the remaining ${details.podsToEvacuate} pods stay`;
  return [
    ['advance', from('Drain'), `ends the drain: advances to **Complete** and uncordons the nodes; ${pods}`],
    ['cancel', none, 'same as advance'],
  ];
}

function seeAlso({ name }: CurrentDetailsInput): string[] {
  return [
    `- ${code(`kubectl maintenance status ${name} --watch`)} shows every pod, updated every second`,
    '- *Request Cancellation* has the same effect as `cancel`. *Terminate* does not uncordon the nodes: a new run continues where this one stopped',
  ];
}
