import type { Mutant } from './mutants.ts';

/** A mutant, and whether a test failed with it. A mutant that never ended counts as killed. */
export interface Outcome extends Mutant {
  readonly result: 'Killed' | 'Survived' | 'TimedOut';
}

export interface MutationRun {
  readonly folders: readonly string[];
  readonly seed: number;
  /** All mutants of the folders. */
  readonly mutants: number;
  /** Number of mutants that were tested. */
  readonly sample: number;
  readonly outcomes: readonly Outcome[];
}

/** Formats the scores of the folders, and the mutants that survived, as Markdown. */
export function resultTable({ outcomes, mutants, sample, seed }: MutationRun): string {
  const byFolder = [...Map.groupBy(outcomes, ({ file }) => file.split('/').slice(0, -1).join('/'))];
  const rows = byFolder.map(([folder, own]) => `| \`${folder}\` | ${countsOf(own)} |`);
  const survivors = outcomes
    .filter(({ result }) => result === 'Survived')
    .map(
      ({ file, line, operator, before, after }) =>
        `- ${file}:${line} ${operator}: ${oneLine(before)} -> ${oneLine(after)}`,
    );
  return [
    `${sample} of ${mutants} mutants, seed ${seed}`,
    '',
    '| folder | mutants | killed | survived | score |',
    '|---|---|---|---|---|',
    ...rows,
    `| all | ${countsOf(outcomes)} |`,
    '',
    ...survivors,
  ].join('\n');
}

function countsOf(outcomes: readonly Outcome[]): string {
  const survived = outcomes.filter(({ result }) => result === 'Survived').length;
  const killed = outcomes.length - survived;
  const score = outcomes.length === 0 ? '' : `${Math.round((100 * killed) / outcomes.length)} %`;
  return [outcomes.length, killed, survived, score].join(' | ');
}

const maxLength = 60;

function oneLine(code: string): string {
  const line = code.replaceAll(/\s+/g, ' ');
  return `\`${line.length <= maxLength ? line : `${line.slice(0, maxLength)}…`}\``;
}
