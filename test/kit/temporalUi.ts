import type { FrameLocator, Locator, Page, Request } from 'playwright-core';
import { workflowIdOf } from './temporalNames.ts';

/** The Temporal UI as a user sees it. */
export class Ui {
  readonly page: Page;
  readonly #address: string;

  /** `address` without a slash at its end. */
  constructor(page: Page, address: string) {
    this.page = page;
    this.#address = address;
  }

  /** Opens the list of workflows, with a search. */
  async search(query: string): Promise<void> {
    await this.page.goto(`${this.#address}/namespaces/default/workflows?query=${encodeURIComponent(query)}`);
  }

  /** Opens the tab with the current details of a run, by its workflow id. */
  async openRun(workflowId: string): Promise<void> {
    await this.page.goto(`${this.#address}/namespaces/default/workflows/${encodeURIComponent(workflowId)}`);
    await this.page.locator('#user-metadata-tab').click();
  }

  openMaintenance(name: string): Promise<void> {
    return this.openRun(workflowIdOf(name));
  }

  /** The current details: the last of the frames that show Markdown. */
  get details(): FrameLocator {
    return this.page.frameLocator('iframe[title="output"] >> nth=-1');
  }

  /** Refreshes the current details until they contain the text. */
  async eventuallyShows(text: string): Promise<void> {
    await this.#refreshUntilVisible(this.details.getByText(text).first());
  }

  /** Presses R, as the page suggests: "Press the R for freshness". */
  async #refreshUntilVisible(text: Locator): Promise<void> {
    const deadline = Date.now() + visibleWithinMs;
    while (!(await text.isVisible()) && Date.now() < deadline) {
      await this.page.keyboard.press('r');
      await text.waitFor({ timeout: refreshMs }).catch(() => undefined);
    }
    await text.waitFor({ timeout: refreshMs });
  }

  /** Opens a link to the form that starts a workflow, and waits until the form is filled in. */
  async openForm(link: string): Promise<void> {
    // The input of an earlier run with the same id replaces anything typed before it has loaded.
    const earlier = this.page.waitForResponse((answer) => answer.url().includes('/workflows?query='));
    await this.page.goto(link);
    await (await earlier).finished();
    await this.page.getByText('Task Queue is Active').waitFor();
  }

  /** Types the input into that form; `start` presses its button. */
  async input(json: string): Promise<{ start: () => Promise<void> }> {
    await typeJson(this.page.locator('body'), json);
    return { start: () => this.page.getByTestId('start-workflow-button').click() };
  }

  /** Opens the dialog, chooses the signal and types its input; `send` presses the button, and rejects unless Temporal accepts the signal. */
  async signal(name: string, input?: string): Promise<{ dialog: Locator; send: () => Promise<void> }> {
    await this.page.getByRole('button', { name: 'More Actions' }).click();
    await this.page.getByTestId('signal-button').filter({ visible: true }).first().click();
    const dialog = this.page.getByTestId('signal-confirmation-modal').filter({ visible: true }).first();
    await dialog.getByTestId('signal-select-button').click();
    await dialog.getByRole('option', { name: new RegExp(`^\\s*${name}\\b`) }).click();
    if (input !== undefined) await typeJson(dialog, input);
    const send = async () => {
      const answered = this.page.waitForResponse((answer) => isSignal(answer.request(), name));
      await dialog.getByTestId('confirm-modal-button').click();
      const answer = await answered;
      if (!answer.ok()) throw new Error(`Signal ${name}: ${answer.status()} ${await answer.text()}`);
    };
    return { dialog, send };
  }
}

function isSignal(request: Request, name: string): boolean {
  return request.method() === 'POST' && new URL(request.url()).pathname.endsWith(`/signal/${name}`);
}

async function typeJson(where: Locator, json: string): Promise<void> {
  const editor = where.locator('.cm-content');
  await editor.fill(json);
  // Leaving the editor changes the layout; a button must not move while it is pressed.
  await editor.blur();
}

const visibleWithinMs = 180_000;
const refreshMs = 2_000;
