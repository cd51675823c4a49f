//! Parses forms with files (`multipart/form-data`, RFC 7578), as browsers send them.

/// Maximum number of parts of a form.
const MAX_PARTS: usize = 64;
/// Maximum length of a boundary (RFC 2046, section 5.1.1).
const MAX_BOUNDARY_BYTES: usize = 70;

/// A field of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    pub name: String,
    /// Whether the field is a file upload. Browsers send an empty file if the user has chosen none.
    pub is_file: bool,
    pub content: &'a [u8],
}

/// The body is not valid `multipart/form-data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidMultipart;

/// Returns the boundary between parts that a `Content-Type` names. `None`: it is another media type.
pub fn boundary_of(content_type: &str) -> Option<&str> {
    let (media_type, parameters) = content_type.split_once(';')?;
    if !media_type.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let boundary = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.trim().split_once('=')?;
        name.eq_ignore_ascii_case("boundary").then(|| value.trim_matches('"'))
    });
    boundary.filter(|boundary| (1..=MAX_BOUNDARY_BYTES).contains(&boundary.len()))
}

/// Splits a body into its parts. Every byte must belong to one.
pub fn parse<'a>(boundary: &str, body: &'a [u8]) -> Result<Vec<Part<'a>>, InvalidMultipart> {
    let delimiter = format!("\r\n--{boundary}");
    let mut parts = vec![];
    // The first delimiter is at the start of the body, without a line break.
    let mut rest = body.strip_prefix(&delimiter.as_bytes()[2..]).ok_or(InvalidMultipart)?;
    loop {
        if let Some(end) = rest.strip_prefix(b"--") {
            return if end.is_empty() || end == b"\r\n" { Ok(parts) } else { Err(InvalidMultipart) };
        }
        let (head, after) = split_at(rest.strip_prefix(b"\r\n").ok_or(InvalidMultipart)?, b"\r\n\r\n")?;
        let (content, after) = split_at(after, delimiter.as_bytes())?;
        if parts.len() == MAX_PARTS {
            return Err(InvalidMultipart);
        }
        parts.push(parse_part(head, content)?);
        rest = after;
    }
}

/// Returns what is before and after the first occurrence of a separator.
fn split_at<'a>(text: &'a [u8], separator: &[u8]) -> Result<(&'a [u8], &'a [u8]), InvalidMultipart> {
    let at = text.windows(separator.len()).position(|window| window == separator).ok_or(InvalidMultipart)?;
    Ok((&text[..at], &text[at + separator.len()..]))
}

fn parse_part<'a>(head: &[u8], content: &'a [u8]) -> Result<Part<'a>, InvalidMultipart> {
    let head = std::str::from_utf8(head).map_err(|_| InvalidMultipart)?;
    let disposition = head.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-disposition").then(|| value.trim())
    });
    let parameters = disposition.and_then(|value| value.strip_prefix("form-data;")).ok_or(InvalidMultipart)?;
    let parameter = |wanted: &str| {
        let start = format!("{wanted}=");
        let mut rest = parameters;
        while let Some((before, after)) = rest.split_once('"') {
            let (value, after) = after.split_once('"')?;
            if before.trim_start_matches([';', ' ']) == start {
                return Some(value);
            }
            rest = after;
        }
        None
    };
    let name = parameter("name").ok_or(InvalidMultipart)?.to_owned();
    Ok(Part { name, is_file: parameter("filename").is_some(), content })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDARY: &str = "----WebKitFormBoundaryAbC";

    fn part<'a>(name: &str, content: &'a [u8], is_file: bool) -> Part<'a> {
        Part { name: name.to_owned(), is_file, content }
    }

    #[test]
    fn form_of_a_browser_is_parsed() {
        let body =
            b"------WebKitFormBoundaryAbC\r\nContent-Disposition: form-data; name=\"part\"\r\n\r\nhosted-page\r\n\
            ------WebKitFormBoundaryAbC\r\nContent-Disposition: form-data; name=\"logo\"; filename=\"name=.png\"\r\n\
            Content-Type: image/png\r\n\r\n\x89PNG\r\n\r\n--\xff\r\n\
            ------WebKitFormBoundaryAbC\r\ncontent-disposition: form-data; name=\"empty\"\r\n\r\n\r\n\
            ------WebKitFormBoundaryAbC--\r\n";
        let expected = [
            part("part", b"hosted-page", false),
            part("logo", b"\x89PNG\r\n\r\n--\xff", true),
            part("empty", b"", false),
        ];
        assert_eq!(parse(BOUNDARY, body).as_deref(), Ok(&expected[..]));
        assert_eq!(parse("x", b"--x--").as_deref(), Ok(&[][..]));
    }

    #[test]
    fn damaged_forms_are_rejected() {
        for body in [
            "",
            "--x",
            "--x\r\n",
            "--y--\r\n",
            "--x--\r\nmore",
            "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nno end",
            "--x\r\nContent-Disposition: form-data; name=\"a\"\r\nno content\r\n--x--",
            "--x\r\nContent-Disposition: form-data; filename=\"a\"\r\n\r\nno name\r\n--x--",
            "--x\r\nContent-Disposition: attachment; name=\"a\"\r\n\r\n1\r\n--x--",
            "--x\r\nContent-Type: text/plain\r\n\r\n1\r\n--x--",
            "--x\r\nContent-Disposition: form-data; name=\"a\r\n\r\n1\r\n--x--",
        ] {
            assert_eq!(parse("x", body.as_bytes()), Err(InvalidMultipart), "{body}");
        }
        let many = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n".repeat(MAX_PARTS + 1);
        assert_eq!(parse("x", format!("{many}--x--").as_bytes()), Err(InvalidMultipart));
    }

    #[test]
    fn boundary_is_that_of_the_media_type() {
        for (content_type, boundary) in [
            ("multipart/form-data; boundary=abc", Some("abc")),
            ("Multipart/Form-Data;charset=utf-8; Boundary=\"a b\"", Some("a b")),
            ("multipart/form-data", None),
            ("multipart/form-data; boundary=", None),
            ("multipart/mixed; boundary=abc", None),
            ("application/x-www-form-urlencoded", None),
        ] {
            assert_eq!(boundary_of(content_type), boundary, "{content_type}");
        }
        let long = format!("multipart/form-data; boundary={}", "a".repeat(MAX_BOUNDARY_BYTES + 1));
        assert_eq!(boundary_of(&long), None);
    }
}
