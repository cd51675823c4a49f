//! Child processes of the candidates, killed when dropped.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
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
        // Drains the output; a full pipe would block the process.
        Self::start_with_output(command, marker, |lines| lines.for_each(drop))
    }

    /// Like [`start`](Self::start). Appends the output after the ready line to a file.
    pub fn start_with_log(command: &mut Command, marker: &str, mut log: File) -> anyhow::Result<Self> {
        Self::start_with_output(command, marker, move |lines| {
            for line in lines {
                // A full disk loses log lines, and the output is still drained.
                let _ = writeln!(log, "{line}");
            }
        })
    }

    fn start_with_output(
        command: &mut Command,
        marker: &str,
        consume: impl FnOnce(&mut dyn Iterator<Item = String>) + Send + 'static,
    ) -> anyhow::Result<Self> {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        let output = child.stdout.take().context("no output")?;
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let ready_line = lines
            .by_ref()
            .find(|line| line.contains(marker))
            .with_context(|| format!("{} exited before it was ready", command.get_program().display()))?;
        std::thread::spawn(move || consume(&mut lines));
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

    /// Kills the program and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Listen address in the output.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        let (_, address) = self.ready_line.split_once("listening on ").context("no listen address in the output")?;
        Ok(address.trim().parse()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Resources of one process, from Linux.
pub struct ProcessResources {
    resident_kib: u32,
    /// Memory that is not backed by files.
    anonymous_kib: u32,
    pub sockets: usize,
}

impl ProcessResources {
    /// `None`: the process has exited.
    pub fn read(process: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let kib = |name| {
            let value = status.lines().find_map(|line| line.strip_prefix(name))?;
            value.trim().strip_suffix(" kB")?.parse().ok()
        };
        let files = fs::read_dir(format!("/proc/{process}/fd")).ok()?;
        let is_socket = |file: &fs::DirEntry| {
            fs::read_link(file.path()).is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
        };
        Some(ProcessResources {
            resident_kib: kib("VmRSS:")?,
            anonymous_kib: kib("RssAnon:")?,
            sockets: files.flatten().filter(is_socket).count(),
        })
    }

    pub fn resident_mib(&self) -> f64 {
        f64::from(self.resident_kib) / 1024.0
    }

    pub fn anonymous_mib(&self) -> f64 {
        f64::from(self.anonymous_kib) / 1024.0
    }
}
