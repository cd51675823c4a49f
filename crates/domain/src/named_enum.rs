//! Types that are displayed as their name.

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

/// Defines an enum of which each variant has a name: `ALL` and `NAMES` in the order of the variants, `as_str` and
/// `Display`. Followed by the definition of an error, it also implements `FromStr`.
///
/// ```
/// ringtrue_domain::named_enum! {
///     #[derive(Clone, Copy, Debug, PartialEq, Eq)]
///     pub enum Protocol {
///         Tcp = "tcp",
///         Udp = "udp",
///     }
///
///     #[error("unknown protocol; use `tcp` or `udp`")]
///     pub struct InvalidProtocol;
/// }
///
/// assert_eq!(Protocol::Tcp.as_str(), "tcp");
/// assert_eq!("udp".parse(), Ok(Protocol::Udp));
/// assert_eq!("sctp".parse::<Protocol>(), Err(InvalidProtocol));
/// ```
#[macro_export]
macro_rules! named_enum {
    (
        $(#[$attribute:meta])*
        pub enum $type:ident { $($(#[$variant_attribute:meta])* $variant:ident = $name:literal,)* }

        $(#[$error_attribute:meta])*
        pub struct $error:ident;
    ) => {
        $crate::named_enum! {
            $(#[$attribute])*
            pub enum $type { $($(#[$variant_attribute])* $variant = $name,)* }
        }

        #[derive(Clone, Copy, Debug, PartialEq, Eq, ::thiserror::Error)]
        $(#[$error_attribute])*
        pub struct $error;

        impl ::std::str::FromStr for $type {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, $error> {
                Self::ALL.into_iter().find(|variant| variant.as_str() == text).ok_or($error)
            }
        }
    };
    (
        $(#[$attribute:meta])*
        pub enum $type:ident { $($(#[$variant_attribute:meta])* $variant:ident = $name:literal,)* }
    ) => {
        $(#[$attribute])*
        pub enum $type { $($(#[$variant_attribute])* $variant,)* }

        impl $type {
            pub const NAMES: [&'static str; [$($name),*].len()] = [$($name),*];
            pub const ALL: [Self; Self::NAMES.len()] = [$(Self::$variant),*];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }

        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
