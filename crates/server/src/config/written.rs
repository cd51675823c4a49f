//! A value with its origin, and how it is understood.

use super::{ConfigError, Origin, kind::Kind, value::Value};

#[derive(Clone)]
pub(super) struct Written {
    pub value: Value,
    pub origin: Origin,
}

impl Written {
    /// Reads the value as what it must be.
    pub(super) fn read<K: Kind>(&self, key: &str, kind: &K) -> Result<K::Output, ConfigError> {
        let understood = match (&self.origin, &self.value) {
            // A variable is text, which may mean a number or a list.
            (Origin::Variable(_), Value::Text(text)) => {
                Value::parse(text).and_then(|value| kind.read(&value)).or_else(|| kind.read(&self.value))
            }
            (_, value) => kind.read(value),
        };
        understood.ok_or_else(|| ConfigError::Invalid {
            key: key.to_owned(),
            origin: self.origin.clone(),
            found: kind.show(&self.value),
            allowed: kind.allowed_instead(&self.value),
        })
    }
}
