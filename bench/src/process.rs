//! The contestants' processes: started, and ended when they go out of scope.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

use anyhow::Context;

pub struct Process {
    child: Child,
    /// The first line that had what was waited for.
    pub first_line: String,
}

impl Process {
    /// Starts a program and waits for the first line that contains `marker`.
    pub fn start(command: &mut Command, marker: &str) -> anyhow::Result<Self> {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        let output = child.stdout.take().context("no output")?;
        let mut lines = BufReader::new(output).lines();
        let first_line = lines
            .by_ref()
            .map_while(Result::ok)
            .find(|line| line.contains(marker))
            .with_context(|| format!("{} ended before it was ready", command.get_program().display()))?;
        // What comes later is read and thrown away: a full pipe would stop the process.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Process { child, first_line })
    }

    /// Starts a program that says nothing when it is ready.
    pub fn start_silent(command: &mut Command) -> anyhow::Result<Self> {
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Process { child, first_line: String::new() })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Where a program listens that has said so.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        let (_, address) = self.first_line.split_once("listening on ").context("no address")?;
        Ok(address.trim().parse()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
