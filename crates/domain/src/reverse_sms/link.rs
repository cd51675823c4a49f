//! Links that open the message for a check, with receiver and text filled in.

use std::fmt::Write;

use crate::phone::Msisdn;

/// Whose messages a link opens. RFC 5724 has the text after a `?`; iOS wants an `&`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    Android,
    Ios,
    /// Whoever it is: both put up with it.
    Unknown,
}

impl Platform {
    pub const ALL: [Platform; 3] = [Platform::Android, Platform::Ios, Platform::Unknown];

    fn before_text(self) -> &'static str {
        match self {
            Platform::Android => "?body=",
            Platform::Ios => "&body=",
            Platform::Unknown => "?&body=",
        }
    }
}

/// The `sms:` link that a phone of this kind opens a message by.
pub fn sms_link(receiver: &Msisdn, text: &str, platform: Platform) -> String {
    let mut link = format!("sms:{}{}", receiver.as_str(), platform.before_text());
    for byte in text.bytes() {
        // Not every phone takes a `+` for a space, and not every one knows the other marks.
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            link.push(byte.into());
        } else {
            // Writing into a text never fails.
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
    fn links_suit_the_phone_that_opens_them() {
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
