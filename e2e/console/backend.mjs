// A project's backend: it speaks to the API, while somebody looks on at the console.
export class Backend {
  #base;
  #access;

  constructor(ringtrue) {
    this.#base = ringtrue.base_url;
    this.#access = ringtrue.project;
  }

  /** The answer to a call, with a new token of this scope. */
  async call(scope, path, body) {
    const { client_id, client_secret } = this.#access;
    const granted = await fetch(`${this.#base}/oauth2/token`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa(`${client_id}:${client_secret}`)}` },
      body: new URLSearchParams({ grant_type: 'client_credentials', scope }),
    });
    const { access_token } = await granted.json();
    return fetch(`${this.#base}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${access_token}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  }

  async createReverseSms(body) {
    const answer = await this.call('reverse_sms', '/v1/number-verification/reverse-sms-checks', body);
    if (answer.status !== 201) throw new Error(`no check: ${answer.status} ${await answer.text()}`);
    return answer.json();
  }

  /** Does what the user of a check was asked to do. */
  async text(from, { receiver_phone_number: to, expected_sms_body: body }) {
    const answer = await this.call('reverse_sms', '/v1/sandbox/inbound-sms', { from, to, body });
    if (!answer.ok) throw new Error(`not sent: ${answer.status} ${await answer.text()}`);
  }
}
