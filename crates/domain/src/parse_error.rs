//! Errors of enums that are parsed from their names.

/// For `parse_err_fn` of `strum`: the error of a type that has only one.
pub fn default_error<E: Default>(_text: &str) -> E {
    E::default()
}
