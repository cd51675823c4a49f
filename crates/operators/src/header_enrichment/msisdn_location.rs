//! Location of the number in a request.

use super::EnrichmentError;

/// A header, a cookie, or either. A request must contain exactly one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MsisdnLocation {
    /// Case-insensitive.
    pub header: Option<String>,
    /// Case-sensitive.
    pub cookie: Option<String>,
}

impl MsisdnLocation {
    pub fn header(name: &str) -> Self {
        MsisdnLocation { header: Some(name.to_owned()), cookie: None }
    }

    pub fn cookie(name: &str) -> Self {
        MsisdnLocation { header: None, cookie: Some(name.to_owned()) }
    }

    /// Returns the value, if exactly one is present.
    pub(super) fn extract<'a>(&self, headers: &'a [(String, Vec<u8>)]) -> Result<&'a [u8], EnrichmentError> {
        let values_of = |header_name: &str| {
            let named = headers.iter().filter(move |(name, _)| name.eq_ignore_ascii_case(header_name));
            named.map(|(_, value)| value.trim_ascii()).collect::<Vec<&'a [u8]>>()
        };
        let in_headers = self.header.as_deref().map(values_of).unwrap_or_default();
        let cookies = self.cookie.as_deref().map(|_| values_of("cookie")).unwrap_or_default();
        let in_cookies =
            cookies.into_iter().flat_map(|cookies| cookies.split(|byte| *byte == b';')).filter_map(|pair| {
                let at = pair.iter().position(|byte| *byte == b'=')?;
                let (name, value) = (pair[..at].trim_ascii(), pair[at + 1..].trim_ascii());
                let name_matches = self.cookie.as_deref().is_some_and(|expected| expected.as_bytes() == name);
                name_matches
                    .then(|| value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
            });
        let mut values = in_headers.into_iter().chain(in_cookies);
        match (values.next(), values.next()) {
            (Some(_), Some(_)) => Err(EnrichmentError::Repeated),
            // Gateways that do not know the number send an empty value.
            (None | Some([]), _) => Err(EnrichmentError::Missing),
            (Some(value), None) => Ok(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_value_is_required() {
        let header = MsisdnLocation::header("X-MSISDN");
        let cookie = MsisdnLocation::cookie("Forward-msisdn");
        let either = MsisdnLocation { header: header.header.clone(), cookie: cookie.cookie.clone() };
        let absent = Err(EnrichmentError::Missing);
        let repeated = Err(EnrichmentError::Repeated);
        for (location, headers, expected) in [
            (&header, &[("x-msisdn", "447700900123")][..], Ok("447700900123")),
            (&header, &[("x-msisdn", " 447700900123\t")], Ok("447700900123")),
            (&header, &[("host", "x"), ("x-msisdn", "1"), ("accept", "*/*")], Ok("1")),
            (&header, &[], absent),
            (&header, &[("x-msisdn", "")], absent),
            (&header, &[("x-msisdn", "1"), ("x-msisdn", "1")], repeated),
            (&header, &[("x-msisdn", "1"), ("x-msisdn", "")], repeated),
            (&header, &[("x-msisdn-2", "1"), ("cookie", "x-msisdn=1")], absent),
            (&header, &[("x-msisdn", "1"), ("cookie", "Forward-msisdn=2")], Ok("1")),
            (&cookie, &[("cookie", "a=b; Forward-msisdn=1; c=d")], Ok("1")),
            (&cookie, &[("cookie", "a=b"), ("cookie", "Forward-msisdn=\"1=\"")], Ok("1=")),
            (&cookie, &[("cookie", "forward-msisdn=1; Forward-msisdn; Forward-msisdnx=1")], absent),
            (&cookie, &[("cookie", "Forward-msisdn=1;Forward-msisdn=1")], repeated),
            (&cookie, &[("cookie", "Forward-msisdn=1"), ("cookie", "Forward-msisdn=2")], repeated),
            (&cookie, &[("forward-msisdn", "1")], absent),
            (&either, &[("x-msisdn", "1")], Ok("1")),
            (&either, &[("cookie", "Forward-msisdn=1")], Ok("1")),
            (&either, &[("x-msisdn", "1"), ("cookie", "Forward-msisdn=1")], repeated),
        ] {
            let owned: Vec<_> =
                headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
            assert_eq!(location.extract(&owned), expected.map(str::as_bytes), "{location:?} {headers:?}");
        }
    }
}
