//! Samples processes for some seconds and prints their collapsed stacks: `stacks SECONDS CORE PID...`.

use dragstrip_profile::{Place, Sampler};
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<u32> = std::env::args().skip(1).map(|word| word.parse()).collect::<Result<_, _>>()?;
    let [seconds, core, pids @ ..] = words.as_slice() else { return Err("stacks SECONDS CORE PID...".into()) };
    let sampler = Sampler::start(pids, &[*core])?;
    std::thread::sleep(Duration::from_secs(u64::from(*seconds)));
    let stacks = sampler.stop();
    for stack in &stacks.stacks {
        let frames: Vec<String> = stack
            .frames
            .iter()
            .rev()
            .map(|frame| {
                let file = frame.module.rsplit('/').next().unwrap_or_default();
                let place = if frame.place == Place::Kernel { "kernel" } else { file };
                format!("{} [{place}]", if frame.name.is_empty() { "?" } else { &frame.name })
            })
            .collect();
        println!("{} {}", frames.join(";"), stack.samples);
    }
    let leaf_unnamed: u64 =
        stacks.stacks.iter().filter(|s| s.frames.first().is_none_or(|f| f.name.is_empty())).map(|s| s.samples).sum();
    eprintln!(
        "samples {} user {} rooted {} lost {} kernel {} unnamed leaves {leaf_unnamed}",
        stacks.samples, stacks.user_samples, stacks.rooted, stacks.lost, stacks.kernel
    );
    Ok(())
}
