//! Parse errors of enums that are parsed from their names.

/// Returns the default error of a type. Used as `parse_err_fn` of `strum`, for error types with only one value.
pub fn default_error<E: Default>(_text: &str) -> E {
    E::default()
}
