//! Renders CSV rows that are safe in spreadsheets, for the command line and the console.
//!
//! Rows follow RFC 4180. Spreadsheets also split fields at separators that depend on their locale, even in quoted
//! fields, and evaluate cells that look like formulas. Fields with any such separator are therefore quoted, and an
//! apostrophe is put before each part that looks like a formula (OWASP, CSV injection). The crate `csv` only quotes
//! fields with one configured separator, and does not detect formulas.

/// Characters at which spreadsheets split fields, depending on their locale.
const SEPARATORS: [char; 5] = [',', ';', '\t', '\r', '\n'];
/// Characters with which formulas begin. Spreadsheets also accept the full-width forms.
const FORMULA_PREFIXES: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// Renders one row, without a line end.
pub fn render_row<T: AsRef<str>>(fields: impl IntoIterator<Item = T>) -> String {
    let fields: Vec<String> = fields.into_iter().map(|field| render_field(field.as_ref())).collect();
    fields.join(",")
}

fn render_field(text: &str) -> String {
    let text = disarm_formulas(text);
    let is_plain = !text.contains('"') && !text.contains(SEPARATORS) && text.trim() == text;
    if is_plain { text } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

/// Puts an apostrophe before each part that a spreadsheet would evaluate: at the start, and after every separator.
fn disarm_formulas(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    if text.starts_with(['\t', '\r', '\n']) {
        safe.push('\'');
    }
    for part in text.split_inclusive(SEPARATORS) {
        if looks_like_formula(part.trim_end_matches(SEPARATORS)) {
            safe.push('\'');
        }
        safe.push_str(part);
    }
    safe
}

/// Whether a spreadsheet would evaluate a text. Numbers and lists of numbers do not count, so that phone numbers stay
/// searchable.
fn looks_like_formula(part: &str) -> bool {
    let is_number = |word: &str| {
        let digits = word.strip_prefix(['+', '-']).unwrap_or(word);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    // Spreadsheets ignore spaces and quotes before a formula.
    part.trim_start_matches([' ', '"']).starts_with(FORMULA_PREFIXES) && !part.split(' ').all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_if_needed() {
        for (text, field) in [
            ("", ""),
            ("a b", "a b"),
            ("a,b", "\"a,b\""),
            ("a;b", "\"a;b\""),
            ("a\tb", "\"a\tb\""),
            ("say \"a\"", "\"say \"\"a\"\"\""),
            ("a\nb", "\"a\nb\""),
            ("a\r\nb", "\"a\r\nb\""),
            (" a", "\" a\""),
        ] {
            assert_eq!(render_row([text]), field, "{text:?}");
        }
        assert_eq!(render_row(["1", "", "x"]), "1,,x");
    }

    #[test]
    fn formulas_are_disarmed() {
        for (text, field) in [
            ("=1+1", "'=1+1"),
            ("=HYPERLINK(\"x\")", "\"'=HYPERLINK(\"\"x\"\")\""),
            ("+1+cmd|' /C calc'!A0", "'+1+cmd|' /C calc'!A0"),
            ("-1+1", "'-1+1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("＝1+1", "'＝1+1"),
            (" =1+1", "' =1+1"),
            ("\"=1+1", "\"'\"\"=1+1\""),
            ("\t=1+1", "\"'\t'=1+1\""),
            ("\n=1+1", "\"'\n'=1+1\""),
            ("\r=1+1", "\"'\r'=1+1\""),
            ("\tx", "\"'\tx\""),
            ("x;=1+1", "\"x;'=1+1\""),
            ("x\t=1+1", "\"x\t'=1+1\""),
            ("x,=1+1", "\"x,'=1+1\""),
            ("x;=1+1&\"", "\"x;'=1+1&\"\"\""),
            ("x\r\n=1+1", "\"x\r\n'=1+1\""),
            ("x;;@SUM(A1);-1", "\"x;;'@SUM(A1);-1\""),
            ("-", "'-"),
            ("+447700900123", "+447700900123"),
            ("-5", "-5"),
            ("+447700900001 +447700900002", "+447700900001 +447700900002"),
            ("a=b", "a=b"),
        ] {
            assert_eq!(render_row([text]), field, "{text:?}");
        }
    }
}
