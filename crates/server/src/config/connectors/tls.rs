//! TLS to a message centre: whose certificate is expected, and who may have signed it.

use std::sync::Arc;

use ringtrue_operators::smpp::Tls;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};

use super::{
    super::{
        ConfigError,
        kind::{self, Flag, Text},
    },
    reader::Reader,
};

pub(super) fn read(reader: &mut Reader<'_>, host: &str) -> Result<Option<Tls>, ConfigError> {
    let section = reader.section;
    let is_on = section.read_if("tls", &Flag)?.unwrap_or(false);
    let name = section.read_if("tls_server_name", &server_name())?;
    let ca_file = section.read_if("tls_ca_file", &kind::path())?;
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
            .map_err(|_| section.invalid("tls_server_name", "nothing", server_name_allowed()))?,
    };
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(path) => {
            let pem = reader.file("tls_ca_file", &path)?;
            let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
            let added = certificates.map_or(0, |certificates| roots.add_parsable_certificates(certificates).0);
            if added == 0 {
                let found = format!("\"{}\", which holds none", path.display());
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
        .map_err(|problem| section.invalid("tls", format!("true, but {problem}"), "false"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Some(Tls { config: Arc::new(config), server_name }))
}

fn server_name_allowed() -> &'static str {
    "the host name or the IP address that the certificate is for"
}

fn server_name() -> Text<ServerName<'static>> {
    Text { allowed: server_name_allowed(), parse: |text| ServerName::try_from(text.to_owned()).ok() }
}
