//! Connectors of the kind `smpp`: bind to an SMSC.

use std::time::Duration;

use ringtrue_operators::smpp::{
    AddressRange, BindDirection, DefaultAlphabet, InterfaceVersion, PartOrder, SmppConfig, SmppPassword,
};

use super::{
    super::{
        ConfigError,
        networks::country_code,
        value_type::{DurationRange, Integer, OneOf, Text, format_duration},
    },
    read_receivers,
    section_reader::{SecretFormat, SectionReader},
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

const BIND_DIRECTIONS: OneOf<BindDirection> =
    OneOf(&[("transceiver", BindDirection::Transceiver), ("receiver", BindDirection::Receiver)]);
const INTERFACE_VERSIONS: OneOf<InterfaceVersion> =
    OneOf(&[("3.4", InterfaceVersion::V3_4), ("5.0", InterfaceVersion::V5_0)]);
const ALPHABETS: OneOf<DefaultAlphabet> = OneOf(&[
    ("gsm0338", DefaultAlphabet::Gsm0338),
    ("gsm0338_packed", DefaultAlphabet::Gsm0338Packed),
    ("latin1", DefaultAlphabet::Latin1),
    ("ascii", DefaultAlphabet::Ascii),
]);
const PART_ORDERS: OneOf<PartOrder> = OneOf(&[("together", PartOrder::Together), ("one_by_one", PartOrder::OneByOne)]);

pub(super) fn read(reader: &mut SectionReader<'_>) -> Result<SmppConfig, ConfigError> {
    const SECOND: Duration = Duration::from_secs(1);
    const TEN_MINUTES: Duration = Duration::from_mins(10);
    const HOUR: Duration = Duration::from_hours(1);
    let section = reader.section;
    section.reject_unknown(&MEMBERS)?;
    let (host, port) = (section.read("host", &host())?, section.read("port", &Integer(1..=u16::MAX))?);
    let defaults = SmppConfig::new(section.name, host, port, read_receivers(&section)?);
    let span = |member, range, defaults| {
        Ok::<_, ConfigError>(section.read_optional(member, &DurationRange(range))?.unwrap_or(defaults))
    };
    let octet = |member| Ok::<_, ConfigError>(section.read_optional(member, &Integer(0..=255))?.unwrap_or(0));
    let config = SmppConfig {
        tls: tls::read(reader, &defaults.host)?,
        system_id: section.read("system_id", &system_id())?,
        password: reader.secret("password", &PASSWORD)?,
        system_type: section.read_optional("system_type", &system_type())?.unwrap_or_default(),
        direction: section.read_optional("bind", &BIND_DIRECTIONS)?.unwrap_or_default(),
        interface_version: section.read_optional("interface_version", &INTERFACE_VERSIONS)?.unwrap_or_default(),
        address_range: AddressRange {
            ton: octet("address_ton")?,
            npi: octet("address_npi")?,
            pattern: section.read_optional("address_range", &address_range())?.unwrap_or_default(),
        },
        country: section.read_optional("country", &country_code())?,
        default_alphabet: section.read_optional("default_alphabet", &ALPHABETS)?.unwrap_or_default(),
        binds: section.read_optional("binds", &Integer(1..=64))?.unwrap_or(defaults.binds),
        window: section.read_optional("window", &Integer(1..=10_000))?.unwrap_or(defaults.window),
        enquire_link_interval: span("enquire_link_interval", SECOND..=HOUR, defaults.enquire_link_interval)?,
        response_timeout: span("response_timeout", SECOND..=TEN_MINUTES, defaults.response_timeout)?,
        answer_timeout: span("answer_timeout", SECOND..=TEN_MINUTES, defaults.answer_timeout)?,
        reconnect_min: span("reconnect_min", SECOND / 10..=HOUR, defaults.reconnect_min)?,
        reconnect_max: span("reconnect_max", SECOND / 10..=HOUR, defaults.reconnect_max)?,
        concatenation_deadline: span("concatenation_deadline", SECOND..=HOUR, defaults.concatenation_deadline)?,
        part_order: section.read_optional("parts", &PART_ORDERS)?.unwrap_or_default(),
        grace: span("grace", Duration::ZERO..=HOUR, defaults.grace)?,
        ..defaults
    };
    if config.reconnect_min > config.reconnect_max {
        let [min, max] = [config.reconnect_min, config.reconnect_max].map(format_duration);
        let allowed = format!("at most {max}, the value of `{}`", section.key("reconnect_max"));
        return Err(section.invalid("reconnect_min", min, allowed));
    }
    Ok(config)
}

const PASSWORD: SecretFormat<SmppPassword> = SecretFormat {
    allowed: "a password of 1 to 8 ASCII characters, the limit of SMPP",
    parse: |text| (!text.is_empty()).then(|| smpp_field::<8>(text)).flatten().map(SmppPassword::from),
};

fn system_id() -> Text<String> {
    Text { allowed: "1 to 15 ASCII characters", parse: |text| smpp_field::<15>(text).filter(|text| !text.is_empty()) }
}

fn system_type() -> Text<String> {
    Text { allowed: "up to 12 ASCII characters", parse: smpp_field::<12> }
}

fn address_range() -> Text<String> {
    Text { allowed: "up to 40 ASCII characters, in the syntax of the SMSC", parse: smpp_field::<40> }
}

/// Checks the length and characters of an SMPP text field.
fn smpp_field<const MAX_LENGTH: usize>(text: &str) -> Option<String> {
    let fits = text.len() <= MAX_LENGTH && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
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
