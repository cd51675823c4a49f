//! What is said about callbacks: for people, or one line of JSON or CSV each.

use std::{fmt::Write as _, io};

use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{
    exchange::{Answer, Unanswered},
    verdict::Flaw,
};
use crate::{
    cli::{
        arguments::Output,
        caller::Entry,
        printer::{self, Printer, harmless},
    },
    http::time,
};

/// How much is shown of what an application answered.
const SHOWN_OF_ANSWER: usize = 500;
/// Of a callback, in CSV.
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
pub(super) enum Event {
    Callback(Box<Callback>),
    Refused(Refusal),
}

/// A callback, good or bad. There is no other record of it.
#[derive(Debug)]
pub(super) struct Callback {
    pub received_at: Timestamp,
    pub target: String,
    pub product: Option<String>,
    pub attempt: Option<String>,
    /// By which key it was signed, or what is wrong.
    pub verdict: Result<String, Flaw>,
    pub answered: StatusCode,
    pub forwarded: Option<Result<Answer, Unanswered>>,
    pub body: Bytes,
    /// It was handled before, or is being handled.
    pub is_repeated: bool,
    /// What is booked once it has been told of.
    pub entry: Option<Entry>,
    /// Told when it is booked.
    pub done: Option<oneshot::Sender<()>>,
}

/// Something else that arrived.
#[derive(Debug)]
pub(super) struct Refusal {
    at: Timestamp,
    what: String,
}

impl Refusal {
    pub(super) fn new(at: Timestamp, what: String) -> Self {
        Refusal { at, what }
    }
}

/// What has come so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub good: u64,
    pub bad: u64,
    pub refused: u64,
    pub repeated: u64,
}

impl Tally {
    pub(super) fn callbacks(self) -> u64 {
        self.good + self.bad
    }

    pub(super) fn take(&mut self, printer: Printer, event: &Event) -> io::Result<()> {
        match event {
            Event::Callback(callback) if callback.is_repeated => {
                self.repeated += 1;
                Ok(())
            }
            Event::Callback(callback) => {
                let is_first = self.callbacks() == 0;
                *(if callback.verdict.is_ok() { &mut self.good } else { &mut self.bad }) += 1;
                match printer.output {
                    Output::Table => printer::text(&page(callback)),
                    Output::Json | Output::Csv => printer.next_object(&COLUMNS, &line(callback), is_first),
                }
            }
            Event::Refused(Refusal { at, what }) => {
                self.refused += 1;
                say(printer, &format!("{}  refused  {}", time::format(*at), harmless(what)))
            }
        }
    }

    pub(super) fn summary(self) -> String {
        let count = |count: u64, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
        let mut text = count(self.callbacks(), "callback", "callbacks");
        let _ = write!(text, ": {} with a good signature, {} without", self.good, self.bad);
        if self.refused > 0 {
            let _ = write!(text, "; {} refused", count(self.refused, "other request", "other requests"));
        }
        if self.repeated > 0 {
            let _ = write!(text, "; {} came again", count(self.repeated, "callback", "callbacks"));
        }
        text + "."
    }
}

/// Says what is no callback. Programs read callbacks only from standard output.
pub(super) fn say(printer: Printer, text: &str) -> io::Result<()> {
    match printer.output {
        Output::Table => printer::text(text),
        Output::Json | Output::Csv => {
            printer::remark(text);
            Ok(())
        }
    }
}

fn page(callback: &Callback) -> String {
    let body = serde_json::from_slice::<Value>(&callback.body).ok();
    let product = callback.product.as_deref().unwrap_or("no product");
    let attempt = callback.attempt.as_deref().unwrap_or("not said");
    let mut text = format!("\n{}  {product}  attempt {attempt}", time::format(callback.received_at));
    let mut member = |name: &str, value: &str| {
        let _ = write!(text, "\n  {name:<10} {value}");
    };
    member("check", &shown(body.as_ref(), "check_id"));
    member("status", &shown(body.as_ref(), "status"));
    member("match", &shown(body.as_ref(), "match"));
    match &callback.verdict {
        Ok(key) => member("signature", &format!("good, by key {key}")),
        Err(flaw) => {
            member("signature", &format!("NOT GOOD: {}", flaw.why));
            if let Some(expected) = &flaw.expected_text {
                member("", &format!("what arrived would have to be signed as:\n{}", indented(expected)));
            }
        }
    }
    match &callback.forwarded {
        Some(Ok(answer)) => {
            let beginning: String = String::from_utf8_lossy(&answer.body).chars().take(SHOWN_OF_ANSWER).collect();
            let beginning = beginning.replace(['\r', '\n'], " ");
            member("forwarded", format!("answered {} {beginning}", answer.status).trim_end());
        }
        Some(Err(problem)) => member("forwarded", &format!("no answer: {problem}")),
        None => {}
    }
    member("answered", callback.answered.as_str());
    let body = match &body {
        Some(body) => format!("{body:#}"),
        None => format!("not JSON: {}", String::from_utf8_lossy(&callback.body)),
    };
    let _ = writeln!(text, "\n{}", indented(&body));
    harmless(&text)
}

fn line(callback: &Callback) -> Value {
    let body = serde_json::from_slice::<Value>(&callback.body).ok();
    let of_body = |name: &str| body.as_ref().and_then(|body| body.get(name)).cloned();
    let flaw = callback.verdict.as_ref().err();
    json!({
        "received_at": time::format(callback.received_at),
        "target": callback.target,
        "product": callback.product,
        "attempt": callback.attempt.as_ref().and_then(|attempt| attempt.parse::<u32>().ok()),
        "check_id": of_body("check_id"),
        "status": of_body("status"),
        "match": of_body("match"),
        "signature": if flaw.is_none() { "good" } else { "bad" },
        "key_id": callback.verdict.as_ref().ok(),
        "flaw": flaw.map(|flaw| flaw.part),
        "why": flaw.map(|flaw| &flaw.why),
        "expected_text": flaw.and_then(|flaw| flaw.expected_text.as_ref()),
        "forwarded": callback.forwarded.as_ref().map(|answer| match answer {
            Ok(answer) => json!({"status": answer.status, "body": String::from_utf8_lossy(&answer.body)}),
            Err(problem) => json!({"problem": problem.to_string()}),
        }),
        "answered": callback.answered.as_u16(),
        // Where it is not JSON, the text that came in its place.
        "body": body.clone().unwrap_or_else(|| json!(String::from_utf8_lossy(&callback.body))),
    })
}

/// A member of the body, in one line.
fn shown(body: Option<&Value>, name: &str) -> String {
    match body.and_then(|body| body.get(name)) {
        None => "-".to_owned(),
        Some(Value::String(text)) => text.replace('\n', "\\n"),
        Some(other) => other.to_string(),
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_a_sentence() {
        for (tally, text) in [
            (Tally::default(), "0 callbacks: 0 with a good signature, 0 without."),
            (Tally { good: 1, ..Tally::default() }, "1 callback: 1 with a good signature, 0 without."),
            (
                Tally { good: 1, bad: 2, refused: 1, repeated: 2 },
                "3 callbacks: 1 with a good signature, 2 without; 1 other request refused; 2 callbacks came again.",
            ),
        ] {
            assert_eq!(tally.summary(), text);
        }
    }
}
