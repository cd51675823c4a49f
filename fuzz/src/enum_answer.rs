//! What a name server, or whoever claims to be one, sends about a number.

use ringtrue_domain::{phone::Msisdn, tenancy::Mode};
use ringtrue_engine::ports::{Entropy, Resolved};
use ringtrue_operators::number_lookup::enum_dns::{Judgement, Query, Reading, Reception};

use crate::{Target, tape::Tape};

/// `Query::read` and `Reading::judge`: nothing breaks, and nothing is believed that does not answer the question.
pub const ENUM_ANSWER: Target = Target { name: "enum_answer", run, seeds, short_run: 3_000 };

const NUMBER: &str = "+447700900123";
const SUFFIX: &str = "e164.arpa";
const NAPTR: u16 = 35;

/// The same in each run: an input means the same each time.
struct Dice(u8);

impl Entropy for Dice {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(self.0);
    }
}

fn number() -> Msisdn {
    Msisdn::parse(NUMBER, Mode::Live).unwrap()
}

fn query(dice: u8) -> Query {
    Query::new(&number(), SUFFIX, &Dice(dice), true, false).unwrap()
}

fn reading(is_authoritative: bool) -> Reading {
    let network = |id: &str| id.parse().unwrap();
    Reading {
        known: ["23410", "26202"].map(network).into_iter().collect(),
        routing_numbers: [("d27*", network("25001"))].into_iter().collect(),
        service_providers: [("41077", network("23410"))].into_iter().collect(),
        not_ported: is_authoritative.then(|| network("23430")),
        is_authoritative,
    }
}

/// First whether the rest is a whole message, the records of one, or an expression.
fn seeds() -> Vec<Vec<u8>> {
    let expressions = [
        r"!^(.*)$!tel:\1;mcc=234;mnc=10!",
        r"!^(.*)$!tel:\\1\;mcc=262\;mnc=002!",
        r"/^\+44(7.*)$/<TEL:+44\1;npdi;rn=d2701;rn-context=+7>/i",
        r"!^.*$!sip:+49@ims.mnc002.mcc262.3gppnetwork.org:5060;cost=0.1?a=b!",
        r"!^.*$!sip:+44@unknown;err=1!",
        r"!^(.*)$!tel:\1;npdi;spn=41077;q_stat=001!",
        r"!^(.*)$!tel:\1;q_stat=102!",
        r"!^.*$!tel:+44;npdi!",
        r"!^.*$!sip:+44@x;gsm_error_code=1!",
    ];
    let mut seeds: Vec<Vec<u8>> = expressions.iter().map(|text| [&[2], text.as_bytes()].concat()).collect();
    let records: Vec<Vec<u8>> = expressions.iter().map(|text| record(text.as_bytes())).collect();
    seeds.push([&[1, 0][..], &records.concat()].concat());
    let alias = b"\xC0\x0C\0\x05\0\x01\0\0\0\x3C\0\x0C\x05other\x04arpa\0";
    seeds.push([&[1, 3], &alias[..], b"\x05OTHER\x04arpa\0", &records[0][2..]].concat());
    let query = query(0);
    for (flags, code) in [(0x84, 0), (0x84, 3), (0x84, 5), (0x86, 0), (0x80, 1), (0x00, 0)] {
        let head = [&query.wire()[..2], &[flags, code, 0, 1, 0, 1, 0, 0, 0, 0]].concat();
        seeds.push([&[0], &head[..], &query.wire()[12..], &records[0]].concat());
    }
    seeds.push([&[0], &query.wire()[..12]].concat());
    seeds
}

/// Of the name in the question.
fn record(expression: &[u8]) -> Vec<u8> {
    let expression = &expression[..expression.len().min(255)];
    let mut data = b"\0\x0A\0\x64\x01u\x0CE2U+pstn:tel".to_vec();
    data.push(u8::try_from(expression.len()).unwrap());
    data.extend_from_slice(expression);
    data.push(0);
    let length = u16::try_from(data.len()).unwrap().to_be_bytes();
    [&[0xC0, 12][..], &NAPTR.to_be_bytes(), &[0, 1, 0, 0, 0, 60], &length, &data].concat()
}

fn answer(query: &Query, code: u8, count: u16, records: &[u8]) -> Vec<u8> {
    let head = [&query.wire()[..2], &[0x84, code & 15, 0, 1], &count.to_be_bytes(), &[0; 4]].concat();
    [&head, &query.wire()[12..], records].concat()
}

fn run(data: &[u8]) {
    let mut tape = Tape::new(data);
    match tape.octet() % 3 {
        0 => whole_message(tape.rest()),
        1 => {
            let code = tape.octet();
            let records = tape.rest();
            let query = query(0);
            judged(&query, &answer(&query, code, u16::from(code) + 9, records));
        }
        _ => {
            let (query, record) = (query(0), record(tape.rest()));
            judged(&query, &answer(&query, 0, 1, &record));
        }
    }
}

/// What is an answer to one question is no answer to another.
fn whole_message(message: &[u8]) {
    let (one, other) = (query(0), query(1));
    judged(&one, message);
    let is_answer = |query: &Query| match query.read(message) {
        Reception::NotOurs => false,
        Reception::Cut => true,
        Reception::Answer(answer) => answer.keeps_case,
    };
    assert!(!is_answer(&one) || !is_answer(&other), "the id is part of the question");
}

fn judged(query: &Query, message: &[u8]) {
    let Reception::Answer(answer) = query.read(message) else { return };
    assert!(answer.records.len() <= message.len() / 12, "a record takes some room");
    for is_authoritative in [false, true] {
        match reading(is_authoritative).judge(&answer, &number()) {
            Judgement::Final(Ok(Resolved::NoSubscriber)) => assert!(is_authoritative, "nobody else can be sure"),
            Judgement::Final(Ok(Resolved::Network(_))) => assert!(!answer.records.is_empty()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_lead_to_networks() {
        let expressions = seeds().into_iter().filter(|seed| seed[0] == 2);
        let networks = expressions.filter(|seed| {
            let query = query(0);
            let Reception::Answer(told) = query.read(&answer(&query, 0, 1, &record(&seed[1..]))) else { return false };
            matches!(reading(false).judge(&told, &number()), Judgement::Final(Ok(Resolved::Network(_))))
        });
        assert_eq!(networks.count(), 5);
    }
}
