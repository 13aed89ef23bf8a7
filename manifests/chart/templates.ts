import { parse, stringify } from 'yaml';
import type { KubeObject } from '../../api/core.ts';

/**
 * Writes manifests as templates of Helm. Marks in the manifests stand for what a template computes; a mark is a text, so that a manifest with
 * marks is still a manifest.
 */

/** An expression of a template, as it stands between the braces. */
export type Expression = string;

/** A scalar that the template computes. */
export function value(expression: Expression): string {
  return `@@value ${expression}@@`;
}

/** A map or list that the template prints as YAML. The field is left out if it is empty. */
export function block(expression: Expression): string {
  return `@@block ${expression}@@`;
}

/** Lines in place of the item of a list, or of a field with its name. `@indent` in them is the number of spaces before each. */
export function lines(...text: readonly string[]): string {
  return `@@lines ${JSON.stringify(text)}@@`;
}

/** Returns the manifests as the text of a template. */
export function templateOf(manifests: readonly KubeObject[]): string {
  return manifests
    .map((manifest) => stringify(manifest, { lineWidth: 0, aliasDuplicateObjects: false }))
    .map((text) => text.split('\n').flatMap(withoutMark).join('\n'))
    .join('---\n');
}

/** Returns a part of a template that is only there if the condition is true. */
export function onlyIf(condition: Expression, text: string): string {
  return `{{- if ${condition} }}\n${text}{{- end }}\n`;
}

function withoutMark(line: string): string[] {
  const [, before = '', scalar] = /^(.*?)((["'])@@.*@@\3)$/.exec(line) ?? [];
  // A manifest may contain the braces of templates itself.
  if (scalar === undefined) return [line.replaceAll('{{', '{{ "{{" }}')];
  const [, kind, text = ''] = /^@@(\w+) (.*)@@$/.exec(parse(scalar) as string) ?? [];
  const indent = before.slice(0, before.length - before.trimStart().length);
  switch (kind) {
    case 'value':
      return [`${before}{{ ${text} }}`];
    case 'block':
      return [
        `${indent}{{- with ${text} }}`,
        before.trimEnd(),
        `${indent}  {{- toYaml . | nindent ${indent.length + 2} }}`,
        `${indent}{{- end }}`,
      ];
    case 'lines':
      return (JSON.parse(text) as string[]).map(
        (part) => `${indent}${part.replaceAll('@indent', String(indent.length))}`,
      );
    default:
      throw new Error(`unknown mark: ${line}`);
  }
}
