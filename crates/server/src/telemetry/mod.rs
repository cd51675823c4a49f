//! Logs, traces and metrics.
//!
//! Numbers, codes and secrets have types with masked `Debug` output. Log statements must not contain URLs with queries,
//! headers or bodies.

mod collector;
pub mod logs;
pub mod metrics;
#[cfg(feature = "otlp")]
pub mod otlp;

use tracing::subscriber::SetGlobalDefaultError;
use tracing_subscriber::{Registry, layer::SubscriberExt};

use crate::config::{LogSection, TelemetrySection};

#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("logging is already set up")]
    AlreadyStarted(#[from] SetGlobalDefaultError),
    #[cfg(feature = "otlp")]
    #[error("failed to set up trace export: {0}")]
    Otlp(#[from] opentelemetry_otlp::ExporterBuildError),
}

/// Flushes traces on shutdown.
#[must_use = "pending traces are lost unless this is flushed"]
#[derive(Debug)]
pub struct Telemetry {
    #[cfg(feature = "otlp")]
    traces: Option<otlp::TraceExport>,
}

/// Sets up logs and, if configured, traces. Must be called once, inside the runtime.
pub fn start(log: &LogSection, telemetry: &TelemetrySection) -> Result<Telemetry, TelemetryError> {
    let subscriber = Registry::default().with(logs::layer(log));
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
