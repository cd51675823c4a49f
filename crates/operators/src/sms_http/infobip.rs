//! Infobip: batches as JSON by POST.
//!
//! Nothing is signed. A batch is acknowledged when all of its messages are safe; if one is not, Infobip sends all of
//! them again, and those that were safe have no second effect. `text` is read, never `cleanText`, which lacks the
//! keyword.

use http::Method;
use ringtrue_domain::phone::AddressKind;
use serde::Deserialize;

use super::{
    request::Request,
    vendor::{Forged, Message, Proof, Text, Unreadable, Vendor, sender},
};

/// Far more than a body of the accepted size has room for in practice.
const MAX_BATCH: usize = 1000;

#[derive(Clone, Copy, Debug)]
pub struct Infobip;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Batch {
    results: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Inbound {
    message_id: String,
    #[serde(default, deserialize_with = "sender")]
    from: String,
    to: String,
    #[serde(default)]
    text: String,
}

impl Vendor for Infobip {
    fn methods(&self) -> &'static [Method] {
        &[Method::POST]
    }

    fn authenticate(&self, _: &Request<'_>) -> Result<Proof, Forged> {
        Ok(Proof::default())
    }

    fn read(&self, request: &Request<'_>) -> Result<Vec<Message>, Unreadable> {
        let Batch { results } = serde_json::from_value(request.json()?).map_err(|_| Unreadable)?;
        if results.len() > MAX_BATCH {
            return Err(Unreadable);
        }
        let is_empty = results.is_empty();
        // One that cannot be read must not keep the others out, time and again.
        let results = results.into_iter().filter_map(|one| serde_json::from_value::<Inbound>(one).ok());
        let read = |Inbound { message_id, from, to, text }| Message {
            id: Some(message_id),
            from,
            to,
            kind: AddressKind::International,
            text: Text::Whole(text),
        };
        let messages: Vec<_> = results.map(read).collect();
        if messages.is_empty() && !is_empty { Err(Unreadable) } else { Ok(messages) }
    }
}
