/** An error that a user can fix: one line that names the cause and the remedy. The command prints it without a stack. */
export class SandboxError extends Error {
  override name = 'SandboxError';
}

/** A server could not listen because another process took its port after the sandbox had chosen it. */
export class PortConflictError extends SandboxError {
  override name = 'PortConflictError';
  readonly port: number;

  constructor(port: number, message: string) {
    super(message);
    this.port = port;
  }
}

/** Returns true for an error of the operating system with the given code, such as ENOENT. */
export function hasCode(error: unknown, code: string): boolean {
  return (error as NodeJS.ErrnoException | undefined)?.code === code;
}

/** Returns the message of a thrown value. */
export function errorMessage(error: unknown): string {
  return (error as Error | undefined)?.message ?? String(error);
}
