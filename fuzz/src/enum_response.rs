//! ENUM responses from the network.

use ringtrue_domain::{phone::Msisdn, tenancy::Mode};
use ringtrue_engine::ports::{entropy::Entropy, lookups::LookupResult};
use ringtrue_operators::number_lookup::enum_dns::{EnumDecision, EnumQuery, RecordRules, ReplyMatch};

use crate::{Target, input_reader::InputReader};

/// `EnumQuery::match_reply` and `RecordRules::evaluate`: no panics, and only replies to the query are accepted.
pub const ENUM_RESPONSE: Target = Target { name: "enum_response", run, seeds, short_run_inputs: 3_000 };

const NUMBER: &str = "+447700900123";
const SUFFIX: &str = "e164.arpa";
const NAPTR: u16 = 35;

/// Deterministic, so that inputs are reproducible.
struct FixedEntropy(u8);

impl Entropy for FixedEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(self.0);
    }
}

fn number() -> Msisdn {
    Msisdn::parse(NUMBER, Mode::Live).unwrap()
}

fn query(seed: u8) -> EnumQuery {
    EnumQuery::new(&number(), SUFFIX, &FixedEntropy(seed), true, false).unwrap()
}

fn rules(is_authoritative: bool) -> RecordRules {
    let network = |id: &str| id.parse().unwrap();
    RecordRules {
        known_networks: ["23410", "26202"].map(network).into_iter().collect(),
        routing_numbers: [("d27*", network("25001"))].into_iter().collect(),
        service_providers: [("41077", network("23410"))].into_iter().collect(),
        not_ported: is_authoritative.then(|| network("23430")),
        is_authoritative,
    }
}

/// The first octet selects the rest: a whole message, the records of one, or an expression.
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
        let head = [&query.as_bytes()[..2], &[flags, code, 0, 1, 0, 1, 0, 0, 0, 0]].concat();
        seeds.push([&[0], &head[..], &query.as_bytes()[12..], &records[0]].concat());
    }
    seeds.push([&[0], &query.as_bytes()[..12]].concat());
    seeds
}

/// NAPTR record of the query's name.
fn record(expression: &[u8]) -> Vec<u8> {
    let expression = &expression[..expression.len().min(255)];
    let mut data = b"\0\x0A\0\x64\x01u\x0CE2U+pstn:tel".to_vec();
    data.push(u8::try_from(expression.len()).unwrap());
    data.extend_from_slice(expression);
    data.push(0);
    let length = u16::try_from(data.len()).unwrap().to_be_bytes();
    [&[0xC0, 12][..], &NAPTR.to_be_bytes(), &[0, 1, 0, 0, 0, 60], &length, &data].concat()
}

fn response(query: &EnumQuery, code: u8, count: u16, records: &[u8]) -> Vec<u8> {
    let head = [&query.as_bytes()[..2], &[0x84, code & 15, 0, 1], &count.to_be_bytes(), &[0; 4]].concat();
    [&head, &query.as_bytes()[12..], records].concat()
}

fn run(data: &[u8]) {
    let mut input = InputReader::new(data);
    match input.octet() % 3 {
        0 => check_whole_message(input.rest()),
        1 => {
            let code = input.octet();
            let records = input.rest();
            let query = query(0);
            check(&query, &response(&query, code, u16::from(code) + 9, records));
        }
        _ => {
            let (query, record) = (query(0), record(input.rest()));
            check(&query, &response(&query, 0, 1, &record));
        }
    }
}

/// A response to one query is not accepted for another.
fn check_whole_message(message: &[u8]) {
    let (one, other) = (query(0), query(1));
    check(&one, message);
    let is_accepted = |query: &EnumQuery| match query.match_reply(message) {
        ReplyMatch::Unrelated => false,
        ReplyMatch::Truncated => true,
        ReplyMatch::Answer(answer) => answer.case_matches,
    };
    assert!(!is_accepted(&one) || !is_accepted(&other), "the id must match the query");
}

fn check(query: &EnumQuery, message: &[u8]) {
    let ReplyMatch::Answer(answer) = query.match_reply(message) else { return };
    assert!(answer.records.len() <= message.len() / 12, "more records than fit into the message");
    for is_authoritative in [false, true] {
        match rules(is_authoritative).evaluate(&answer, &number()) {
            EnumDecision::Final(Ok(LookupResult::NoSubscriber)) => {
                assert!(is_authoritative, "only an authoritative source can report an unassigned number");
            }
            EnumDecision::Final(Ok(LookupResult::Network(_))) => assert!(!answer.records.is_empty()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_resolve_to_networks() {
        let expressions = seeds().into_iter().filter(|seed| seed[0] == 2);
        let networks = expressions.filter(|seed| {
            let query = query(0);
            let ReplyMatch::Answer(answer) = query.match_reply(&response(&query, 0, 1, &record(&seed[1..]))) else {
                return false;
            };
            matches!(rules(false).evaluate(&answer, &number()), EnumDecision::Final(Ok(LookupResult::Network(_))))
        });
        assert_eq!(networks.count(), 5);
    }
}
