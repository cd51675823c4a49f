// The simulated handset of the console, without a browser: swaps SIM cards of a sandbox project.
import assert from 'node:assert/strict';
import { HttpBrowser } from '../sign-in.mjs';

/** Times of swaps that the page offers, in hours before now. The page counts three days an hour short. */
export const SWAP_TIMES = { '5h': 5, '3d': 71, '20d': 480, '200d': 4_800 };

export class Handset {
  #browser;
  #path;

  static async signIn(ringtrue, project_id) {
    const handset = new Handset();
    handset.#browser = new HttpBrowser(ringtrue);
    const path = `/console/workspaces/${ringtrue.workspace.workspace_id}/projects/${project_id}/handset`;
    handset.#path = new URL(path, ringtrue.base_url);
    const { status } = await handset.#browser.open(ringtrue.console_link);
    assert.equal(status, 200, 'the link signs in');
    return handset;
  }

  /** Changes the SIM card of a number, at one of `SWAP_TIMES`. */
  async swap(number, when) {
    const { html } = await this.#browser.open(this.#path);
    const [, form_token] = /name="form_token" value="([^"]+)"/.exec(html);
    const response = await this.#browser.submit(`${this.#path.pathname}/swap`, { form_token, number, when });
    assert.equal(response.status, 303);
  }
}
