//! Log output to standard output, as JSON or human-readable text.

use std::io::{self, IsTerminal};

use tracing::Subscriber;
use tracing_subscriber::{
    Layer,
    fmt::{self, MakeWriter},
    registry::LookupSpan,
};

use crate::config::{LogFormat, LogSection};

pub fn layer<S>(log: &LogSection) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    layer_with_writer(log, io::stdout, io::stdout().is_terminal())
}

fn layer_with_writer<S, W>(log: &LogSection, writer: W, is_terminal: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let lines = fmt::layer().with_writer(writer);
    let filter = log.level.targets();
    match log.format {
        LogFormat::Json => lines.json().flatten_event(true).with_span_list(false).with_filter(filter).boxed(),
        LogFormat::Pretty => lines.compact().with_ansi(is_terminal).with_target(false).with_filter(filter).boxed(),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        sync::{Arc, Mutex},
    };

    use tracing_subscriber::{Registry, layer::SubscriberExt};

    use super::*;
    use crate::config::RequestLogLevel;

    #[derive(Clone, Default)]
    struct CapturedOutput(Arc<Mutex<Vec<u8>>>);

    impl Write for CapturedOutput {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, level: &str) -> String {
        let log = LogSection { format, level: level.parse().unwrap(), requests: RequestLogLevel::Errors };
        let output = CapturedOutput::default();
        let writer = output.clone();
        let subscriber = Registry::default().with(layer_with_writer(&log, move || writer.clone(), false));
        tracing::subscriber::with_default(subscriber, || {
            let _span = tracing::info_span!("request", request.id = "r-1").entered();
            tracing::debug!("a detail");
            tracing::warn!(attempts = 3, "callback delivery failed");
        });
        String::from_utf8(output.0.lock().unwrap().clone()).unwrap()
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
