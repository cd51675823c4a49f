//! Exports traces to an OpenTelemetry collector by OTLP over HTTP.
//!
//! Only our own spans are exported: spans of the exporting HTTP client would cause new exports. If the collector is
//! unreachable, spans are dropped and one warning is logged.

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

const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for sending the last batches on shutdown.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(6);

#[derive(Debug)]
pub struct TraceExport {
    provider: SdkTracerProvider,
}

impl TraceExport {
    /// Starts the export. Returns `None` if no collector is configured. Must be called inside the runtime, on which the
    /// export runs.
    pub fn start(telemetry: &TelemetrySection) -> Result<Option<Self>, ExporterBuildError> {
        let Some(endpoint) = &telemetry.otlp_endpoint else { return Ok(None) };
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_endpoint(traces_url(endpoint))
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(EXPORT_TIMEOUT)
            .build()?;
        let exporter = LoggingExporter { exporter, was_healthy: AtomicBool::new(true) };
        let resource = Resource::builder()
            .with_service_name(telemetry.service_name.clone())
            .with_attribute(opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let provider = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_span_processor(BatchSpanProcessor::builder(exporter, runtime::Tokio).build())
            .build();
        Ok(Some(TraceExport { provider }))
    }

    /// Returns the tracing layer that exports our spans.
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

    /// Sends pending spans.
    pub async fn flush(self) {
        // Shutting down the provider blocks, so it must not run on a runtime thread.
        let flushing = tokio::task::spawn_blocking(move || self.provider.shutdown());
        match tokio::time::timeout(FLUSH_TIMEOUT, flushing).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::warn!(%error, "failed to flush traces"),
            Ok(Err(error)) => tracing::warn!(%error, "failed to flush traces"),
            Err(_) => tracing::warn!("failed to flush traces: the collector did not respond in time"),
        }
    }
}

fn traces_url(endpoint: &Url) -> String {
    format!("{}/v1/traces", endpoint.as_str().trim_end_matches('/'))
}

/// Logs when exports start to fail and when they recover.
#[derive(Debug)]
struct LoggingExporter<E> {
    exporter: E,
    was_healthy: AtomicBool,
}

impl<E: SpanExporter> SpanExporter for LoggingExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let sent = self.exporter.export(batch).await;
        let was_healthy = self.was_healthy.swap(sent.is_ok(), Ordering::Relaxed);
        match &sent {
            Err(error) if was_healthy => tracing::warn!(%error, "trace export failed; dropping spans"),
            Ok(()) if !was_healthy => tracing::info!("trace export recovered"),
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

    fn section_for(endpoint: &str) -> TelemetrySection {
        TelemetrySection { otlp_endpoint: Some(endpoint.parse().unwrap()), service_name: "ringtrue-under-test".into() }
    }

    fn has(bytes: &[u8], text: &str) -> bool {
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    }

    /// Reads one request and responds with 200.
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
    async fn pending_spans_are_exported_on_flush() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let traces =
            TraceExport::start(&section_for(&format!("http://{}", listener.local_addr().unwrap()))).unwrap().unwrap();
        let subscriber = Registry::default().with(traces.layer());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info_span!(target: "ringtrue_web::middleware", "token request").in_scope(|| {});
            tracing::info_span!(target: "hyper", "a foreign span").in_scope(|| {});
        });

        let (request, ()) = tokio::join!(collect(listener), traces.flush());
        assert!(request.starts_with(b"POST /v1/traces HTTP/1.1\r\n"), "{}", String::from_utf8_lossy(&request));
        assert!(has(&request, "content-type: application/x-protobuf\r\n"));
        assert!(has(&request, "ringtrue-under-test") && has(&request, "token request"));
        assert!(!has(&request, "a foreign span"));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn unreachable_collector_does_not_block_flush() {
        let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let traces = TraceExport::start(&section_for(&format!("http://{gone}"))).unwrap().unwrap();
        tracing::subscriber::with_default(Registry::default().with(traces.layer()), || {
            tracing::info_span!(target: "ringtrue_server", "lost").in_scope(|| {});
        });
        let started = std::time::Instant::now();
        traces.flush().await;
        assert!(started.elapsed() < FLUSH_TIMEOUT, "flush waited for its timeout");
    }

    #[test]
    fn traces_path_is_appended_to_the_endpoint() {
        for (endpoint, url) in [
            ("http://collector:4318", "http://collector:4318/v1/traces"),
            ("http://collector:4318/", "http://collector:4318/v1/traces"),
            ("http://collector/otlp", "http://collector/otlp/v1/traces"),
        ] {
            assert_eq!(traces_url(&endpoint.parse().unwrap()), url);
        }
    }
}
