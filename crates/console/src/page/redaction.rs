//! Redacts callbacks before they are shown.
//!
//! Phone numbers are masked for all roles, and cookies of callback receivers are never shown. Bodies, headers and URL
//! queries may contain the receiver's secrets and require the developer role.

/// Number of digits of E.164 numbers.
const NUMBER_DIGITS: std::ops::RangeInclusive<usize> = 7..=15;
/// Minimum number of digits of a phone number without `+`. Shorter sequences are dates, ports and lengths.
const MIN_BARE_DIGITS: usize = 10;
const REDACTED: &str = "…";

/// Masks phone numbers in text.
#[derive(Clone, Debug, Default)]
pub struct NumberMask {
    /// Digits of the callback's own number. They are masked wherever they appear.
    known_number: Option<String>,
}

impl NumberMask {
    /// Creates a mask for a callback. The number in its body is masked wherever it appears, even next to other
    /// characters.
    pub fn for_callback(body: Option<&str>) -> Self {
        let body = body.and_then(|body| serde_json::from_str::<serde_json::Value>(body).ok());
        let number = body.as_ref().and_then(|body| body.get("phone_number")?.as_str());
        let digits = number.map(|number| number.chars().filter(char::is_ascii_digit).collect::<String>());
        NumberMask { known_number: digits.filter(|digits| digits.len() >= *NUMBER_DIGITS.start()) }
    }

    /// Replaces all but the last two digits of each phone number in the text.
    pub fn apply(&self, text: &str) -> String {
        let mut masked = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(|symbol: char| symbol.is_ascii_digit()) {
            let (before, from_digits) = rest.split_at(start);
            let end = from_digits.find(|symbol: char| !symbol.is_ascii_digit()).unwrap_or(from_digits.len());
            let (digits, after) = from_digits.split_at(end);
            masked.push_str(before);
            masked.push_str(&self.mask_digits(&masked, digits, after));
            rest = after;
        }
        masked.push_str(rest);
        masked
    }

    fn mask_digits(&self, before: &str, digits: &str, after: &str) -> String {
        if let Some(known) = self.known_number.as_deref().filter(|known| digits.contains(known)) {
            return digits.replace(known, &last_two_digits(known));
        }
        let is_signed = before.ends_with('+') || before.ends_with("%2B") || before.ends_with("%2b");
        let touches = |symbol: char| symbol.is_alphanumeric() || symbol == '-' || symbol == '.';
        let stands_alone = !before.ends_with(touches) && !after.starts_with(|symbol: char| symbol.is_alphanumeric());
        let is_number =
            NUMBER_DIGITS.contains(&digits.len()) && (is_signed || (stands_alone && digits.len() >= MIN_BARE_DIGITS));
        if is_number { last_two_digits(digits) } else { digits.to_owned() }
    }
}

fn last_two_digits(digits: &str) -> String {
    format!("{REDACTED}{}", &digits[digits.len() - 2..])
}

/// Replaces the query of a URL by an ellipsis.
pub fn redact_query(url: &str) -> String {
    match url.split_once('?') {
        Some((location, _)) => format!("{location}?{REDACTED}"),
        None => url.to_owned(),
    }
}

/// Formats headers as lines, without cookie values.
pub fn format_headers(headers: &[(String, String)]) -> String {
    let line = |(name, value): &(String, String)| {
        let is_cookie = ["set-cookie", "set-cookie2", "cookie"].iter().any(|cookie| name.eq_ignore_ascii_case(cookie));
        format!("{name}: {}\n", if is_cookie { REDACTED } else { value })
    };
    headers.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_masked_in_any_text() {
        let body = r#"{"check_id":"01a1d964-0000-7000-8000-123456789012","phone_number":"+990123456710"}"#;
        let mask = NumberMask::for_callback(Some(body));
        for (text, shown) in [
            (body, r#"{"check_id":"01a1d964-0000-7000-8000-123456789012","phone_number":"+…10"}"#),
            ("x990123456710y 00990123456710", "x…10y 00…10"),
            ("https://a.example/?n=%2B990123456710&m=%2b447700900123", "https://a.example/?n=%2B…10&m=%2b…23"),
            ("+447700900123, 447700900123; (07700900123)", "+…23, …23; (…23)"),
            ("2026-11-16T11:30:49.123Z", "2026-11-16T11:30:49.123Z"),
            (
                "content-length: 123456, :8443, SHA-256=a1234567890b",
                "content-length: 123456, :8443, SHA-256=a1234567890b",
            ),
            ("+123456 and +1234567890123456", "+123456 and +1234567890123456"),
            ("", ""),
        ] {
            assert_eq!(mask.apply(text), shown);
        }
        assert_eq!(NumberMask::for_callback(Some("no JSON")).apply("é +447700900123 ü"), "é +…23 ü");
    }

    #[test]
    fn queries_and_cookies_are_redacted() {
        assert_eq!(redact_query("https://a.example/hook?key=1"), "https://a.example/hook?…");
        assert_eq!(redact_query("https://a.example/hook"), "https://a.example/hook");
        let headers = [("Set-Cookie", "a=b"), ("x-cookie", "c"), ("COOKIE", "d")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(format_headers(&headers), "Set-Cookie: …\nx-cookie: c\nCOOKIE: …\n");
    }
}
