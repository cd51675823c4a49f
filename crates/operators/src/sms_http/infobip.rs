//! Infobip: batches as JSON by POST.
//!
//! Requests are unsigned. A batch is acknowledged after all of its messages are stored; otherwise Infobip resends all
//! of them, and stored ones have no second effect. `cleanText` is ignored because it lacks the keyword.

use http::Method;
use ringtrue_domain::phone::AddressKind;
use serde::Deserialize;

use super::{
    request::VendorRequest,
    vendor::{
        InvalidSignature, MalformedRequest, MessageText, VendorMessage, VerifiedSignature, WebhookVendor,
        deserialize_sender,
    },
};

/// More than fits into a body of the accepted size in practice.
const MAX_BATCH_MESSAGES: usize = 1000;

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
    #[serde(default, deserialize_with = "deserialize_sender")]
    from: String,
    to: String,
    #[serde(default)]
    text: String,
}

impl WebhookVendor for Infobip {
    fn methods(&self) -> &'static [Method] {
        &[Method::POST]
    }

    fn verify_signature(&self, _: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature> {
        Ok(VerifiedSignature::default())
    }

    fn parse_messages(&self, request: &VendorRequest<'_>) -> Result<Vec<VendorMessage>, MalformedRequest> {
        let Batch { results } = serde_json::from_value(request.json()?).map_err(|_| MalformedRequest)?;
        if results.len() > MAX_BATCH_MESSAGES {
            return Err(MalformedRequest);
        }
        let is_empty = results.is_empty();
        // A malformed message must not block the others on every resend.
        let results = results.into_iter().filter_map(|result| serde_json::from_value::<Inbound>(result).ok());
        let to_message = |Inbound { message_id, from, to, text }| VendorMessage {
            id: Some(message_id),
            from,
            to,
            kind: AddressKind::International,
            text: MessageText::Complete(text),
        };
        let messages: Vec<_> = results.map(to_message).collect();
        if messages.is_empty() && !is_empty { Err(MalformedRequest) } else { Ok(messages) }
    }
}
