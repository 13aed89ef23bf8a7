import type { Cluster } from '../../kube/cluster.ts';
import { drawBoard, statusLine } from './board.ts';
import { observeProgress, type Progress } from './progress.ts';
import type { Recording } from '../recording.ts';
import { type Note, notes } from '../narration.ts';
import type { Screen } from '../../cli/screen.ts';

export interface View {
  /** The time is that since the maintenance was declared. */
  note: Note;
  /** What the block says of the worker. */
  worker(text: string): void;
  stop(): void;
}

/** What a view looks at. */
export interface Subject {
  cluster: Cluster;
  recording: Recording;
  /** Of the workflow in Temporal's UI. */
  link: string;
}

/** Milliseconds between two drawings of the block, so that its clock runs. */
const drawEvery = 200;

/**
 * Shows the maintenance until it is stopped: a line that stays for every milestone and every new reason to wait; beside
 * that, in a terminal, a block that is drawn anew, and in a pipe a line for every change of the published status.
 */
export function showMaintenance(screen: Screen, { cluster, recording, link }: Subject): View {
  const { note, seconds } = notes(screen);
  const news = newsOf(screen.isLive);
  let worker = '';
  let isOver = false;
  const look = () => {
    const progress = observeProgress(cluster, recording);
    for (const { text, isGood } of news(progress)) note(text, isGood ? screen.colors.green : undefined);
    return progress;
  };
  const draw = () =>
    screen.draw(
      drawBoard({ progress: look(), seconds: seconds(), worker, link }, screen.colors, screen.width()),
    );
  const unsubscribe = [cluster.maintenances, cluster.evacuations, cluster.pods].map((informer) =>
    informer.subscribe(look),
  );
  const timer = screen.isLive ? setInterval(draw, drawEvery) : undefined;
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
      look();
      screen.clear();
    },
  };
}

/** Keeps what was said already, and returns what is new in a progress. */
function newsOf(isLive: boolean): (progress: Progress) => Fact[] {
  const known = new Set<string>();
  return (progress) => {
    const counts = isLive ? [] : published(progress);
    const facts = [...begun(progress), ...counts, ...waiting(progress), ...done(progress)];
    const fresh = facts.filter(({ key }) => !known.has(key));
    for (const { key } of fresh) known.add(key);
    return fresh;
  };
}

/** Something to say once: `key` tells it from what was said before. */
interface Fact {
  key: string;
  text: string;
  isGood?: boolean;
}

function begun({ tier: underWay = 0, tiers }: Progress): Fact[] {
  return tiers.slice(0, underWay).map(({ title, total }, index) => ({
    key: `begun ${index}`,
    text: `Tier ${index + 1} of ${tiers.length}: ${title}, ${total} pods`,
  }));
}

function done({ tiers }: Progress): Fact[] {
  return tiers.flatMap(({ gone, total }, index) =>
    gone < total
      ? []
      : [
          {
            key: `done ${index}`,
            text: `✓ Tier ${index + 1} of ${tiers.length}: all ${total} pods have left`,
            isGood: true,
          },
        ],
  );
}

function waiting({ blocked }: Progress): Fact[] {
  return blocked.map(({ app, message }) => ({ key: `blocked ${app}`, text: `${app} waits. ${message}` }));
}

/** The published counts alone make a line new: pods go one by one between two writes of the status. */
function published(progress: Progress): Fact[] {
  const counts = progress.nodes.map((node) => [node.podsEvacuating, node.podsPendingEvacuation]);
  if (progress.tier === undefined || counts.flat().every((count) => count === 0)) return [];
  return [{ key: JSON.stringify([progress.tier, counts]), text: statusLine(progress) }];
}
