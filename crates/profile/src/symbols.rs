//! Names of addresses: of the kernel, of programs and libraries, and of code that a runtime compiled.

use crate::modules::{MAX_FILE_BYTES, maps_of, open_inside};
use blazesym::Pid;
use blazesym::symbolize::source::{Elf, Kernel, Process, Source};
use blazesym::symbolize::{Input, Sym, Symbolized, Symbolizer};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

/// Length of the longest list of compiled code that is read.
const MAX_PERF_MAP_BYTES: u64 = 64 << 20;

/// Suffixes that compilers give to copies and parts of a function.
const COPIES: [&str; 6] = [".isra.", ".constprop.", ".part.", ".cold", ".lto_priv.", ".llvm."];

/// Where a frame's code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// In the kernel.
    Kernel,
    /// In a program or a library.
    User,
    /// In memory that no file is behind: code that a runtime compiled.
    Compiled,
}

/// One frame of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// Where its code is.
    pub place: Place,
    /// Path of its program or library; empty in the kernel and for compiled code.
    pub module: String,
    /// Its function; empty if no symbol covers the address.
    pub name: String,
}

/// Names the addresses of one process, or of the kernel.
pub struct Names {
    symbolizer: Symbolizer,
    /// Files that the symbolizer has read by their descriptors, which name them in its cache.
    files: Vec<File>,
    found: HashMap<(Option<u32>, u64), Frame>,
}

impl Names {
    /// Looks addresses up; a process of None is the kernel. The processes must still run.
    pub fn of(addresses: &HashMap<Option<u32>, BTreeSet<u64>>) -> Self {
        let symbolizer = Symbolizer::builder().enable_code_info(false).enable_inlined_fns(false).build();
        let mut names = Self { symbolizer, files: Vec::new(), found: HashMap::new() };
        for (&process, addresses) in addresses {
            names.look_up(process, addresses);
        }
        names
    }

    /// The frame of an address.
    pub fn frame(&self, process: Option<u32>, address: u64) -> Frame {
        let unknown = || Frame {
            place: process.map_or(Place::Kernel, |_| Place::User),
            module: String::new(),
            name: String::new(),
        };
        self.found.get(&(process, address)).cloned().unwrap_or_else(unknown)
    }

    fn look_up(&mut self, process: Option<u32>, addresses: &BTreeSet<u64>) {
        let modules = process.map(modules_of).unwrap_or_default();
        if process.is_some() && modules.is_empty() {
            return; // it has ended, so nothing is known of its addresses
        }
        let (in_files, others): (Vec<u64>, Vec<u64>) = addresses.iter().partition(|&&address| {
            process.is_some() && module_of(&modules, address).is_some_and(|module| module.path.starts_with('/'))
        });
        if let Some(pid) = process {
            for module in modules.iter().filter(|module| module.path.starts_with('/')) {
                let inside: Vec<u64> = in_files.iter().copied().filter(|address| module.has(*address)).collect();
                let opened = (!inside.is_empty()).then(|| open_inside(pid, &module.path, MAX_FILE_BYTES)).flatten();
                let Some(opened) = opened else { continue };
                let offsets: Vec<u64> = inside.iter().map(|address| address - module.from + module.offset).collect();
                let mut file = Elf::new(format!("/proc/self/fd/{}", opened.as_raw_fd()));
                file.debug_syms = false; // symbol tables have the functions; debug information takes seconds to read
                self.files.push(opened);
                self.name(process, &modules, &inside, &Source::Elf(file), Input::FileOffset(&offsets));
            }
        }
        let source = match process {
            // Without a whole kernel's file, which takes seconds to read.
            None => Source::Kernel(Kernel { vmlinux: blazesym::MaybeDefault::None, ..Kernel::default() }),
            Some(pid) => {
                let mut process = Process::new(Pid::from(pid));
                process.debug_syms = false;
                process.map_files = false; // needs a capability that ordinary users lack
                process.perf_map = false; // it would wait for a FIFO of that name
                Source::Process(process)
            }
        };
        self.name(process, &modules, &others, &source, Input::AbsAddr(&others));
        if let Some(pid) = process {
            let no_file = |module: &Module| module.path.starts_with("[anon");
            let compiled = others.iter().filter(|address| module_of(&modules, **address).is_none_or(no_file));
            let map = perf_map(pid);
            for (address, name) in compiled.filter_map(|&address| Some((address, name_in(&map, address)?))) {
                self.found.insert((process, address), named(process, String::new(), name));
            }
        }
    }

    /// Looks addresses up in a source, in which they are `input`.
    fn name(
        &mut self,
        process: Option<u32>,
        modules: &[Module],
        addresses: &[u64],
        source: &Source<'_>,
        input: Input<&[u64]>,
    ) {
        let found = self.symbolizer.symbolize(source, input);
        let symbols = found.as_ref().map_or(&[][..], Vec::as_slice);
        let named: Vec<Frame> = addresses
            .iter()
            .enumerate()
            .map(|(at, &address)| {
                let module = module_of(modules, address).map_or_else(String::new, |module| module.path.clone());
                match symbols.get(at) {
                    Some(Symbolized::Sym(found)) if covers(found) => named(process, module, &found.name),
                    _ => unnamed(process, module),
                }
            })
            .collect();
        for (&address, frame) in addresses.iter().zip(named) {
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

/// A mapping with a name.
struct Module {
    from: u64,
    to: u64,
    offset: u64,
    path: String,
}

impl Module {
    fn has(&self, address: u64) -> bool {
        (self.from..self.to).contains(&address)
    }
}

fn module_of(modules: &[Module], address: u64) -> Option<&Module> {
    modules.iter().find(|module| module.has(address))
}

/// All mappings with a name; none if the process has ended.
fn modules_of(pid: u32) -> Vec<Module> {
    let maps = maps_of(pid);
    let mapping = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let offset = u64::from_str_radix(fields.nth(1)?, 16).ok()?;
        let path = line.find(['/', '[']).map(|at| line[at..].to_owned())?;
        Some(Module {
            from: u64::from_str_radix(start, 16).ok()?,
            to: u64::from_str_radix(end, 16).ok()?,
            offset,
            path,
        })
    };
    maps.lines().filter_map(mapping).collect()
}

/// What a process's runtime has compiled: start, length and name of each piece of code, by start. The file of the name
/// that perf has given it counts if it belongs to the process's user.
fn perf_map(pid: u32) -> Vec<(u64, u64, String)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let own =
        status.lines().find_map(|line| line.strip_prefix("NSpid:")).and_then(|line| line.split_whitespace().last());
    let path = format!("/tmp/perf-{}.map", own.unwrap_or(&pid.to_string()));
    let user = |about: std::io::Result<std::fs::Metadata>| about.map(|about| about.uid()).ok();
    let owner = user(std::fs::metadata(format!("/proc/{pid}")));
    let file = open_inside(pid, &path, MAX_PERF_MAP_BYTES).filter(|file| user(file.metadata()) == owner);
    let mut text = Vec::new();
    let Some(Ok(_)) = file.map(|file| file.take(MAX_PERF_MAP_BYTES).read_to_end(&mut text)) else { return Vec::new() };
    listed(&String::from_utf8_lossy(&text))
}

fn listed(text: &str) -> Vec<(u64, u64, String)> {
    let entry = |line: &str| {
        let mut fields = line.splitn(3, ' ');
        let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
        Some((number(fields.next()?)?, number(fields.next()?)?, fields.next()?.to_owned()))
    };
    let mut entries: Vec<_> = text.lines().filter_map(entry).collect();
    entries.sort_by_key(|(start, _, _)| *start); // stable: code that replaced other code stays behind it
    entries
}

fn name_in(map: &[(u64, u64, String)], address: u64) -> Option<&str> {
    let end = map.partition_point(|(start, _, _)| *start <= address);
    let (start, length, name) = &map[..end].last()?;
    (address - start < *length).then_some(name)
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

    #[test]
    fn compiled_code_has_the_name_of_the_latest_entry_that_covers_it() {
        let map = listed("20 8 later\nnot an entry\n0x10 10 js one two\n20 4 latest\n");
        assert_eq!(map.len(), 3);
        let found = [0xf, 0x10, 0x1f, 0x20, 0x23, 0x24].map(|address| name_in(&map, address));
        assert_eq!(found, [None, Some("js one two"), Some("js one two"), Some("latest"), Some("latest"), None]);
    }
}
