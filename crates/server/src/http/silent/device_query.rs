//! Query of a device request. Operators may add parameters: unknown ones are passed on, or dropped if malformed. Known
//! ones must be well-formed and unique.

use super::super::problem::Problem;

/// An operator's authorization code may be a JWT.
const MAX_VALUE_BYTES: usize = 4 * 1024;
const MAX_PARAMETERS: usize = 32;
const KNOWN_PARAMETERS: [&str; 6] = ["t", "sim", "state", "code", "iss", "error"];

/// Decoded names and values in order. Contains tokens and codes; never log it.
pub struct DeviceQuery(Vec<(String, String)>);

impl DeviceQuery {
    pub fn parse(query: Option<&str>) -> Result<Self, Problem> {
        let fields = query.unwrap_or_default().split('&').filter(|field| !field.is_empty());
        let mut parameters = vec![];
        for field in fields {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            let name = decode(name).filter(|name| name.len() <= MAX_VALUE_BYTES);
            let is_known = name.as_deref().is_some_and(|name| KNOWN_PARAMETERS.contains(&name));
            let pair = name.zip(decode(value).filter(|value| value.len() <= MAX_VALUE_BYTES));
            match pair {
                Some(pair) if is_known || parameters.len() < MAX_PARAMETERS => parameters.push(pair),
                None if is_known => {
                    let problem = format!(
                        "a query parameter is not valid percent-encoded UTF-8 of at most {MAX_VALUE_BYTES} bytes"
                    );
                    return Err(Problem::bad_request(problem));
                }
                // Drop surplus or malformed parameters added by the operator.
                Some(_) | None => {}
            }
        }
        Ok(DeviceQuery(parameters))
    }

    /// Returns the value of a parameter that must not be repeated.
    pub fn single(&self, name: &str) -> Result<Option<&str>, Problem> {
        let mut values = self.0.iter().filter(|(parameter, _)| parameter == name).map(|(_, value)| value.as_str());
        let first = values.next();
        match values.next() {
            Some(_) => Err(Problem::bad_request(format!("the query parameter `{name}` is repeated"))),
            None => Ok(first),
        }
    }

    pub fn into_pairs(self) -> Vec<(String, String)> {
        self.0
    }
}

/// Form decoding. Returns `None` for an invalid escape or invalid UTF-8.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => hex_digit(rest.next()?)? << 4 | hex_digit(rest.next()?)?,
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

fn hex_digit(hex: u8) -> Option<u8> {
    char::from(hex).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_parameters_must_be_valid_and_unique() {
        for (query, expected) in [
            (None, Some(vec![])),
            (Some("state=a-_b&code=x%2By+z&&iss=https%3A%2F%2Fop.example"), {
                Some(vec![("state", "a-_b"), ("code", "x+y z"), ("iss", "https://op.example")])
            }),
            (Some("flag&=v&e=%e2%82%ac"), Some(vec![("flag", ""), ("", "v"), ("e", "€")])),
            (Some("code=%"), None),
            (Some("code=%4"), None),
            (Some("code=%zz"), None),
            (Some("code=%+1"), None),
            (Some("code=%ff"), None),
            (Some("%c3=a&state=b&error_description=Acc%E8s"), Some(vec![("state", "b")])),
        ] {
            let pairs = |parameters: DeviceQuery| parameters.into_pairs();
            let expected = expected.map(|pairs| pairs.into_iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect());
            assert_eq!(DeviceQuery::parse(query).ok().map(pairs), expected, "{query:?}");
        }
        assert!(DeviceQuery::parse(Some(&format!("state={}", "x".repeat(4_097)))).is_err());
        for (endless, kept) in [("a=1&".repeat(33), 32), (format!("a={}", "x".repeat(4_097)), 0)] {
            assert_eq!(DeviceQuery::parse(Some(&endless)).map(|query| query.into_pairs().len()).ok(), Some(kept));
        }
        let late = format!("{}state=b", "a=1&".repeat(40));
        assert_eq!(DeviceQuery::parse(Some(&late)).unwrap().single("state").unwrap(), Some("b"));
        let twice = DeviceQuery::parse(Some("state=a&code=b&state=a")).unwrap();
        assert!(twice.single("state").is_err());
        assert_eq!(twice.single("code").unwrap(), Some("b"));
        assert_eq!(twice.single("iss").unwrap(), None);
    }
}
