import { escapeForTerminal } from '../output.ts';

export function connectionLostMessage(error: string): string {
  return `Connection to the apiserver lost, retrying: ${escapeForTerminal(error)}`;
}

/** Prints a line when the connection is lost, when the error changes, and when the connection is restored. */
export class ConnectionStatus {
  readonly #print: (text: string) => void;
  #lastError: string | undefined;

  constructor(print: (text: string) => void) {
    this.#print = print;
  }

  /** `error` is undefined while connected. */
  report(error: string | undefined): void {
    if (error === this.#lastError) return;
    this.#lastError = error;
    this.#print(error === undefined ? 'Connection to the apiserver restored.' : connectionLostMessage(error));
  }
}
