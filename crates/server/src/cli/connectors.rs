//! `ringtrue connectors`: prepares connectors to operators.

use std::path::{Path, PathBuf};

use anyhow::Context;
use aws_lc_rs::digest::{SHA256, digest};
use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, date_time_ymd,
};
use ringtrue_client::printer::{self, Output};
use ringtrue_engine::ports::clock::{Clock, SystemClock};
use serde_json::json;

use super::{arguments::OperatorTokenInitArguments, context::CommandContext, error::CliError, new_files};

/// Our certificate, then its root: the order of `x5c` in requests.
const CHAIN_FILE: &str = "operator-token.crt";
const KEY_FILE: &str = "operator-token.key";
const ROOT_FILE: &str = "operator-token-root.crt";
const ROOT_KEY_FILE: &str = "operator-token-root.key";
/// Operators register the root certificate, so it is rarely replaced.
const ROOT_VALIDITY_YEARS: i16 = 30;
const VALIDITY_YEARS: i16 = 10;

/// Writes the keys and certificates with which connectors sign their requests to phones' wallets.
pub(super) fn init_operator_token(
    context: &CommandContext,
    OperatorTokenInitArguments { dir, organisation }: &OperatorTokenInitArguments,
) -> Result<(), CliError> {
    let dir = new_files::create_dir(dir)?;
    let paths = new_files::new_paths(&dir, [CHAIN_FILE, KEY_FILE, ROOT_FILE, ROOT_KEY_FILE])?;
    let generated = Certificates::generate(organisation, SystemClock.now()).context("cannot generate certificates");
    let Certificates { certificate, key, root, root_key } = generated.map_err(CliError::Other)?;
    let [chain_path, key_path, root_path, root_key_path] = &paths;
    new_files::write(root_key_path, format_args!("{}", root_key.serialize_pem()))?;
    new_files::write(root_path, format_args!("{}", root.pem()))?;
    new_files::write(key_path, format_args!("{}", key.serialize_pem()))?;
    new_files::write(chain_path, format_args!("{}{}", certificate.pem(), root.pem()))?;
    let root_sha256 = digest(&SHA256, root.der());
    if context.printer.output != Output::Table {
        let record = vec![
            ("certificate_file", json!(chain_path)),
            ("key_file", json!(key_path)),
            ("root_certificate_file", json!(root_path)),
            ("root_key_file", json!(root_key_path)),
            ("root_sha256", json!(render_fingerprint(root_sha256.as_ref()))),
        ];
        return Ok(context.printer.print_record(record)?);
    }
    Ok(printer::print_text(&render_next_steps(&paths, &render_fingerprint(root_sha256.as_ref())))?)
}

struct Certificates {
    certificate: Certificate,
    key: KeyPair,
    root: Certificate,
    root_key: KeyPair,
}

impl Certificates {
    fn generate(organisation: &str, now: Timestamp) -> anyhow::Result<Self> {
        let today = now.to_zoned(TimeZone::UTC).date();
        let (root_key, key) =
            (KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?, KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?);
        let mut root_params = certificate_params(organisation, "operator token root", today, ROOT_VALIDITY_YEARS)?;
        root_params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        root_params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let root = root_params.self_signed(&root_key)?;
        let mut params = certificate_params(organisation, "operator token requests", today, VALIDITY_YEARS)?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &Issuer::from_params(&root_params, &root_key))?;
        Ok(Certificates { certificate, key, root, root_key })
    }
}

fn certificate_params(organisation: &str, name: &str, today: Date, years: i16) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::OrganizationName, organisation);
    params.distinguished_name.push(DnType::CommonName, name);
    let time =
        |date: Date| anyhow::Ok(date_time_ymd(date.year().into(), date.month().try_into()?, date.day().try_into()?));
    // The clocks of phones may be slow.
    params.not_before = time(today.checked_sub(1.day())?)?;
    params.not_after = time(today.checked_add(years.years())?)?;
    Ok(params)
}

/// Renders a SHA-256 fingerprint as `openssl x509 -fingerprint` does.
fn render_fingerprint(sha256: &[u8]) -> String {
    sha256.iter().map(|octet| format!("{octet:02X}")).collect::<Vec<_>>().join(":")
}

fn render_next_steps(paths: &[PathBuf; 4], root_sha256: &str) -> String {
    let [chain, key, root, root_key] = paths.each_ref().map(|path| Path::display(path));
    format!(
        "Wrote {chain}, {key},\n{root} and {root_key}.\n\
         \n\
         SHA-256 of the root certificate, which operators register:\n  \
           {root_sha256}\n\
         \n\
         Settings for a connector of the kind \"camara\":\n  \
           operator_tokens = \"jwt_bearer\"\n  \
           operator_tokens_issuer = \"https://verify.example.com\"\n  \
           operator_tokens_certificate_file = \"{chain}\"\n  \
           operator_tokens_key_file = \"{key}\"\n  \
           operator_tokens_consent_text = \"Your operator confirms that this phone has your number.\"\n  \
           operator_tokens_policy_link = \"https://verify.example.com/privacy\"\n  \
           operator_tokens_policy_text = \"Privacy policy\"\n\
         \n\
         Next steps:\n  \
           1. Send {chain} and the SHA-256 to each operator, and agree on the settings. Each operator\n     \
              registers the SHA-256 with Google, for its own subscribers.\n  \
           2. Move {root_key} to a safe place. You need it only to replace {chain}.\n  \
           3. Add the settings, and run `ringtrue config check` and `ringtrue doctor`.\n"
    )
}

#[cfg(test)]
mod tests {
    use ringtrue_operators::camara::WalletRequestSigner;

    use super::*;
    use crate::leaf_certificate::validity;

    #[test]
    fn certificates_can_sign_requests() {
        // In 30 years, there is no 29 February.
        let now = "2028-02-29T12:00:00Z".parse().unwrap();
        let Certificates { certificate, key, root, .. } = Certificates::generate("Acme", now).unwrap();
        let pem = certificate.pem() + &root.pem();
        let signer = WalletRequestSigner::from_pem(pem.as_bytes(), key.serialize_pem().as_bytes()).unwrap();
        assert_eq!(render_fingerprint(&signer.root_sha256()), render_fingerprint(digest(&SHA256, root.der()).as_ref()));
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let validities = signer.certificates().each_ref().map(|certificate| validity(certificate).unwrap());
        let from = at("2028-02-28T00:00:00Z");
        assert_eq!(validities, [(from, at("2038-02-28T00:00:00Z")), (from, at("2058-02-28T00:00:00Z"))]);
    }

    #[test]
    fn fingerprint_is_rendered_in_hexadecimal() {
        assert_eq!(render_fingerprint(&[0, 0xa1, 0xff]), "00:A1:FF");
    }
}
