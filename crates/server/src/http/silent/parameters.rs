//! The query that a device brings. It may come from an operator, so what is not ours to know is let through; but what
//! cannot be read in one way only is refused.

use super::super::problem::Problem;

/// A code of an operator may be a whole token.
const MAX_VALUE: usize = 4 * 1024;
const MAX_PARAMETERS: usize = 32;

/// Names and values, decoded, in their order. Not for logs: they hold tokens and codes.
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    pub fn parse(query: Option<&str>) -> Result<Self, Problem> {
        let fields = query.unwrap_or_default().split('&').filter(|field| !field.is_empty());
        let mut parameters = vec![];
        for field in fields {
            if parameters.len() == MAX_PARAMETERS {
                return Err(Problem::bad_request(format!("the query has at most {MAX_PARAMETERS} parameters")));
            }
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            if name.len().max(value.len()) > MAX_VALUE {
                return Err(Problem::bad_request(format!("a query parameter has at most {MAX_VALUE} bytes")));
            }
            let pair = decoded(name).zip(decoded(value));
            parameters.push(pair.ok_or_else(|| Problem::bad_request("the query is not properly encoded UTF-8"))?);
        }
        Ok(Parameters(parameters))
    }

    /// A parameter that occurs once, if it is there.
    pub fn once(&self, name: &str) -> Result<Option<&str>, Problem> {
        let mut values = self.0.iter().filter(|(parameter, _)| parameter == name).map(|(_, value)| value.as_str());
        let first = values.next();
        match values.next() {
            Some(_) => Err(Problem::bad_request(format!("the query parameter `{name}` occurs twice"))),
            None => Ok(first),
        }
    }

    pub fn into_pairs(self) -> Vec<(String, String)> {
        self.0
    }
}

/// As forms are encoded. `None`: a broken escape, or bytes that are not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => digit(rest.next()?)? << 4 | digit(rest.next()?)?,
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

fn digit(hex: u8) -> Option<u8> {
    char::from(hex).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_in_one_way_only() {
        for (query, expected) in [
            (None, Some(vec![])),
            (Some("state=a-_b&code=x%2By+z&&iss=https%3A%2F%2Fop.example"), {
                Some(vec![("state", "a-_b"), ("code", "x+y z"), ("iss", "https://op.example")])
            }),
            (Some("flag&=v&e=%e2%82%ac"), Some(vec![("flag", ""), ("", "v"), ("e", "€")])),
            (Some("a=%"), None),
            (Some("a=%4"), None),
            (Some("a=%zz"), None),
            (Some("a=%+1"), None),
            (Some("a=%ff"), None),
            (Some("%c3=a"), None),
        ] {
            let pairs = |parameters: Parameters| parameters.into_pairs();
            let expected = expected.map(|pairs| pairs.into_iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect());
            assert_eq!(Parameters::parse(query).ok().map(pairs), expected, "{query:?}");
        }
        for endless in ["a=1&".repeat(33), format!("a={}", "x".repeat(4_097))] {
            assert!(Parameters::parse(Some(&endless)).is_err());
        }
        let twice = Parameters::parse(Some("state=a&code=b&state=a")).unwrap();
        assert!(twice.once("state").is_err());
        assert_eq!(twice.once("code").unwrap(), Some("b"));
        assert_eq!(twice.once("iss").unwrap(), None);
    }
}
