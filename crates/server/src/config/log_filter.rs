//! What is logged.

use std::{fmt, str::FromStr};

use tracing_subscriber::filter::Targets;

/// A level, or levels by module: `info,ringtrue_store=debug`.
#[derive(Clone, Debug, PartialEq)]
pub struct LogFilter {
    text: String,
    targets: Targets,
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

impl LogFilter {
    pub fn targets(&self) -> Targets {
        self.targets.clone()
    }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a filter of log lines")]
pub struct NotALogFilter;

impl FromStr for LogFilter {
    type Err = NotALogFilter;

    fn from_str(text: &str) -> Result<Self, NotALogFilter> {
        let text = text.to_ascii_lowercase();
        // `Targets` takes a misspelt level for the name of a module, and then logs nothing else.
        let is_right = text.split(',').all(|part| {
            let level = part.split_once('=').map_or(part, |(_, level)| level);
            LEVELS.contains(&level)
        });
        let targets = text.parse().map_err(|_| NotALogFilter)?;
        if is_right { Ok(LogFilter { text, targets }) } else { Err(NotALogFilter) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters() {
        for (text, good) in [
            ("info", true),
            ("INFO", true),
            ("off", true),
            ("info,ringtrue_store=debug", true),
            ("ringtrue_server::http=trace", true),
            ("inf", false),
            ("", false),
            ("info,", false),
            ("ringtrue_store=loud", false),
        ] {
            assert_eq!(text.parse::<LogFilter>().is_ok(), good, "{text}");
        }
    }
}
