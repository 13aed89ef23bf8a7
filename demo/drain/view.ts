import type { Cluster } from '../../kube/cluster.ts';
import { drawDashboard, statusLine } from './dashboard.ts';
import { observeProgress, type Progress } from './progress.ts';
import type { Recording } from '../recording.ts';
import { type Note, notes } from '../steps.ts';
import type { Screen } from '../../cli/terminal/screen.ts';
import { tierCount } from './workloads.ts';

export interface View {
  /** Prints a line with the time since the maintenance was created. */
  note: Note;
  /** Sets the state of the worker in the dashboard. */
  worker(text: string): void;
  stop(): void;
}

/** The data source of a view. */
export interface Subject {
  cluster: Cluster;
  recording: Recording;
  /** URL of the workflow in the Temporal UI. */
  link: string;
}

/** Time between two drawings of the dashboard, so that its clock runs. */
const redrawIntervalMs = 200;

/**
 * Shows the maintenance until it is stopped. Prints a line for every milestone and every new reason to wait. In a terminal it also
 * redraws a dashboard; in a pipe it prints a line for every change of the status.
 */
export function showMaintenance(screen: Screen, { cluster, recording, link }: Subject): View {
  const { note, seconds } = notes(screen);
  const newFacts = newFactsOf(screen.isLive);
  let worker = '';
  let isOver = false;
  const update = () => {
    const progress = observeProgress(cluster, recording);
    for (const { text, isGood } of newFacts(progress)) note(text, isGood ? screen.colors.green : undefined);
    return progress;
  };
  const draw = () =>
    screen.draw(
      drawDashboard({ progress: update(), seconds: seconds(), worker, link }, screen.colors, screen.width()),
    );
  const unsubscribe = [cluster.maintenances, cluster.evacuations, cluster.pods].map((informer) =>
    informer.subscribe(update),
  );
  const timer = screen.isLive ? setInterval(draw, redrawIntervalMs) : undefined;
  return {
    note,
    worker: (text) => {
      worker = text;
    },
    stop: () => {
      if (isOver) return;
      isOver = true;
      clearInterval(timer);
      for (const end of unsubscribe) end();
      update();
      screen.clear();
    },
  };
}

/** Creates a function that returns the facts of a progress that were not printed before. */
function newFactsOf(isLive: boolean): (progress: Progress) => Fact[] {
  const known = new Set<string>();
  return (progress) => {
    const counts = isLive ? [] : published(progress);
    const facts = [...startedTiers(progress), ...counts, ...waiting(progress), ...completedTiers(progress)];
    const fresh = facts.filter(({ key }) => !known.has(key));
    for (const { key } of fresh) known.add(key);
    return fresh;
  };
}

/** A fact that is printed once per `key`. */
interface Fact {
  key: string;
  text: string;
  isGood?: boolean;
}

function startedTiers({ tier: inProgress = 0, tiers }: Progress): Fact[] {
  return tiers.slice(0, inProgress).map(({ title, total }, index) => ({
    key: `started ${index}`,
    text: `Tier ${index + 1} of ${tierCount}: ${title}, ${total} pods`,
  }));
}

function completedTiers({ tiers }: Progress): Fact[] {
  return tiers.flatMap(({ gone, total }, index) =>
    gone < total
      ? []
      : [
          {
            key: `done ${index}`,
            text: `✓ Tier ${index + 1} of ${tierCount}: all ${total} pods are evacuated`,
            isGood: true,
          },
        ],
  );
}

function waiting({ blocked }: Progress): Fact[] {
  return blocked.map(({ app, message }) => ({ key: `blocked ${app}`, text: `${app} waits: ${message}` }));
}

/** Returns a line for each change of the counts in the status, which are written less often than pods change. */
function published(progress: Progress): Fact[] {
  const counts = progress.nodes.map((node) => [node.podsEvacuating, node.podsPendingEvacuation]);
  if (progress.tier === undefined || counts.flat().every((count) => count === 0)) return [];
  return [{ key: JSON.stringify([progress.tier, counts]), text: statusLine(progress) }];
}
