use proptest::prelude::*;
use ringtrue_engine::ports::SystemEntropy;
use ringtrue_operators::number_lookup::enum_dns::{EnumQuery, RecordRules, ReplyMatch};

use crate::{
    fake_dns::{NO_ERROR, answer, answer_with, record},
    number,
};

fn query() -> EnumQuery {
    EnumQuery::new(&number(), "e164.arpa", &SystemEntropy::default(), true, true).unwrap()
}

fn assert_no_panic(query: &EnumQuery, message: &[u8]) {
    if let ReplyMatch::Answer(answer) = query.match_reply(message) {
        let _ = RecordRules::default().evaluate(&answer, &number());
    }
}

proptest! {
    #[test]
    fn arbitrary_octets_do_not_panic(octets in proptest::collection::vec(any::<u8>(), 0..600)) {
        let query = query();
        assert_no_panic(&query, &octets);
        // The same behind a header and a question that are right.
        let mut message = answer(query.wire(), NO_ERROR, &[]);
        message[7] = octets.len().to_le_bytes()[0];
        assert_no_panic(&query, &[message, octets.clone()].concat());
        assert_no_panic(&query, &answer_with(query.wire(), NO_ERROR, &[record(35, &octets), record(5, &octets)]));
    }

    #[test]
    fn arbitrary_expressions_do_not_panic(
        expression in "(!|/)[\\^$.*+?()\\[\\]{}|\\\\0-9a-z!/é]{0,40}(!|/)(tel|sip|)[:;=@.\\\\0-9a-zA-Z<>?!]{0,60}(!|/)i?",
        service in "(E2U|e2u)\\+(pstn:tel|SIP)",
    ) {
        let query = query();
        assert_no_panic(&query, &answer(query.wire(), NO_ERROR, &[(1, 1, "u", &service, &expression)]));
    }

    #[test]
    fn modified_reply_does_not_panic(at in 0..200_usize, octet: u8) {
        let query = query();
        let mut message = answer(query.wire(), NO_ERROR, &[crate::fake_dns::TEL, crate::fake_dns::TEL]);
        let at = at % message.len();
        message[at] = octet;
        assert_no_panic(&query, &message);
    }
}
