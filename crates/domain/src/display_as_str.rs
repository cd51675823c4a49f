//! A macro that implements `Display` for string-like types.

/// Implements `Display` for a type with a method `as_str`.
macro_rules! display_as_str {
    ($type:ty) => {
        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use display_as_str;
