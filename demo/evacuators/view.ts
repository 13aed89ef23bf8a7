import type { Pod } from '../../api/core.ts';
import { MAINTENANCE_GATE } from '../../api/names.ts';
import type { Cluster } from '../../kube/cluster.ts';
import type { Change } from '../../kube/informer.ts';
import { type Note, notes } from '../steps.ts';
import { appOf } from '../recording.ts';
import type { Screen } from '../../cli/terminal/screen.ts';
import {
  drawDashboard,
  type Message,
  messageText,
  type PodState,
  type ApplicationState,
} from './dashboard.ts';
import { maintenanceName, node, applications } from './fixtures.ts';

export interface View {
  /** Prints a line with the time since the maintenance was created. */
  note: Note;
  stop(): void;
}

/** Time between two drawings of the dashboard, so that its clock runs. */
const redrawIntervalMs = 200;

/**
 * Shows the evacuation of the applications until it is stopped. Prints a line for every pod that starts or is gone. In a terminal
 * it also redraws a dashboard; in a pipe it prints every new message of an Evacuation.
 */
export function showApplications(screen: Screen, cluster: Cluster): View {
  const { note, seconds } = notes(screen);
  const printed = new Set<string>();
  const printOnce = (key: string, text: string, paint?: (text: string) => string) => {
    if (printed.has(key)) return;
    printed.add(key);
    note(text, paint);
  };
  const printMessages = () => {
    for (const { name, messages } of observe(cluster))
      for (const message of messages)
        printOnce(`${name}: ${message.text}`, `${name}: ${messageText(message)}`);
  };
  const draw = () => {
    const maintenance = cluster.maintenances.get(maintenanceName);
    const dashboard = { maintenance, applications: observe(cluster), seconds: seconds() };
    screen.draw(drawDashboard(dashboard, screen.colors, screen.width()));
  };
  // Pods that exist at the start are not printed.
  let isStarted = false;
  const unsubscribe = [
    cluster.pods.subscribe((change) => {
      const text = podChangeText(change);
      if (text === undefined) return;
      if (isStarted) printOnce(text, text, screen.colors.green);
      else printed.add(text);
    }),
    ...(screen.isLive ? [] : [cluster.evacuations.subscribe(printMessages)]),
  ];
  isStarted = true;
  const timer = screen.isLive ? setInterval(draw, redrawIntervalMs) : undefined;
  return {
    note,
    stop: () => {
      clearInterval(timer);
      for (const end of unsubscribe.splice(0)) end();
      screen.clear();
    },
  };
}

function podChangeText({ type, object: pod }: Change<Readonly<Pod>>): string | undefined {
  const { name } = pod.metadata;
  if (!applications.some((application) => application.name === appOf(pod))) return undefined;
  const { node: where, state } = podState(pod);
  if (type === 'Deleted') return where === node ? `✓ ${name} is gone from ${node}` : undefined;
  if (state === 'gated') return `◌ ${name} was created for ${where} and is scheduling gated`;
  return state === 'ready' ? `✓ ${name} is ready on ${where}` : undefined;
}

function observe(cluster: Cluster): ApplicationState[] {
  return applications.map((application) => {
    const pods = cluster.pods.list().filter((pod) => appOf(pod) === application.name);
    return {
      name: application.name,
      pods: pods.map(podState),
      messages: messagesOf(application.name, cluster),
    };
  });
}

function podState({ metadata, spec, status }: Readonly<Pod>): PodState {
  const isGated = spec.schedulingGates?.includes(MAINTENANCE_GATE) === true;
  const isReady = status.ready && metadata.deletionTimestamp === undefined;
  return {
    node: spec.nodeName ?? spec.madeForNode ?? '',
    state: isGated ? 'gated' : isReady ? 'ready' : 'not ready',
  };
}

/** Returns the messages of Evacuations whose pods still exist. */
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
