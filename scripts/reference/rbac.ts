import { type AccountName, accounts, consequences, type Row, type Section, sections } from './rbacTable.ts';

const names = Object.keys(accounts) as AccountName[];

/** Returns the text of docs/reference/rbac.md. */
export function rbacReference(): string {
  return `# What each role can cause

Each cell was sent as a request of the account, as by \`kubectl --as\`, to an apiserver with the roles and policies of \`deploy/\` and a worker that serves admission
(\`test/e2e/rbac.slow.test.ts\`). The nodes \`node-1\` and \`node-2\` are "theirs": operators and schedulers have the verb \`delete\` for these, and for no other
node. \`team-a\` is the tenant's "own" namespace. "yes" means that the apiserver accepts the request; a number refers to what the request then
causes, below the table.

| account | has |
|---|---|
${names.map((name) => `| ${titleOf(name)} | ${accounts[name].has} |`).join('\n')}

${sections.map(sectionText).join('\n\n')}
`;
}

const titleOf = (name: AccountName) =>
  name === 'temporal' ? `Temporal (\`${accounts[name].user}\`)` : accounts[name].user;

/** Omits the accounts that may do nothing of a section, and names them below it. */
function sectionText({ title, rows }: Section): string {
  const columns = names.filter((name) => rows.some(({ allowed }) => allowed.includes(name)));
  const head = ['', ...columns.map((name) => (name === 'temporal' ? 'Temporal' : accounts[name].user))];
  const notes = rows.flatMap(({ consequence }) => (consequence === undefined ? [] : [consequence]));
  const table = [head, head.map(() => '---'), ...rows.map((row) => cellsOf(row, columns, notes))];
  const nobody = names.filter((name) => !columns.includes(name)).map((name) => accounts[name].user);
  return [
    `## ${title}`,
    '',
    ...table.map((cells) => `| ${cells.join(' | ')} |`),
    '',
    ...(nobody.length === 0 ? [] : [`Nothing of this is allowed to: ${nobody.join(', ')}.`]),
    ...notes.map(
      (consequence, index) => `${index === 0 ? '\n' : ''}${index + 1}. ${consequences[consequence]}`,
    ),
  ].join('\n');
}

function cellsOf(
  { what, allowed, consequence }: Row,
  columns: readonly AccountName[],
  notes: readonly string[],
): string[] {
  const yes = consequence === undefined ? 'yes' : `yes (${notes.indexOf(consequence) + 1})`;
  return [what, ...columns.map((name) => (allowed.includes(name) ? yes : '-'))];
}
