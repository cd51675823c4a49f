//! Phone numbers, as callers give them and as operators write senders.

use ringtrue_domain::{
    phone::{Address, AddressKind, Country, Msisdn},
    tenancy::Mode,
};

use crate::{Target, tape::Tape};

/// `Msisdn::parse` and `Address::number`: nothing is repaired, nothing is guessed, and a number stays itself.
pub const PHONE: Target = Target { name: "phone", run, seeds, short_run: 3_000 };

const KINDS: [AddressKind; 4] =
    [AddressKind::International, AddressKind::National, AddressKind::Unknown, AddressKind::NoSubscriber];
/// With trunk prefixes, without, with a zero that stays, with prefixes that change the number.
const COUNTRIES: [&str; 12] = ["GB", "US", "DE", "IT", "RU", "AR", "MX", "BR", "HU", "CI", "AG", ""];

fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "+447700900123",
        "447700900123",
        "00447700900123",
        "07700900123",
        "2015550123",
        "0111234567",
        "81044770090",
        "011447700900123",
        "+990123456700",
        "+21012345678",
        "+4407700900123",
        "+4477009001234567",
        "+44 7700 900123",
        "07700 900123",
        "(07700) 900-123",
        "+٤٤٧٧٠٠٩٠٠١٢٣",
        "＋447700900123",
        "tel:+447700900123;ext=1",
        "VODAFONE",
        "60999",
        "+",
        "",
    ];
    let mut seeds: Vec<_> =
        (0..).zip(texts).map(|(at, text)| [&[at % 4, at % 12][..], text.as_bytes()].concat()).collect();
    // Abroad from Argentina, with a zero that Vietnam's numbers do not have: it was once put right.
    seeds.push(b"\x01\x05008401455099".to_vec());
    seeds
}

fn run(data: &[u8]) {
    let mut tape = Tape::new(data);
    let kind = tape.pick(&KINDS);
    let country: Option<Country> = tape.pick(&COUNTRIES).parse().ok();
    let text = String::from_utf8_lossy(tape.rest());

    let (live, sandbox) = (Msisdn::parse(&text, Mode::Live), Msisdn::parse(&text, Mode::Sandbox));
    for number in live.iter().chain(&sandbox) {
        assert_eq!(number.as_str(), text, "nothing is repaired");
        is_a_number(number);
    }
    assert!(!live.as_ref().is_ok_and(Msisdn::is_simulated));
    assert!(live.is_err() || live == sandbox, "a sandbox knows what is live too");

    let address = Address { text: &text, kind, country };
    let as_long = "x".repeat(text.chars().count());
    assert_eq!(format!("{address:?}"), format!("{:?}", Address { text: &as_long, ..address }), "an address is masked");
    let Some(number) = address.number() else {
        let is_plain = sandbox.is_ok() && kind != AddressKind::NoSubscriber;
        assert!(!is_plain, "E.164 is certain, whoever writes it");
        return;
    };
    is_a_number(&number);
    assert_ne!(kind, AddressKind::NoSubscriber);
    let is_separator =
        |character: char| character.is_whitespace() || "-./()".contains(character) || ('‐'..='―').contains(&character);
    let written = &text.replace(is_separator, "");
    assert!(written.strip_prefix('+').unwrap_or(written).bytes().all(|byte| byte.is_ascii_digit()));
    if written.starts_with('+') {
        assert_eq!(number.as_str(), written);
    } else if kind == AddressKind::International {
        assert_eq!(number.digits(), written.strip_prefix("00").unwrap_or(written));
    }
    // A country code that was not written is that of the country, and no other.
    if !written.ends_with(number.digits()) {
        let code = country.and_then(Country::dialing_code).unwrap().to_string();
        assert!(number.digits().starts_with(&code), "{written} is read as a number of another country");
    }
}

/// A number is what it says, shows only its ends, and is read again from any unmistakable way to write it.
fn is_a_number(number: &Msisdn) {
    let digits = number.digits();
    assert!((7..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit()));
    assert_eq!(number.as_str(), format!("+{digits}"));
    assert!(digits.ends_with(&number.tail().to_string()));
    assert!(!format!("{number:?}").contains(&digits[2..digits.len() - 2]), "a number is masked");
    if let Some(code) = number.country().and_then(Country::dialing_code) {
        assert!(digits.starts_with(&code.to_string()), "a number has the code of its country");
    }
    assert_eq!(Msisdn::parse(number.as_str(), Mode::Sandbox).as_ref(), Ok(number));
    for (kind, text) in [
        (AddressKind::International, digits.to_owned()),
        (AddressKind::International, format!("00{digits}")),
        (AddressKind::Unknown, format!("00{digits}")),
        (AddressKind::Unknown, format!(" +{digits} ")),
        (AddressKind::National, format!("+{digits}")),
        (AddressKind::National, format!("+{} {}", &digits[..4], &digits[4..])),
    ] {
        let read = Address { text: &text, kind, country: "GB".parse().ok() }.number();
        assert_eq!(read.as_ref(), Some(number), "{kind:?}");
    }
}
