//! The query that a device brings. It may come from an operator, so what is not ours to know is let through, or left out
//! if it cannot be read; what is ours and cannot be read in one way only is refused.

use super::super::problem::Problem;

/// A code of an operator may be a whole token.
const MAX_VALUE: usize = 4 * 1024;
const MAX_PARAMETERS: usize = 32;
/// What something depends on.
const OURS: [&str; 6] = ["t", "sim", "state", "code", "iss", "error"];

/// Names and values, decoded, in their order. Not for logs: they hold tokens and codes.
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    pub fn parse(query: Option<&str>) -> Result<Self, Problem> {
        let fields = query.unwrap_or_default().split('&').filter(|field| !field.is_empty());
        let mut parameters = vec![];
        for field in fields {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            let name = decoded(name).filter(|name| name.len() <= MAX_VALUE);
            let is_ours = name.as_deref().is_some_and(|name| OURS.contains(&name));
            let pair = name.zip(decoded(value).filter(|value| value.len() <= MAX_VALUE));
            match pair {
                Some(pair) if is_ours || parameters.len() < MAX_PARAMETERS => parameters.push(pair),
                None if is_ours => {
                    let problem =
                        format!("the query is not properly encoded UTF-8 of at most {MAX_VALUE} bytes a value");
                    return Err(Problem::bad_request(problem));
                }
                // An operator may add what it likes, in whatever encoding.
                Some(_) | None => {}
            }
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
            (Some("code=%"), None),
            (Some("code=%4"), None),
            (Some("code=%zz"), None),
            (Some("code=%+1"), None),
            (Some("code=%ff"), None),
            (Some("%c3=a&state=b&error_description=Acc%E8s"), Some(vec![("state", "b")])),
        ] {
            let pairs = |parameters: Parameters| parameters.into_pairs();
            let expected = expected.map(|pairs| pairs.into_iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect());
            assert_eq!(Parameters::parse(query).ok().map(pairs), expected, "{query:?}");
        }
        assert!(Parameters::parse(Some(&format!("state={}", "x".repeat(4_097)))).is_err());
        for (endless, kept) in [("a=1&".repeat(33), 32), (format!("a={}", "x".repeat(4_097)), 0)] {
            assert_eq!(Parameters::parse(Some(&endless)).map(|query| query.into_pairs().len()).ok(), Some(kept));
        }
        let late = format!("{}state=b", "a=1&".repeat(40));
        assert_eq!(Parameters::parse(Some(&late)).unwrap().once("state").unwrap(), Some("b"));
        let twice = Parameters::parse(Some("state=a&code=b&state=a")).unwrap();
        assert!(twice.once("state").is_err());
        assert_eq!(twice.once("code").unwrap(), Some("b"));
        assert_eq!(twice.once("iss").unwrap(), None);
    }
}
