//! TLS to an SMSC: expected server name and trusted CA certificates.

use std::sync::Arc;

use ringtrue_operators::smpp::SmppTls;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};

use super::{
    super::{
        ConfigError,
        value_type::{self, Bool, Text},
    },
    section_reader::SectionReader,
};

pub(super) fn read(reader: &mut SectionReader<'_>, host: &str) -> Result<Option<SmppTls>, ConfigError> {
    let section = reader.section;
    let is_on = section.read_optional("tls", &Bool)?.unwrap_or(false);
    let name = section.read_optional("tls_server_name", &server_name())?;
    let ca_file = section.read_optional("tls_ca_file", &value_type::file_path())?;
    if !is_on {
        let set = [("tls_server_name", name.is_some()), ("tls_ca_file", ca_file.is_some())];
        return match set.into_iter().find(|(_, is_set)| *is_set) {
            Some((member, _)) => {
                let allowed = format!("true, because `{}` is set", section.key(member));
                Err(section.invalid("tls", "false", allowed))
            }
            None => Ok(None),
        };
    }
    let server_name = match name {
        Some(name) => name,
        None => ServerName::try_from(host.to_owned())
            .map_err(|_| section.invalid("tls_server_name", "nothing", server_name_description()))?,
    };
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(path) => {
            let pem = reader.read_file("tls_ca_file", &path)?;
            let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
            let added = certificates.map_or(0, |certificates| roots.add_parsable_certificates(certificates).0);
            if added == 0 {
                let found = format!("\"{}\", which contains no certificate", path.display());
                return Err(section.invalid("tls_ca_file", found, "a path to a PEM file with certificates"));
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| section.invalid("tls", format!("true, but {error}"), "false"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Some(SmppTls { config: Arc::new(config), server_name }))
}

fn server_name_description() -> &'static str {
    "the host name or IP address in the certificate"
}

fn server_name() -> Text<ServerName<'static>> {
    Text { allowed: server_name_description(), parse: |text| ServerName::try_from(text.to_owned()).ok() }
}
