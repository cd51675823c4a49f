//! Sets up logs, traces and metrics.
//!
//! Numbers, codes and secrets have types with masked `Debug` output. Log statements must not contain URLs with queries,
//! headers or bodies.

pub(crate) mod metrics;
#[cfg(feature = "otlp")]
pub mod otlp;

use std::io::{self, IsTerminal};

use tracing::{Subscriber, subscriber::SetGlobalDefaultError};
use tracing_subscriber::{
    Layer, Registry,
    fmt::{self, MakeWriter},
    layer::SubscriberExt,
    registry::LookupSpan,
};

use crate::config::{LogFormat, LogSection, TelemetrySection};

#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("logging is already set up")]
    AlreadyStarted(#[from] SetGlobalDefaultError),
    #[cfg(feature = "otlp")]
    #[error("failed to set up trace export: {0}")]
    Otlp(#[from] opentelemetry_otlp::ExporterBuildError),
}

/// Handle of the running telemetry, used to send pending traces on shutdown.
#[must_use = "pending traces are lost unless this is flushed"]
#[derive(Debug)]
pub struct Telemetry {
    #[cfg(feature = "otlp")]
    traces: Option<otlp::TraceExport>,
}

/// Sets up logs and, if configured, traces. Must be called once, inside the runtime.
pub fn start(log: &LogSection, telemetry: &TelemetrySection) -> Result<Telemetry, TelemetryError> {
    let subscriber = Registry::default().with(log_layer(log, io::stdout, io::stdout().is_terminal()));
    #[cfg(feature = "otlp")]
    {
        let traces = otlp::TraceExport::start(telemetry)?;
        tracing::subscriber::set_global_default(subscriber.with(traces.as_ref().map(otlp::TraceExport::layer)))?;
        Ok(Telemetry { traces })
    }
    #[cfg(not(feature = "otlp"))]
    {
        let _ = telemetry;
        tracing::subscriber::set_global_default(subscriber)?;
        Ok(Telemetry {})
    }
}

impl Telemetry {
    /// Sends pending traces.
    #[cfg_attr(
        not(feature = "otlp"),
        expect(clippy::unused_async, reason = "awaits the exporter with the `otlp` feature")
    )]
    pub async fn flush(self) {
        #[cfg(feature = "otlp")]
        if let Some(traces) = self.traces {
            traces.flush().await;
        }
    }
}

/// Writes logs as JSON or human-readable text, the latter with colours on a terminal.
fn log_layer<S, W>(log: &LogSection, writer: W, is_terminal: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let lines = fmt::layer().with_writer(writer);
    let filter = log.level.clone();
    match log.format {
        LogFormat::Json => lines.json().flatten_event(true).with_span_list(false).with_filter(filter).boxed(),
        LogFormat::Pretty => lines.compact().with_ansi(is_terminal).with_target(false).with_filter(filter).boxed(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Seek;

    use super::*;
    use crate::config::LoggedRequests;

    fn logged(format: LogFormat, level: &str) -> String {
        let log = LogSection { format, level: level.parse().unwrap(), requests: LoggedRequests::Errors };
        let mut output = tempfile::tempfile().unwrap();
        let subscriber = Registry::default().with(log_layer(&log, output.try_clone().unwrap(), false));
        tracing::subscriber::with_default(subscriber, || {
            let _span = tracing::info_span!("request", request.id = "r-1").entered();
            tracing::debug!("a detail");
            tracing::warn!(attempts = 3, "callback delivery failed");
        });
        output.rewind().unwrap();
        io::read_to_string(output).unwrap()
    }

    #[test]
    fn json_lines_contain_the_fields_of_the_event_and_its_span() {
        let text = logged(LogFormat::Json, "info");
        let line: serde_json::Value = serde_json::from_str(&text).expect("one line, one document");
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["message"], "callback delivery failed");
        assert_eq!(line["attempts"], 3);
        assert_eq!(line["span"]["request.id"], "r-1");
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
    }

    #[test]
    fn output_without_a_terminal_has_no_colours() {
        let text = logged(LogFormat::Pretty, "debug");
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(text.contains("a detail") && text.contains("attempts=3"), "{text}");
    }

    #[test]
    fn filter_selects_the_events() {
        assert_eq!(logged(LogFormat::Json, "error"), "");
        assert_eq!(logged(LogFormat::Json, "off,ringtrue_server=debug").lines().count(), 2);
    }
}
