//! The programs and libraries of a process, with the tables from which its stacks are unwound.

use framehop::{ExplicitModuleSectionInfo, Module, Unwinder, UnwinderNative};
use memmap2::Mmap;
use object::elf::PF_X;
use object::{Object, ObjectSection, ObjectSegment, SegmentFlags};
use std::collections::HashMap;
use std::fs::File;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// A part of a mapped file.
#[derive(Clone, Debug)]
pub struct Section {
    map: Arc<Mmap>,
    range: Range<usize>,
}

impl Deref for Section {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map[self.range.clone()]
    }
}

/// An unwinder that knows a process's modules.
pub type ModuleUnwinder = UnwinderNative<Section, framehop::MayAllocateDuringUnwind>;

/// One executable mapping of a process, from `/proc/PID/maps`.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    addresses: Range<u64>,
    offset: u64,
    path: String,
}

/// The unwinder of a process, and where its modules are; modules that can't be read are left out, and their frames are
/// followed by frame pointers.
pub fn unwinder_of(pid: u32) -> (ModuleUnwinder, Vec<Range<u64>>) {
    let (mut unwinder, mut places) = (ModuleUnwinder::new(), Vec::new());
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mut files: HashMap<String, Option<Arc<Mmap>>> = HashMap::new();
    for mapping in maps.lines().filter_map(executable) {
        let open = || map_file(&format!("/proc/{pid}/root{}", mapping.path));
        let file = files.entry(mapping.path.clone()).or_insert_with(open);
        if let Some(module) = file.as_ref().and_then(|file| module(file, &mapping)) {
            unwinder.add_module(module);
            places.push(mapping.addresses.clone());
        }
    }
    (unwinder, places)
}

fn executable(line: &str) -> Option<Mapping> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let executable = fields.next()?.contains('x');
    let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
    let path = line.find('/').map(|at| line[at..].to_owned())?;
    let addresses = u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?;
    executable.then_some(Mapping { addresses, offset, path })
}

fn map_file(path: &str) -> Option<Arc<Mmap>> {
    let file = File::open(path).ok()?;
    // SAFETY: a program's file is not cut short while the program runs from it; a package manager replaces files whole.
    unsafe { Mmap::map(&file) }.ok().map(Arc::new)
}

fn module(map: &Arc<Mmap>, mapping: &Mapping) -> Option<Module<Section>> {
    let file = object::File::parse(&map[..]).ok()?;
    // Segments may share a page of the file, so the executable one has to be chosen.
    let segment = file.segments().find(|segment| {
        let (from, length) = segment.file_range();
        let executable = matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.0 & PF_X.0 != 0);
        executable && (from & !0xfff..from + length).contains(&mapping.offset)
    })?;
    let base_svma = file.segments().map(|segment| segment.address()).min()? & !0xfff;
    // Where the file's first address was put: the mapping's start less its place in the file's own addresses.
    let svma = segment.address().wrapping_add(mapping.offset).wrapping_sub(segment.file_range().0);
    let base_avma = mapping.addresses.start.wrapping_sub(svma).wrapping_add(base_svma);
    let range =
        |name: &str| file.section_by_name(name).map(|section| section.address()..section.address() + section.size());
    let data = |name: &str| {
        let (from, length) = file.section_by_name(name)?.file_range()?;
        let range = usize::try_from(from).ok()?..usize::try_from(from + length).ok()?;
        map.get(range.clone())?;
        Some(Section { map: Arc::clone(map), range })
    };
    let info = ExplicitModuleSectionInfo {
        base_svma,
        text_svma: range(".text"),
        text: data(".text"),
        got_svma: range(".got"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        debug_frame: data(".debug_frame"),
        stubs_svma: None,
        stub_helper_svma: None,
        unwind_info: None,
        text_segment_svma: None,
        text_segment: None,
    };
    Some(Module::new(mapping.path.clone(), mapping.addresses.clone(), base_avma, info))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_executable_files_are_modules() {
        let line = "55d0-55e0 r-xp 00001000 fe:01 1234     /usr/bin/my server";
        let expected = Mapping { addresses: 0x55d0..0x55e0, offset: 0x1000, path: "/usr/bin/my server".into() };
        assert_eq!(executable(line), Some(expected));
        assert_eq!(executable("55d0-55e0 r--p 00001000 fe:01 1234 /usr/bin/server"), None);
        assert_eq!(executable("7ffd-7ffe r-xp 00000000 00:00 0 [vdso]"), None);
    }
}
