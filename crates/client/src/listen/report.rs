//! Reports about received callbacks, as text or as one line of JSON or CSV each.

use std::{fmt::Write as _, io};

use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;
use ringtrue_domain::timestamp;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{resume::JournalEntry, verification::VerificationError};
use crate::{
    http::{HttpError, HttpResponse},
    printer::{self, Output, Printer, escape_controls},
};

const MAX_SHOWN_RESPONSE_CHARS: usize = 500;
/// Columns of the CSV output.
const COLUMNS: [&str; 12] = [
    "received_at",
    "target",
    "product",
    "attempt",
    "check_id",
    "status",
    "match",
    "signature",
    "key_id",
    "flaw",
    "why",
    "answered",
];

#[derive(Debug)]
pub(super) enum ListenEvent {
    Callback(Box<CallbackReport>),
    Rejected(RejectedRequest),
}

/// A received callback, valid or not, and how it was handled.
#[derive(Debug)]
pub(super) struct CallbackReport {
    pub received_at: Timestamp,
    pub target: String,
    pub product: Option<String>,
    pub attempt: Option<String>,
    /// Id of the signing key, or the reason why the signature is invalid.
    pub signature: Result<String, VerificationError>,
    pub response_status: StatusCode,
    pub forwarded: Option<Result<HttpResponse, HttpError>>,
    pub body: Bytes,
    /// Whether the callback was handled before, or another request is handling it.
    pub is_duplicate: bool,
    /// Entry to write to the journal after the callback is printed. `None`: the callback is not journaled.
    pub entry: Option<JournalEntry>,
    /// Tells the request handler, which waits before it responds, that the entry is in the journal.
    pub journaled: Option<oneshot::Sender<()>>,
}

/// A request that is not a callback.
#[derive(Debug)]
pub(super) struct RejectedRequest {
    at: Timestamp,
    message: String,
}

impl RejectedRequest {
    pub(super) fn new(at: Timestamp, message: String) -> Self {
        RejectedRequest { at, message }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CallbackCounts {
    pub valid: u64,
    pub invalid: u64,
    pub rejected: u64,
    pub duplicates: u64,
}

impl CallbackCounts {
    pub(super) fn callbacks(self) -> u64 {
        self.valid + self.invalid
    }

    pub(super) fn count_and_print(&mut self, printer: Printer, event: &ListenEvent) -> io::Result<()> {
        match event {
            ListenEvent::Callback(callback) if callback.is_duplicate => {
                self.duplicates += 1;
                Ok(())
            }
            ListenEvent::Callback(callback) => {
                let is_first = self.callbacks() == 0;
                *(if callback.signature.is_ok() { &mut self.valid } else { &mut self.invalid }) += 1;
                match printer.output {
                    Output::Table => printer::print_text(&render_text(callback)),
                    Output::Json | Output::Csv => printer.print_stream_item(&COLUMNS, &render_json(callback), is_first),
                }
            }
            ListenEvent::Rejected(RejectedRequest { at, message }) => {
                self.rejected += 1;
                printer.print_status(&format!("{}  rejected  {}", timestamp::format(*at), escape_controls(message)))
            }
        }
    }

    pub(super) fn render_summary(self) -> String {
        let count = |count: u64, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
        let mut text = count(self.callbacks(), "callback", "callbacks");
        let _ = write!(text, ": {} with a valid signature, {} without", self.valid, self.invalid);
        if self.rejected > 0 {
            let _ = write!(text, "; {} rejected", count(self.rejected, "other request", "other requests"));
        }
        if self.duplicates > 0 {
            let _ = write!(text, "; {} skipped", count(self.duplicates, "duplicate", "duplicates"));
        }
        text + "."
    }
}

fn render_text(callback: &CallbackReport) -> String {
    let body = serde_json::from_slice::<Value>(&callback.body).ok();
    let product = callback.product.as_deref().unwrap_or("unknown product");
    let attempt = callback.attempt.as_deref().unwrap_or("unknown");
    let mut text = format!("\n{}  {product}  attempt {attempt}", timestamp::format(callback.received_at));
    let mut line = |name: &str, value: &str| {
        let _ = write!(text, "\n  {name:<10} {value}");
    };
    let id_name = if has_verification(body.as_ref()) { "verification_id" } else { "check_id" };
    line("check", &body_field(body.as_ref(), id_name));
    line("status", &body_field(body.as_ref(), "status"));
    line("match", &body_field(body.as_ref(), "match"));
    match &callback.signature {
        Ok(key) => line("signature", &format!("valid (key {key})")),
        Err(error) => {
            line("signature", &format!("INVALID: {}", error.reason));
            if let Some(expected) = &error.expected_text {
                line("", &format!("expected signing string for this request:\n{}", indent(expected)));
            }
        }
    }
    match &callback.forwarded {
        Some(Ok(response)) => {
            let beginning: String =
                String::from_utf8_lossy(&response.body).chars().take(MAX_SHOWN_RESPONSE_CHARS).collect();
            let beginning = beginning.replace(['\r', '\n'], " ");
            line("forwarded", format!("responded {} {beginning}", response.status).trim_end());
        }
        Some(Err(error)) => line("forwarded", &format!("no response: {error}")),
        None => {}
    }
    line("response", callback.response_status.as_str());
    let body = match &body {
        Some(body) => format!("{body:#}"),
        None => format!("not JSON: {}", String::from_utf8_lossy(&callback.body)),
    };
    let _ = writeln!(text, "\n{}", indent(&body));
    escape_controls(&text)
}

/// Whether the callback is for a verification, whose id field is `verification_id` instead of `check_id`.
fn has_verification(body: Option<&Value>) -> bool {
    body.is_some_and(|body| body.get("verification_id").is_some())
}

fn render_json(callback: &CallbackReport) -> Value {
    let body = serde_json::from_slice::<Value>(&callback.body).ok();
    let field = |name: &str| body.as_ref().and_then(|body| body.get(name)).cloned();
    let error = callback.signature.as_ref().err();
    json!({
        "received_at": timestamp::format(callback.received_at),
        "target": callback.target,
        "product": callback.product,
        "attempt": callback.attempt.as_ref().and_then(|attempt| attempt.parse::<u32>().ok()),
        "check_id": field("check_id").or_else(|| field("verification_id")),
        "status": field("status"),
        "match": field("match"),
        "signature": if error.is_none() { "good" } else { "bad" },
        "key_id": callback.signature.as_ref().ok(),
        "flaw": error.map(|error| error.part),
        "why": error.map(|error| &error.reason),
        "expected_text": error.and_then(|error| error.expected_text.as_ref()),
        "forwarded": callback.forwarded.as_ref().map(|outcome| match outcome {
            Ok(response) => json!({"status": response.status, "body": String::from_utf8_lossy(&response.body)}),
            Err(error) => json!({"problem": error.to_string()}),
        }),
        "answered": callback.response_status.as_u16(),
        // A body that is not JSON is shown as a string.
        "body": body.clone().unwrap_or_else(|| json!(String::from_utf8_lossy(&callback.body))),
    })
}

fn body_field(body: Option<&Value>, name: &str) -> String {
    match body.and_then(|body| body.get(name)) {
        None => "-".to_owned(),
        Some(Value::String(text)) => text.replace('\n', "\\n"),
        Some(other) => other.to_string(),
    }
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_counts_callbacks() {
        for (counts, text) in [
            (CallbackCounts::default(), "0 callbacks: 0 with a valid signature, 0 without."),
            (
                CallbackCounts { valid: 1, ..CallbackCounts::default() },
                "1 callback: 1 with a valid signature, 0 without.",
            ),
            (
                CallbackCounts { valid: 1, invalid: 2, rejected: 1, duplicates: 2 },
                "3 callbacks: 1 with a valid signature, 2 without; 1 other request rejected; 2 duplicates skipped.",
            ),
        ] {
            assert_eq!(counts.render_summary(), text);
        }
    }
}
