//! Writes CSV files for spreadsheets.

use axum::response::Response;
use http::{HeaderValue, header};
use ringtrue_domain::csv::render_row;

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
        self.0.push_str(&render_row(fields));
        self.0.push_str("\r\n");
    }

    /// Returns the file as a download. `name` is the file name without its extension, and must not contain user input.
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
