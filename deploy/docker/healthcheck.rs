//! Succeeds if /readyz responds with 200. A program, because the image has no shell and no curl; it uses the standard
//! library only, so that `rustc` builds it alone. The metrics listener always uses plain HTTP.

use std::{
    env,
    error::Error,
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    process::ExitCode,
    time::Duration,
};

/// Less than the timeout of the health check in the Dockerfile.
const TIMEOUT: Duration = Duration::from_secs(4);

fn is_ready() -> Result<bool, Box<dyn Error>> {
    let port = env::var("HEALTHCHECK_PORT").unwrap_or_else(|_| "9464".to_owned()).parse()?;
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut status = String::new();
    BufReader::new(stream).read_line(&mut status)?;
    Ok(status.starts_with("HTTP/1.1 200 "))
}

fn main() -> ExitCode {
    match is_ready() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
