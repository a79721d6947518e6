//! Names of addresses: of the kernel, of programs and libraries, and of code that a runtime compiled.

use crate::sampler::{Frame, Place};
use blazesym::Pid;
use blazesym::symbolize::source::{Kernel, Process, Source};
use blazesym::symbolize::{Input, Sym, Symbolized, Symbolizer};
use std::collections::{BTreeSet, HashMap};

/// Suffixes that compilers give to copies and parts of a function.
const COPIES: [&str; 6] = [".isra.", ".constprop.", ".part.", ".cold", ".lto_priv.", ".llvm."];

/// Names the addresses of one process, or of the kernel.
pub struct Names {
    symbolizer: Symbolizer,
    found: HashMap<(Option<u32>, u64), Frame>,
}

impl Names {
    /// Looks addresses up; a process of None is the kernel. The processes must still run.
    pub fn of(addresses: &HashMap<Option<u32>, BTreeSet<u64>>) -> Self {
        let symbolizer = Symbolizer::builder().enable_code_info(false).enable_inlined_fns(false).build();
        let mut names = Self { symbolizer, found: HashMap::new() };
        for (&process, addresses) in addresses {
            names.look_up(process, addresses);
        }
        names
    }

    /// The frame of an address.
    pub fn frame(&self, process: Option<u32>, address: u64) -> Frame {
        self.found.get(&(process, address)).cloned().unwrap_or_else(|| unnamed(process, String::new()))
    }

    fn look_up(&mut self, process: Option<u32>, addresses: &BTreeSet<u64>) {
        let listed: Vec<u64> = addresses.iter().copied().collect();
        let source = match process {
            None => {
                // Without a whole kernel's file, which takes seconds to read.
                Source::Kernel(Kernel { vmlinux: blazesym::MaybeDefault::None, ..Kernel::default() })
            }
            Some(pid) => {
                let mut process = Process::new(Pid::from(pid));
                process.debug_syms = false; // symbol tables have the functions; debug information takes seconds to read
                process.map_files = false; // needs a capability that ordinary users lack
                Source::Process(process)
            }
        };
        let Ok(symbols) = self.symbolizer.symbolize(&source, Input::AbsAddr(&listed)) else { return };
        let modules = process.map(modules_of).unwrap_or_default();
        let named: Vec<Frame> = symbols
            .iter()
            .zip(&listed)
            .map(|(symbol, &address)| {
                let module = modules.iter().find(|(from, to, _)| (*from..*to).contains(&address));
                let module = module.map_or_else(String::new, |(_, _, path)| path.clone());
                match symbol {
                    Symbolized::Sym(found) if covers(found) => named(process, module, &found.name),
                    _ => unnamed(process, module),
                }
            })
            .collect();
        for (address, frame) in listed.into_iter().zip(named) {
            self.found.insert((process, address), frame);
        }
    }
}

/// Whether a symbol is known to contain the address: in a stripped program the nearest symbol may be far away.
fn covers(found: &Sym<'_>) -> bool {
    found.size.is_none_or(|size| size == 0 || found.offset < size)
}

fn named(process: Option<u32>, module: String, name: &str) -> Frame {
    Frame { name: folded(name).to_owned(), ..unnamed(process, module) }
}

fn unnamed(process: Option<u32>, module: String) -> Frame {
    let place = match process {
        None => Place::Kernel,
        Some(_) if module.is_empty() => Place::Compiled,
        Some(_) => Place::User,
    };
    Frame { place, module, name: String::new() }
}

/// A function's name without the suffixes of its copies and parts.
fn folded(name: &str) -> &str {
    let end = COPIES.iter().filter_map(|copy| name.find(copy)).filter(|&at| at > 0).min();
    let name = &name[..end.unwrap_or(name.len())];
    // Rust's hash of a function's types differs between builds.
    match name.rsplit_once("::h") {
        Some((head, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => head,
        _ => name,
    }
}

/// Executable mappings with a name: from, to, path.
fn modules_of(pid: u32) -> Vec<(u64, u64, String)> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mapping = |line: &str| {
        let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
        let path = line.find(['/', '[']).map(|at| line[at..].to_owned())?;
        Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?, path))
    };
    maps.lines().filter_map(mapping).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_a_function_have_its_name() {
        for (name, expected) in [
            ("serve.isra.0", "serve"),
            ("serve.constprop.1.isra.0", "serve"),
            ("ngx_http_send_header", "ngx_http_send_header"),
            ("hyper::proto::h1::poll::h0123456789abcdef", "hyper::proto::h1::poll"),
            ("hyper::proto::h1::h", "hyper::proto::h1::h"),
        ] {
            assert_eq!(folded(name), expected);
        }
    }
}
