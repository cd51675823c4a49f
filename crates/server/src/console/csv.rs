//! CSV files for spreadsheets.

use axum::response::Response;
use http::{HeaderValue, header};

/// A file in the format of RFC 4180.
#[derive(Debug)]
pub struct CsvFile(String);

impl CsvFile {
    pub fn new(header: &[&str]) -> Self {
        let mut file = CsvFile(String::new());
        file.push_row(header);
        file
    }

    pub fn push_row<T: AsRef<str>>(&mut self, fields: &[T]) {
        for (number, field) in fields.iter().enumerate() {
            if number > 0 {
                self.0.push(',');
            }
            self.push_field(field.as_ref());
        }
        self.0.push_str("\r\n");
    }

    fn push_field(&mut self, field: &str) {
        // Spreadsheets would evaluate such text as a formula.
        let guard = if field.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
        if field.contains([',', '"', '\r', '\n']) || field.trim() != field {
            self.0.push('"');
            self.0.push_str(guard);
            self.0.push_str(&field.replace('"', "\"\""));
            self.0.push('"');
        } else {
            self.0.push_str(guard);
            self.0.push_str(field);
        }
    }

    /// `name` is a constant part of the file name, without an extension.
    pub fn into_response(self, name: &str) -> Response {
        let mut response = Response::new(self.0.into());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/csv; charset=utf-8"));
        let disposition = HeaderValue::from_str(&format!("attachment; filename=\"{name}.csv\""));
        headers.insert(header::CONTENT_DISPOSITION, disposition.unwrap_or(HeaderValue::from_static("attachment")));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_and_formulas_are_disarmed() {
        let mut file = CsvFile::new(&["a", "b"]);
        file.push_row(&["plain", "with, comma"]);
        file.push_row(&["say \"hi\"", "line\r\nbreak"]);
        file.push_row(&["=HYPERLINK(\"x\")", "+1"]);
        file.push_row(&["-1", "@sum"]);
        file.push_row(&["\tx", " x"]);
        assert_eq!(
            file.0,
            "a,b\r\nplain,\"with, comma\"\r\n\"say \"\"hi\"\"\",\"line\r\nbreak\"\r\n\
             \"'=HYPERLINK(\"\"x\"\")\",'+1\r\n'-1,'@sum\r\n\"'\tx\",\" x\"\r\n"
        );
    }
}
