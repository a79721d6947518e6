//! The programs and libraries of a process, with the tables from which its stacks are unwound.

use framehop::{ExplicitModuleSectionInfo, Module, Unwinder, UnwinderNative};
use memmap2::Mmap;
use object::elf::PF_X;
use object::{Object, ObjectSection, ObjectSegment, SegmentFlags};
use std::collections::HashMap;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::ops::{Deref, Range};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::Arc;

/// Length of the longest program or library that is read.
pub const MAX_FILE_BYTES: u64 = 1 << 30;

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
    let maps = maps_of(pid);
    let mut files: HashMap<String, Option<Arc<Mmap>>> = HashMap::new();
    for mapping in maps.lines().filter_map(executable) {
        let open = || map_file(&open_inside(pid, &mapping.path, MAX_FILE_BYTES)?);
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

/// A process's mappings, as `/proc/PID/maps` lists them; "" if it has ended.
pub fn maps_of(pid: u32) -> String {
    std::fs::read(format!("/proc/{pid}/maps"))
        .map_or_else(|_| String::new(), |text| String::from_utf8_lossy(&text).into())
}

/// Opens a file that a process names, below the process's own root: also links don't lead out of it. The process may be
/// hostile, and its names may change at any time. So nothing but a regular file up to this length is opened; a FIFO or a
/// device is not even tried.
pub fn open_inside(pid: u32, path: &str, most_bytes: u64) -> Option<File> {
    if path.ends_with(" (deleted)") {
        return None; // what has this name now is another file
    }
    let flags = libc::O_PATH | libc::O_DIRECTORY;
    let root = OpenOptions::new().read(true).custom_flags(flags).open(format!("/proc/{pid}/root")).ok()?;
    let path = CString::new(path).ok()?;
    // SAFETY: all bytes zero are a valid value of this struct, whose fields are numbers.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (libc::O_PATH | libc::O_CLOEXEC) as u64;
    how.resolve = libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_MAGICLINKS;
    // SAFETY: the path and the struct outlive the call, which has the struct's size.
    let found = unsafe {
        libc::syscall(libc::SYS_openat2, root.as_raw_fd(), path.as_ptr(), &raw mut how, size_of::<libc::open_how>())
    };
    // SAFETY: the kernel has just returned this descriptor, which nothing else owns.
    let place = unsafe { File::from_raw_fd(i32::try_from(found).ok().filter(|fd| *fd >= 0)?) };
    let about = place.metadata().ok().filter(|about| about.is_file() && about.len() <= most_bytes)?;
    let file = File::open(format!("/proc/self/fd/{}", place.as_raw_fd())).ok()?;
    let same = file.metadata().is_ok_and(|now| (now.dev(), now.ino()) == (about.dev(), about.ino()));
    same.then_some(file)
}

fn map_file(file: &File) -> Option<Arc<Mmap>> {
    // SAFETY: a program's file is not cut short while the program runs from it; a package manager replaces files whole.
    unsafe { Mmap::map(file) }.ok().map(Arc::new)
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

    #[test]
    fn nothing_but_a_short_regular_file_below_the_root_is_opened() {
        use std::os::unix::fs::symlink;
        let own = std::process::id();
        let folder = std::env::temp_dir().join(format!("dragstrip-modules-{own}"));
        std::fs::create_dir(&folder).unwrap();
        let name = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        std::fs::write(name("file"), b"12345").unwrap();
        std::fs::write(name("file (deleted)"), b"12345").unwrap();
        symlink(name("file"), name("link")).unwrap();
        symlink("/proc/self/fd/0", name("magic")).unwrap();
        symlink("/dev/zero", name("device")).unwrap();
        let fifo = CString::new(name("fifo")).unwrap();
        // SAFETY: the path outlives the call.
        assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
        let opens = |file: &str| open_inside(own, &name(file), 5).is_some();
        let found: Vec<bool> =
            ["file", "link", "file (deleted)", "magic", "device", "fifo", "absent"].map(opens).to_vec();
        let long = open_inside(own, &name("file"), 4).is_some();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, [true, true, false, false, false, false, false]);
        assert!(!long);
    }
}
