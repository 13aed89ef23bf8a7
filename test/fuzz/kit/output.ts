/** Output that was written while something ran. */
export interface Written<Result> {
  readonly result: Result;
  readonly output: string;
  readonly errors: string;
}

/** Runs something, and returns what it has written to standard output and to standard error instead of writing it. */
export async function withoutOutput<Result>(act: () => Result | Promise<Result>): Promise<Written<Result>> {
  const written = { output: '', errors: '' };
  const restore = [
    replaced(process.stdout, 'write', (text: unknown) => ((written.output += String(text)), true)),
    replaced(process.stderr, 'write', (text: unknown) => ((written.errors += String(text)), true)),
    replaced(console, 'log', (text: unknown) => void (written.output += `${String(text)}\n`)),
    replaced(console, 'error', (text: unknown) => void (written.errors += `${String(text)}\n`)),
  ];
  try {
    const result = await act();
    return { result, ...written };
  } finally {
    for (const undo of restore) undo();
  }
}

function replaced<Owner extends object>(owner: Owner, name: keyof Owner, by: unknown): () => void {
  const before = owner[name];
  Object.assign(owner, { [name]: by });
  return () => void Object.assign(owner, { [name]: before });
}
