//! Logs, traces and metrics.
//!
//! Numbers, codes and secrets are kept out of all three by their types, whose `Debug` is masked. What is left to
//! whoever writes a line: no URL with its query, no header, no body.

mod figures;
pub mod logs;
pub mod metrics;
#[cfg(feature = "otlp")]
pub mod otlp;

use tracing::subscriber::SetGlobalDefaultError;
use tracing_subscriber::{Registry, layer::SubscriberExt};

use crate::config::{LogSection, TelemetrySection};

#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("logs have been set up already")]
    SetUpAlready(#[from] SetGlobalDefaultError),
    #[cfg(feature = "otlp")]
    #[error("traces cannot be exported: {0}")]
    Otlp(#[from] opentelemetry_otlp::ExporterBuildError),
}

/// What is still under way when the process ends: traces that were not sent yet.
#[must_use = "traces that were not sent are lost unless this is finished"]
#[derive(Debug)]
pub struct Telemetry {
    #[cfg(feature = "otlp")]
    traces: Option<otlp::Traces>,
}

/// Sets up logs and, where the configuration asks for them, traces. Called once, inside the runtime.
pub fn start(log: &LogSection, telemetry: &TelemetrySection) -> Result<Telemetry, TelemetryError> {
    let subscriber = Registry::default().with(logs::layer(log));
    #[cfg(feature = "otlp")]
    {
        let traces = otlp::Traces::start(telemetry)?;
        tracing::subscriber::set_global_default(subscriber.with(traces.as_ref().map(otlp::Traces::layer)))?;
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
    /// Sends what is left.
    #[cfg_attr(
        not(feature = "otlp"),
        expect(clippy::unused_async, reason = "with traces there is something to wait for")
    )]
    pub async fn finish(self) {
        #[cfg(feature = "otlp")]
        if let Some(traces) = self.traces {
            traces.finish().await;
        }
    }
}
