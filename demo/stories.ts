import { tellStory as drain } from './drain/story.ts';
import { tellStory as evacuators } from './evacuators/story.ts';
import { tellStory as overlap } from './overlap/story.ts';
import type { SettingOptions } from './setting.ts';
import type { Section } from './table.ts';

export interface Story {
  /** What happens in it, in a line. */
  about: string;
  /** Plays it from an empty directory to the end. Returns what was proved. */
  tell(options: SettingOptions): Promise<Section[]>;
}

export const storyNames = ['drain', 'overlap', 'evacuators'] as const;
export type StoryName = (typeof storyNames)[number];

export const stories: Readonly<Record<StoryName, Story>> = {
  drain: {
    about: 'two nodes are drained, the worker is killed on the way, the nodes are given back',
    tell: drain,
  },
  overlap: {
    about:
      'three maintenances share a node, as KEP-4212 tells it: each of its snapshots is reached and compared',
    tell: overlap,
  },
  evacuators: {
    about:
      'one replica without downtime, a data migration with progress, a budget that blocks, a DaemonSet that stays away',
    tell: evacuators,
  },
};
