//! `sms:` links that open a prefilled message on the end-user's phone.

use std::fmt::Write;

use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::phone::Msisdn;

/// The platform of the phone, which determines how the link separates the body: RFC 5724 uses `?`, but iOS requires
/// `&`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Platform {
    Android,
    Ios,
    /// The platform is unknown. The link has a form that both platforms accept.
    Unknown,
}

impl Platform {
    fn body_separator(self) -> &'static str {
        match self {
            Platform::Android => "?body=",
            Platform::Ios => "&body=",
            Platform::Unknown => "?&body=",
        }
    }
}

/// Renders the `sms:` link for a platform.
pub fn sms_link(receiver: &Msisdn, text: &str, platform: Platform) -> String {
    let mut link = format!("sms:{}{}", receiver.as_str(), platform.body_separator());
    for byte in text.bytes() {
        // Everything else is percent-encoded, also spaces, because some phones do not decode `+` as a space.
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            link.push(byte.into());
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(link, "%{byte:02X}");
        }
    }
    link
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenancy::Mode;

    #[test]
    fn link_has_the_form_of_its_platform() {
        let receiver = Msisdn::parse("+99000000001", Mode::Sandbox).unwrap();
        for (platform, text, link) in [
            (Platform::Android, "VERIFY 7K3QX9M20D", "sms:+99000000001?body=VERIFY%207K3QX9M20D"),
            (Platform::Ios, "VERIFY 7K3QX9M20D", "sms:+99000000001&body=VERIFY%207K3QX9M20D"),
            (Platform::Unknown, "VERIFY 7K3QX9M20D", "sms:+99000000001?&body=VERIFY%207K3QX9M20D"),
            (Platform::Android, "a+b&c=d?e#f%20", "sms:+99000000001?body=a%2Bb%26c%3Dd%3Fe%23f%2520"),
            (Platform::Android, "é\n", "sms:+99000000001?body=%C3%A9%0A"),
            (Platform::Ios, "", "sms:+99000000001&body="),
        ] {
            assert_eq!(sms_link(&receiver, text, platform), link, "{platform:?} {text:?}");
        }
    }
}
