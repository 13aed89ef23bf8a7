import { isClassName } from '../domain/evacuator.ts';

/** Pods name a class in an annotation, `priority_<CLASS>`, and the name of an annotation has at most 63 characters. */
const longestClass = 63 - 'priority_'.length;

/** Throws an Error of one line for a class that no annotation can name. */
export function requireClass(evacuatorClass: string): void {
  const problem = problemOf(evacuatorClass);
  if (problem !== undefined) throw new Error(problem);
}

function problemOf(evacuatorClass: string): string | undefined {
  if (!isClassName(evacuatorClass))
    return `evacuatorClass "${evacuatorClass}" is no DNS subdomain: use lower case letters, digits, "-" and ".", for example migrate.example.com`;
  if (evacuatorClass.length > longestClass)
    return `evacuatorClass "${evacuatorClass}" has more than ${longestClass} characters: no annotation can name it`;
  return undefined;
}
