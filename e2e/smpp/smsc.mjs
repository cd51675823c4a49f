// A third-party SMSC: npm `smpp` as the server. crates/operators/tests/smpp_peer.rs starts it, binds twice, and reads a
// line of JSON for each event.
import smpp from 'smpp';

const print = (what) => console.log(JSON.stringify(what));
const base = { source_addr_ton: 1, source_addr_npi: 1, source_addr: '447700900001', dest_addr_ton: 1, dest_addr_npi: 1, destination_addr: '447700900999' };

const send = (session, fields, operation = 'deliver_sm') =>
  new Promise((resolve) => session[operation]({ ...base, ...fields }, (response) => resolve(response)));

async function deliver(label, session, fields, operation) {
  const response = await send(session, fields, operation);
  print({ answered: label, command: response.command, status: response.command_status });
  return response.command_status;
}

async function codings([session]) {
  await deliver('gsm', session, { data_coding: 0, short_message: 'VERIFY 4F7K2Q @ {[€]} ~ \\ ^ | _$' });
  await deliver('ascii', session, { data_coding: 1, short_message: Buffer.from('ascii @_{}', 'ascii') });
  await deliver('latin1', session, { data_coding: 3, short_message: 'latin1 café £' });
  await deliver('ucs2', session, { data_coding: 8, short_message: 'ucs2 ✓ 😀' });
  await deliver('octets', session, { data_coding: 4, short_message: Buffer.from('octets é', 'utf8') });
  await deliver('class', session, { data_coding: 0xf1, short_message: Buffer.from([0x00, 0x41]) });
  await deliver('payload', session, { data_coding: 0, short_message: '', message_payload: { message: 'payload' } });
  await deliver('data', session, { data_coding: 8, message_payload: { message: 'data ✓' } }, 'data_sm');
  await deliver('receipt', session, { esm_class: 4, short_message: 'id:123 stat:DELIVRD', receipted_message_id: '123', message_state: 2 });
  await deliver('foreign', session, { destination_addr: '447700900998', short_message: 'not for you' });
  await deliver('name', session, { source_addr_ton: 5, source_addr_npi: 0, source_addr: 'Bank', short_message: 'from a name' });
  await deliver('national', session, { source_addr_ton: 2, source_addr: '07700900001', short_message: 'national' });
}

// All parts are sent before the first response.
async function parts([one, other]) {
  const portsFirst = (n) => Buffer.from([0x0b, 0x05, 0x04, 0x0b, 0x84, 0x23, 0xf0, 0x00, 0x03, 0x2a, 0x03, n]);
  await Promise.all([[other, 3, 'THREE'], [one, 1, 'ONE '], [other, 2, 'TWO ']].map(([session, n, message]) =>
    deliver(`narrow ${n}`, session, { esm_class: 0x40, short_message: { udh: portsFirst(n), message } })));
  const wide = (n) => Buffer.from([6, 8, 4, 0x12, 0x34, 2, n]);
  await Promise.all([[one, 2, 'deux ✓'], [other, 1, 'un é ']].map(([session, n, message]) =>
    deliver(`wide ${n}`, session, { esm_class: 0x40, data_coding: 8, short_message: { udh: wide(n), message } })));
  await Promise.all([[one, 2, 'sar b'], [one, 1, 'sar a ']].map(([session, n, short_message]) =>
    deliver(`sar ${n}`, session, { short_message, sar_msg_ref_num: 77, sar_total_segments: 2, sar_segment_seqnum: n })));
}

async function faults([session]) {
  const response = new Promise((resolve) => session.once('deliver_sm_resp', resolve));
  session.socket.write(Buffer.concat([Buffer.from('0000001800000005000000000000ffff', 'hex'), Buffer.from('ABCDEFGH')]));
  const { command, command_status: status, sequence_number: sequence } = await response;
  print({ answered: 'malformed', command, status, sequence });
  const unknown = await new Promise((resolve) => session.send(new smpp.PDU('query_sm', { message_id: 'x' }), resolve));
  print({ answered: 'unknown', command: unknown.command, status: unknown.command_status });
  print({ next: 'the inbox fails' });
  await new Promise((resolve) => process.stdin.once('data', resolve));
  while (await deliver('again', session, { short_message: 'again and again' }) === smpp.ESME_RX_T_APPN);
}

async function burst([session]) {
  const texts = Array.from({ length: 200 }, (_, n) => `burst ${n}`);
  const responses = await Promise.all(texts.map((short_message) => send(session, { short_message })));
  print({ burst: responses.filter((response) => response.command_status === 0).length });
}

const rounds = [
  async (sessions) => {
    await codings(sessions);
    await parts(sessions);
    await faults(sessions);
    await burst(sessions);
    for (const session of sessions) session.socket.destroy();
  },
  async (sessions) => {
    await deliver('rebound', sessions[0], { short_message: 'after the links were lost' });
    await new Promise((resolve) => sessions[1].enquire_link(resolve));
    print({ done: true });
  },
];

let bound = [];
const server = smpp.createServer((session) => {
  session.on('error', () => {});
  session.on('bind_transceiver', (pdu) => {
    const { system_id, interface_version, password } = pdu;
    if (password !== 'secret') {
      session.send(pdu.response({ command_status: smpp.ESME_RINVPASWD }));
      return;
    }
    session.send(pdu.response({ system_id: 'npm', sc_interface_version: 0x34 }));
    print({ bound: system_id, version: interface_version });
    bound.push(session);
    if (bound.length === 2) {
      const sessions = bound;
      bound = [];
      rounds.shift()(sessions).catch((error) => { print({ failed: String(error) }); process.exit(1); });
    }
  });
  session.on('enquire_link', (pdu) => session.send(pdu.response()));
  session.on('unbind', (pdu) => {
    session.send(pdu.response());
    print({ unbound: true });
  });
});
server.listen(0, '127.0.0.1', () => print({ port: server.address().port }));
