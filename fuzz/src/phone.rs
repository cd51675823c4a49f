//! Phone numbers of API clients and sender addresses of operators.

use ringtrue_domain::{
    phone::{Country, Msisdn, SmsAddress, SmsAddressKind},
    tenancy::Mode,
};

use crate::{Target, input_reader::InputReader};

/// `Msisdn::parse` and sender address parsing: no repair, no guessing, and stable round trips.
pub const PHONE: Target = Target { name: "phone", run, seeds, short_run_inputs: 3_000 };

const KINDS: [SmsAddressKind; 4] =
    [SmsAddressKind::International, SmsAddressKind::National, SmsAddressKind::Unknown, SmsAddressKind::NoSubscriber];
/// Countries with and without trunk prefixes, with a kept zero, and with prefixes that change the number.
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
    // Former finding: an international call from Argentina with an invalid zero in a Vietnamese number was repaired.
    seeds.push(b"\x01\x05008401455099".to_vec());
    seeds
}

fn run(data: &[u8]) {
    let mut input = InputReader::new(data);
    let kind = input.pick(&KINDS);
    let country: Option<Country> = input.pick(&COUNTRIES).parse().ok();
    let text = String::from_utf8_lossy(input.rest());

    let (live, sandbox) = (Msisdn::parse(&text, Mode::Live), Msisdn::parse(&text, Mode::Sandbox));
    for number in live.iter().chain(&sandbox) {
        assert_eq!(number.as_str(), text, "the number was changed");
        check_number(number);
    }
    assert!(!live.as_ref().is_ok_and(Msisdn::is_simulated));
    assert!(live.is_err() || live == sandbox, "sandbox mode rejects a live number");

    let address = SmsAddress { text: &text, kind, country };
    let masked = "x".repeat(text.chars().count());
    assert_eq!(
        format!("{address:?}"),
        format!("{:?}", SmsAddress { text: &masked, ..address }),
        "Debug shows the address"
    );
    let Some(number) = address.to_msisdn() else {
        let is_plain = sandbox.is_ok() && kind != SmsAddressKind::NoSubscriber;
        assert!(!is_plain, "an E.164 number was not recognised");
        return;
    };
    check_number(&number);
    assert_ne!(kind, SmsAddressKind::NoSubscriber);
    let is_separator =
        |character: char| character.is_whitespace() || "-./()".contains(character) || ('‐'..='―').contains(&character);
    let written = &text.replace(is_separator, "");
    assert!(written.strip_prefix('+').unwrap_or(written).bytes().all(|byte| byte.is_ascii_digit()));
    if written.starts_with('+') {
        assert_eq!(number.as_str(), written);
    } else if kind == SmsAddressKind::International {
        assert_eq!(number.digits(), written.strip_prefix("00").unwrap_or(written));
    }
    // A missing country code is that of the country.
    if !written.ends_with(number.digits()) {
        let code = country.and_then(Country::dialing_code).unwrap().to_string();
        assert!(number.digits().starts_with(&code), "{written} became a number of another country");
    }
}

/// Checks format, masking and round trips of a number.
fn check_number(number: &Msisdn) {
    let digits = number.digits();
    assert!((7..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit()));
    assert_eq!(number.as_str(), format!("+{digits}"));
    assert!(digits.ends_with(&number.tail().to_string()));
    assert!(!format!("{number:?}").contains(&digits[2..digits.len() - 2]), "Debug shows the number");
    if let Some(code) = number.country().and_then(Country::dialing_code) {
        assert!(digits.starts_with(&code.to_string()), "wrong country code");
    }
    assert_eq!(Msisdn::parse(number.as_str(), Mode::Sandbox).as_ref(), Ok(number));
    for (kind, text) in [
        (SmsAddressKind::International, digits.to_owned()),
        (SmsAddressKind::International, format!("00{digits}")),
        (SmsAddressKind::Unknown, format!("00{digits}")),
        (SmsAddressKind::Unknown, format!(" +{digits} ")),
        (SmsAddressKind::National, format!("+{digits}")),
        (SmsAddressKind::National, format!("+{} {}", &digits[..4], &digits[4..])),
    ] {
        let read = SmsAddress { text: &text, kind, country: "GB".parse().ok() }.to_msisdn();
        assert_eq!(read.as_ref(), Some(number), "{kind:?}");
    }
}
