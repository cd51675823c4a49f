// Backend of a project, which calls the API while the tests watch the console.
export class Backend {
  #base;
  #access;

  constructor(ringtrue) {
    this.#base = ringtrue.base_url;
    this.#access = ringtrue.project;
  }

  /** Posts with a new token of this scope, and returns the response. Without a body, it reads. */
  async call(scope, path, body) {
    const { client_id, client_secret } = this.#access;
    const granted = await fetch(`${this.#base}/oauth2/token`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa(`${client_id}:${client_secret}`)}` },
      body: new URLSearchParams({ grant_type: 'client_credentials', scope }),
    });
    const { access_token } = await granted.json();
    return fetch(`${this.#base}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${access_token}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  }

  async createReverseSms(body) {
    const response = await this.call('reverse_sms', '/v1/number-verification/reverse-sms-checks', body);
    if (response.status !== 201) throw new Error(`create failed: ${response.status} ${await response.text()}`);
    return response.json();
  }

  /** Sends the SMS of a check. */
  async sendSms(from, { receiver_phone_number: to, expected_sms_body: body }) {
    const response = await this.call('reverse_sms', '/v1/sandbox/inbound-sms', { from, to, body });
    if (!response.ok) throw new Error(`send failed: ${response.status} ${await response.text()}`);
  }
}
