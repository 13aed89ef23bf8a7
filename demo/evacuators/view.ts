import type { Pod } from '../../api/core.ts';
import { MAINTENANCE_GATE } from '../../api/names.ts';
import type { Cluster } from '../../kube/cluster.ts';
import type { Change } from '../../kube/informer.ts';
import { type Note, notes } from '../narration.ts';
import { appOf } from '../recording.ts';
import type { Screen } from '../../cli/screen.ts';
import { drawBoard, type Message, messageText, type PodState, type TenantState } from './board.ts';
import { maintenanceName, node, tenants } from './cast.ts';

export interface View {
  /** The time is that since the maintenance was declared. */
  note: Note;
  stop(): void;
}

/** Milliseconds between two drawings of the block, so that its clock runs. */
const drawEvery = 200;

/**
 * Shows how the applications leave until it is stopped: a line that stays for every pod that goes or comes; beside that, in
 * a terminal, a block that is drawn anew, and in a pipe a line for everything new that an Evacuation says.
 */
export function showTenants(screen: Screen, cluster: Cluster): View {
  const { note, seconds } = notes(screen);
  const said = new Set<string>();
  const sayOnce = (key: string, text: string, paint?: (text: string) => string) => {
    if (said.has(key)) return;
    said.add(key);
    note(text, paint);
  };
  const sayMessages = () => {
    for (const { name, messages } of observe(cluster))
      for (const message of messages) sayOnce(`${name}: ${message.text}`, `${name}: ${messageText(message)}`);
  };
  const draw = () => {
    const maintenance = cluster.maintenances.get(maintenanceName);
    const board = { maintenance, tenants: observe(cluster), seconds: seconds() };
    screen.draw(drawBoard(board, screen.colors, screen.width()));
  };
  // What is there already is no news.
  let isBegun = false;
  const unsubscribe = [
    cluster.pods.subscribe((change) => {
      const news = newsOf(change);
      if (news === undefined) return;
      if (isBegun) sayOnce(news, news, screen.colors.green);
      else said.add(news);
    }),
    ...(screen.isLive ? [] : [cluster.evacuations.subscribe(sayMessages)]),
  ];
  isBegun = true;
  const timer = screen.isLive ? setInterval(draw, drawEvery) : undefined;
  return {
    note,
    stop: () => {
      clearInterval(timer);
      for (const end of unsubscribe.splice(0)) end();
      screen.clear();
    },
  };
}

function newsOf({ type, object: pod }: Change<Readonly<Pod>>): string | undefined {
  const { name } = pod.metadata;
  if (!tenants.some((tenant) => tenant.name === appOf(pod))) return undefined;
  const { node: where, state } = podState(pod);
  if (type === 'Deleted') return where === node ? `✓ ${name} has left ${node}` : undefined;
  if (state === 'held') return `◌ ${name} is made for ${where}, and held by a scheduling gate`;
  return state === 'ready' ? `✓ ${name} is ready on ${where}` : undefined;
}

function observe(cluster: Cluster): TenantState[] {
  return tenants.map((tenant) => {
    const pods = cluster.pods.list().filter((pod) => appOf(pod) === tenant.name);
    return { name: tenant.name, pods: pods.map(podState), messages: messagesOf(tenant.name, cluster) };
  });
}

function podState({ metadata, spec, status }: Readonly<Pod>): PodState {
  const isHeld = spec.schedulingGates?.includes(MAINTENANCE_GATE) === true;
  const isReady = status.ready && metadata.deletionTimestamp === undefined;
  return {
    node: spec.nodeName ?? spec.madeForNode ?? '',
    state: isHeld ? 'held' : isReady ? 'ready' : 'not ready',
  };
}

/** Of pods that are still there: what was said of the others is over. */
function messagesOf(app: string, { evacuations, pods }: Cluster): Message[] {
  const messages = new Map<string, Message>();
  for (const { metadata, spec, status } of evacuations.list()) {
    const pod = pods.get(`${metadata.namespace}/${spec.podRef.name}`);
    if (pod?.metadata.uid !== spec.podRef.uid || appOf(pod) !== app || !status?.message) continue;
    messages.set(status.message, {
      evacuatorClass: status.activeEvacuatorClass,
      text: status.message,
      expectedFinish: status.expectedEvacuationFinishTime,
    });
  }
  return [...messages.values()];
}
