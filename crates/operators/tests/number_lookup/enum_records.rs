use ringtrue_engine::ports::{Resolved, SourceFault, SystemEntropy};
use ringtrue_operators::number_lookup::enum_dns::{Judgement, Query, Reading, Reception};

use crate::{
    Outcome,
    dns::{
        FORMAT_ERROR, NO_ERROR, NO_SUCH_NAME, NOT_IMPLEMENTED, Naptr, REFUSED, SERVER_FAILURE, TEL, answer,
        answer_with, naptr, record,
    },
    known, network, number,
};

const NO_DATA: Outcome = Ok(Resolved::NoData);
const STRANGER: Outcome = Ok(Resolved::OtherNetwork);

fn reading() -> Reading {
    let table = |entries: &[(&str, &str)]| entries.iter().map(|(code, id)| (*code, id.parse().unwrap())).collect();
    Reading {
        known: known(),
        routing_numbers: table(&[("+12155550199", "310260"), ("D27*", "25001")]),
        service_providers: table(&[("41077", "23410")]),
        ..Reading::default()
    }
}

fn judged_message(reading: &Reading, message: impl FnOnce(&[u8]) -> Vec<u8>) -> Judgement {
    let query = Query::new(&number(), "e164.arpa", &SystemEntropy::default(), true, true).unwrap();
    match query.read(&message(query.wire())) {
        Reception::Answer(answer) => reading.judge(&answer, &number()),
        other => panic!("{other:?}"),
    }
}

fn judged(reading: &Reading, code: u8, records: &[Naptr<'_>]) -> Judgement {
    judged_message(reading, |query| answer(query, code, records))
}

fn says(reading: &Reading, service: &str, expression: &str) -> Outcome {
    match judged(reading, NO_ERROR, &[(10, 100, "u", service, expression)]) {
        Judgement::Final(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

#[test]
fn records_are_read_as_the_field_writes_them() {
    let reading = reading();
    let (tel, sip) = ("E2U+pstn:tel", "E2U+SIP");
    for (service, expression, outcome) in [
        // Codes as parameters, with backslashes and semicolons in every way.
        (tel, r"!^(.*)$!tel:\1;mcc=310;mnc=012!", network("310012")),
        (tel, r"!^(.*)$!tel:\\1\;mcc=310\;mnc=012!", network("310012")),
        (tel, r"!^(.*)$!tel:\\\\1\\;MCC=310\\;MNC=012!", network("310012")),
        ("e2u+PSTN:tel", r"/^\+44(.*)$/tel:+44\1;mcc=234;mnc=010/", network("23410")),
        (tel, r"!^.*$!tel:+447700900123;mccmnc=23410!", network("23410")),
        (tel, r"!^.*$!tel:+447700900123;mcc=234;mnc=99!", network("23499")),
        ("E2U+PSTN:TEL", r"!^.*$!<TEL:+447700900123;mcc=234;mnc=10>!", network("23410")),
        ("E2U+PSTN:TEL", r"!^.*$!<TEL:+447700900123>;mcc=234;mnc=10!", network("23410")),
        ("E2U+PSTN:TEL", r"!^.*$!<TEL:+447700900123>!", NO_DATA),
        // A host that is named after the network.
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
        (sip, r"!^.*$!sip:+447701023231@unknown;err=1!", Err(SourceFault::Refused)),
        (sip, r"!^.*$!sip:+44@ims.mnc010.mcc234.3gppnetwork.org;err=0!", network("23410")),
        (sip, r"!^.*$!sip:+447701023231@sbc.example.com!", NO_DATA),
        // Codes of operators.
        (tel, r"!^.*$!tel:+1-215-555-0123;npdi;rn=+1-215-555-0199!", network("310260")),
        (
            "E2U+pstn:sip",
            r"!^.*$!sip:+1-215-555-0123;npdi;rn=+1-215-555-0199@gw.example.com;user=phone!",
            network("310260"),
        ),
        (tel, r"!^.*$!tel:+73422461703;npdi;rn=d2701;rn-context=+7!", network("25001")),
        (tel, r"!^.*$!tel:+73422461703;npdi;rn=d9901;rn-context=+7!", STRANGER),
        (tel, r"!^(.*)$!tel:\1;npdi;spn=41077;q_stat=001!", network("23410")),
        (tel, r"!^(.*)$!tel:\1;npdi;spn=41078;q_stat=001!", STRANGER),
        (tel, r"!^(.*)$!tel:\1;q_stat=102!", NO_DATA),
        (tel, r"!^(.*)$!tel:\1;spn=41077;q_stat=102!", NO_DATA),
        (tel, r"!^.*$!tel:+1-215-555-0123;npdi!", NO_DATA),
        (tel, r"!^.*$!tel:+1-215-555-0123;npdi;rn=!", NO_DATA),
        (tel, r"!^.*$!tel:+44;rn=d9901;spn=41077!", network("23410")),
        // Codes that are none fall to what else there is.
        (tel, r"!^.*$!tel:+44;mcc=;mnc=10;rn=d2701!", network("25001")),
        (tel, r"!^.*$!tel:+44;mcc=23x;mnc=10!", NO_DATA),
        // Not for us, not about this number, or not readable.
        ("E2U+email:mailto", r"!^.*$!mailto:a@example.com!", NO_DATA),
        ("E2U+web:http", r"!^.*$!http://example.com/;mcc=234;mnc=10!", NO_DATA),
        (tel, r"!^\+49(.*)$!tel:\1;mcc=234;mnc=10!", NO_DATA),
        (tel, "!^.*$!tel:+44;mcc=234;mnc=10", Err(SourceFault::Nonsense)),
        (tel, "!^(.*$!tel:+44;mcc=234;mnc=10!", Err(SourceFault::Nonsense)),
        (tel, "!^.*$!mailto:a@example.com!", Err(SourceFault::Nonsense)),
        (tel, "", Err(SourceFault::Nonsense)),
    ] {
        assert_eq!(says(&reading, service, expression), outcome, "{expression}");
    }
}

#[test]
fn the_configuration_says_what_silence_means() {
    let not_ported = Reading { not_ported: "23430".parse().ok(), ..reading() };
    assert_eq!(says(&not_ported, "E2U+pstn:tel", "!^.*$!tel:+44;npdi!"), network("23430"));
    assert_eq!(says(&not_ported, "E2U+pstn:tel", "!^.*$!tel:+44;npdi;rn=unheard!"), STRANGER);
    assert_eq!(says(&not_ported, "E2U+pstn:tel", "!^.*$!tel:+44!"), NO_DATA);

    let authority = Reading { is_authoritative: true, ..reading() };
    let nobody = Judgement::Final(Ok(Resolved::NoSubscriber));
    assert_eq!(judged(&authority, NO_SUCH_NAME, &[]), nobody);
    let unknown = r"!^.*$!sip:+44@unknown;gsm_error_code=1!";
    assert_eq!(says(&authority, "E2U+SIP", unknown), Ok(Resolved::NoSubscriber));
    // The name is there, so somebody has the number.
    assert_eq!(judged(&authority, NO_ERROR, &[]), Judgement::Final(NO_DATA));
}

#[test]
fn every_code_of_an_answer_has_its_meaning() {
    let err = (0, 0, "u", "E2U+SIP", "!^.*$!sip:+44@unknown;err=1!");
    for (code, records, judgement) in [
        (NO_ERROR, &[][..], Judgement::Final(NO_DATA)),
        (NO_SUCH_NAME, &[], Judgement::Final(NO_DATA)),
        (REFUSED, &[err], Judgement::Final(Err(SourceFault::Refused))),
        (REFUSED, &[TEL], Judgement::Final(Err(SourceFault::Refused))),
        (REFUSED, &[], Judgement::AskAnother(SourceFault::Refused)),
        (SERVER_FAILURE, &[], Judgement::AskAnother(SourceFault::Refused)),
        (SERVER_FAILURE, &[TEL], Judgement::AskAnother(SourceFault::Refused)),
        (FORMAT_ERROR, &[], Judgement::AskPlainly),
        (NOT_IMPLEMENTED, &[], Judgement::AskPlainly),
        (9, &[], Judgement::AskAnother(SourceFault::Refused)),
    ] {
        assert_eq!(judged(&reading(), code, records), judgement, "{code}");
    }
}

#[test]
fn the_first_record_that_names_a_network_counts() {
    let of = |order, preference, flags, mnc| {
        (order, preference, flags, "E2U+pstn:tel", format!("!^.*$!tel:+44;mcc=234;mnc={mnc}!"))
    };
    for (records, id) in [
        (vec![of(20, 1, "u", "20"), of(10, 9, "u", "10")], "23410"),
        (vec![of(10, 9, "u", "20"), of(10, 1, "u", "10")], "23410"),
        (vec![of(10, 1, "s", "20"), of(20, 1, "U", "10")], "23410"),
        (vec![of(10, 1, "u", "x"), of(20, 1, "u", "10")], "23410"),
        (vec![of(10, 1, "", "20"), of(20, 1, "u", "10"), of(30, 1, "u", "20")], "23410"),
    ] {
        let written: Vec<_> = records.iter().map(|(a, b, c, d, e)| (*a, *b, *c, *d, e.as_str())).collect();
        assert_eq!(judged(&reading(), NO_ERROR, &written), Judgement::Final(network(id)), "{written:?}");
    }
    let error = (5, 0, "u", "E2U+SIP", "!^.*$!sip:+44@unknown;err=1!");
    let spoilt = (5, 0, "u", "E2U+pstn:tel", "!!");
    for first in [error, spoilt] {
        assert_eq!(judged(&reading(), NO_ERROR, &[first, TEL]), Judgement::Final(network("23410")));
    }
}

#[test]
fn one_record_does_not_spoil_the_others() {
    let good = record(35, &naptr(TEL));
    // An alias: the name that follows it is spelt out, and what comes then belongs to that name.
    let alias = record(5, b"\x05other\x04arpa\0");
    let of_alias = [b"\x05OTHER\x04arpa\0", &good[2..]].concat();
    let of_stranger = [b"\x05third\x04arpa\0", &good[2..]].concat();
    let odd_flags = record(35, &naptr((10, 1, "!", "E2U+pstn:tel", "")));
    let short = record(35, b"\0\x0a\0");
    let text = record(16, b"\x02id");
    let mut chaos = good.clone();
    chaos[5] = 3;
    let found = Judgement::Final(network("23410"));
    for (records, judgement) in [
        (vec![odd_flags.clone(), good.clone()], found.clone()),
        (vec![short.clone(), text.clone(), good.clone()], found.clone()),
        (vec![good.clone(), short.clone()], found.clone()),
        (vec![alias.clone(), of_alias], found.clone()),
        (vec![alias.clone(), good.clone()], Judgement::Final(NO_DATA)),
        (vec![of_stranger], Judgement::Final(NO_DATA)),
        (vec![chaos], Judgement::Final(NO_DATA)),
        (vec![alias], Judgement::Final(NO_DATA)),
        (vec![text], Judgement::Final(NO_DATA)),
        (vec![odd_flags], Judgement::Final(NO_DATA)),
        (vec![short], Judgement::Final(Err(SourceFault::Nonsense))),
    ] {
        assert_eq!(
            judged_message(&reading(), |query| answer_with(query, NO_ERROR, &records)),
            judgement,
            "{records:?}"
        );
    }
    // It says that there is more than there is.
    let more = |query: &[u8], records: &[Vec<u8>]| {
        let mut message = answer_with(query, NO_ERROR, records);
        message[7] += 1;
        message
    };
    assert_eq!(judged_message(&reading(), |query| more(query, &[good])), found);
    assert_eq!(judged_message(&reading(), |query| more(query, &[])), Judgement::Final(Err(SourceFault::Nonsense)));
}

#[test]
fn what_was_not_asked_is_not_heard() {
    let query = Query::new(&number(), "e164.arpa", &SystemEntropy::default(), true, true).unwrap();
    let good = answer(query.wire(), NO_ERROR, &[TEL]);
    assert!(matches!(query.read(&good), Reception::Answer(_)));
    let changed = |at: usize, with: fn(u8) -> u8| {
        let mut message = good.clone();
        message[at] = with(message[at]);
        message
    };
    let question_end = query.wire().len() - 11;
    for (what, message) in [
        ("another id", changed(0, |octet| !octet)),
        ("a question", changed(2, |octet| octet & 0x7F)),
        ("another operation", changed(2, |octet| octet | 0x20)),
        ("no question", changed(5, |_| 0)),
        ("two questions", changed(5, |_| 2)),
        ("another number", changed(13, |_| b'9')),
        ("another type", changed(question_end - 3, |_| 16)),
        ("another class", changed(question_end - 1, |_| 3)),
        ("nothing", vec![]),
        ("half a header", good[..7].to_vec()),
        ("half a question", good[..20].to_vec()),
    ] {
        assert!(matches!(query.read(&message), Reception::NotOurs), "{what}");
    }
    // Who cannot read the question cannot repeat it, and can say so.
    let mut empty = good[..12].to_vec();
    empty[3] = FORMAT_ERROR;
    empty[5] = 0;
    empty[7] = 0;
    assert!(matches!(query.read(&empty), Reception::Answer(_)));
    for code in [NO_ERROR, NO_SUCH_NAME] {
        empty[3] = code;
        assert!(matches!(query.read(&empty), Reception::NotOurs), "{code}");
    }
    empty[2] |= 2;
    assert!(matches!(query.read(&empty), Reception::Cut));
    assert_eq!(format!("{query:?}"), format!("Query({} bytes)", query.wire().len()));
}
