use proptest::prelude::*;
use ringtrue_engine::ports::{
    entropy::SystemEntropy,
    lookups::{LookupError, LookupResult},
};
use ringtrue_operators::number_lookup::enum_dns::{EnumDecision, EnumQuery, RecordRules, ReplyMatch};

use crate::{
    LookupOutcome,
    fake_dns::{
        FORMAT_ERROR, NO_ERROR, NO_SUCH_NAME, NOT_IMPLEMENTED, Naptr, REFUSED, SERVER_FAILURE, TEL, answer,
        answer_with, naptr, record,
    },
    known, network, number,
};

const NO_DATA: LookupOutcome = Ok(LookupResult::NoData);
const OTHER_NETWORK: LookupOutcome = Ok(LookupResult::OtherNetwork);

fn rules() -> RecordRules {
    let table = |entries: &[(&str, &str)]| entries.iter().map(|(code, id)| (*code, id.parse().unwrap())).collect();
    RecordRules {
        known_networks: known(),
        routing_numbers: table(&[("+12155550199", "310260"), ("D27*", "25001")]),
        service_providers: table(&[("41077", "23410")]),
        ..RecordRules::default()
    }
}

fn evaluate_message(rules: &RecordRules, message: impl FnOnce(&[u8]) -> Vec<u8>) -> EnumDecision {
    let query = EnumQuery::new(&number(), "e164.arpa", &SystemEntropy::default(), true, true).unwrap();
    match query.match_reply(&message(query.as_bytes())) {
        ReplyMatch::Answer(answer) => rules.evaluate(&answer, &number()),
        other => panic!("{other:?}"),
    }
}

fn evaluate(rules: &RecordRules, code: u8, records: &[Naptr<'_>]) -> EnumDecision {
    evaluate_message(rules, |query| answer(query, code, records))
}

fn respond_with(rules: &RecordRules, service: &str, expression: &str) -> LookupOutcome {
    match evaluate(rules, NO_ERROR, &[(10, 100, "u", service, expression)]) {
        EnumDecision::Final(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

#[test]
fn provider_record_formats_are_parsed() {
    let rules = rules();
    let (tel, sip) = ("E2U+pstn:tel", "E2U+SIP");
    for (service, expression, outcome) in [
        // MCC and MNC as parameters of the URI, with every spelling of backslashes and semicolons.
        (tel, r"!^(.*)$!tel:\1;mcc=310;mnc=012!", network("310012")),
        (tel, r"!^(.*)$!tel:\\1\;mcc=310\;mnc=012!", network("310012")),
        (tel, r"!^(.*)$!tel:\\\\1\\;MCC=310\\;MNC=012!", network("310012")),
        ("e2u+PSTN:tel", r"/^\+44(.*)$/tel:+44\1;mcc=234;mnc=010/", network("23410")),
        (tel, r"!^.*$!tel:+447700900123;mccmnc=23410!", network("23410")),
        (tel, r"!^.*$!tel:+447700900123;mcc=234;mnc=99!", network("23499")),
        ("E2U+PSTN:TEL", r"!^.*$!<TEL:+447700900123;mcc=234;mnc=10>!", network("23410")),
        ("E2U+PSTN:TEL", r"!^.*$!<TEL:+447700900123>;mcc=234;mnc=10!", network("23410")),
        ("E2U+PSTN:TEL", r"!^.*$!<TEL:+447700900123>!", NO_DATA),
        // Network in the host name.
        (sip, r"!^.*$!sip:+491725551234@ims.mnc002.mcc262.3gppnetwork.org;cost=0.0006;ported=0!", network("26202")),
        (sip, r"!^.*$!sip:+491725551234@ims.mnc02.mcc262.3gppnetwork.org;omnc=01;ported=1!", network("26202")),
        (sip, r"!^.*$!sip:+491725551234@ims.mnc007.mcc262.3gppnetwork.org!", network("262007")),
        (
            "e2u+sip",
            r"!^.*$!SIP:+44@ims.mnc010.mcc234.3gppnetwork.org;gsm_error_code=0;imsi=234100000000000;omnc=15;ported=1!",
            network("23410"),
        ),
        (sip, r"!^.*$!sip:+44@ims.mnc010.mcc234.3gppnetwork.org;gsm_error_code=27!", network("23410")),
        (sip, r"!^.*$!sip:+44@ims.mnc010.mcc234.3gppnetwork.org;gsm_error_code=1!", NO_DATA),
        (sip, r"!^.*$!sip:+447701023231@unknown;err=1!", Err(LookupError::Refused)),
        (sip, r"!^.*$!sip:+44@ims.mnc010.mcc234.3gppnetwork.org;err=0!", network("23410")),
        (sip, r"!^.*$!sip:+447701023231@sbc.example.com!", NO_DATA),
        // Operator codes, which a table maps to networks.
        (tel, r"!^.*$!tel:+1-215-555-0123;npdi;rn=+1-215-555-0199!", network("310260")),
        (
            "E2U+pstn:sip",
            r"!^.*$!sip:+1-215-555-0123;npdi;rn=+1-215-555-0199@gw.example.com;user=phone!",
            network("310260"),
        ),
        (tel, r"!^.*$!tel:+73422461703;npdi;rn=d2701;rn-context=+7!", network("25001")),
        (tel, r"!^.*$!tel:+73422461703;npdi;rn=d9901;rn-context=+7!", OTHER_NETWORK),
        (tel, r"!^(.*)$!tel:\1;npdi;spn=41077;q_stat=001!", network("23410")),
        (tel, r"!^(.*)$!tel:\1;npdi;spn=41078;q_stat=001!", OTHER_NETWORK),
        (tel, r"!^(.*)$!tel:\1;q_stat=102!", NO_DATA),
        (tel, r"!^(.*)$!tel:\1;spn=41077;q_stat=102!", NO_DATA),
        (tel, r"!^.*$!tel:+1-215-555-0123;npdi!", NO_DATA),
        (tel, r"!^.*$!tel:+1-215-555-0123;npdi;rn=!", NO_DATA),
        (tel, r"!^.*$!tel:+44;rn=d9901;spn=41077!", network("23410")),
        // A record with invalid codes is usable only for its other codes.
        (tel, r"!^.*$!tel:+44;mcc=;mnc=10;rn=d2701!", network("25001")),
        (tel, r"!^.*$!tel:+44;mcc=234;mnc=9;rn=d2701!", network("25001")),
        (tel, r"!^.*$!tel:+44;mcc=999;mnc=9!", Err(LookupError::InvalidResponse)),
        (tel, r"!^.*$!tel:+44;mcc=999;mnc=9;npdi!", Err(LookupError::InvalidResponse)),
        (tel, r"!^.*$!tel:+44;mcc=262;mnc=2!", Err(LookupError::InvalidResponse)),
        (tel, r"!^.*$!tel:+44;mcc=262;mnc=!", Err(LookupError::InvalidResponse)),
        (tel, r"!^.*$!tel:+44;mcc=262;mnc=0002!", Err(LookupError::InvalidResponse)),
        (tel, r"!^.*$!tel:+44;mcc=23;mnc=410!", Err(LookupError::InvalidResponse)),
        (tel, r"!^.*$!tel:+44;mcc=2341;mnc=10!", Err(LookupError::InvalidResponse)),
        (tel, r"!^.*$!tel:+44;mcc=23x;mnc=10!", Err(LookupError::InvalidResponse)),
        (tel, r"!^.*$!tel:+44;mccmnc=9999!", Err(LookupError::InvalidResponse)),
        (sip, r"!^.*$!sip:+44@ims.mnc9.mcc999.3gppnetwork.org!", Err(LookupError::InvalidResponse)),
        // Empty or zero codes name no network.
        (tel, r"!^.*$!tel:+44;mcc=;mnc=!", NO_DATA),
        (tel, r"!^.*$!tel:+44;mcc=000;mnc=00!", NO_DATA),
        // Records of another service or for another number, and malformed records.
        ("E2U+email:mailto", r"!^.*$!mailto:a@example.com!", NO_DATA),
        ("E2U+web:http", r"!^.*$!http://example.com/;mcc=234;mnc=10!", NO_DATA),
        (tel, r"!^\+49(.*)$!tel:\1;mcc=234;mnc=10!", NO_DATA),
        (tel, "!^.*$!tel:+44;mcc=234;mnc=10", Err(LookupError::InvalidResponse)),
        (tel, "!^(.*$!tel:+44;mcc=234;mnc=10!", Err(LookupError::InvalidResponse)),
        (tel, "!^.*$!mailto:a@example.com!", Err(LookupError::InvalidResponse)),
        (tel, "", Err(LookupError::InvalidResponse)),
    ] {
        assert_eq!(respond_with(&rules, service, expression), outcome, "{expression}");
    }
}

#[test]
fn missing_data_follows_the_configuration() {
    let not_ported = RecordRules { not_ported: "23430".parse().ok(), ..rules() };
    assert_eq!(respond_with(&not_ported, "E2U+pstn:tel", "!^.*$!tel:+44;npdi!"), network("23430"));
    assert_eq!(respond_with(&not_ported, "E2U+pstn:tel", "!^.*$!tel:+44;npdi;rn=unheard!"), OTHER_NETWORK);
    assert_eq!(respond_with(&not_ported, "E2U+pstn:tel", "!^.*$!tel:+44!"), NO_DATA);

    let authority = RecordRules { is_authoritative: true, ..rules() };
    let no_subscriber = EnumDecision::Final(Ok(LookupResult::NoSubscriber));
    assert_eq!(evaluate(&authority, NO_SUCH_NAME, &[]), no_subscriber);
    let unknown = r"!^.*$!sip:+44@unknown;gsm_error_code=1!";
    assert_eq!(respond_with(&authority, "E2U+SIP", unknown), Ok(LookupResult::NoSubscriber));
    // NOERROR without records means that the name exists, so the number may have a subscriber.
    assert_eq!(evaluate(&authority, NO_ERROR, &[]), EnumDecision::Final(NO_DATA));
}

#[test]
fn response_codes_are_evaluated() {
    let err = (0, 0, "u", "E2U+SIP", "!^.*$!sip:+44@unknown;err=1!");
    for (code, records, decision) in [
        (NO_ERROR, &[][..], EnumDecision::Final(NO_DATA)),
        (NO_SUCH_NAME, &[], EnumDecision::Final(NO_DATA)),
        (REFUSED, &[err], EnumDecision::Final(Err(LookupError::Refused))),
        (REFUSED, &[TEL], EnumDecision::Final(Err(LookupError::Refused))),
        (REFUSED, &[], EnumDecision::TryNextServer(LookupError::Refused)),
        (SERVER_FAILURE, &[], EnumDecision::TryNextServer(LookupError::Refused)),
        (SERVER_FAILURE, &[TEL], EnumDecision::TryNextServer(LookupError::Refused)),
        (FORMAT_ERROR, &[], EnumDecision::RetryWithoutEdns),
        (NOT_IMPLEMENTED, &[], EnumDecision::RetryWithoutEdns),
        (9, &[], EnumDecision::TryNextServer(LookupError::Refused)),
    ] {
        assert_eq!(evaluate(&rules(), code, records), decision, "{code}");
    }
}

#[test]
fn first_record_with_a_network_wins() {
    let of = |order, preference, flags, mnc| {
        (order, preference, flags, "E2U+pstn:tel", format!("!^.*$!tel:+44;mcc=234;mnc={mnc}!"))
    };
    for (records, id) in [
        (vec![of(20, 1, "u", "20"), of(10, 9, "u", "10")], "23410"),
        (vec![of(10, 9, "u", "20"), of(10, 1, "u", "10")], "23410"),
        (vec![of(10, 1, "s", "20"), of(20, 1, "U", "10")], "23410"),
        (vec![of(10, 1, "u", "x"), of(20, 1, "u", "10")], "23410"),
        (vec![of(10, 1, "u", "9"), of(20, 1, "u", "10")], "23410"),
        (vec![of(10, 1, "", "20"), of(20, 1, "u", "10"), of(30, 1, "u", "20")], "23410"),
    ] {
        let written: Vec<_> = records.iter().map(|(a, b, c, d, e)| (*a, *b, *c, *d, e.as_str())).collect();
        assert_eq!(evaluate(&rules(), NO_ERROR, &written), EnumDecision::Final(network(id)), "{written:?}");
    }
    let error = (5, 0, "u", "E2U+SIP", "!^.*$!sip:+44@unknown;err=1!");
    let malformed = (5, 0, "u", "E2U+pstn:tel", "!!");
    for first in [error, malformed] {
        assert_eq!(evaluate(&rules(), NO_ERROR, &[first, TEL]), EnumDecision::Final(network("23410")));
    }
}

#[test]
fn malformed_record_does_not_affect_others() {
    let good = record(35, &naptr(TEL));
    // A CNAME record with an uncompressed name, to which later records belong.
    let alias = record(5, b"\x05other\x04arpa\0");
    let of_alias = [b"\x05OTHER\x04arpa\0", &good[2..]].concat();
    let of_other_name = [b"\x05third\x04arpa\0", &good[2..]].concat();
    let odd_flags = record(35, &naptr((10, 1, "!", "E2U+pstn:tel", "")));
    let short = record(35, b"\0\x0a\0");
    let text = record(16, b"\x02id");
    let mut chaos = good.clone();
    chaos[5] = 3;
    let found = EnumDecision::Final(network("23410"));
    for (records, decision) in [
        (vec![odd_flags.clone(), good.clone()], found.clone()),
        (vec![short.clone(), text.clone(), good.clone()], found.clone()),
        (vec![good.clone(), short.clone()], found.clone()),
        (vec![alias.clone(), of_alias], found.clone()),
        (vec![alias.clone(), good.clone()], EnumDecision::Final(NO_DATA)),
        (vec![of_other_name], EnumDecision::Final(NO_DATA)),
        (vec![chaos], EnumDecision::Final(NO_DATA)),
        (vec![alias], EnumDecision::Final(NO_DATA)),
        (vec![text], EnumDecision::Final(NO_DATA)),
        (vec![odd_flags], EnumDecision::Final(NO_DATA)),
        (vec![short], EnumDecision::Final(Err(LookupError::InvalidResponse))),
    ] {
        assert_eq!(evaluate_message(&rules(), |query| answer_with(query, NO_ERROR, &records)), decision, "{records:?}");
    }
    // The announced record count is too high.
    let more = |query: &[u8], records: &[Vec<u8>]| {
        let mut message = answer_with(query, NO_ERROR, records);
        message[7] += 1;
        message
    };
    assert_eq!(evaluate_message(&rules(), |query| more(query, &[good])), found);
    assert_eq!(
        evaluate_message(&rules(), |query| more(query, &[])),
        EnumDecision::Final(Err(LookupError::InvalidResponse))
    );
}

#[test]
fn unrelated_replies_are_ignored() {
    let query = EnumQuery::new(&number(), "e164.arpa", &SystemEntropy::default(), true, true).unwrap();
    let good = answer(query.as_bytes(), NO_ERROR, &[TEL]);
    assert!(matches!(query.match_reply(&good), ReplyMatch::Answer(_)));
    let changed = |at: usize, with: fn(u8) -> u8| {
        let mut message = good.clone();
        message[at] = with(message[at]);
        message
    };
    let question_end = query.as_bytes().len() - 11;
    for (what, message) in [
        ("another id", changed(0, |octet| !octet)),
        ("a query", changed(2, |octet| octet & 0x7F)),
        ("another operation", changed(2, |octet| octet | 0x20)),
        ("no question", changed(5, |_| 0)),
        ("two questions", changed(5, |_| 2)),
        ("another number", changed(13, |_| b'9')),
        ("another type", changed(question_end - 3, |_| 16)),
        ("another class", changed(question_end - 1, |_| 3)),
        ("empty", vec![]),
        ("truncated header", good[..7].to_vec()),
        ("truncated question", good[..20].to_vec()),
    ] {
        assert!(matches!(query.match_reply(&message), ReplyMatch::Unrelated), "{what}");
    }
    // A server that cannot parse the query responds with FORMERR and without the question.
    let mut empty = good[..12].to_vec();
    empty[3] = FORMAT_ERROR;
    empty[5] = 0;
    empty[7] = 0;
    assert!(matches!(query.match_reply(&empty), ReplyMatch::Answer(_)));
    for code in [NO_ERROR, NO_SUCH_NAME] {
        empty[3] = code;
        assert!(matches!(query.match_reply(&empty), ReplyMatch::Unrelated), "{code}");
    }
    empty[2] |= 2;
    assert!(matches!(query.match_reply(&empty), ReplyMatch::Truncated));
    assert_eq!(format!("{query:?}"), format!("EnumQuery({} bytes)", query.as_bytes().len()));
}

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
        // The same octets after a valid header and question.
        let mut message = answer(query.as_bytes(), NO_ERROR, &[]);
        message[7] = octets.len().to_le_bytes()[0];
        assert_no_panic(&query, &[message, octets.clone()].concat());
        assert_no_panic(&query, &answer_with(query.as_bytes(), NO_ERROR, &[record(35, &octets), record(5, &octets)]));
    }

    #[test]
    fn arbitrary_expressions_do_not_panic(
        expression in "(!|/)[\\^$.*+?()\\[\\]{}|\\\\0-9a-z!/é]{0,40}(!|/)(tel|sip|)[:;=@.\\\\0-9a-zA-Z<>?!]{0,60}(!|/)i?",
        service in "(E2U|e2u)\\+(pstn:tel|SIP)",
    ) {
        let query = query();
        assert_no_panic(&query, &answer(query.as_bytes(), NO_ERROR, &[(1, 1, "u", &service, &expression)]));
    }

    #[test]
    fn modified_reply_does_not_panic(at in 0..200_usize, octet: u8) {
        let query = query();
        let mut message = answer(query.as_bytes(), NO_ERROR, &[crate::fake_dns::TEL, crate::fake_dns::TEL]);
        let at = at % message.len();
        message[at] = octet;
        assert_no_panic(&query, &message);
    }
}
