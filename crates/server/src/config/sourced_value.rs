//! Untyped value with its origin.

use super::{ConfigError, Origin, value::Value, value_type::ValueType};

#[derive(Clone)]
pub(super) struct SourcedValue {
    pub value: Value,
    pub origin: Origin,
}

impl SourcedValue {
    /// Converts the value to its type.
    pub(super) fn read<T: ValueType>(&self, key: &str, value_type: &T) -> Result<T::Output, ConfigError> {
        let parsed = match (&self.origin, &self.value) {
            // A variable is text that may contain a TOML integer, boolean or list.
            (Origin::Variable(_), Value::Text(text)) => {
                Value::parse(text).and_then(|value| value_type.parse(&value)).or_else(|| value_type.parse(&self.value))
            }
            (_, value) => value_type.parse(value),
        };
        parsed.ok_or_else(|| ConfigError::Invalid {
            key: key.to_owned(),
            origin: self.origin.clone(),
            found: value_type.display(&self.value),
            allowed: value_type.allowed_for(&self.value),
        })
    }
}
