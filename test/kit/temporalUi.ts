import type { FrameLocator, Locator, Page } from 'playwright-core';
import { workflowIdOf } from '../../api/names.ts';

/** The Temporal UI as a person uses it: by what is to be seen on its pages. */
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

  /** Opens the tab of a run, by the workflow's id, that has its page. */
  async openRun(workflowId: string): Promise<void> {
    await this.page.goto(`${this.#address}/namespaces/default/workflows/${encodeURIComponent(workflowId)}`);
    await this.page.locator('#user-metadata-tab').click();
  }

  openMaintenance(name: string): Promise<void> {
    return this.openRun(workflowIdOf(name));
  }

  /** Current Details: the last of the frames that show Markdown. */
  get details(): FrameLocator {
    return this.page.frameLocator('iframe[title="output"] >> nth=-1');
  }

  /** Has the page made anew, and resolves when it says this. */
  async saysEventually(text: string): Promise<void> {
    await this.#refreshedUntil(this.details.getByText(text).first());
  }

  /** As the page says: "Press the R for freshness". */
  async #refreshedUntil(seen: Locator): Promise<void> {
    const until = Date.now() + seenWithin;
    while (!(await seen.isVisible()) && Date.now() < until) {
      await this.page.keyboard.press('r');
      await seen.waitFor({ timeout: freshWithin }).catch(() => undefined);
    }
    await seen.waitFor({ timeout: freshWithin });
  }

  /** Opens a link to the form that starts a workflow, and resolves when the form is as the link has it. */
  async openForm(link: string): Promise<void> {
    // What an earlier run of the same id was started with: its answer replaces what was typed before it came.
    const earlier = this.page.waitForResponse((answer) => answer.url().includes('/workflows?query='));
    await this.page.goto(link);
    await (await earlier).finished();
    await this.page.getByText('Task Queue is Active').waitFor();
  }

  /** Types the input into that form; `start` is what its button does. */
  async input(json: string): Promise<{ start: () => Promise<void> }> {
    await typeJson(this.page.locator('body'), json);
    return { start: () => this.page.getByTestId('start-workflow-button').click() };
  }

  /** Opens the dialog, chooses, and types; `send` is what its button does. */
  async signal(name: string, input?: string): Promise<{ dialog: Locator; send: () => Promise<void> }> {
    await this.page.getByRole('button', { name: 'More Actions' }).click();
    await this.page.getByTestId('signal-button').filter({ visible: true }).first().click();
    const dialog = this.page.getByTestId('signal-confirmation-modal').filter({ visible: true }).first();
    await dialog.getByTestId('signal-select-button').click();
    await dialog.getByRole('option', { name: new RegExp(`^\\s*${name}\\b`) }).click();
    if (input !== undefined) await typeJson(dialog, input);
    return { dialog, send: () => dialog.getByTestId('confirm-modal-button').click() };
  }
}

async function typeJson(where: Locator, json: string): Promise<void> {
  const editor = where.locator('.cm-content');
  await editor.fill(json);
  // Laid out anew when it is left: a button that moves below the pointer would not be pressed.
  await editor.blur();
}

/** Milliseconds. */
const seenWithin = 60_000;
const freshWithin = 2_000;
