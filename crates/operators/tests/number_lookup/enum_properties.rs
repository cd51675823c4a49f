use proptest::prelude::*;
use ringtrue_engine::ports::SystemEntropy;
use ringtrue_operators::number_lookup::enum_dns::{Query, Reading, Reception};

use crate::{
    dns::{NO_ERROR, answer, answer_with, record},
    number,
};

fn query() -> Query {
    Query::new(&number(), "e164.arpa", &SystemEntropy::default(), true, true).unwrap()
}

fn survives(query: &Query, message: &[u8]) {
    if let Reception::Answer(answer) = query.read(message) {
        let _ = Reading::default().judge(&answer, &number());
    }
}

proptest! {
    #[test]
    fn any_octets_are_survived(octets in proptest::collection::vec(any::<u8>(), 0..600)) {
        let query = query();
        survives(&query, &octets);
        // The same behind a header and a question that are right.
        let mut message = answer(query.wire(), NO_ERROR, &[]);
        message[7] = octets.len().to_le_bytes()[0];
        survives(&query, &[message, octets.clone()].concat());
        survives(&query, &answer_with(query.wire(), NO_ERROR, &[record(35, &octets), record(5, &octets)]));
    }

    #[test]
    fn any_expression_is_survived(
        expression in "(!|/)[\\^$.*+?()\\[\\]{}|\\\\0-9a-z!/é]{0,40}(!|/)(tel|sip|)[:;=@.\\\\0-9a-zA-Z<>?!]{0,60}(!|/)i?",
        service in "(E2U|e2u)\\+(pstn:tel|SIP)",
    ) {
        let query = query();
        survives(&query, &answer(query.wire(), NO_ERROR, &[(1, 1, "u", &service, &expression)]));
    }

    #[test]
    fn a_changed_octet_is_survived(at in 0..200_usize, octet: u8) {
        let query = query();
        let mut message = answer(query.wire(), NO_ERROR, &[crate::dns::TEL, crate::dns::TEL]);
        let at = at % message.len();
        message[at] = octet;
        survives(&query, &message);
    }
}
