//! `tel:` and `sip:` URIs (RFC 3966, RFC 3261): parameters, and the network in a 3GPP host name.

pub struct NumberUri {
    host: String,
    /// Lower-case names.
    parameters: Vec<(String, String)>,
}

impl NumberUri {
    /// `None`: not a `tel:` or `sip:` URI.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.replace(['<', '>', '"'], "");
        let (scheme, rest) = text.trim().split_once(':')?;
        let rest = rest.split('?').next().unwrap_or_default();
        let (user, host) = match scheme.to_ascii_lowercase().as_str() {
            "tel" => (rest, ""),
            "sip" | "sips" => rest.split_once('@').unwrap_or(("", rest)),
            _ => return None,
        };
        let host_name = host.split([';', ':']).next().unwrap_or_default().to_ascii_lowercase();
        let parameters = [user, host].into_iter().flat_map(|part| part.split(';').skip(1)).filter_map(parse_parameter);
        Some(NumberUri { host: host_name, parameters: parameters.collect() })
    }

    /// The first parameter of this name; empty if it has no value.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known_name, _)| known_name == name).map(|(_, value)| value.as_str())
    }

    /// MCC and MNC from a host such as `ims.mnc010.mcc234.3gppnetwork.org`.
    pub fn plmn_from_host(&self) -> Option<(&str, &str)> {
        let label = |prefix| self.host.split('.').find_map(|label| label.strip_prefix(prefix));
        Some((label("mcc")?, label("mnc")?))
    }
}

fn parse_parameter(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let name = name.trim().to_ascii_lowercase();
    (!name.is_empty()).then(|| (name, value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_on_both_sides_of_the_host_are_parsed() {
        let uri =
            NumberUri::parse("sip:+1-215-555-0123;NPDI;rn=+1-215-555-0199@gw.example.com:5060;user=phone?a=b;c=d");
        let uri = uri.unwrap();
        assert_eq!(uri.parameter("npdi"), Some(""));
        assert_eq!(uri.parameter("rn"), Some("+1-215-555-0199"));
        assert_eq!(uri.parameter("user"), Some("phone"));
        assert_eq!(uri.parameter("c"), None);
        assert_eq!(uri.plmn_from_host(), None);
        for other in ["", "tel", "mailto:a@b", "http://a/;mcc=234;mnc=10", ":"] {
            assert!(NumberUri::parse(other).is_none(), "{other}");
        }
    }

    #[test]
    fn plmn_is_parsed_from_host() {
        for (text, plmn) in [
            ("sip:+49172@ims.mnc002.mcc262.3gppnetwork.org;cost=0.1", Some(("262", "002"))),
            ("sip:+49172@IMS.MNC02.MCC262.3gppnetwork.org:5060", Some(("262", "02"))),
            ("SIPS:ims.mnc002.mcc262.3gppnetwork.org", Some(("262", "002"))),
            ("sip:+49172@unknown;err=1", None),
            ("sip:+49172@mcc262.example", None),
            ("tel:+49172;mcc262.mnc02", None),
        ] {
            assert_eq!(NumberUri::parse(text).unwrap().plmn_from_host(), plmn, "{text}");
        }
    }
}
