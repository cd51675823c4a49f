//! Jasmin: a GET or a form, from its `httpccm` connector.
//!
//! Nothing is signed. Jasmin is content with one answer only, and asks again after any other; so what cannot be read
//! is acknowledged too, and counted. Jasmin puts longer messages together by itself.

use http::Method;
use ringtrue_domain::phone::AddressKind;
use ringtrue_smpp::text::{Coding, DataCoding, DefaultAlphabet};

use super::{
    request::{Fields, Reply, Request},
    secret::hex,
    vendor::{Forged, Message, Proof, Text, Unreadable, Vendor},
};

#[derive(Clone, Copy, Debug)]
pub struct Jasmin;

impl Vendor for Jasmin {
    fn methods(&self) -> &'static [Method] {
        &[Method::GET, Method::POST]
    }

    fn authenticate(&self, _: &Request<'_>) -> Result<Proof, Forged> {
        Ok(Proof::default())
    }

    fn read(&self, request: &Request<'_>) -> Result<Vec<Message>, Unreadable> {
        let fields = request.fields()?;
        Ok(vec![Message {
            id: Some(fields.required("id")?.to_owned()),
            from: fields.sender("from")?,
            to: fields.required("to")?.to_owned(),
            kind: AddressKind::Unknown,
            text: Text::Whole(text(&fields)?),
        }])
    }

    fn acknowledgement(&self) -> Reply {
        Reply::ok("text/plain", "ACK/Jasmin")
    }

    fn dismissal(&self) -> Reply {
        self.acknowledgement()
    }
}

/// `content` holds the octets as they came over SMPP, and `binary` the same in hexadecimal, which survives proxies.
fn text(fields: &Fields<'_>) -> Result<String, Unreadable> {
    let octets = match fields.text("binary") {
        Some(digits) => hex(digits).ok_or(Unreadable)?,
        None => fields.octets("content").ok_or(Unreadable)?.to_vec(),
    };
    let coding = match fields.text("coding").filter(|coding| !coding.is_empty()) {
        Some(number) => DataCoding(number.parse().map_err(|_| Unreadable)?).coding(DefaultAlphabet::default()),
        None => Coding::Octets,
    };
    Ok(coding.decode(&octets))
}
