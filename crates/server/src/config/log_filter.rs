//! Log filter.

use std::{fmt, str::FromStr};

use tracing_subscriber::filter::Targets;

/// Level, or levels per module: `info,ringtrue_store=debug`.
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
#[error("invalid log filter")]
pub struct InvalidLogFilter;

impl FromStr for LogFilter {
    type Err = InvalidLogFilter;

    fn from_str(text: &str) -> Result<Self, InvalidLogFilter> {
        let text = text.to_ascii_lowercase();
        // `Targets` would parse a misspelt level as a module name and disable all other logs.
        let is_right = text.split(',').all(|part| {
            let level = part.split_once('=').map_or(part, |(_, level)| level);
            LEVELS.contains(&level)
        });
        let targets = text.parse().map_err(|_| InvalidLogFilter)?;
        if is_right { Ok(LogFilter { text, targets }) } else { Err(InvalidLogFilter) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_levels_parse() {
        for (text, is_valid) in [
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
            assert_eq!(text.parse::<LogFilter>().is_ok(), is_valid, "{text}");
        }
    }
}
