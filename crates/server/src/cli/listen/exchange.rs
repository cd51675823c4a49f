//! One request and its answer, bounded in size and time.

use std::{io, time::Duration};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use super::endpoint::Endpoint;

/// Heads and bodies of answers together.
const LARGEST_ANSWER: usize = 256 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unanswered {
    #[error("it cannot be reached: {0}")]
    Connection(#[from] io::Error),
    #[error("no answer came in time")]
    Timeout,
    #[error("the answer is not HTTP, or broke off")]
    Protocol,
    #[error("the answer is larger than {} KiB", LARGEST_ANSWER / 1024)]
    TooLarge,
}

/// Sends a whole request, which must ask for the connection to be closed.
pub(super) async fn exchange(to: &Endpoint, request: &[u8], patience: Duration) -> Result<Answer, Unanswered> {
    let exchanged = tokio::time::timeout(patience, async {
        let mut stream = to.connect().await?;
        stream.write_all(request).await?;
        stream.flush().await?;
        read(&mut stream).await
    });
    exchanged.await.unwrap_or(Err(Unanswered::Timeout))
}

async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<Answer, Unanswered> {
    let mut received = Vec::with_capacity(16 * 1024);
    loop {
        let is_over = match stream.read_buf(&mut received).await {
            Ok(count) => count == 0,
            // Many close TLS without a farewell; what is missing is noticed below.
            Err(problem) if problem.kind() == io::ErrorKind::UnexpectedEof => true,
            Err(problem) => return Err(problem.into()),
        };
        match parse(&received, is_over)? {
            Some(answer) => return Ok(answer),
            None if is_over => return Err(Unanswered::Protocol),
            None if received.len() > LARGEST_ANSWER => return Err(Unanswered::TooLarge),
            None => {}
        }
    }
}

/// `None`: more is to come.
fn parse(received: &[u8], is_over: bool) -> Result<Option<Answer>, Unanswered> {
    let Some(end) = find(received, b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&received[..end]).map_err(|_| Unanswered::Protocol)?;
    let rest = &received[end + 4..];
    let mut lines = head.split("\r\n");
    let mut status_line = lines.next().unwrap_or_default().split(' ');
    if !status_line.next().is_some_and(|version| version.starts_with("HTTP/1.")) {
        return Err(Unanswered::Protocol);
    }
    let status: u16 = status_line.next().and_then(|status| status.parse().ok()).ok_or(Unanswered::Protocol)?;
    let header = |wanted: &str| {
        let mut headers = lines.clone().filter_map(|line| line.split_once(':'));
        headers.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
    };
    let body = if matches!(status, 204 | 304) {
        Some(vec![])
    } else if header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        unchunk(rest)?
    } else if let Some(length) = header("content-length") {
        let length: usize = length.parse().map_err(|_| Unanswered::Protocol)?;
        rest.get(..length).map(<[u8]>::to_vec)
    } else {
        is_over.then(|| rest.to_vec())
    };
    Ok(body.map(|body| Answer { status, body }))
}

/// `None`: more is to come.
fn unchunk(mut rest: &[u8]) -> Result<Option<Vec<u8>>, Unanswered> {
    let mut body = vec![];
    loop {
        let Some(end) = find(rest, b"\r\n") else { return Ok(None) };
        let size = std::str::from_utf8(&rest[..end]).map_err(|_| Unanswered::Protocol)?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| Unanswered::Protocol)?;
        if size > LARGEST_ANSWER {
            return Err(Unanswered::TooLarge);
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

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However it comes: in one piece or byte by byte.
    fn read_all(text: &str) -> Option<(u16, String)> {
        let text = text.as_bytes();
        let early = (0..text.len()).find_map(|end| parse(&text[..end], false).unwrap());
        let late = parse(text, true).unwrap();
        if let Some(early) = early {
            assert_eq!(Some(&early), late.as_ref());
        }
        late.map(|answer| (answer.status, String::from_utf8(answer.body).unwrap()))
    }

    #[test]
    fn answers_are_read() {
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
            assert_eq!(read_all(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_http_is_refused() {
        let huge = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{}\r\n", "f".repeat(15));
        for text in [
            "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 abc\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
            &huge,
        ] {
            assert!(parse(text.as_bytes(), true).is_err(), "{text}");
        }
    }
}
