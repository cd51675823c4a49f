//! Where in a request the operator puts the number.

use super::Refusal;

/// A header, a cookie, or either. Whatever it is, there must be one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carrier {
    /// In either case.
    pub header: Option<String>,
    /// As it is written: names of cookies differ by case.
    pub cookie: Option<String>,
}

impl Carrier {
    pub fn header(name: &str) -> Self {
        Carrier { header: Some(name.to_owned()), cookie: None }
    }

    pub fn cookie(name: &str) -> Self {
        Carrier { header: None, cookie: Some(name.to_owned()) }
    }

    /// The one value that there is.
    pub(super) fn only_value<'a>(&self, headers: &'a [(String, Vec<u8>)]) -> Result<&'a [u8], Refusal> {
        let of = |wanted: &str| {
            let named = headers.iter().filter(move |(name, _)| name.eq_ignore_ascii_case(wanted));
            named.map(|(_, value)| value.trim_ascii()).collect::<Vec<&'a [u8]>>()
        };
        let in_headers = self.header.as_deref().map(of).unwrap_or_default();
        let cookies = self.cookie.as_deref().map(|_| of("cookie")).unwrap_or_default();
        let in_cookies =
            cookies.into_iter().flat_map(|cookies| cookies.split(|byte| *byte == b';')).filter_map(|pair| {
                let at = pair.iter().position(|byte| *byte == b'=')?;
                let (name, value) = (pair[..at].trim_ascii(), pair[at + 1..].trim_ascii());
                let is_wanted = self.cookie.as_deref().is_some_and(|wanted| wanted.as_bytes() == name);
                is_wanted
                    .then(|| value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
            });
        let mut values = in_headers.into_iter().chain(in_cookies);
        match (values.next(), values.next()) {
            (Some(_), Some(_)) => Err(Refusal::Repeated),
            // A gateway that does not know the number inserts nothing after the name.
            (None | Some([]), _) => Err(Refusal::Absent),
            (Some(value), None) => Ok(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_exactly_one_value() {
        let header = Carrier::header("X-MSISDN");
        let cookie = Carrier::cookie("Forward-msisdn");
        let either = Carrier { header: header.header.clone(), cookie: cookie.cookie.clone() };
        let absent = Err(Refusal::Absent);
        let repeated = Err(Refusal::Repeated);
        for (carrier, headers, expected) in [
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
            assert_eq!(carrier.only_value(&owned), expected.map(str::as_bytes), "{carrier:?} {headers:?}");
        }
    }
}
