//! Child processes of the candidates, killed when dropped.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

use anyhow::Context;

pub struct Process {
    child: Child,
    /// First output line with the marker.
    pub ready_line: String,
}

impl Process {
    /// Starts a program and waits for an output line with `marker`.
    pub fn start(command: &mut Command, marker: &str) -> anyhow::Result<Self> {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        let output = child.stdout.take().context("no output")?;
        let mut lines = BufReader::new(output).lines();
        let ready_line = lines
            .by_ref()
            .map_while(Result::ok)
            .find(|line| line.contains(marker))
            .with_context(|| format!("{} exited before it was ready", command.get_program().display()))?;
        // Drains the output; a full pipe would block the process.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Process { child, ready_line })
    }

    /// Starts a program without waiting for its output.
    pub fn start_silent(command: &mut Command) -> anyhow::Result<Self> {
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Process { child, ready_line: String::new() })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Listen address in the output.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        let (_, address) = self.ready_line.split_once("listening on ").context("no listen address in the output")?;
        Ok(address.trim().parse()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
