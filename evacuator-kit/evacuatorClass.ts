import { oneLine } from '../domain/common/text.ts';
import { isClassName } from '../domain/evacuation/evacuatorSelection.ts';

/** Limit of a class: it is part of the annotation name `priority_<CLASS>`, which has at most 63 characters. */
const maxClassLength = 63 - 'priority_'.length;
const maxShownLength = 80;

/** Throws an Error with a one-line message for a class that cannot be part of an annotation name. */
export function requireClass(evacuatorClass: string): void {
  const problem = problemOf(evacuatorClass);
  if (problem !== undefined) throw new Error(problem);
}

function problemOf(evacuatorClass: string): string | undefined {
  const shown = oneLine(evacuatorClass, maxShownLength);
  if (!isClassName(evacuatorClass))
    return `evacuatorClass "${shown}" is not a DNS subdomain: use lower case letters, digits, "-" and ".", for example migrate.example.com`;
  if (evacuatorClass.length > maxClassLength)
    return `evacuatorClass "${shown}" is too long: use at most ${maxClassLength} characters, because it is part of an annotation name`;
  return undefined;
}
