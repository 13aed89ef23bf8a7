import { agentSettingSources } from '../../agent/config.ts';
import { codecServerSettingSources } from '../../worker/codecServer/settings.ts';
import { settingSources } from '../../worker/config.ts';
import type { SettingSource } from '../../process/settings.ts';

/** Returns the text of docs/reference/settings.md. */
export function settingsReference(): string {
  return `# Settings of the worker

Each setting is a flag (\`npm start -- --FLAG VALUE\`) or an environment variable; the flag takes precedence. \`npm start -- --help\` prints
the same. Kubernetes is configured by \`KUBECONFIG\` or the ServiceAccount, Temporal as for its CLI
([temporal-config](../../temporal-config/README.md)).

| flag | variable | default | meaning |
|---|---|---|---|
${settingSources.map(row).join('\n')}

## Settings of the codec server

For \`npm run codec-server -- --FLAG VALUE\`, described in [Temporal in production](../how-to/temporal-production.md#codec-server). It needs \`NODE_MAINTENANCE_PAYLOAD_KEYS\`, too.

| flag | variable | default | meaning |
|---|---|---|---|
${codecServerSettingSources.map(row).join('\n')}

## Settings of the node agent

For \`npm run agent -- --FLAG VALUE\`, described in [The node agent](../concepts/node-agent.md).

| flag | variable | default | meaning |
|---|---|---|---|
${agentSettingSources.map(row).join('\n')}
`;
}

function row({ flags = '', variable, choices, defaultText = '', description = '' }: SettingSource): string {
  const values = choices === undefined ? '' : ` (${choices.join(', ')})`;
  const cells = [code(flags), code(variable ?? ''), defaultText, `${description}${values}`];
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

function code(text: string): string {
  return text === '' ? '' : `\`${text}\``;
}
