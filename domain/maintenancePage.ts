import type { NodeMaintenanceStage } from '../api/nodeMaintenance.ts';
import type { Glance, GlanceCause, GlanceRow } from './glance.ts';
import { code, fitted, plain, section, table, utc } from './markdown.ts';
import { listed } from './names.ts';

/** A maintenance as its run knows it. */
export interface PagedMaintenance {
  name: string;
  stage: NodeMaintenanceStage;
  paused: boolean;
  drained: boolean;
  /** Index into the drain plan, and its length. */
  position: number;
  planLength: number;
  nodes: readonly string[];
  /** Missing until the nodes were counted. */
  glance?: Glance;
}

/** The page that the Temporal UI shows for a maintenance: where it stands, what is in the way, and what a message would do. Markdown. */
export function maintenancePage(given: PagedMaintenance): string {
  const { glance: last, ...known } = given;
  // What was seen in another stage is not so any more.
  const glance = last?.stage === given.stage ? last : undefined;
  const maintenance: PagedMaintenance = { ...known, ...(glance && { glance }) };
  return fitted(glance?.rows.length ?? 0, (rows) => [
    `### ${headline(maintenance)}`,
    '',
    ...facts(maintenance),
    ...section('What is in the way', obstacles(glance)),
    ...section('Nodes', nodeLines(maintenance, rows)),
    ...section('What you can do now', orders(maintenance)),
    ...section('See also', elsewhere(maintenance)),
  ]);
}

function headline({ stage, paused, drained, nodes }: PagedMaintenance): string {
  const what = nodes.length === 1 ? '1 node' : `${nodes.length} nodes`;
  if (stage === 'Drain' && paused) return `Paused: the drain of ${what} rests`;
  if (stage === 'Drain' && drained) return `Drained: ${what} ready for work`;
  return {
    Idle: `Planned: ${what}, nothing is touched`,
    Cordon: `Cordoned: ${what} kept unschedulable`,
    Drain: `Draining ${what}`,
    Complete: `Complete: ${what} given back`,
  }[stage];
}

function facts(maintenance: PagedMaintenance): string[] {
  const { name, stage, paused, glance } = maintenance;
  const since = glance?.since === undefined ? '' : ` since ${utc(glance.since)}`;
  const reason = glance?.reason === undefined ? '' : `: ${plain(glance.reason)}`;
  const rows = [
    ['NodeMaintenance', `${code(name)}${reason}`],
    ['Stage', `**${stage}**${since}${paused ? ', **paused**' : ''}`],
    ['Now', now(maintenance)],
    ...(stage === 'Drain' ? tierRows(maintenance) : []),
    ...(stage === 'Drain' && glance !== undefined ? [['Pods', pods(glance)]] : []),
  ];
  return rows.map(([label, text]) => `- **${label}:** ${text}`);
}

function now({ stage, paused, drained }: PagedMaintenance): string {
  switch (stage) {
    case 'Idle':
      return 'nothing is done until somebody advances it';
    case 'Cordon':
      return 'no new pod is scheduled on the nodes; those that run there stay';
    case 'Drain':
      if (paused)
        return 'no new Evacuation and no new entry of the drain plan begins; nodes stay cordoned, Evacuations under way go on';
      return drained
        ? 'every pod that can be evacuated has left; the nodes are held until the work on them is done'
        : 'pods are evacuated, entry by entry of the drain plan';
    case 'Complete':
      return 'Evacuations are withdrawn, and nodes made schedulable again, but for those that were not before or that another maintenance holds';
  }
}

function tierRows({ position, planLength, drained, glance }: PagedMaintenance): string[][] {
  if (drained) return [['Drain plan', `all ${planLength} entries done`]];
  const reached = glance?.tier === undefined ? '' : `: ${plain(glance.tier)}`;
  const rows = [['Drain plan', `entry ${Math.min(position + 1, planLength)} of ${planLength}${reached}`]];
  return glance?.nextTier === undefined ? rows : [...rows, ['Next entry', plain(glance.nextTier)]];
}

function pods({ podsLeft, podsEvacuated, podsBlocked, at }: Glance): string {
  const blocked = podsBlocked === 0 ? '' : `, **${podsBlocked} cannot leave**`;
  return `${podsLeft} left of ${podsLeft + podsEvacuated}${blocked} (counted at ${utc(at)})`;
}

function obstacles(glance: Glance | undefined): string[] {
  if (glance === undefined) return [];
  const more = glance.moreCauses === 0 ? [] : [`- and ${glance.moreCauses} more causes`];
  return [...glance.causes.map(causeLine), ...more];
}

function causeLine({ message, needsAPerson, pods: named, morePods }: GlanceCause): string {
  const others = morePods === 0 ? '' : ` and ${morePods} more`;
  const who = needsAPerson ? '**Needs somebody:** ' : 'May pass by itself: ';
  return `- ${who}${named.map((pod) => plain(pod)).join(', ')}${others}: ${plain(message, 400)}`;
}

function nodeLines({ stage, nodes, glance }: PagedMaintenance, shown: number): string[] {
  if (nodes.length === 0) return ['No node matches the selector.'];
  if (stage !== 'Drain' || glance === undefined || glance.rows.length === 0) return [listed(nodes)];
  const rest = glance.rows.slice(shown);
  const more = glance.more + rest.length;
  const done = glance.moreDone + rest.filter(({ podsLeft }) => podsLeft === 0).length;
  return [
    ...table(['Node', 'Pods left', 'State'], glance.rows.slice(0, shown).map(nodeRow)),
    ...(more === 0 ? [] : ['', `and ${more} more nodes, ${done} of them without pods to evacuate`]),
  ];
}

function nodeRow({ node, podsLeft, podsEvacuated, message }: GlanceRow): string[] {
  return [code(node), `${podsLeft} of ${podsLeft + podsEvacuated}`, plain(message) || 'Cordoned'];
}

/** Name, input, and what it would do in this very state. */
type Order = readonly [name: string, input: string, effect: string];

const none = 'none';
const to = (stage: NodeMaintenanceStage) => code(`{"to": "${stage}"}`);

function orders(maintenance: PagedMaintenance): string[] {
  const possible = ordersIn(maintenance).map(([name, input, effect]) => [code(name), input, effect]);
  if (possible.length === 0)
    return ['Nothing: Complete is final. Start another NodeMaintenance for the next work.'];
  return table(['Signal', 'Input', 'What it does now'], possible);
}

function ordersIn(maintenance: PagedMaintenance): Order[] {
  switch (maintenance.stage) {
    case 'Idle':
      return [
        ['advance', none, 'goes on to **Cordon**: makes the nodes unschedulable'],
        ['advance', to('Drain'), 'cordons the nodes and evacuates their pods'],
        ['cancel', none, 'ends the maintenance; nothing was touched'],
      ];
    case 'Cordon':
      return [
        [
          'advance',
          none,
          `goes on to **Drain**: evacuates the pods in ${maintenance.planLength} entries of the drain plan`,
        ],
        ['cancel', none, 'gives the nodes back; no pod was touched'],
      ];
    case 'Drain':
      return [...pauseOrResume(maintenance), ...endOfDrain(maintenance)];
    case 'Complete':
      return [];
  }
}

function pauseOrResume({ paused, drained, position, planLength }: PagedMaintenance): Order[] {
  const goesOn = drained
    ? 'evacuates pods again that appear on the nodes'
    : `goes on with entry ${Math.min(position + 1, planLength)} of the drain plan`;
  if (paused) return [['resume', none, goesOn]];
  return [
    [
      'pause',
      none,
      'begins no new Evacuation and no new entry; as an update it answers when the drain really rests',
    ],
  ];
}

function endOfDrain({ drained, paused, glance }: PagedMaintenance): Order[] {
  if (drained && !paused)
    return [
      ['advance', none, 'the work is done: goes on to **Complete** and gives the nodes back'],
      ['cancel', none, 'the same'],
    ];
  const left =
    glance === undefined || glance.podsLeft === 0
      ? 'pods that are left stay'
      : `the ${glance.podsLeft} pods that are left stay`;
  return [
    [
      'advance',
      none,
      `ends the drain: goes on to **Complete** and gives the nodes back; ${left} where they are`,
    ],
    ['cancel', none, 'the same'],
  ];
}

function elsewhere({ name }: PagedMaintenance): string[] {
  return [
    `- ${code(`kubectl maintenance status ${name} --watch`)} shows every pod, by the second`,
    '- *Request Cancellation* does what `cancel` does. *Terminate* gives nothing back: a new run goes on where this one stood',
  ];
}
