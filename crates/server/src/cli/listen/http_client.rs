//! Minimal HTTP/1.1 client: one request per connection, bounded in size and time.

use std::{io, time::Duration};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use super::secure_url::SecureUrl;

/// Head and body together.
const MAX_RESPONSE_BYTES: usize = 256 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct HttpResponse {
    pub status: u16,
    pub body: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum HttpClientError {
    #[error("connection failed: {0}")]
    Connection(#[from] io::Error),
    #[error("timed out waiting for the response")]
    Timeout,
    #[error("the response is incomplete or not HTTP")]
    Protocol,
    #[error("the response is larger than {} KiB", MAX_RESPONSE_BYTES / 1024)]
    TooLarge,
}

/// Sends a serialised request, which must contain `connection: close`.
pub(super) async fn send_request(
    to: &SecureUrl,
    request: &[u8],
    timeout: Duration,
) -> Result<HttpResponse, HttpClientError> {
    let response = tokio::time::timeout(timeout, async {
        let mut stream = to.connect().await?;
        stream.write_all(request).await?;
        stream.flush().await?;
        read_response(&mut stream).await
    });
    response.await.unwrap_or(Err(HttpClientError::Timeout))
}

async fn read_response(stream: &mut (impl AsyncRead + Unpin)) -> Result<HttpResponse, HttpClientError> {
    let mut received = Vec::with_capacity(16 * 1024);
    loop {
        let is_eof = match stream.read_buf(&mut received).await {
            Ok(count) => count == 0,
            // Many servers close TLS without close_notify; `parse_response` detects truncation.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => true,
            Err(error) => return Err(error.into()),
        };
        match parse_response(&received, is_eof)? {
            Some(response) => return Ok(response),
            None if is_eof => return Err(HttpClientError::Protocol),
            None if received.len() > MAX_RESPONSE_BYTES => return Err(HttpClientError::TooLarge),
            None => {}
        }
    }
}

/// `None`: incomplete.
fn parse_response(received: &[u8], is_eof: bool) -> Result<Option<HttpResponse>, HttpClientError> {
    let Some(end) = find(received, b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&received[..end]).map_err(|_| HttpClientError::Protocol)?;
    let rest = &received[end + 4..];
    let mut lines = head.split("\r\n");
    let mut status_line = lines.next().unwrap_or_default().split(' ');
    if !status_line.next().is_some_and(|version| version.starts_with("HTTP/1.")) {
        return Err(HttpClientError::Protocol);
    }
    let status: u16 = status_line.next().and_then(|status| status.parse().ok()).ok_or(HttpClientError::Protocol)?;
    let header = |needle: &str| {
        let mut headers = lines.clone().filter_map(|line| line.split_once(':'));
        headers.find(|(name, _)| name.eq_ignore_ascii_case(needle)).map(|(_, value)| value.trim())
    };
    let body = if matches!(status, 204 | 304) {
        Some(vec![])
    } else if header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        decode_chunked(rest)?
    } else if let Some(length) = header("content-length") {
        let length: usize = length.parse().map_err(|_| HttpClientError::Protocol)?;
        rest.get(..length).map(<[u8]>::to_vec)
    } else {
        is_eof.then(|| rest.to_vec())
    };
    Ok(body.map(|body| HttpResponse { status, body }))
}

/// `None`: incomplete.
fn decode_chunked(mut rest: &[u8]) -> Result<Option<Vec<u8>>, HttpClientError> {
    let mut body = vec![];
    loop {
        let Some(end) = find(rest, b"\r\n") else { return Ok(None) };
        let size = std::str::from_utf8(&rest[..end]).map_err(|_| HttpClientError::Protocol)?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| HttpClientError::Protocol)?;
        if size > MAX_RESPONSE_BYTES {
            return Err(HttpClientError::TooLarge);
        }
        if size == 0 {
            return Ok(Some(body));
        }
        let Some(chunk) = rest.get(end + 2..end + 2 + size) else { return Ok(None) };
        body.extend_from_slice(chunk);
        let Some(after) = rest.get(end + 2 + size + 2..) else { return Ok(None) };
        rest = after;
    }
}

fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    text.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses the text both incrementally and as a whole.
    fn parse_both_ways(text: &str) -> Option<(u16, String)> {
        let text = text.as_bytes();
        let early = (0..text.len()).find_map(|end| parse_response(&text[..end], false).unwrap());
        let late = parse_response(text, true).unwrap();
        if let Some(early) = early {
            assert_eq!(Some(&early), late.as_ref());
        }
        late.map(|response| (response.status, String::from_utf8(response.body).unwrap()))
    }

    #[test]
    fn responses_are_parsed() {
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", Some((200, "ok"))),
            ("HTTP/1.0 404 Not Found\r\n\r\ngone", Some((404, "gone"))),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1;x\r\nc\r\n0\r\n\r\n",
                Some((200, "abc")),
            ),
            ("HTTP/1.1 204 No Content\r\n\r\n", Some((204, ""))),
            ("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok", None),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab", None),
        ] {
            let expected = expected.map(|(status, body)| (status, body.to_owned()));
            assert_eq!(parse_both_ways(text), expected, "{text}");
        }
    }

    #[test]
    fn invalid_http_is_rejected() {
        let huge = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{}\r\n", "f".repeat(15));
        for text in [
            "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 abc\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
            &huge,
        ] {
            assert!(parse_response(text.as_bytes(), true).is_err(), "{text}");
        }
    }
}
