//! Traces, sent to an OpenTelemetry collector by OTLP over HTTP.
//!
//! Only our own spans are sent: those of the HTTP client that sends them would be an endless tale. They are gathered by
//! a task of the runtime. When the collector is away they are lost, the log says so once, and nothing else is held up.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{ExporterBuildError, Protocol, WithExportConfig};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    runtime,
    trace::{SdkTracerProvider, SpanData, SpanExporter, span_processor_with_async_runtime::BatchSpanProcessor},
};
use tracing::{Level, Subscriber};
use tracing_subscriber::{Layer, filter::Targets, registry::LookupSpan};
use url::Url;

use crate::config::TelemetrySection;

/// How long one batch may take to send.
const SENDING: Duration = Duration::from_secs(5);
/// How long the last batches may take when the process ends.
const FINISHING: Duration = Duration::from_secs(6);

/// The way of our traces to their collector.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// `None`: no collector is configured. Must be called inside the runtime, which then sends the traces.
    pub fn start(telemetry: &TelemetrySection) -> Result<Option<Self>, ExporterBuildError> {
        let Some(endpoint) = &telemetry.otlp_endpoint else { return Ok(None) };
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_endpoint(traces_url(endpoint))
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(SENDING)
            .build()?;
        let exporter = Watched { exporter, was_well: AtomicBool::new(true) };
        let resource = Resource::builder()
            .with_service_name(telemetry.service_name.clone())
            .with_attribute(opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let provider = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_span_processor(BatchSpanProcessor::builder(exporter, runtime::Tokio).build())
            .build();
        Ok(Some(Traces { provider }))
    }

    /// Turns spans of ours into traces.
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("ringtrue"))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(Targets::new().with_target("ringtrue", Level::INFO))
    }

    /// Sends what is left, for as long as that may take.
    pub async fn finish(self) {
        // The provider waits for its task by blocking, so it must not do so on a thread of the runtime.
        let finishing = tokio::task::spawn_blocking(move || self.provider.shutdown());
        match tokio::time::timeout(FINISHING, finishing).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::warn!(%error, "the last traces were lost"),
            Ok(Err(error)) => tracing::warn!(%error, "the last traces were lost"),
            Err(_) => tracing::warn!("the last traces were lost: their collector does not answer"),
        }
    }
}

/// Where the collector takes traces.
fn traces_url(endpoint: &Url) -> String {
    format!("{}/v1/traces", endpoint.as_str().trim_end_matches('/'))
}

/// Says in the log when traces begin to be lost, and when they are sent again.
#[derive(Debug)]
struct Watched<E> {
    exporter: E,
    was_well: AtomicBool,
}

impl<E: SpanExporter> SpanExporter for Watched<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let sent = self.exporter.export(batch).await;
        let was_well = self.was_well.swap(sent.is_ok(), Ordering::Relaxed);
        match &sent {
            Err(error) if was_well => tracing::warn!(%error, "traces are being lost"),
            Ok(()) if !was_well => tracing::info!("traces are being sent again"),
            _ => {}
        }
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };
    use tracing_subscriber::{Registry, layer::SubscriberExt};

    use super::*;

    fn sends_to(endpoint: &str) -> TelemetrySection {
        TelemetrySection { otlp_endpoint: Some(endpoint.parse().unwrap()), service_name: "ringtrue-under-test".into() }
    }

    fn has(bytes: &[u8], text: &str) -> bool {
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    }

    /// Takes one request, whole, and answers it with 200.
    async fn collect(listener: TcpListener) -> Vec<u8> {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![];
        loop {
            assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0, "the request ended early");
            let text = String::from_utf8_lossy(&request);
            let Some((head, _)) = text.split_once("\r\n\r\n") else { continue };
            let length = head
                .to_lowercase()
                .split("content-length: ")
                .nth(1)
                .and_then(|rest| rest.lines().next().and_then(|number| number.parse::<usize>().ok()));
            if request.len() >= head.len() + 4 + length.expect("the body has a length") {
                break;
            }
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        request
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn spans_reach_the_collector_at_the_latest_when_the_process_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let traces = Traces::start(&sends_to(&format!("http://{}", listener.local_addr().unwrap()))).unwrap().unwrap();
        let subscriber = Registry::default().with(traces.layer());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info_span!(target: "ringtrue_server::http", "token request").in_scope(|| {});
            tracing::info_span!(target: "hyper", "a foreign span").in_scope(|| {});
        });

        let (request, ()) = tokio::join!(collect(listener), traces.finish());
        assert!(request.starts_with(b"POST /v1/traces HTTP/1.1\r\n"), "{}", String::from_utf8_lossy(&request));
        assert!(has(&request, "content-type: application/x-protobuf\r\n"));
        assert!(has(&request, "ringtrue-under-test") && has(&request, "token request"));
        assert!(!has(&request, "a foreign span"));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_collector_that_is_away_holds_up_nothing() {
        let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let traces = Traces::start(&sends_to(&format!("http://{gone}"))).unwrap().unwrap();
        tracing::subscriber::with_default(Registry::default().with(traces.layer()), || {
            tracing::info_span!(target: "ringtrue_server", "lost").in_scope(|| {});
        });
        traces.finish().await;
    }

    #[test]
    fn the_path_is_added_to_the_endpoint() {
        for (endpoint, url) in [
            ("http://collector:4318", "http://collector:4318/v1/traces"),
            ("http://collector:4318/", "http://collector:4318/v1/traces"),
            ("http://collector/otlp", "http://collector/otlp/v1/traces"),
        ] {
            assert_eq!(traces_url(&endpoint.parse().unwrap()), url);
        }
    }
}
