//! A connector that binds to a message centre.

use std::time::Duration;

use ringtrue_operators::smpp::{
    AddressRange, DefaultAlphabet, Direction, InterfaceVersion, Password, SmppConfig, Succession,
};

use super::{
    super::{
        ConfigError,
        kind::{Span, Text, Whole, Word, duration_text},
        networks::country,
    },
    own_receivers,
    reader::{Form, Reader},
    tls,
};

#[rustfmt::skip]
const MEMBERS: [&str; 28] = [
    "kind", "host", "port", "tls", "tls_server_name", "tls_ca_file",
    "system_id", "password_file", "password_env", "system_type", "bind", "interface_version",
    "address_ton", "address_npi", "address_range",
    "receivers", "country", "default_alphabet", "binds", "window",
    "enquire_link_interval", "response_timeout", "answer_timeout", "reconnect_min", "reconnect_max",
    "concatenation_deadline", "parts", "grace",
];

const DIRECTIONS: Word<Direction> = Word(&[("transceiver", Direction::Transceiver), ("receiver", Direction::Receiver)]);
const VERSIONS: Word<InterfaceVersion> = Word(&[("3.4", InterfaceVersion::V3_4), ("5.0", InterfaceVersion::V5_0)]);
const ALPHABETS: Word<DefaultAlphabet> = Word(&[
    ("gsm0338", DefaultAlphabet::Gsm0338),
    ("gsm0338_packed", DefaultAlphabet::Gsm0338Packed),
    ("latin1", DefaultAlphabet::Latin1),
    ("ascii", DefaultAlphabet::Ascii),
]);
const SUCCESSIONS: Word<Succession> = Word(&[("together", Succession::Together), ("one_by_one", Succession::OneByOne)]);

pub(super) fn read(reader: &mut Reader<'_>) -> Result<SmppConfig, ConfigError> {
    const SECOND: Duration = Duration::from_secs(1);
    const TEN_MINUTES: Duration = Duration::from_mins(10);
    const HOUR: Duration = Duration::from_hours(1);
    let section = reader.section;
    section.only(&MEMBERS)?;
    let (host, port) = (section.read("host", &host())?, section.read("port", &Whole(1..=u16::MAX))?);
    let usual = SmppConfig::new(section.name, host, port, own_receivers(&section)?);
    let span = |member, range, usual| Ok::<_, ConfigError>(section.read_if(member, &Span(range))?.unwrap_or(usual));
    let octet = |member| Ok::<_, ConfigError>(section.read_if(member, &Whole(0..=255))?.unwrap_or(0));
    let config = SmppConfig {
        tls: tls::read(reader, &usual.host)?,
        system_id: section.read("system_id", &system_id())?,
        password: reader.secret("password", &PASSWORD)?,
        system_type: section.read_if("system_type", &system_type())?.unwrap_or_default(),
        direction: section.read_if("bind", &DIRECTIONS)?.unwrap_or_default(),
        interface_version: section.read_if("interface_version", &VERSIONS)?.unwrap_or_default(),
        address_range: AddressRange {
            ton: octet("address_ton")?,
            npi: octet("address_npi")?,
            pattern: section.read_if("address_range", &address_range())?.unwrap_or_default(),
        },
        country: section.read_if("country", &country())?,
        default_alphabet: section.read_if("default_alphabet", &ALPHABETS)?.unwrap_or_default(),
        binds: section.read_if("binds", &Whole(1..=64))?.unwrap_or(usual.binds),
        window: section.read_if("window", &Whole(1..=10_000))?.unwrap_or(usual.window),
        enquire_link_interval: span("enquire_link_interval", SECOND..=HOUR, usual.enquire_link_interval)?,
        response_timeout: span("response_timeout", SECOND..=TEN_MINUTES, usual.response_timeout)?,
        answer_timeout: span("answer_timeout", SECOND..=TEN_MINUTES, usual.answer_timeout)?,
        reconnect_min: span("reconnect_min", SECOND / 10..=HOUR, usual.reconnect_min)?,
        reconnect_max: span("reconnect_max", SECOND / 10..=HOUR, usual.reconnect_max)?,
        concatenation_deadline: span("concatenation_deadline", SECOND..=HOUR, usual.concatenation_deadline)?,
        succession: section.read_if("parts", &SUCCESSIONS)?.unwrap_or_default(),
        grace: span("grace", Duration::ZERO..=HOUR, usual.grace)?,
        ..usual
    };
    if config.reconnect_min > config.reconnect_max {
        let [least, most] = [config.reconnect_min, config.reconnect_max].map(duration_text);
        let allowed = format!("at most {most}, which is `{}`", section.key("reconnect_max"));
        return Err(section.invalid("reconnect_min", least, allowed));
    }
    Ok(config)
}

/// What SMPP leaves room for.
const PASSWORD: Form<Password> = Form {
    allowed: "a password of 1 to 8 ASCII characters, which is what SMPP leaves room for",
    parse: |text| (!text.is_empty()).then(|| field::<8>(text)).flatten().map(Password::from),
};

fn system_id() -> Text<String> {
    Text { allowed: "1 to 15 ASCII characters", parse: |text| field::<15>(text).filter(|text| !text.is_empty()) }
}

fn system_type() -> Text<String> {
    Text { allowed: "up to 12 ASCII characters", parse: field::<12> }
}

fn address_range() -> Text<String> {
    Text { allowed: "up to 40 ASCII characters, as the message centre understands them", parse: field::<40> }
}

/// Text that an SMPP field of a certain length can hold.
fn field<const LONGEST: usize>(text: &str) -> Option<String> {
    let fits = text.len() <= LONGEST && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    fits.then(|| text.to_owned())
}

fn host() -> Text<String> {
    Text {
        allowed: "a host name or an IP address, without a port",
        parse: |text| {
            let is_host = text.parse::<std::net::IpAddr>().is_ok()
                || matches!(url::Host::parse(text), Ok(url::Host::Domain(_)) if !text.is_empty());
            is_host.then(|| text.to_owned())
        },
    }
}
