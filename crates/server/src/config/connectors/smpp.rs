//! Connectors of the kind `smpp`: bind to an operator's SMSC.

use std::{net::IpAddr, sync::Arc, time::Duration};

use ringtrue_operators::smpp::{BindDirection, DefaultAlphabet, InterfaceVersion, SmppConfig, SmppPassword, SmppTls};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};

use super::{
    super::{
        ConfigError,
        document::{SecretParser, Section},
        listeners::Listeners,
        value_parser::{
            HOUR, MILLISECOND, MINUTE, SECOND, ValueParser, boolean, country, duration, format_duration, integer,
            keyword, path, string, text,
        },
    },
    Connector, read_receivers,
};

#[rustfmt::skip]
const MEMBERS: [&str; 28] = [
    "kind", "host", "port", "tls", "tls_server_name", "tls_ca_file",
    "system_id", "password_file", "password_env", "system_type", "bind", "interface_version",
    "address_ton", "address_npi", "address_range",
    "receivers", "country", "default_alphabet", "binds", "exclusive", "window",
    "enquire_link_interval", "response_timeout", "answer_timeout", "reconnect_min", "reconnect_max",
    "concatenation_deadline", "grace",
];

pub(super) fn read(section: &Section<'_>, _: &Listeners) -> Result<Connector, ConfigError> {
    const PASSWORD_PARSER: SecretParser<SmppPassword> =
        ("a password of 1 to 8 ASCII characters, the limit of SMPP", |text| is_field(text, 1, 8).then(|| text.into()));
    section.reject_unknown(&[&MEMBERS])?;
    let host = string("a host name or an IP address, without a port", |text| {
        let is_domain = matches!(url::Host::parse(text), Ok(url::Host::Domain(_)) if !text.is_empty());
        is_domain || text.parse::<IpAddr>().is_ok()
    });
    let (host, port) = (section.get("host", host)?, section.get("port", integer(1..=u16::MAX))?);
    let mut config = SmppConfig::new(section.name(), host, port, read_receivers(section)?);
    config.tls = read_tls(section, &config.host)?;
    config.system_id = section.get("system_id", smpp_field_parser("1 to 15 ASCII characters", 1, 15))?;
    config.password = section.get_secret("password", &PASSWORD_PARSER)?;
    config.country = section.get_opt("country", country())?;
    section.update("system_type", smpp_field_parser("up to 12 ASCII characters", 0, 12), &mut config.system_type)?;
    section.update("bind", keyword(BIND_DIRECTIONS), &mut config.bind)?;
    section.update("interface_version", keyword(INTERFACE_VERSIONS), &mut config.interface_version)?;
    section.update("address_ton", integer(0..=255), &mut config.address_range.ton)?;
    section.update("address_npi", integer(0..=255), &mut config.address_range.npi)?;
    let pattern = smpp_field_parser("up to 40 ASCII characters, in the syntax of the SMSC", 0, 40);
    section.update("address_range", pattern, &mut config.address_range.pattern)?;
    section.update("default_alphabet", keyword(ALPHABETS), &mut config.default_alphabet)?;
    section.update("binds", integer(1..=64), &mut config.binds)?;
    section.update("exclusive", boolean(), &mut config.is_exclusive)?;
    section.update("window", integer(1..=10_000), &mut config.window)?;
    section.update("enquire_link_interval", duration(SECOND, HOUR), &mut config.enquire_link_interval)?;
    section.update("response_timeout", duration(SECOND, 10 * MINUTE), &mut config.response_timeout)?;
    section.update("answer_timeout", duration(SECOND, 10 * MINUTE), &mut config.answer_timeout)?;
    section.update("reconnect_min", duration(100 * MILLISECOND, HOUR), &mut config.reconnect_min)?;
    section.update("reconnect_max", duration(100 * MILLISECOND, HOUR), &mut config.reconnect_max)?;
    section.update("concatenation_deadline", duration(SECOND, HOUR), &mut config.concatenation_deadline)?;
    section.update("grace", duration(Duration::ZERO, HOUR), &mut config.grace)?;
    if config.reconnect_min > config.reconnect_max {
        let [min, max] = [config.reconnect_min, config.reconnect_max].map(format_duration);
        let allowed = format!("at most {max}, the value of `{}`", section.key("reconnect_max"));
        return Err(section.invalid("reconnect_min", min, allowed));
    }
    Ok(Connector::Smpp(Box::new(config)))
}

fn read_tls(section: &Section<'_>, host: &str) -> Result<Option<SmppTls>, ConfigError> {
    if !section.get_or("tls", boolean(), false)? {
        let set = ["tls_server_name", "tls_ca_file"].into_iter().find(|member| section.has(member));
        let Some(set) = set else { return Ok(None) };
        return Err(section.invalid("tls", "false", format!("true, because `{}` is set", section.key(set))));
    }
    let allowed = "the host name or IP address in the certificate";
    let server_name = match section.get_opt("tls_server_name", text(allowed, |text| text.to_owned().try_into().ok()))? {
        Some(name) => name,
        None => {
            ServerName::try_from(host.to_owned()).map_err(|_| section.invalid("tls_server_name", "nothing", allowed))?
        }
    };
    let mut roots = RootCertStore::empty();
    if let Some(path) = section.get_opt("tls_ca_file", path())? {
        let pem = section.read_file("tls_ca_file", &path)?;
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let added = certificates.map_or(0, |certificates| roots.add_parsable_certificates(certificates).0);
        if added == 0 {
            let found = format!("\"{}\", which contains no certificate", path.display());
            return Err(section.invalid("tls_ca_file", found, "a path to a PEM file with certificates"));
        }
    } else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| section.invalid("tls", format!("true, but {error}"), "false"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Some(SmppTls { config: Arc::new(config), server_name }))
}

const BIND_DIRECTIONS: &[(&str, BindDirection)] =
    &[("transceiver", BindDirection::Transceiver), ("receiver", BindDirection::Receiver)];
const INTERFACE_VERSIONS: &[(&str, InterfaceVersion)] =
    &[("3.4", InterfaceVersion::V3_4), ("5.0", InterfaceVersion::V5_0)];
const ALPHABETS: &[(&str, DefaultAlphabet)] = &[
    ("gsm0338", DefaultAlphabet::Gsm0338),
    ("gsm0338_packed", DefaultAlphabet::Gsm0338Packed),
    ("latin1", DefaultAlphabet::Latin1),
    ("ascii", DefaultAlphabet::Ascii),
];

fn smpp_field_parser(allowed: &str, min: usize, max: usize) -> ValueParser<String> {
    string(allowed, move |text| is_field(text, min, max))
}

/// Returns whether the text has a valid length and valid characters for an SMPP field.
fn is_field(text: &str, min: usize, max: usize) -> bool {
    (min..=max).contains(&text.len()) && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}
