import { shown } from './output.ts';

export function contactLost(because: string): string {
  return `Contact was lost, trying again: ${shown(because)}`;
}

/** Says, where lines stay, that nothing new is seen: when that begins, when the reason changes, and when it is over. */
export class ContactLines {
  readonly #say: (text: string) => void;
  #because: string | undefined;

  constructor(say: (text: string) => void) {
    this.#say = say;
  }

  /** `because` is undefined while there is contact. */
  tell(because: string | undefined): void {
    if (because === this.#because) return;
    this.#because = because;
    this.#say(because === undefined ? 'Contact is back.' : contactLost(because));
  }
}
