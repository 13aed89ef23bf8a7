import { conditionReasons } from '../../api/conditionReasons.ts';
import { eventReasons } from '../../api/eventReasons.ts';
import { waitingReasons } from '../../api/waitingReasons.ts';

/** Returns the text of docs/reference/events-and-conditions.md. */
export function eventsAndConditionsReference(): string {
  return `# Events and conditions

Events expire after an hour by default (\`--event-ttl\` of the apiserver); conditions stay in the status of their object.

## Events

| reason | type | recorded on | meaning |
|---|---|---|---|
${eventRows().join('\n')}

## Conditions

${Object.keys(conditionReasons).map(sectionOf).join('\n\n')}

## Why a window starts no more nodes

An open MaintenanceWindow reports the reason in \`.status.active.waiting\`, with a message.

| reason | meaning |
|---|---|
${waitingRows().join('\n')}
`;
}

function eventRows(): string[] {
  return Object.entries(eventReasons).map(
    ([reason, { type, on, meaning }]) => `| \`${reason}\` | ${type} | ${on.join(', ')} | ${meaning} |`,
  );
}

function waitingRows(): string[] {
  return Object.entries(waitingReasons).map(([reason, meaning]) => `| \`${reason}\` | ${meaning} |`);
}

function sectionOf(kind: string): string {
  const types = Object.entries(conditionReasons[kind as keyof typeof conditionReasons]);
  return `### ${kind}

| condition | reason | status | meaning |
|---|---|---|---|
${types.flatMap(([type, facts]) => conditionRows(type, facts)).join('\n')}`;
}

interface ConditionTypeRows {
  readonly meaning: string;
  readonly reasons: Readonly<
    Record<string, { readonly status: readonly string[]; readonly meaning: string }>
  >;
}

/** Returns a row for the condition type, followed by a row for each of its reasons. */
function conditionRows(type: string, { meaning, reasons }: ConditionTypeRows): string[] {
  return [
    `| **\`${type}\`** | | | ${meaning} |`,
    ...Object.entries(reasons).map(
      ([reason, facts]) => `| | \`${reason}\` | ${facts.status.join(', ')} | ${facts.meaning} |`,
    ),
  ];
}
