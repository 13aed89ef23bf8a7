/** What a person can put right: one line that names the thing and the remedy. The command prints it without a stack. */
export class SandboxError extends Error {
  override name = 'SandboxError';
}

/** True for an error of the operating system with that code, such as ENOENT. */
export function hasCode(error: unknown, code: string): boolean {
  return (error as NodeJS.ErrnoException | undefined)?.code === code;
}

/** The message of anything thrown. */
export function messageOf(error: unknown): string {
  return (error as Error | undefined)?.message ?? String(error);
}
