//! Writes the seeds of every target as initial corpus of libFuzzer: `seeds FOLDER`.

use std::{env, fs, io, path::PathBuf};

use ringtrue_fuzz::TARGETS;

fn main() -> io::Result<()> {
    let folder = env::args_os().nth(1).map(PathBuf::from).ok_or(io::ErrorKind::InvalidInput)?;
    for target in TARGETS {
        let folder = folder.join(target.name);
        fs::create_dir_all(&folder)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            fs::write(folder.join(format!("seed-{number:02}")), seed)?;
        }
    }
    Ok(())
}
